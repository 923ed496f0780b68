//! `Order`: one call of a priced tool, from its quote to its sale.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, request::Parts};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc::Sender;
use tower_service::Service;

use super::{
    server::forward,
    table::{MARK, Table},
    tool::{Answered, NoAnswer, Told, Tool, dress},
    voice::{Message, Voice},
};
use crate::{
    metrics,
    paywall::{
        body::{RequestBody, ResponseBody},
        dialect::{mpp::proof_in, outcome::mark_taken, quote::Bill},
        priced_request::{Call, PricedRequest, host},
        refusal::{ASK_AGAIN, Fault, Problem, Rejection},
        sale::{
            deliver::{Delivery, deliver},
            ending::Unsold,
            opened::Opened,
        },
        seller::{
            pricing::{Price, Tariff},
            route::Route,
        },
        way::{offers, reserve},
    },
    protocol::{
        IntentId, ProblemCode, Proof,
        headers::PAYMENT_RESPONSE,
        mcp::{RECEIPT, ToolCall},
        mpp::receipt_json,
        v2::SettleResponse,
    },
};

/// One call of a priced tool.
pub(super) struct Order<S> {
    pub(super) table: Arc<Table>,
    pub(super) route: Arc<Route>,
    pub(super) call: ToolCall,
    pub(super) parts: Parts,
    pub(super) inner: S,
    /// Whether the service inside has a price of its own.
    pub(super) nested: bool,
    pub(super) told: Sender<Told>,
}

/// What a call is answered with.
pub(super) enum Answer<ResB> {
    Message(Message),
    /// The server's own response, which is none to the call.
    Response(Response<ResponseBody<ResponseBody<ResB>>>),
}

/// A call whose price and payment are looked at.
struct Taken<S> {
    table: Arc<Table>,
    request: PricedRequest,
    call: ToolCall,
    voice: Voice,
    inner: S,
    told: Sender<Told>,
}

impl<S> Order<S> {
    /// Answers the call.
    ///
    /// # Errors
    /// The service's own error, as it is.
    pub(super) async fn answer<B, ResB>(self) -> Result<Answer<ResB>, S::Error>
    where
        S: Service<Request<B>, Response = Response<ResB>, Future: Send + 'static> + Send,
        S::Error: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        ResB: Body<Data = Bytes> + Send + 'static,
        ResB::Error: Send,
    {
        let Self { table, route, mut call, parts, inner, nested, told } = self;
        let id = call.id.as_deref().map_or("null", |id| id.get()).to_owned();
        let voice = Voice { id, speaks: call.speaks };
        let elsewhere = proof_in(&route.merchant, &parts.headers);
        let shown = std::mem::replace(&mut call.shown, Ok(None));
        let called = what_is_called(&route, &parts, &call);
        let request = PricedRequest::of_call(route, parts, called);
        let taken = Taken { table, request, call, voice, inner, told };
        let route = &taken.request.route;
        if nested || taken.request.is_paid_already() {
            return Ok(Answer::Message(taken.voice.turn_away(route, Fault::NestedPrice)));
        }
        match (shown, elsewhere) {
            (Ok(None), Ok(None)) => taken.quote().await,
            (Ok(Some(proof)), Ok(None)) => taken.redeem(proof).await,
            // A client that shows a payment in a header has one, and is not asked for another.
            _ => Ok(Answer::Message(taken.voice.deny(route, ProblemCode::InvalidRedemption))),
        }
    }
}

type Request<B> = http::Request<RequestBody<B>>;

impl<S> Taken<S> {
    /// A call without a payment.
    async fn quote<B, ResB>(self) -> Result<Answer<ResB>, S::Error>
    where
        S: Service<Request<B>, Response = Response<ResB>>,
    {
        let route = &self.request.route;
        Ok(Answer::Message(match priced(&self.request, &self.voice).await {
            Ok(None) => return self.serve().await,
            Ok(Some(message)) => message,
            Err(rejection) => self.voice.turn_away(route, rejection),
        }))
    }

