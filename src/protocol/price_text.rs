//! `PriceText`: the text forms of a price in quotes.

use super::Amount;

/// A price, written once for all its quotes.
#[derive(Clone, Debug)]
pub(crate) struct PriceText {
    /// In units of the token.
    pub(super) decimal: String,
    /// In base units.
    pub(super) units: String,
}

impl PriceText {
    /// Writes an amount of a token with `decimals` decimals.
    pub(crate) fn new(amount: Amount, decimals: u8) -> Self {
        Self { decimal: amount.to_decimal(decimals), units: amount.to_string() }
    }

    /// Returns the price in base units.
    pub(super) fn units(&self) -> &str {
        &self.units
    }
}
