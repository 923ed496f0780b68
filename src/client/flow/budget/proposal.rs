//! `Proposal`: a payment as the approval hook sees it.

use std::time::Duration;

use http::Method;

use crate::{
    client::{PaymentMethod, PurchaseId},
    protocol::{Address, Amount, Asset, Network},
};

/// A payment that awaits approval, as [`BudgetBuilder::approve`](crate::client::BudgetBuilder::approve) receives it.
/// Its texts come from the seller: escape them before you show them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proposal {
    /// The purchase's name in the journal.
    pub purchase: PurchaseId,
    /// The request's host, with the port unless it is the default port.
    pub host: String,
    /// The request's method.
    pub method: Method,
    /// The request's path, without the query, which may hold secrets.
    pub path: String,
    /// The offer, in the seller's words.
    pub label: String,
    /// The account that is to be paid.
    pub recipient: Address,
    /// The chain.
    pub network: Network,
    /// The amount, in base units; of a metered answer (`upto`), the maximum.
    pub amount: Amount,
    /// The decimals of the amount.
    pub decimals: u8,
    /// The assets to choose from: those of the budget that the seller accepts.
    pub assets: Vec<Asset>,
    /// How the payment would be made.
    pub paid_by: PaymentMethod,
    /// The deposit into a channel that the payment needs, in base units; it is locked until the channel is closed.
    pub deposit: Option<Amount>,
    /// How long a withdrawal of the deposit's rest without the seller takes; `None` without a deposit.
    pub withdraw_delay: Option<Duration>,
    /// How long the seller could use the authorization or permit, which counts against the budget for that time and a
    /// day more. `None` for a transfer, which is sent at once.
    pub valid_for: Option<Duration>,
}
