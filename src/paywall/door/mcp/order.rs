//! `Order`: one call of a priced tool, from its quote to its sale.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts as RequestParts, response::Parts};
use http_body::Body;
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::sync::mpsc::Sender;
use tower_service::Service;

use super::{
    server::forward,
    table::{MARK, Table},
    tool::{Answered, DIGESTS, NoAnswer, Told, Tool, dress},
    voice::{Made, Message, Voice},
};
use crate::{
    metrics,
    paywall::{
        body::{RequestBody, ResponseBody},
        dialect::{
            mpp::proof_in,
            outcome::{mark_made, mark_taken},
            quote::Bill,
        },
        priced_request::{Call, PricedRequest, host},
        refusal::{ASK_AGAIN, Fault, MADE, Problem, Rejection},
        sale::{
            call::deliver_call,
            deliver::{Delivery, deliver},
            ending::Unsold,
            opened::Opened,
        },
        seller::{
            pricing::{Price, Tariff},
            route::Route,
        },
        way::{
            offers,
            pass::{self, PassShown},
            reserve,
        },
    },
    protocol::{
        ProblemCode, Proof,
        headers::{NO_STORE, PAYMENT_RESPONSE, X402_PASS, X402_PASS_REMAINING},
        mcp::{PASS, ToolCall},
        v2::PaymentOption,
    },
};

/// One call of a priced tool.
pub(super) struct Order<S> {
    pub(super) table: Arc<Table>,
    pub(super) route: Arc<Route>,
    pub(super) call: ToolCall,
    pub(super) parts: RequestParts,
    pub(super) inner: S,
    /// Whether the service inside has a price of its own.
    pub(super) nested: bool,
    pub(super) told: Sender<Told>,
}

/// The answer to a call.
pub(super) enum Answer<ResB> {
    Message(Message),
    /// The server's status and, in place of its response, a message about the payment that was made.
    Failed(StatusCode, Message),
    /// The server's own response, which does not answer the call.
    Response(Response<ResponseBody<ResponseBody<ResB>>>),
}

/// A call whose price and payment are being checked.
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
    /// The service's own error, unchanged.
    pub(super) async fn answer<B, ResB>(self) -> Result<Answer<ResB>, S::Error>
    where
        S: Service<Request<B>, Response = Response<ResB>, Future: Send + 'static> + Send,
        S::Error: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        ResB: Body<Data = Bytes> + Send + 'static,
        ResB::Error: Send,
    {
        let Self { table, route, mut call, mut parts, inner, nested, told } = self;
        let id = call.id.as_deref().map_or("null", |id| id.get()).to_owned();
        let elsewhere = proof_in(&route.merchant, &parts.headers);
        let shown = std::mem::replace(&mut call.shown, Ok(None));
        let challenge = match &shown {
            Ok(Some(Proof::Mpp(credential))) => Some(credential.challenge.id.clone()),
            _ => None,
        };
        let voice = Voice { id, speaks: call.speaks, challenge };
        // A call shows its pass in its own message, and nowhere else.
        parts.headers.remove(X402_PASS);
        let pass = call.pass.take().map(|pass| HeaderValue::try_from(pass).unwrap_or(HeaderValue::from_static("")));
        parts.headers.extend(pass.map(|pass| (X402_PASS, pass)));
        let called = what_is_called(&route, &parts, &mut call);
        let request = PricedRequest::of_call(route, parts, called);
        let taken = Taken { table, request, call, voice, inner, told };
        let route = &taken.request.route;
        if nested || taken.request.is_paid_already() {
            return Ok(Answer::Message(taken.voice.turn_away(route, Fault::NestedPrice)));
        }
        match (shown, elsewhere) {
            (Ok(None), Ok(None)) if taken.request.shows_pass() => taken.call_by_pass().await,
            (Ok(None), Ok(None)) => taken.quote().await,
            (Ok(Some(proof)), Ok(None)) => taken.redeem(proof).await,
            // A client that shows a payment in a header has made one, and is not asked for another.
            _ => Ok(Answer::Message(taken.voice.deny(route, ProblemCode::InvalidRedemption))),
        }
    }
}

type Request<B> = http::Request<RequestBody<B>>;

impl<S> Taken<S> {
    /// Answers a call without a payment.
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

    /// Answers a call with a payment.
    async fn redeem<B, ResB>(self, proof: Proof) -> Result<Answer<ResB>, S::Error>
    where
        S: Service<Request<B>, Response = Response<ResB>, Future: Send + 'static> + Send,
        S::Error: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        ResB: Body<Data = Bytes> + Send + 'static,
        ResB::Error: Send,
    {
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
        let (request, tool, voice) = self.into_tool();
        let route = Arc::clone(&request.route);
        let Delivery { outcome, made, paid } = deliver(request, None::<B>, tool, purchase, mark_taken).await;
        let response = match outcome {
            Ok(response) => response,
            Err(unsold) => {
                let rejection = match why(unsold, &route) {
                    Ok(rejection) => rejection,
                    // The server's error would not mention the payment.
                    Err(_) if paid => Problem::after(ProblemCode::AnswerBroken, ASK_AGAIN).into(),
                    Err(error) => return Err(error),
                };
                return Ok(Answer::Message(match paid {
                    true => voice.deny_paid(&route, rejection, made),
                    false => voice.deny(&route, rejection),
                }));
            }
        };
        Ok(told(&voice, response, Made { paid, told: made.as_deref() }, |headers| {
            headers.contains_key(PAYMENT_RESPONSE).then(|| voice.receipt(&route, headers).into_iter().collect())
        })
        .await)
    }

