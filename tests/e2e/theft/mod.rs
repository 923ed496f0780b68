//! SECURITY rows 36 and 44 to 46: who redeems a payment whose transaction everybody can see. Over real HTTP, with payments on a
//! real chain.

mod payments;
mod race;
mod resumed;
mod scene;
mod table;

/// The tables there are what the tests see.
const SECURITY: &str = include_str!("../../repository/threats.md");
