//! `Price` and `Pricing`: what a request costs, by a fixed price, a closure, or a type that implements `Pricing`; `Cost`: the amount to be
//! paid, and who sets the charge.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Response, request::Parts};

use crate::{BuildError, protocol::Amount};

/// The price of one request.
///
/// ```
/// use bytes::Bytes;
/// use http::{Response, request::Parts};
/// use tower_x402::{Price, protocol::Amount};
///
/// fn price(five_cents: Amount, head: &Parts, body: &Bytes) -> Price {
///     match body.len() {
///         0 => Price::Refuse(Response::new(Bytes::from("send a text")).into()),
///         _ if head.uri.path() == "/preview" => Price::Free,
///         _ => Price::Charge(five_cents),
///     }
/// }
/// # let (head, ()) = http::Request::new(()).into_parts();
/// # let five_cents = Amount::from_cents(5, 6);
/// # assert!(matches!(price(five_cents, &head, &Bytes::new()), Price::Refuse(_)));
/// # assert!(matches!(price(five_cents, &head, &Bytes::from("a")), Price::Charge(_)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Price {
    /// Nothing: the request is served without a [`Receipt`](crate::Receipt).
    ///
    /// Its body has been read by then, under the route's limits. To pass requests untouched, use
    /// [`free_when`](crate::X402Layer::free_when).
    Free,
    /// An amount of base units: [`Merchant::amount`](crate::Merchant::amount) returns that of a price such as `"0.05 USDC"`. Zero is a fault
    /// of the service, and is answered 500.
    Charge(Amount),
    /// At most an amount of base units: the handler sets what the answer costs by a [`Charge`](crate::Charge) in its response. Zero is a
    /// fault, as for [`Charge`](Self::Charge).
    ///
    /// See [`Merchant::charge_up_to`](crate::Merchant::charge_up_to).
    UpTo(Amount),
    /// A fixed amount with a label of its own; see [`Price::labelled`].
    Labelled {
        /// The amount of base units, as for [`Charge`](Self::Charge).
        amount: Amount,
        /// The description of the offer in the quote.
        label: String,
    },
    /// The service's own refusal of a request that cannot succeed, so that it is not paid for.
    Refuse(Refusal),
}

impl Price {
    /// Returns a price with a label of its own for the quote, in place of the route's
    /// [`label`](crate::X402Layer::label).
    ///
    /// The text may come from the request: control characters become spaces, it is cut after 100 characters, and a
    /// blank text is replaced by the route's label. It is for people, and no part of the terms.
    ///
    /// ```
    /// use tower_x402::{Price, protocol::Amount};
    /// fn price(of_a_page: Amount, pages: u64) -> Price {
    ///     Price::labelled(of_a_page.times(pages), format!("{pages} pages"))
    /// }
    /// # let _ = price;
    /// ```
    #[must_use]
    pub fn labelled(amount: Amount, label: impl Into<String>) -> Self {
        Self::Labelled { amount, label: label.into() }
    }
}

/// A service's own answer to a request that it refuses before it is quoted, for [`Price::Refuse`].
///
/// ```
/// use bytes::Bytes;
/// use http::{Response, StatusCode};
/// use tower_x402::{Price, Refusal};
///
/// # fn refuse() -> http::Result<Price> {
/// let answer = Response::builder().status(StatusCode::NOT_FOUND).body(Bytes::from("no such report"))?;
/// Ok(Price::Refuse(Refusal::new(answer)))
/// # }
/// # assert!(refuse().is_ok());
/// ```
#[derive(Debug)]
pub struct Refusal(Response<Bytes>);

impl Refusal {
    /// Returns a refusal with this response. Its status is kept, except for 402, which would ask for money and becomes 400.
    #[must_use]
    pub fn new(response: Response<Bytes>) -> Self {
        Self(response)
    }

    pub(crate) fn into_response(self) -> Response<Bytes> {
        let mut response = self.0;
        if response.status() == http::StatusCode::PAYMENT_REQUIRED {
            *response.status_mut() = http::StatusCode::BAD_REQUEST;
        }
        crate::protocol::headers::strip_payment_headers(response.headers_mut());
        response
    }
}

impl From<Response<Bytes>> for Refusal {
    fn from(response: Response<Bytes>) -> Self {
        Self::new(response)
    }
}

/// Computes the price of a request from its head and its whole body.
///
/// The body was read under the route's limit, and still contains the members of a proof. Pricing runs once for each
/// priced request that reaches the layer, after the body was read and before anything else: for the quote, and again
/// for every redemption, before any check of the payment. One sale runs it at least twice, and a client that polls runs
/// it each time, so it should be quick and have no side effects. It does not run for requests that
/// [`free_when`](crate::X402Layer::free_when) lets pass, for a proof that cannot be read, or for HEAD with a proof. An
/// async price is abandoned after [`price_timeout`](crate::X402Layer::price_timeout).
///
/// The price may depend on the method, path, query, content type and encoding, and body, and on the headers listed with
/// [`bind_headers`](crate::X402Layer::bind_headers): those make two requests the same.
///
/// ```
/// use bytes::Bytes;
/// use http::request::Parts;
/// use tower_x402::{Price, Pricing, protocol::Amount};
///
/// struct PerItem {
///     /// By [`Merchant::amount`](tower_x402::Merchant::amount).
///     each: Amount,
/// }
///
/// impl Pricing for PerItem {
///     async fn price(&self, _head: &Parts, body: &Bytes) -> Price {
///         let items = body.split(|byte| *byte == b'\n').count() as u64;
///         Price::Charge(self.each.times(items))
///     }
/// }
/// ```
pub trait Pricing: Send + Sync + 'static {
    /// Returns the price of this request.
    fn price(&self, parts: &Parts, body: &Bytes) -> impl Future<Output = Price> + Send;
}

