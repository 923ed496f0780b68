//! `BoxError`: an error of any type.

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
