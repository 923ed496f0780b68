//! `Proposal`: a payment that is asked for, as the approval hook sees it.

use http::Method;

use crate::{
    client::PurchaseId,
    protocol::{Address, Amount, Asset, Network},
};

/// A payment that is asked for, as the approval hook sees it. The texts are the seller's own: show them escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proposal {
    /// Its name in the journal.
    pub purchase: PurchaseId,
    /// Whom the request goes to: host, and port where it is not the usual one.
    pub host: String,
    /// The request's method.
    pub method: Method,
    /// The request's path, without the query, which may hold secrets.
    pub path: String,
    /// What for, in the seller's words.
    pub label: String,
    /// Who is to be paid.
    pub recipient: Address,
    /// On which chain.
    pub network: Network,
    /// How much, in base units.
    pub amount: Amount,
    /// The decimals of the amount.
    pub decimals: u8,
    /// What may be paid with: of what the budget allows, what the seller accepts.
    pub assets: Vec<Asset>,
}