    /// Answers a call that was paid for before, by a pass.
    async fn call_by_pass<B, ResB>(mut self) -> Result<Answer<ResB>, S::Error>
    where
        S: Service<Request<B>, Response = Response<ResB>, Future: Send + 'static> + Send,
        S::Error: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        ResB: Body<Data = Bytes> + Send + 'static,
        ResB::Error: Send,
    {
        let call = match pass::reserve(&self.request).await {
            Ok(PassShown::Call(call)) => call,
            Ok(PassShown::Free | PassShown::Ticket) => return self.serve().await,
            Ok(PassShown::Spent(state)) => {
                self.request.pass_spent = Some(state);
                return self.quote().await;
            }
            Err(rejection) => return Ok(Answer::Message(self.voice.turn_away(&self.request.route, rejection))),
        };
        let (request, tool, voice) = self.into_tool();
        let route = Arc::clone(&request.route);
        let response = match deliver_call(request, None::<B>, tool, *call).await {
            Ok(response) => response,
            Err(unsold) => return Ok(Answer::Message(voice.deny(&route, why(unsold, &route)?))),
        };
        Ok(told(&voice, response, Made::default(), |headers| {
            let left = headers.get(X402_PASS_REMAINING)?.to_str().ok()?;
            Some(vec![(PASS, json!({ "remaining": left }).to_string())])
        })
        .await)
    }

    /// Turns the server behind the layer into the handler of this call.
    fn into_tool(self) -> (PricedRequest, Tool<S>, Voice) {
        let Self { table, request, call, voice, inner, told } = self;
        let merchant = Arc::clone(&request.route.merchant);
        let id = format!("{MARK}{:032x}", rand::random::<u128>());
        let tool = Tool { merchant, inner, call: call.under(&id), id, limit: table.limits.answer, told };
        (request, tool, voice)
    }

    /// Serves the call as if without the layer, except that the payment is removed from it.
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

/// Returns why no answer of the tool leaves.
///
/// # Errors
/// The service's own error, unchanged.
fn why<E>(unsold: Unsold<NoAnswer<E>>, route: &Route) -> Result<Rejection, E> {
    Ok(match unsold {
        Unsold::Rejected(rejection) => rejection,
        Unsold::Failed(NoAnswer::TooLarge) => ProblemCode::AnswerTooLarge.into(),
        Unsold::Failed(NoAnswer::Broken) => Problem::after(ProblemCode::AnswerBroken, ASK_AGAIN).into(),
        Unsold::Failed(NoAnswer::Failed(error)) => {
            metrics::redeemed(&route.resource, "service_failed");
            return Err(error);
        }
    })
}

/// Returns what the tool answered. `sold` returns from the answer's head what to add to its `_meta`, or `None` if it was not sold.
async fn told<ResB: Body<Data = Bytes>>(
    voice: &Voice,
    response: Response<ResponseBody<ResponseBody<ResB>>>,
    made: Made<'_>,
    sold: impl FnOnce(&HeaderMap) -> Option<Vec<(&'static str, String)>>,
) -> Answer<ResB> {
    let Some(answered) = response.extensions().get::<Answered>().copied() else {
        return match made.paid {
            true => failed(voice, response.into_parts().0, made),
            false => Answer::Response(response),
        };
    };
    let (parts, body) = response.into_parts();
    // The body is in memory.
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = || String::from_utf8_lossy(&body);
    Answer::Message(match answered {
        Answered::Error => voice.failed(parts.headers, &text(), made),
        Answered::Result => match sold(&parts.headers) {
            Some(more) => voice.sold(parts.headers, &body, &more),
            None => voice.unsold(parts.headers, &text(), made.told),
        },
    })
}

/// Returns the answer to the client of a settled payment if the server gave none to the call, such as at the end of a session.
fn failed<ResB>(voice: &Voice, parts: Parts, made: Made<'_>) -> Answer<ResB> {
    let Parts { status, mut headers, .. } = parts;
    // These headers describe the body that is replaced.
    let of_body = [
        "content-encoding",
        "content-language",
        "content-range",
        "etag",
        "last-modified",
        "transfer-encoding",
        "trailer",
    ];
    of_body.iter().chain(&DIGESTS).for_each(|name| _ = headers.remove(*name));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    if let Some(made) = made.told {
        mark_made(&mut headers, made);
    }
    let message = format!("The server answered with status {}. {MADE}", status.as_u16());
    let error = json!({ "code": -32603, "message": message });
    Answer::Failed(status, voice.failed(headers, &error.to_string(), made))
}

/// Returns the bill for the call; `None` if it is free.
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

/// Returns the refusal of a payment that bought the call of another tool here, so that its payer is not billed again.
async fn sold_for_another(table: &Table, request: &PricedRequest, proof: &Proof) -> Option<Rejection> {
    let intent = match proof {
        Proof::Payment(payment) => match &payment.accepted {
            PaymentOption::Exact(accepted) => accepted.intent(),
            PaymentOption::UpTo(accepted) => accepted.intent(),
            PaymentOption::Channel(accepted) => accepted.intent(),
            PaymentOption::Other(_) => return None,
        }
        .ok()??,
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

/// Returns what is priced: the tool and its arguments. Its address is the server's host, as clients name it, and the tool.
fn what_is_called(route: &Route, parts: &RequestParts, call: &mut ToolCall) -> Call {
    let host = match &route.merchant.public_url {
        Some(url) => url.split_once("://").map_or(&**url, |(_, rest)| rest).split('/').next(),
        None => host(parts),
    };
    let address = match host.filter(|host| !host.is_empty()) {
        Some(host) => (format!("mcp://{host}"), format!("/tools/{}", call.name)),
        None => ("mcp://tool".to_owned(), format!("/{}", call.name)),
    };
    Call { address, bound: call.bound.clone(), arguments: std::mem::take(&mut call.arguments) }
}
