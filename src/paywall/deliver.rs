//! Delivery: the handler runs under a lease, and its answer leaves only after its own commit.

use std::{
    fmt::Write as _,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, response::Parts};
use http_body::Body;
use tokio::sync::Notify;
use tower_service::Service;

use super::{
    body::{RequestBody, ResponseBody},
    consumption::is_sold,
    nested,
    priced_request::PricedRequest,
    problem::{ASK_AGAIN, Problem, Rejection},
    quote::Requote,
    read_ahead::{Read, ReadAhead},
    redeem::Purchase,
    redelivery::{Redelivery, Shown},
    reservation::{Committed, HoldOutcome, LeaseGuard},
    route::Route,
    settlement::{SETTLE_AND_CONFIRM, Settled, Unsettled},
};
use crate::{
    metrics,
    protocol::{
        ProblemCode, Transfer,
        headers::{PAYMENT_RESPONSE, PRIVATE_NO_STORE, expose, strip_payment_headers, strip_shared_caching},
        v2::Reason,
    },
};

/// How long an answer that is to be kept may take to its end. One that takes longer is sold unkept: it is not kept waiting.
const READ_AHEAD: Duration = Duration::from_secs(10);

/// What becomes of the lease once the handler is done.
enum Ending<A, ResB, E> {
    /// It is committed, and only then does this answer leave.
    Sale(A),
    /// It is released, and this is the answer.
    NoSale(Result<Response<ResponseBody<ResB>>, Unsold<E>>),
    /// It belongs to another request: there is nothing to release.
    LeaseLost,
    /// The payment may be settled: the lease is left to run out, and its own intent goes on.
    Unknown(Problem),
}

/// An answer that is to be sold.
struct Answer<ResB> {
    response: Response<ResponseBody<ResB>>,
    /// What is kept of it: its body, and how.
    kept: Option<(Redelivery, Bytes)>,
}

/// Why no answer of the handler's leaves.
enum Unsold<E> {
    Rejected(Rejection),
    /// The service's own error, handed on as it is.
    Failed(E),
}

impl<E, R: Into<Rejection>> From<R> for Unsold<E> {
    fn from(rejection: R) -> Self {
        Self::Rejected(rejection.into())
    }
}

/// Runs the handler and sells its answer.
pub(crate) async fn deliver<S, B, ResB>(
    request: PricedRequest,
    unread: Option<B>,
    inner: S,
    purchase: Purchase,
) -> Result<Response<ResponseBody<ResB>>, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>>,
    B: Body<Data = Bytes>,
    ResB: Body<Data = Bytes>,
{
    let Purchase { mut guard, receipt, unsettled } = purchase;
    let (route, format) = (Arc::clone(&request.route), request.format());
    let mut request = request.into_request(unread);
    request.extensions_mut().insert(receipt);
    if !route.keep_ranges {
        // What is sold is the whole answer: a part of it would cost as much.
        request.headers_mut().remove(header::RANGE);
        request.headers_mut().remove(header::IF_RANGE);
    }
    let late = request.body_mut().watch(route.pace());
    // The handler is gone at the end of this statement, however its work ended.
    let outcome = run(request, inner, &guard, late.as_deref(), &route).await;
    let mut ending = read_ahead(judge(outcome, &route, &guard), &route, &guard).await;
    if let Some(pending) = &unsettled {
        let (unsettled, requote) = &**pending;
        // Boxed: it is large, and most payments are settled already.
        ending = Box::pin(settle(ending, unsettled, requote, &mut guard)).await;
    }
    match conclude(ending, guard, unsettled.as_deref().map(|(unsettled, _)| unsettled), &route).await {
        Ok(response) => Ok(response),
        Err(Unsold::Rejected(rejection)) => {
            metrics::redeemed(&route.resource, rejection.outcome());
            Ok(rejection.into_response(format, &route.resource))
        }
        Err(Unsold::Failed(error)) => {
            metrics::redeemed(&route.resource, "service_failed");
            Err(error)
        }
    }
}

/// Runs the handler while the lease is held.
async fn run<S, B, ResB>(
    request: Request<RequestBody<B>>,
    mut inner: S,
    guard: &LeaseGuard,
    late: Option<&Notify>,
    route: &Route,
) -> HoldOutcome<Result<Response<ResB>, S::Error>>
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>>,
{
    // Owns the service: one that waits for readiness keeps its place in the queue no longer than the work lasts.
    let work = async move {
        poll_fn(|cx| inner.poll_ready(cx)).await?;
        guard.handler_started();
        let answer = pin!(metrics::handler(&route.resource, inner.call(request)));
        reached(answer, || guard.handler_not_reached()).await
    };
    let work = pin!(work);
    guard.keep(route.merchant.max_hold, late, work).await
}