/// What a request costs, and who sets the charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// The price, or its maximum.
    pub(crate) amount: Amount,
    pub(crate) tariff: Tariff,
}

/// How a price is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tariff {
    /// It is fixed.
    Fixed,
    /// The handler sets the charge, up to the price.
    UpTo,
    /// The same, and payments of the whole price are offered as well.
    UpToOrFixed,
}

impl Tariff {
    /// Returns whether the handler sets the charge.
    pub(crate) const fn is_metered(self) -> bool {
        matches!(self, Self::UpTo | Self::UpToOrFixed)
    }

    /// Returns whether payments of the whole price are offered.
    pub(crate) const fn offers_fixed(self) -> bool {
        matches!(self, Self::Fixed | Self::UpToOrFixed)
    }
}

type BoxedPrice<'a> = Pin<Box<dyn Future<Output = Price> + Send + 'a>>;

pub(crate) trait ErasedPricing: Send + Sync + 'static {
    fn price<'a>(&'a self, parts: &'a Parts, body: &'a Bytes) -> BoxedPrice<'a>;
}

impl<P: Pricing> ErasedPricing for P {
    fn price<'a>(&'a self, parts: &'a Parts, body: &'a Bytes) -> BoxedPrice<'a> {
        Box::pin(Pricing::price(self, parts, body))
    }
}

/// An async closure as a [`Pricing`]. It owns its arguments, because stable Rust cannot require that a borrowing one is `Send`.
pub(crate) struct AsyncClosure<F>(pub(crate) F);

impl<F, Fut> Pricing for AsyncClosure<F>
where
    F: Fn(Parts, Bytes) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Price> + Send,
{
    fn price(&self, parts: &Parts, body: &Bytes) -> impl Future<Output = Price> + Send {
        (self.0)(parts.clone(), body.clone())
    }
}

pub(crate) type PriceFn = dyn Fn(&Parts, &Bytes) -> Price + Send + Sync;

/// The same for the call of a tool, from its arguments.
#[cfg(feature = "mcp")]
pub(crate) type ArgumentsPriceFn = dyn Fn(&serde_json::Map<String, serde_json::Value>) -> Price + Send + Sync;

/// The ways to set a price.
#[derive(Clone)]
pub(crate) enum Prices {
    Fixed(Amount),
    UpTo(Amount),
    Now(Arc<PriceFn>),
    #[cfg(feature = "mcp")]
    OfArguments(Arc<ArgumentsPriceFn>),
    Later(Arc<dyn ErasedPricing>),
}

impl Prices {
    /// Returns whether the price or the charge depends on the request, so that its body must be read and its intent bound to it.
    pub(crate) const fn depends_on_request(&self) -> bool {
        !matches!(self, Self::Fixed(_))
    }

    /// Returns whether the price may depend on the body's text. A metered price does not: its handler charges for what it has read.
    pub(crate) const fn may_read_body(&self) -> bool {
        !matches!(self, Self::Fixed(_) | Self::UpTo(_))
    }

    /// Returns whether the handler sets the charge, up to one maximum for every request.
    pub(crate) const fn is_metered(&self) -> bool {
        matches!(self, Self::UpTo(_))
    }
}

impl fmt::Debug for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(amount) => f.debug_tuple("Fixed").field(amount).finish(),
            Self::UpTo(amount) => f.debug_tuple("UpTo").field(amount).finish(),
            Self::Now(_) => f.write_str("Closure"),
            #[cfg(feature = "mcp")]
            Self::OfArguments(_) => f.write_str("Closure of arguments"),
            Self::Later(_) => f.write_str("Async"),
        }
    }
}

/// A price for [`Merchant::charge`](crate::Merchant::charge) and [`charge_up_to`](crate::Merchant::charge_up_to): text such as `"0.49
/// USDC"`, or an [`Amount`] of base units.
///
/// ```
/// use tower_x402::{PriceTag, protocol::Amount};
///
/// let text = PriceTag::from("0.49 USDC");
/// // The same in base units: USDC has 6 decimals.
/// let amount = PriceTag::from(Amount::from_base_units(490_000));
/// # let _ = (text, amount);
/// ```
#[derive(Clone, Debug)]
pub struct PriceTag(Tag);

#[derive(Clone, Debug)]
enum Tag {
    Text(String),
    Amount(Amount),
}

impl PriceTag {
    /// Reads the price in a currency with these decimals and this symbol.
    pub(crate) fn amount(&self, decimals: u8, symbol: &str) -> Result<Amount, BuildError> {
        let amount = match &self.0 {
            Tag::Amount(amount) => *amount,
            Tag::Text(text) => {
                let (number, named) = text.split_once(' ').ok_or(BuildError::InvalidPrice { decimals })?;
                if named != symbol {
                    return Err(BuildError::WrongSymbol { symbol: symbol.to_owned() });
                }
                Amount::parse_decimal(number, decimals).map_err(|_| BuildError::InvalidPrice { decimals })?
            }
        };
        if amount.is_zero() { Err(BuildError::InvalidPrice { decimals }) } else { Ok(amount) }
    }
}

impl From<&str> for PriceTag {
    fn from(text: &str) -> Self {
        Self(Tag::Text(text.to_owned()))
    }
}

impl From<String> for PriceTag {
    fn from(text: String) -> Self {
        Self(Tag::Text(text))
    }
}

impl From<Amount> for PriceTag {
    fn from(amount: Amount) -> Self {
        Self(Tag::Amount(amount))
    }
}
