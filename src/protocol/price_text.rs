//! `PriceText`: a price as a quote writes it.

/// A price, written once for every quote that asks it.
#[derive(Clone, Debug)]
pub(crate) struct PriceText {
    /// In units of the token.
    pub(super) decimal: String,
    /// In base units.
    pub(super) units: String,
}

impl PriceText {
    /// Returns the price in base units.
    pub(super) fn units(&self) -> &str {
        &self.units
    }
}