/// Decides whether what the handler answered is sold.
fn judge<ResB, E>(
    outcome: HoldOutcome<Result<Response<ResB>, E>>,
    route: &Route,
    guard: &LeaseGuard,
) -> Ending<Response<ResB>, ResB, E> {
    let mut response = match outcome {
        HoldOutcome::Finished(Ok(response)) => response,
        HoldOutcome::Finished(Err(error)) => return Ending::NoSale(Err(Unsold::Failed(error))),
        HoldOutcome::HeldTooLong => return Ending::NoSale(Err(ProblemCode::AnswerTimeout.into())),
        HoldOutcome::BodyLate => return Ending::NoSale(Err(ProblemCode::BodyTimeout.into())),
        HoldOutcome::LeaseLost => return Ending::LeaseLost,
    };
    if nested::is_marked(response.extensions()) {
        tracing::error!(
            resource = &*route.resource,
            "a price inside this one refused a request that was paid for here; nothing is taken, and no further quote is given"
        );
        route.nested.remember();
        guard.handler_not_reached();
        return Ending::NoSale(Ok(response.map(ResponseBody::streaming)));
    }
    if response.status() == StatusCode::PAYMENT_REQUIRED {
        return Ending::NoSale(Err(ProblemCode::UpstreamPaymentRequired.into()));
    }
    strip_payment_headers(response.headers_mut());
    if is_sold(&mut response, &*route.consumes) {
        return Ending::Sale(response);
    }
    tracing::debug!(payment = %guard.transfer().payment_id(), status = response.status().as_u16(), "not sold");
    Ending::NoSale(Ok(response.map(ResponseBody::streaming)))
}

/// Reads an answer to its end that is to be kept, while the lease is held.
async fn read_ahead<ResB, E>(
    ending: Ending<Response<ResB>, ResB, E>,
    route: &Route,
    guard: &LeaseGuard,
) -> Ending<Answer<ResB>, ResB, E>
where
    ResB: Body<Data = Bytes>,
{
    let response = match ending {
        Ending::Sale(response) => response,
        Ending::NoSale(answer) => return Ending::NoSale(answer),
        Ending::LeaseLost => return Ending::LeaseLost,
        Ending::Unknown(problem) => return Ending::Unknown(problem),
    };
    let redelivery = match route.redelivery {
        // What follows a switch of protocols is no answer.
        Some(redelivery) if response.status() != StatusCode::SWITCHING_PROTOCOLS && !is_stream(&response) => redelivery,
        _ => return Ending::Sale(Answer { response: response.map(ResponseBody::streaming), kept: None }),
    };
    let (parts, body) = response.into_parts();
    let mut ahead = ReadAhead::new(body, redelivery.limit());
    let patience = READ_AHEAD.min(route.merchant.max_hold);
    if let HoldOutcome::LeaseLost = guard.keep(patience, None, pin!(ahead.read())).await {
        return Ending::LeaseLost;
    }
    let (body, kept) = match ahead.finish() {
        Read::Whole(data) if has_its_length(&parts, &data) => {
            (ResponseBody::whole(data.clone()), Some((redelivery, data)))
        }
        Read::Part(body) => (body, None),
        Read::Whole(_) | Read::Broken => {
            tracing::warn!(resource = &*route.resource, "the answer broke off before it was sold; nothing is taken");
            return Ending::NoSale(Err(Problem::after(ProblemCode::AnswerBroken, ASK_AGAIN).into()));
        }
    };
    Ending::Sale(Answer { response: Response::from_parts(parts, body), kept })
}

/// Whether an answer comes bit by bit by its nature, or ends in trailers: it cannot be kept, and must not be waited for.
fn is_stream<B>(response: &Response<B>) -> bool {
    let content_type = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let begins =
        |name: &str| content_type.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()));
    begins("application/grpc") || begins("text/event-stream")
}

/// Whether a body is as long as its head announces: one that is not could never be received, however often it is delivered.
fn has_its_length(head: &Parts, body: &Bytes) -> bool {
    let announced = head.headers.get(header::CONTENT_LENGTH);
    let announced = announced.map(|length| length.to_str().ok().and_then(|length| length.parse().ok()));
    // A 304 announces what it does not send.
    announced.is_none_or(|length| length == Some(body.len())) || head.status == StatusCode::NOT_MODIFIED
}

/// Settles the payment of an answer that is to be sold, while the lease is held.
async fn settle<ResB, E>(
    ending: Ending<Answer<ResB>, ResB, E>,
    unsettled: &Unsettled,
    requote: &Requote,
    guard: &mut LeaseGuard,
) -> Ending<Answer<ResB>, ResB, E> {
    let Ending::Sale(answer) = ending else { return ending };
    guard.may_be_settled();
    let settled = match guard.keep(SETTLE_AND_CONFIRM, None, pin!(unsettled.settle())).await {
        HoldOutcome::Finished(settled) => settled,
        HoldOutcome::LeaseLost => return Ending::LeaseLost,
        HoldOutcome::HeldTooLong | HoldOutcome::BodyLate => Settled::Unknown(None),
    };
    match settled {
        // By none of its holders.
        Settled::Done(transfer) if unsettled.was_settled_before(&transfer, guard.resumed_since()) => {
            guard.is_not_settled();
            Ending::NoSale(Err(unsettled.to_prove(transfer.transaction).into()))
        }
        Settled::Done(transfer) => {
            guard.paid_by(transfer);
            Ending::Sale(answer)
        }
        Settled::Spent if unsettled.searched_long_enough() => {
            guard.is_not_settled();
            Ending::NoSale(Err(requote.refuse(Reason::INVALID_TRANSACTION_STATE, unsettled).into()))
        }
        // What an earlier holder sent may still be mined.
        Settled::Refused(reason) if !guard.is_resumed() => {
            guard.is_not_settled();
            Ending::NoSale(Err(requote.refuse(reason, unsettled).into()))
        }
        Settled::Refused(_) | Settled::Spent => Ending::Unknown(unsettled.outcome_unknown(None)),
        Settled::Unknown(transaction) => {
            tracing::error!(payment = %unsettled.payment_id(), "whether the payment is settled is not known");
            Ending::Unknown(unsettled.outcome_unknown(transaction))
        }
    }
}

