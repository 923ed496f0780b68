//! `QuotePage`: the hook by which a 402 becomes a page for people. Its status and its payment headers stay the layer's.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header, request::Parts};
use http_body::Body;

use super::{
    body::ResponseBody,
    negotiation::{opens_page, shows_page},
    priced_request::PricedRequest,
};
use crate::protocol::{
    ChainTime, IntentId, IntentTerms, ProblemCode, Quote, Redemption, headers::strip_payment_headers,
    v2::PaymentRequired,
};

/// A quote for a person to read, and how it may be paid: what a [`QuotePage`] is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// The quote, as the headers have it.
    pub quote: Quote,
    /// When it was made, by the seller's clock: the browser's may be wrong.
    pub issued: ChainTime,
    /// Whether the transaction of a transfer is taken. It is not where nothing reads the chain.
    pub takes_transfers: bool,
    /// Whether a transfer must be bound to its payer: then an ordinary one is refused without a signature.
    pub bound_only: bool,
    /// Whether a form redeems: by POST to the same URL, with the fields `intentId` and `txHash`.
    pub takes_forms: bool,
    /// The standard's quote, where signed payments are taken.
    pub required: Option<PaymentRequired>,
}

/// Writes the 402 of a priced route for people.
///
/// It is asked where a browser opens a page: GET or HEAD, an `Accept` that prefers `text/html` to JSON, and, if `Sec-Fetch-Mode`
/// is sent, `navigate`. Everything else gets the problem JSON as ever. The body and the headers are yours; the status, the payment
/// headers, `Cache-Control` and `x402-error` stay those of the quote, and `Vary` gets `Accept`. A closure of the head and the
/// [`Offer`] is one, too.
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
    /// Texts of the offer are the seller's, and those of the head the visitor's: both must be escaped. Without a `Content-Type`
    /// it is sent as HTML.
    fn quote(&self, head: &Parts, offer: &Offer) -> Option<Response<Bytes>>;

    /// Returns the page that tells why a form did not redeem; by default `None`, for the JSON.
    ///
    /// `shown` is what the form showed, if that could be read. `problem` is what is sent otherwise: its body is the problem's
    /// JSON, and its headers may have `Retry-After` and a new intent.
    fn refusal(&self, head: &Parts, shown: Option<&Redemption>, problem: &Response<Bytes>) -> Option<Response<Bytes>> {
        let _ = (head, shown, problem);
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

    /// Makes a quote a page, where a browser asked for it.
    pub(crate) fn dress_quote<ResB>(
        &self,
        request: &PricedRequest,
        terms: &IntentTerms,
        label: &str,
        mut answer: Response<ResponseBody<ResB>>,
        intent: &str,
    ) -> Response<ResponseBody<ResB>> {
        vary(answer.headers_mut());
        if !opens_page(&request.parts) {
            return answer;
        }
        let Ok(intent) = IntentId::new(intent) else { return answer };
        let offer = offer(request, terms, label, intent, answer.headers());
        match self.0.quote(&request.parts, &offer) {
            Some(page) => dressed(answer, page),
            None => answer,
        }
    }

    /// What tells a person who sent a form why it did not redeem.
    pub(crate) fn for_form(&self, head: &Parts, shown: Option<Redemption>) -> FormPage {
        FormPage { page: Arc::clone(&self.0), head: head.clone(), shown }
    }
}

/// The page for what becomes of a form.
pub(crate) struct FormPage {
    page: Arc<dyn QuotePage>,
    head: Parts,
    shown: Option<Redemption>,
}

impl FormPage {
    /// Makes the layer's own answer a page, where a browser sent the form. What the service answers is left as it is.
    pub(crate) fn dress<ResB>(&self, mut answer: Response<ResponseBody<ResB>>) -> Response<ResponseBody<ResB>>
    where
        ResB: Body<Data = Bytes>,
    {
        if answer.extensions().get::<ProblemCode>().is_none() {
            return answer;
        }
        vary(answer.headers_mut());
        let Some(json) = answer.body().as_whole().filter(|_| shows_page(&self.head.headers)) else { return answer };
        let mut problem = Response::new(json.clone());
        *problem.status_mut() = answer.status();
        problem.headers_mut().clone_from(answer.headers());
        match self.page.refusal(&self.head, self.shown.as_ref(), &problem) {
            Some(page) => dressed(answer, page),
            None => answer,
        }
    }
}

fn offer(request: &PricedRequest, terms: &IntentTerms, label: &str, intent: IntentId, headers: &HeaderMap) -> Offer {
    let (route, merchant) = (&request.route, &request.route.merchant);
    let takes_transfers = merchant.chain().is_some();
    Offer {
        quote: Quote {
            intent,
            recipient: merchant.recipient(),
            network: merchant.network,
            label: label.to_owned(),
            expiry: ChainTime::from_unix(terms.expiry()),
            amount: terms.amount,
            decimals: merchant.decimals(),
            symbol: merchant.symbol().to_owned(),
            contracts: merchant.assets.iter().map(crate::protocol::Asset::contract).collect(),
        },
        issued: ChainTime::from_unix(terms.issued),
        takes_transfers,
        bound_only: merchant.unbound.refuse,
        takes_forms: takes_transfers && !route.header_only,
        // What the layer wrote can be read; the fall-back cannot be reached.
        required: PaymentRequired::from_headers(headers).unwrap_or_default(),
    }
}

/// The page's body and headers under the layer's own status and headers.
fn dressed<ResB>(ours: Response<ResponseBody<ResB>>, page: Response<Bytes>) -> Response<ResponseBody<ResB>> {
    const OF_THE_BODY: [HeaderName; 2] = [header::CONTENT_TYPE, header::CONTENT_LENGTH];
    let (ours, _) = ours.into_parts();
    let (page, body) = page.into_parts();
    let mut headers = page.headers;
    strip_payment_headers(&mut headers);
    headers.remove(header::TRANSFER_ENCODING);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static("text/html; charset=utf-8"));
    for (name, value) in &ours.headers {
        if *name == header::VARY {
            vary(&mut headers);
        } else if !OF_THE_BODY.contains(name) {
            headers.insert(name, value.clone());
        }
    }
    let mut response = Response::new(ResponseBody::whole(body));
    *response.status_mut() = ours.status;
    *response.headers_mut() = headers;
    *response.extensions_mut() = ours.extensions;
    response
}

/// Tells caches, beside what is there, that `Accept` decides what is answered.
pub(crate) fn vary(headers: &mut HeaderMap) {
    let names = |line: &HeaderValue| line.to_str().unwrap_or_default().to_ascii_lowercase();
    let known = headers.get_all(header::VARY).iter().map(names);
    if !known.flat_map(|line| line.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>()).any(is_accept) {
        headers.append(header::VARY, HeaderValue::from_static("Accept"));
    }
}

fn is_accept(name: String) -> bool {
    name == "accept" || name == "*"
}

impl fmt::Debug for PageHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageHook")
    }
}
