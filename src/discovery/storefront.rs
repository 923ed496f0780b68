//! `Storefront`: what the documents ask of a seller.

use std::{fmt, sync::Arc};

use serde_json::Value;

use super::Endpoint;
use crate::protocol::{Address, Amount, Network};

/// A seller, as far as the documents tell of it.
pub(crate) trait Storefront: fmt::Debug + Send + Sync {
    /// The endpoints that are described by now.
    fn described(&self) -> Vec<Described>;

    /// The symbol of the currency of prices.
    fn symbol(&self) -> &str;

    /// The decimals of that currency.
    fn decimals(&self) -> u8;

    /// The networks on which payments are taken, the one that the header `Pay` names first.
    fn networks(&self) -> Vec<Network>;

    /// Whether transfers are taken.
    fn takes_transfers(&self) -> bool;

    /// Whether the standard's clients can pay.
    fn takes_x402(&self) -> bool;

    /// The tokens that clients of MPP are asked for; none where it is not spoken.
    fn mpp_tokens(&self) -> Vec<Address>;

    /// Whether the names of purchases are read; if so, whether a payment must have one.
    fn names_required(&self) -> Option<bool>;

    fn contact(&self) -> Option<&str>;

    fn public_url(&self) -> Option<&str>;
}

/// An endpoint that its seller described, and what it sells.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) endpoint: Endpoint,
    /// The label, or else the name.
    pub(crate) label: Arc<str>,
    /// `None` where a closure decides.
    pub(crate) price: Option<Amount>,
    /// The bounds that the seller states for a closure's price.
    pub(crate) range: Option<(Amount, Amount)>,
    /// Its name.
    pub(crate) resource: Arc<str>,
    /// The passes that count here, as quotes name them.
    pub(crate) passes: Vec<Value>,
}
