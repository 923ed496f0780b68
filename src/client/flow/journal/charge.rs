//! `PermitCharge`: what was charged of a permit, which allows a maximum.

use serde::{Deserialize, Serialize};

use crate::protocol::Amount;

/// What was charged of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermitCharge {
    /// In base units; never above the signed amount.
    pub(crate) amount: Amount,
    /// Whether the payer's chain confirms the amount. Until then it is the seller's claim, and the budget counts the
    /// signed amount.
    pub(crate) is_certain: bool,
}

impl PermitCharge {
    /// The charge of a permit that was not used, and never can be.
    pub(crate) const NOTHING: Self = Self { amount: Amount::ZERO, is_certain: true };
}