    /// A call with a payment.
    async fn redeem<B, ResB>(self, proof: Proof) -> Result<Answer<ResB>, S::Error>
    where
        S: Service<Request<B>, Response = Response<ResB>, Future: Send + 'static> + Send,
        S::Error: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        ResB: Body<Data = Bytes> + Send + 'static,
        ResB::Error: Send,
    {
        let challenge = match &proof {
            Proof::Mpp(credential) => Some(credential.challenge.id.clone()),
            _ => None,
        };
        let reserved = match sold_for_another(&self.table, &self.request, &proof).await {
            Some(rejection) => Err(rejection),
            None => reserve(&self.request, proof).await,
        };
        let purchase = match reserved {
            Ok(Some(purchase)) => purchase,
            Ok(None) => {
                metrics::redeemed(&self.request.route.resource, "free");
                return self.serve().await;
            }
            Err(rejection) => return Ok(Answer::Message(self.voice.deny(&self.request.route, rejection))),
        };
        let Self { table, request, call, voice, inner, told } = self;
        let route = Arc::clone(&request.route);
        let id = format!("{MARK}{:032x}", rand::random::<u128>());
        let merchant = Arc::clone(&route.merchant);
        let tool = Tool { merchant, inner, call: call.under(&id), id, limit: table.limits.answer, told };
        let Delivery { outcome, made } = deliver(request, None::<B>, tool, purchase, mark_taken).await;
        let response = match outcome {
            Ok(response) => response,
            Err(unsold) => {
                let mut rejection = match unsold {
                    Unsold::Rejected(rejection) => rejection,
                    Unsold::Failed(NoAnswer::TooLarge) => ProblemCode::AnswerTooLarge.into(),
                    Unsold::Failed(NoAnswer::Broken) => Problem::after(ProblemCode::AnswerBroken, ASK_AGAIN).into(),
                    Unsold::Failed(NoAnswer::Failed(error)) => {
                        metrics::redeemed(&route.resource, "service_failed");
                        return Err(error);
                    }
                };
                if let (Rejection::Problem(problem), Some(made)) = (&mut rejection, made) {
                    problem.settlement.get_or_insert_with(|| Box::new(made));
                }
                return Ok(Answer::Message(voice.deny(&route, rejection)));
            }
        };
        let Some(answered) = response.extensions().get::<Answered>().copied() else {
            return Ok(Answer::Response(response));
        };
        let (parts, body) = response.into_parts();
        // It is in memory.
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Ok(Answer::Message(match answered {
            Answered::Error => voice.failed(parts.headers, &String::from_utf8_lossy(&body), made.as_ref()),
            Answered::Result if parts.headers.contains_key(PAYMENT_RESPONSE) => {
                let receipt = challenge.and_then(|id| receipt(&parts.headers, &id, route.merchant.clock.unix()));
                let receipt = receipt.as_deref().map(|json| (RECEIPT, json));
                voice.sold(parts.headers, &body, receipt.as_slice())
            }
            Answered::Result => voice.unsold(parts.headers, &String::from_utf8_lossy(&body), made.as_ref()),
        }))
    }

    /// The call without the layer, but for the payment in it.
    async fn serve<B, ResB>(self) -> Result<Answer<ResB>, S::Error>
    where
        S: Service<Request<B>, Response = Response<ResB>>,
    {
        let message = self.call.unpaid();
        let mut parts = self.request.parts;
        dress(&mut parts.headers, &self.request.route.merchant, message.len());
        let response = forward(self.inner, parts, message, None).await?;
        Ok(Answer::Response(response.map(|body| ResponseBody::streaming(ResponseBody::streaming(body)))))
    }
}

/// The bill for the call; `None` if it is free.
async fn priced(request: &PricedRequest, voice: &Voice) -> Result<Option<Message>, Rejection> {
    let route = &*request.route;
    let (amount, label, tariff) = match request.price().await? {
        Price::Free => return Ok(None),
        Price::Refuse(refusal) => return Err(refusal.into()),
        _ if route.nested.is_known() => return Err(Fault::NestedPrice.into()),
        Price::Charge(amount) => (amount, None, Tariff::Fixed),
        Price::UpTo(amount) => (amount, None, route.up_to()),
        Price::Labelled { amount, label } => (amount, Some(label), Tariff::Fixed),
    };
    if amount.is_zero() {
        return Err(Fault::ZeroPrice.into());
    }
    route.merchant.first().started().await?;
    let bill = match &label {
        Some(label) => Bill::saying(route, label, tariff, offers),
        None => Bill::of(route, tariff, offers),
    };
    if !bill.has_standard() {
        return Err(Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN).into());
    }
    let terms = request.intent_terms(route.seals.current(), amount);
    tracing::debug!(resource = &*route.resource, %amount, "quoted");
    route.quotes.count();
    Ok(Some(voice.bill(request, &bill, (&terms, tariff))))
}

/// A payment that bought the call of another tool here is not asked for once more.
async fn sold_for_another(table: &Table, request: &PricedRequest, proof: &Proof) -> Option<Rejection> {
    let intent = match proof {
        Proof::Payment(payment) => payment.accepted.exact()?.intent().ok()??,
        Proof::Mpp(credential) => credential.challenge.id.clone(),
        _ => return None,
    };
    if Opened::open(&request.route, &intent).is_some() {
        return None;
    }
    let mut others = table.priced.values();
    let opened = others.find_map(|route| Opened::open(route, &intent))?;
    match opened.is_consumed().await {
        Ok(true) => Some(ProblemCode::AlreadyConsumed.into()),
        Ok(false) => None,
        Err(problem) => Some(problem.into()),
    }
}

fn receipt(headers: &http::HeaderMap, challenge: &IntentId, now: u64) -> Option<String> {
    let settled = SettleResponse::from_headers(headers).ok()??;
    receipt_json(&settled, challenge, now)
}

/// What is priced: the tool and its arguments. Its address is the server's host, as clients name it, and the tool.
fn what_is_called(route: &Route, parts: &Parts, call: &ToolCall) -> Call {
    let host = match &route.merchant.public_url {
        Some(url) => url.split_once("://").map_or(&**url, |(_, rest)| rest).split('/').next(),
        None => host(parts),
    };
    let address = match host.filter(|host| !host.is_empty()) {
        Some(host) => (format!("mcp://{host}"), format!("/tools/{}", call.name)),
        None => ("mcp://tool".to_owned(), format!("/{}", call.name)),
    };
    Call { address, bound: call.bound.clone(), arguments: call.arguments.clone() }
}
