//! A seller that was made to cheat, over real HTTP.
