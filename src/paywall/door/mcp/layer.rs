//! `McpLayer`: which tools of a server are sold, and for how much.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tower_layer::Layer;

use super::{service::Mcp, table::Table};
use crate::paywall::{
    error::BuildError,
    seller::{
        catalog::Listed,
        inner::MerchantInner,
        pass::terms::PassTerms,
        pricing::{Price, PriceTag, Prices},
        redelivery::Redelivery,
        route::Route,
        text,
    },
};

/// Sells tools of an MCP server, call by call. Feature `mcp`.
///
/// Created by [`Merchant::tools`](crate::Merchant::tools). It wraps any service that speaks MCP's transport *Streamable HTTP*: rmcp's
/// `StreamableHttpService`, a handler of your own, or a proxy before a server in another language. Only the calls of priced tools are sold.
/// The list of tools states their prices; everything else passes unchanged.
///
/// Its clients pay by x402 version 2, in the messages themselves: the merchant needs a [settler](crate::MerchantBuilder::settler) for
/// signed payments, or [submitted transfers](crate::MerchantBuilder::accept_submitted_transfers). The guide *MCP* has the details.
///
/// ```
/// # use tower_x402::{BuildError, Merchant};
/// use bytes::Bytes;
/// use http::Response;
/// use tower_x402::{Price, mcp::McpLayer};
///
/// # fn layer(merchant: &Merchant) -> Result<McpLayer, BuildError> {
/// let cent = merchant.amount("0.01 USDC")?;
/// let layer = merchant
///     .tools()
///     .charge("search", "0.01 USDC")?
///     // One cent for each started 1,000 characters.
///     .price_with("summarise", move |arguments| {
///         // What the server may find under another spelling of the name has no price.
///         let Some(text) = arguments.get("text").and_then(|text| text.as_str()) else {
///             return Price::Refuse(Response::new(Bytes::from("Give the text as `text`.")).into());
///         };
///         Price::Charge(cent.times(text.len().div_ceil(1000).max(1) as u64))
///     })?
///     .free("status")
///     .deny_unlisted();
/// # Ok(layer)
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct McpLayer {
    table: Arc<Table>,
}

impl McpLayer {
    pub(crate) fn new(merchant: &Arc<MerchantInner>) -> Self {
        Self { table: Arc::new(Table::new(merchant)) }
    }

    fn set(mut self, change: impl FnOnce(&mut Table)) -> Self {
        change(Arc::make_mut(&mut self.table));
        self
    }

    /// Charges a fixed price, such as `"0.01 USDC"`, for each call of this tool. Its resource is `mcp/` and the tool's name.
    ///
    /// # Errors
    /// [`BuildError`] for an invalid price or name, for a tool that this merchant sells at another price already, and for a merchant that
    /// takes no payment of the x402 standard.
    pub fn charge(self, tool: &str, price: impl Into<PriceTag>) -> Result<Self, BuildError> {
        let merchant = &self.table.merchant;
        let amount = price.into().amount(merchant.decimals(), merchant.symbol())?;
        self.sell(tool, Prices::Fixed(amount))
    }

    /// Charges for each call of this tool a price that a closure computes from its arguments.
    ///
    /// The closure runs for the quote and again for each payment. A quote is bound to its tool and its arguments. [`Price::Refuse`] answers
    /// a call that cannot succeed: the response's body is the text of the result. Refuse a call that lacks a member which the price depends
    /// on, or has it with another type: the server may find that member under another spelling of its name.
    ///
    /// # Errors
    /// As [`charge`](Self::charge).
    pub fn price_with(
        self,
        tool: &str,
        price: impl Fn(&Map<String, Value>) -> Price + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        self.sell(tool, Prices::OfArguments(Arc::new(price)))
    }

    fn sell(self, tool: &str, prices: Prices) -> Result<Self, BuildError> {
        let merchant = Arc::clone(&self.table.merchant);
        if !merchant.client_submitted && merchant.chains.iter().all(|chain| chain.standard.is_none()) {
            return Err(BuildError::NoStandard);
        }
        let resource = format!("mcp/{tool}");
        text::check("a tool's name", tool)?;
        text::check("a resource", &resource)?;
        let resource = Arc::from(resource);
        let listing = merchant.catalog.enter(&resource, Listed::of(&prices))?;
        let route = Route::new(merchant, resource, listing, prices);
        Ok(self.set(|table| table.price(tool, route)))
    }

