//! Dressing: turns the layer's own answer into the page that a [`QuotePage`](quote_page::QuotePage) makes of it.

pub(crate) mod negotiation;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts};
use http_body::Body;
use serde_json::{Map, Value};

use crate::{
    paywall::{
        body::ResponseBody,
        dialect::outcome::tells_of_sale,
        door::page::negotiation::{opens_page, shows_page},
        priced_request::PricedRequest,
        seller::{
            chain::SellingChain,
            pass::terms::PassTerms,
            pricing::Tariff,
            quote_page::{FurtherNetwork, Offer, OfferedPass, PageHook},
        },
    },
    protocol::{
        Asset, ChainTime, IntentId, IntentTerms, ProblemCode, Quote, Redemption,
        headers::{X_PRICE_INTENT, X402_LOCATION, X402_PAGE, X402_PASS_REMAINING, strip_payment_headers},
        v2::PaymentRequired,
    },
};

/// Turns a quote into a page, if a browser asked for it.
pub(crate) fn dress_quote<ResB>(
    page: &PageHook,
    request: &PricedRequest,
    price: (&IntentTerms, Tariff),
    label: &str,
    mut answer: Response<ResponseBody<ResB>>,
) -> Response<ResponseBody<ResB>> {
    vary(answer.headers_mut());
    if !opens_page(&request.parts) {
        return answer;
    }
    // The layer itself wrote the header, so the fall-back cannot be reached.
    let intent = answer.headers().get(X_PRICE_INTENT).and_then(|intent| IntentId::new(intent.to_str().ok()?).ok());
    let Some(intent) = intent else { return answer };
    let offer = offer(request, price, label, intent, answer.headers());
    match page.quote(&request.parts, &offer) {
        Some(page) => dressed(answer, page),
        None => answer,
    }
}

/// Returns another part of the page, if its script asks for one. Nothing is sold or quoted.
pub(crate) fn part_of_page<ResB>(request: &PricedRequest) -> Option<Response<ResponseBody<ResB>>> {
    let page = request.route.page.as_ref().filter(|_| request.parts.method == Method::GET)?;
    let name = request.parts.headers.get(X402_PAGE)?.to_str().ok()?;
    let (part, body) = page.part(name, &address(request))?.into_parts();
    let mut response = Response::new(ResponseBody::whole(body));
    *response.headers_mut() = part.headers;
    strip_payment_headers(response.headers_mut());
    // It has the address of an answer that is paid for.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(response)
}

/// Answers the script of a page about its request.
pub(crate) struct ScriptPage {
    page: PageHook,
    head: Parts,
}

impl ScriptPage {
    /// Returns this for a request that the script of a page sends; `None` for any other.
    pub(crate) fn of(request: &PricedRequest) -> Option<Box<Self>> {
        let page = request.route.page.clone().filter(|_| request.parts.headers.contains_key(X402_PAGE))?;
        Some(Box::new(Self { page, head: request.parts.clone() }))
    }

    /// Reports a sold redirect to the script, because following it would lead away from the answer, and tells its visitor why nothing was
    /// sold.
    pub(crate) fn tell<ResB>(&self, mut answer: Response<ResponseBody<ResB>>) -> Response<ResponseBody<ResB>>
    where
        ResB: Body<Data = Bytes>,
    {
        tell_redirect(&mut answer);
        match self.told(&answer) {
            Some(problem) => {
                answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(problem.len()));
                answer.map(|_| ResponseBody::whole(problem))
            }
            None => answer,
        }
    }

    /// Returns the layer's own problem with the page's text for it.
    fn told<ResB>(&self, answer: &Response<ResponseBody<ResB>>) -> Option<Bytes>
    where
        ResB: Body<Data = Bytes>,
    {
        let code = answer.extensions().get::<ProblemCode>()?;
        let mut problem: Map<String, Value> = serde_json::from_slice(answer.body().as_whole()?).ok()?;
        problem.insert("detail".to_owned(), self.page.detail(&self.head, *code)?.into());
        Some(serde_json::to_vec(&problem).ok()?.into())
    }
}

/// The page for the result of a form.
pub(crate) struct FormPage {
    page: PageHook,
    head: Parts,
    shown: Option<Redemption>,
}

impl FormPage {
    /// Returns the page for a form that showed this redemption, if it could be read; `None` on a route without a page.
    pub(crate) fn of(request: &PricedRequest, shown: Option<Redemption>) -> Option<Self> {
        Some(Self { page: request.route.page.clone()?, head: request.parts.clone(), shown })
    }

    /// Turns the layer's own answer into a page, if a browser sent the form. The service's answer stays as it is.
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

fn offer(
    request: &PricedRequest,
    (terms, tariff): (&IntentTerms, Tariff),
    label: &str,
    intent: IntentId,
    headers: &HeaderMap,
) -> Offer {
    let (route, merchant) = (&request.route, &request.route.merchant);
    let chain = merchant.first();
    let takes_transfers = chain.reader().is_some() && tariff.offers_fixed();
    Offer {
        up_to: tariff.is_metered(),
        quote: Quote {
            intent,
            recipient: merchant.recipient(),
            network: chain.network,
            label: label.to_owned(),
            expiry: ChainTime::from_unix(terms.expiry()),
            amount: terms.amount,
            decimals: merchant.decimals(),
            symbol: merchant.symbol().to_owned(),
            contracts: chain.assets.iter().map(Asset::contract).collect(),
        },
        url: address(request),
        issued: ChainTime::from_unix(terms.issued),
        takes_transfers,
        bound_only: merchant.unbound.refuse,
        takes_forms: takes_transfers && !route.header_only,
        // The layer itself wrote the header, so the fall-back cannot be reached.
        required: PaymentRequired::from_headers(headers).unwrap_or_default(),
        assets: chain.assets.to_vec(),
        further_networks: merchant.chains.iter().skip(1).map(|chain| further(chain, tariff)).collect(),
        parameters: route.parameters(),
        answers_json: route.answers_json(&request.parts.method) || route.sells_pass.is_some(),
        passes: route.passes.iter().map(|pass| offered(pass)).collect(),
        sells_pass: route.sells_pass.as_ref().map(|pass| pass.name.to_string()),
        contact: merchant.contact.clone(),
    }
}

fn offered(pass: &PassTerms) -> OfferedPass {
    let label = pass.label.as_ref().unwrap_or(&pass.name).to_string();
    OfferedPass { name: pass.name.to_string(), label, price: pass.price, url: pass.url.as_deref().map(str::to_owned) }
}

/// Returns the address with its query, which is a part of what is bought.
fn address(request: &PricedRequest) -> String {
    let query = request.parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    request.url().text() + &query
}

fn further(chain: &SellingChain, tariff: Tariff) -> FurtherNetwork {
    let SellingChain { network, assets, .. } = chain;
    FurtherNetwork {
        network: *network,
        assets: assets.clone(),
        takes_transfers: chain.reader().is_some() && tariff.offers_fixed(),
    }
}

/// Turns a sold redirect into a header.
fn tell_redirect<ResB>(answer: &mut Response<ResponseBody<ResB>>) {
    const FOLLOWED: [StatusCode; 5] = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if FOLLOWED.contains(&answer.status())
        && (tells_of_sale(answer.headers()) || answer.headers().contains_key(X402_PASS_REMAINING))
        && let Some(target) = answer.headers_mut().remove(header::LOCATION)
    {
        *answer.status_mut() = StatusCode::OK;
        answer.headers_mut().insert(X402_LOCATION, target);
    }
}

/// Puts the page's body and headers under the layer's own status and headers.
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

/// Adds `Accept` to `Vary`, for caches.
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
