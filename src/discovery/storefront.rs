//! `Storefront`: the interface between the documents and a seller.

use std::{fmt, sync::Arc};

use serde_json::Value;

use super::Endpoint;
use crate::protocol::{Address, Amount, Network};

/// A seller, reduced to the contents of the documents.
pub(crate) trait Storefront: fmt::Debug + Send + Sync {
    /// Returns the endpoints that are described so far.
    fn described(&self) -> Vec<Described>;

    /// Returns the symbol of the currency of prices.
    fn symbol(&self) -> &str;

    /// Returns the decimals of that currency.
    fn decimals(&self) -> u8;

    /// Returns the accepted networks; the first is the one in the header `Pay`.
    fn networks(&self) -> Vec<Network>;

    /// Whether transfers are accepted.
    fn takes_transfers(&self) -> bool;

    /// Whether clients of the standard can pay.
    fn takes_x402(&self) -> bool;

    /// Returns the tokens that MPP clients are asked for; empty if the seller does not support MPP.
    fn mpp_tokens(&self) -> Vec<Address>;

    /// Whether names of purchases are read; if so, whether a payment must have one.
    fn names_required(&self) -> Option<bool>;

    fn contact(&self) -> Option<&str>;

    fn public_url(&self) -> Option<&str>;
}

/// A described endpoint, and its offer.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) endpoint: Endpoint,
    /// The route's label, or else its name.
    pub(crate) label: Arc<str>,
    /// `None` if a closure or the handler decides.
    pub(crate) price: Option<Amount>,
    /// The maximum charge, if the handler decides.
    pub(crate) maximum: Option<Amount>,
    /// The bounds that the seller states for a closure's price.
    pub(crate) range: Option<(Amount, Amount)>,
    /// The name of the resource.
    pub(crate) resource: Arc<str>,
    /// The passes that are valid here, in the form of quotes.
    pub(crate) passes: Vec<Value>,
}