/// Ends the lease, and only then lets the answer leave.
async fn conclude<ResB, E>(
    ending: Ending<Answer<ResB>, ResB, E>,
    mut guard: LeaseGuard,
    unsettled: Option<&Unsettled>,
    route: &Route,
) -> Result<Response<ResponseBody<ResB>>, Unsold<E>> {
    let Answer { mut response, kept } = match ending {
        Ending::Sale(answer) => answer,
        Ending::NoSale(answer) => {
            guard.release().await;
            if answer.is_ok() {
                metrics::redeemed(&route.resource, "not_sold");
            }
            return answer;
        }
        Ending::LeaseLost => return Err(withheld(guard).await.into()),
        Ending::Unknown(problem) => return Err(problem.into()),
    };
    let paid = guard.transfer();
    mark_sold(response.headers_mut(), paid);
    let kept = kept.map(|(redelivery, body)| redelivery.keep(paid, response.status(), response.headers(), &body));
    match guard.commit(kept.as_ref()).await {
        Committed::Done => {
            let paid = guard.transfer();
            tracing::info!(payment = %paid.payment_id(), payer = ?paid.payer, amount = %paid.amount, "sold");
            count(route, paid);
            Ok(response)
        }
        Committed::LeaseLost => Err(withheld(guard).await.into()),
        Committed::Unknown => {
            tracing::error!(payment = %guard.transfer().payment_id(), "whether the sale was recorded is not known");
            let taken = guard.transfer().transaction;
            guard.release().await;
            Err(match unsettled {
                Some(unsettled) => unsettled.outcome_unknown(Some(taken)),
                None => Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN),
            }
            .into())
        }
    }
}

/// Counts a sale.
fn count(route: &Route, paid: &Transfer) {
    metrics::sold(&route.resource, &paid.token, || paid.amount.saturating_to_u64());
    // Where nothing reads the chain, nobody knows the block.
    if let Some(merchant) = Some(&route.merchant).filter(|merchant| merchant.chain().is_some()) {
        metrics::answered_after(&route.resource, || merchant.clock.unix().saturating_sub(paid.block_time.unix()));
    }
}

/// Runs what was called, and tells where it failed before it reached the handler: an error at once, with nothing waited for, as
/// a `LoadShed` answers. A handler that got anywhere waited for something first, so its failures count.
async fn reached<F, R, E>(mut answer: Pin<&mut F>, not: impl FnOnce()) -> Result<R, E>
where
    F: Future<Output = Result<R, E>>,
{
    let mut not = Some(not);
    poll_fn(|cx| {
        let polled = answer.as_mut().poll(cx);
        // The first time only.
        if let (Poll::Ready(Err(_)), Some(not)) = (&polled, not.take()) {
            not();
        }
        polled
    })
    .await
}

/// Another request holds the pair now, or sold it already: this answer must not leave. What was sold may be kept.
async fn withheld(guard: LeaseGuard) -> Rejection {
    tracing::warn!(payment = %guard.transfer().payment_id(), "lease lost; the answer is withheld");
    let paid = guard.transfer();
    let shown = match paid.is_settled() {
        true => Shown::Transaction(paid.transaction),
        false => Shown::Authorization(paid.payment_id()),
    };
    match guard.lost().await {
        Some(sale) => Rejection::sold_before(sale, shown),
        None => Problem::after(ProblemCode::RedemptionInProgress, ASK_AGAIN).into(),
    }
}

/// Tells the payer what was taken.
fn mark_sold(headers: &mut HeaderMap, paid: &Transfer) {
    let mut taken = String::with_capacity(256);
    // Writing to a String cannot fail.
    let _ = write!(
        taken,
        r#"{{"success":true,"transaction":"{}","network":"{}","payer":"{:x}","amount":"{}"}}"#,
        paid.transaction, paid.network, paid.payer, paid.amount,
    );
    // Base64 is a header value; the fall-back cannot be reached.
    let taken = HeaderValue::try_from(STANDARD.encode(taken)).unwrap_or(HeaderValue::from_static(""));
    headers.insert(PAYMENT_RESPONSE, taken);
    headers.insert(header::CACHE_CONTROL, PRIVATE_NO_STORE);
    strip_shared_caching(headers);
    expose(headers);
}
