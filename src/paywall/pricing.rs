//! What a request costs: a fixed price, a closure, or anything that implements [`Pricing`].

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Response, request::Parts};

use crate::{BuildError, protocol::Amount};

/// What one request costs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Price {
    /// Nothing: the request is served without a [`Receipt`](crate::Receipt). Its body was read by then, under the route's
    /// limits; what must pass untouched is for [`free_when`](crate::X402Layer::free_when).
    Free,
    /// That many base units; never zero, which is a fault of the service and is answered 500.
    Charge(Amount),
    /// The same, with words of its own for what is sold; see [`Price::labelled`].
    Labelled {
        /// Base units, as for [`Charge`](Self::Charge).
        amount: Amount,
        /// What the quote says is sold.
        label: String,
    },
    /// This request could never be answered, so nobody is asked to pay for it.
    Refuse(Refusal),
}

impl Price {
    /// Charges that many base units, and has the quote say what is sold in place of the route's
    /// [`label`](crate::X402Layer::label).
    ///
    /// The text may come from the request: control characters become spaces, what is longer than 100 characters is cut, and
    /// where nothing is left the route's label stands. It is for people to read, and binds nobody.
    ///
    /// ```
    /// use tower_x402::{Price, protocol::Amount};
    /// let pages = 12_u64;
    /// let price = Price::labelled(Amount::from_cents(5 * pages, 6), format!("{pages} pages"));
    /// # let _ = price;
    /// ```
    #[must_use]
    pub fn labelled(amount: Amount, label: impl Into<String>) -> Self {
        Self::Labelled { amount, label: label.into() }
    }
}

/// The service's own answer to a request that it refuses before it is quoted.
#[derive(Debug)]
pub struct Refusal(Response<Bytes>);

impl Refusal {
    /// Refuses with this response. Its status is taken as it is, except 402, which would ask for money and becomes 400.
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

/// Prices requests, from their head and whole body (under the route's limit; the members of a proof are still in it).
///
/// It runs once for each priced request that reaches the layer, after the body was read and before anything else: when
/// quoting, and again for every redemption that is shown, well before it is known whether anything was paid. One sale asks
/// it at least twice, and a payer who polls asks it each time, so it should be quick and change nothing. It does not run for
/// requests that [`free_when`](crate::X402Layer::free_when) lets through, nor for a proof that cannot be read, nor for HEAD
/// with a proof. It is given up after [`price_timeout`](crate::X402Layer::price_timeout) where it is async.
///
/// A price may hang on method, path, query, body, and the headers named by
/// [`bind_headers`](crate::X402Layer::bind_headers): those make two requests the same.
pub trait Pricing: Send + Sync + 'static {
    /// The price of this request.
    fn price(&self, parts: &Parts, body: &Bytes) -> impl Future<Output = Price> + Send;
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

/// An async closure as a [`Pricing`]: it owns what it is given, for stable Rust cannot ask that one that borrows is `Send`.
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

/// The ways to set a price.
#[derive(Clone)]
pub(crate) enum Prices {
    Fixed(Amount),
    Now(Arc<PriceFn>),
    Later(Arc<dyn ErasedPricing>),
}

impl Prices {
    /// Whether the price hangs on the request, so that its body must be read and its intent bound to it.
    pub(crate) const fn depends_on_request(&self) -> bool {
        !matches!(self, Self::Fixed(_))
    }
}

impl fmt::Debug for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(amount) => f.debug_tuple("Fixed").field(amount).finish(),
            Self::Now(_) => f.write_str("Closure"),
            Self::Later(_) => f.write_str("Async"),
        }
    }
}

/// A fixed price: text such as `"0.49 USDC"`, or an [`Amount`] of base units.
#[derive(Clone, Debug)]
pub struct PriceTag(Tag);

#[derive(Clone, Debug)]
enum Tag {
    Text(String),
    Amount(Amount),
}

impl PriceTag {
    /// Reads the price in the currency of these decimals and that symbol.
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
