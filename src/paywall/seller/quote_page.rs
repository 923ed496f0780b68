//! `QuotePage`: the hook that turns a 402 into a page for people. Status and payment headers remain the layer's.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{Response, request::Parts};

use crate::{
    paywall::seller::redelivery::Redelivery,
    protocol::{Amount, Asset, ChainTime, Network, ProblemCode, Quote, Redemption, v2::PaymentRequired},
};

/// A quote for a person to read, with the ways to pay it: the input of a [`QuotePage`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// The quote, as the headers state it.
    pub quote: Quote,
    /// Whether the amount of the quote is a maximum: the handler sets the charge.
    pub up_to: bool,
    /// The address of the page, as visitors reach it.
    pub url: String,
    /// When the quote was made, by the seller's clock: the browser's may be wrong.
    pub issued: ChainTime,
    /// Whether a payer may show the transaction of a transfer. Not so where nothing reads the chain.
    pub takes_transfers: bool,
    /// Whether a transfer must be bound to its payer: an ordinary one is then refused without a signature.
    pub bound_only: bool,
    /// Whether a form redeems: by POST to the same URL, with the fields `intentId` and `txHash`.
    pub takes_forms: bool,
    /// The standard's quote, if signed payments are taken.
    pub required: Option<PaymentRequired>,
    /// The tokens behind the quote's contracts, in the same order.
    pub assets: Vec<Asset>,
    /// The other networks on which it can be paid, with the same amount to the same recipient.
    pub further_networks: Vec<FurtherNetwork>,
    /// The names of the parameters that the route's [descriptions](crate::X402Layer::describe) know. Do not show the value of any other.
    pub parameters: Vec<String>,
    /// Whether the answer is JSON: a [description](crate::X402Layer::describe) of the route says what is in it, or a pass is sold here.
    pub answers_json: bool,
    /// The passes that count here, in the order of the route.
    pub passes: Vec<OfferedPass>,
    /// The name of the pass that is sold here, if one is: its answer is that pass, as JSON.
    pub sells_pass: Option<String>,
    /// The seller's contact, from [`MerchantBuilder::contact`](crate::MerchantBuilder::contact).
    pub contact: Option<String>,
}

/// Another network than the quote's own, on which the same price can be paid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FurtherNetwork {
    /// The network.
    pub network: Network,
    /// The tokens that are taken there.
    pub assets: Vec<Asset>,
    /// Whether a payer may show the transaction of a transfer there; its proof must then have the member `chainId`.
    pub takes_transfers: bool,
}

/// A [pass](crate::Pass) that counts on the route of an [`Offer`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfferedPass {
    /// Its name.
    pub name: String,
    /// Its description.
    pub label: String,
    /// Its price, in base units of the quote's tokens.
    pub price: Amount,
    /// Where it is sold, if the seller set that.
    pub url: Option<String>,
}

/// Writes the 402 of a priced route for people.
///
/// It is called when a browser opens a page: for GET or HEAD, with an `Accept` that prefers `text/html` to JSON, and, if `Sec-Fetch-Mode`
/// is sent, with `navigate`. All other requests get the problem JSON. The page sets the body and the headers; the status, the payment
/// headers, `Cache-Control` and `x402-error` stay those of the quote, and `Vary` gets `Accept`. A closure of the head and the [`Offer`]
/// implements it.
///
/// The feature `page` brings an implementation.
///
/// ```
/// use bytes::Bytes;
/// use http::{Response, request::Parts};
/// use tower_x402::{Offer, X402Layer};
///
/// fn page(layer: X402Layer) -> X402Layer {
///     layer.quote_page(|_head: &Parts, offer: &Offer| {
///         let price = offer.quote.amount.to_decimal(offer.quote.decimals);
///         let page = format!("<!doctype html><title>Payment required</title><p>This costs {price} USDC.");
///         Some(Response::new(Bytes::from(page)))
///     })
/// }
/// # let _ = page;
/// ```
pub trait QuotePage: Send + Sync + 'static {
    /// Returns the page for a quote; `None` for the JSON.
    ///
    /// Texts of the offer come from the seller, and those of the head from the visitor: escape both. Without a `Content-Type` it is sent as
    /// HTML.
    fn quote(&self, head: &Parts, offer: &Offer) -> Option<Response<Bytes>>;

    /// Returns the page that explains why a form did not redeem; by default `None`, for the JSON.
    ///
    /// `shown` is the form's redemption, if it is readable. `problem` is the refusal without a page: its body is the
    /// problem's JSON, and its headers may have `Retry-After` and a new intent.
    fn refusal(&self, head: &Parts, shown: Option<&Redemption>, problem: &Response<Bytes>) -> Option<Response<Bytes>> {
        let _ = (head, shown, problem);
        None
    }

    /// Returns why a request of the page's script did not redeem, in the visitor's language; by default `None`, for the
    /// problem's own `detail`.
    ///
    /// It replaces the `detail` of a problem with this code, if the request has the header `x402-page`. The head is that request's.
    fn detail(&self, head: &Parts, code: ProblemCode) -> Option<String> {
        let _ = (head, code);
        None
    }

    /// Returns another part of the page, such as a script or a picture, by the name under which the page's script asks for it; by default
    /// `None`, for none.
    ///
    /// It is called for a GET without a payment whose header `x402-page` is the name. It is sent with 200, and anyone can have it. `url` is
    /// the address of the page, as visitors reach it.
    fn part(&self, name: &str, url: &str) -> Option<Response<Bytes>> {
        let _ = (name, url);
        None
    }

    /// Returns how long answers of a route with this page are kept, if the route does not set it by
    /// [`redeliver`](crate::X402Layer::redeliver); by default `None`, for not at all.
    fn redelivery(&self) -> Option<Redelivery> {
        None
    }
}

impl<F> QuotePage for F
where
    F: Fn(&Parts, &Offer) -> Option<Response<Bytes>> + Send + Sync + 'static,
{
    fn quote(&self, head: &Parts, offer: &Offer) -> Option<Response<Bytes>> {
        self(head, offer)
    }
}

/// A route's page.
#[derive(Clone)]
pub(crate) struct PageHook(Arc<dyn QuotePage>);

impl PageHook {
    pub(crate) fn new(page: impl QuotePage) -> Self {
        Self(Arc::new(page))
    }

    pub(crate) fn quote(&self, head: &Parts, offer: &Offer) -> Option<Response<Bytes>> {
        self.0.quote(head, offer)
    }

    pub(crate) fn detail(&self, head: &Parts, code: ProblemCode) -> Option<String> {
        self.0.detail(head, code)
    }

    pub(crate) fn part(&self, name: &str, url: &str) -> Option<Response<Bytes>> {
        self.0.part(name, url)
    }

    pub(crate) fn redelivery(&self) -> Option<Redelivery> {
        self.0.redelivery()
    }

    pub(crate) fn refusal(
        &self,
        head: &Parts,
        shown: Option<&Redemption>,
        problem: &Response<Bytes>,
    ) -> Option<Response<Bytes>> {
        self.0.refusal(head, shown, problem)
    }
}

impl fmt::Debug for PageHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageHook")
    }
}