    /// Lets calls of this tool pass without a price, on servers whose other tools are refused by [`deny_unlisted`](Self::deny_unlisted).
    pub fn free(self, tool: &str) -> Self {
        self.set(|table| table.make_free(tool))
    }

    /// Refuses calls of tools that are neither priced nor [`free`](Self::free), so that a tool which is added to the server later is not
    /// given away. By default such calls are free.
    pub fn deny_unlisted(self) -> Self {
        self.set(|table| table.refuse_unlisted = true)
    }

    /// Sets what quotes and lists say of a tool, 1 to 100 characters; its resource's name by default.
    ///
    /// # Errors
    /// [`BuildError::InvalidText`]; [`BuildError::ConflictingResource`] if the tool has another label already, was quoted without one,
    /// or has no price.
    pub fn label(self, tool: &str, label: &str) -> Result<Self, BuildError> {
        text::check("a label", label)?;
        match self.table.priced.get(tool) {
            Some(route) => route.set_label(label)?,
            None => return Err(BuildError::ConflictingResource { resource: format!("mcp/{tool}") }),
        }
        Ok(self)
    }

    pub(crate) fn is_of(&self, merchant: &Arc<MerchantInner>) -> bool {
        Arc::ptr_eq(&self.table.merchant, merchant)
    }

    /// Adds a pass that this tool takes.
    pub(crate) fn taking(mut self, tool: &str, pass: Arc<PassTerms>) -> Result<Self, BuildError> {
        match Arc::make_mut(&mut self.table).priced.get_mut(tool) {
            Some(route) => Arc::make_mut(route).accept_pass(pass),
            None => return Err(BuildError::ConflictingResource { resource: format!("mcp/{tool}") }),
        }
        Ok(self)
    }

    /// Keeps sold results, so that a result that is lost on its way is delivered again to the same payment; see [`Redelivery`].
    ///
    /// Recommended: agents give a tool little time, and ask again. A repeated result carries the id of the call that asks for it.
    pub fn redeliver(self, redelivery: Redelivery) -> Self {
        self.set(|table| table.redeliver(redelivery))
    }

    /// Settles a signed payment before the tool runs, instead of after it: for tools with effects outside their results; see
    /// [`X402Layer::settle_first`](crate::X402Layer::settle_first).
    pub fn settle_first(self) -> Self {
        self.set(Table::settle_first)
    }

    /// Sets the largest message that is read from a client, in bytes; 1 MiB by default. A larger one is refused (413), whatever it says.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for zero.
    pub fn message_limit(self, bytes: usize) -> Result<Self, BuildError> {
        match bytes {
            0 => Err(BuildError::OutOfRange { what: "message_limit" }),
            _ => Ok(self.set(|table| table.limits.message = bytes)),
        }
    }

    /// Sets how long a client's message may take to arrive; 10 seconds by default.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for zero.
    pub fn message_timeout(self, timeout: Duration) -> Result<Self, BuildError> {
        match timeout.is_zero() {
            true => Err(BuildError::OutOfRange { what: "message_timeout" }),
            false => Ok(self.set(|table| table.limits.timeout = timeout)),
        }
    }

    /// Sets the largest result that can be sold, and the largest event before it, in bytes; 1 MiB by default. A larger one is withheld
    /// (`answer_too_large`), and nothing is taken.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for zero.
    pub fn answer_limit(self, bytes: usize) -> Result<Self, BuildError> {
        match bytes {
            0 => Err(BuildError::OutOfRange { what: "answer_limit" }),
            _ => Ok(self.set(|table| table.limits.answer = bytes)),
        }
    }
}

impl<S> Layer<S> for McpLayer {
    type Service = Mcp<S>;

    fn layer(&self, inner: S) -> Mcp<S> {
        Mcp::new(Arc::clone(&self.table), inner)
    }
}
