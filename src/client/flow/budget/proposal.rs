//! `Proposal`: a payment that is asked for, as the approval hook sees it.

use std::time::Duration;

use http::Method;

use crate::{
    client::{PaymentMethod, PurchaseId},
    protocol::{Address, Amount, Asset, Network},
};

/// A payment that awaits approval, as [`BudgetBuilder::approve`](crate::client::BudgetBuilder::approve) receives it. Its texts
/// come from the seller: show them escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proposal {
    /// The purchase's name in the journal.
    pub purchase: PurchaseId,
    /// The host that the request goes to, and the port where it is not the usual one.
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
    /// How it would be paid.
    pub paid_by: PaymentMethod,
    /// What would be deposited into a channel, in base units, where the payment needs that: it is spent until the channel is closed.
    pub deposit: Option<Amount>,
    /// How long it takes to get what is left of that deposit back without the seller; `None` where nothing is deposited.
    pub withdraw_delay: Option<Duration>,
    /// For how long the seller could use the authorization or permit that would be signed, which counts against the budget for that time and a day
    /// more. `None` for a transfer, which is sent at once.
    pub valid_for: Option<Duration>,
}
