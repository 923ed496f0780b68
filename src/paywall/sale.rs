//! The sale: the handler runs under a lease, and its answer leaves only after its own commit.

use std::{
    fmt::Write as _,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use tower_service::Service;

use super::{
    body::{RequestBody, ResponseBody},
    checkout::Checkout,
    lease::{Committed, Ended, LeaseGuard},
    nested,
    order::Order,
    respond::{ASK_AGAIN, Problem, is_grpc_failure},
};
use crate::protocol::{
    ProblemCode, Receipt, Transfer,
    headers::{PAYMENT_RESPONSE, PRIVATE_NO_STORE, expose, strip_payment_headers, strip_shared_caching},
};

/// Set by a handler in its response's extensions: whether this very answer is sold, whatever the route's rule says.
///
/// It reaches the layer only if every layer in between hands the response's extensions on. One that builds a response anew
/// from status and body, as a cache does, drops it, and then the route's rule decides.
///
/// ```
/// use http::Response;
/// use tower_x402::Consumption;
///
/// let mut nothing_found = Response::new("no results; you keep your payment");
/// nothing_found.extensions_mut().insert(Consumption::Keep);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumption {
    /// It is sold: intent and payment are consumed.
    Consume,
    /// It is given away: intent and payment stay good.
    ///
    /// The handler ran, so it counts as an attempt like a failure: after 16 of them for one intent and payment the layer answers
    /// 429 `too_many_attempts` for a while. A handler that gives away on purpose, more often than that, belongs behind
    /// [`free_when`](crate::X402Layer::free_when).
    Keep,
}

/// Whether an answer with this head is sold, unless the route has a rule of its own.
pub(crate) fn delivers(status: StatusCode, headers: &HeaderMap) -> bool {
    let by_status = status == StatusCode::SWITCHING_PROTOCOLS
        || status.is_success()
        || status.is_redirection() && status != StatusCode::NOT_MODIFIED;
    by_status && !is_grpc_failure(headers)
}

/// Runs the handler and sells its answer.
pub(crate) async fn sell<S, B, ResB>(
    mut checkout: Checkout<S>,
    mut body: RequestBody<B>,
    mut guard: LeaseGuard,
    receipt: Receipt,
) -> Result<Response<ResponseBody<ResB>>, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>>,
    B: Body<Data = Bytes>,
{
    let max_hold = checkout.order.route.merchant.max_hold;
    let form = checkout.order.form();
    checkout.order.parts.extensions.insert(receipt);
    let Order { route, mut parts, .. } = checkout.order;
    if !route.keep_ranges {
        // What is sold is the whole answer: a part of it would cost as much.
        parts.headers.remove(header::RANGE);
        parts.headers.remove(header::IF_RANGE);
    }
    let late = body.watch(route.pace());
    let request = Request::from_parts(parts, body);
    let mut inner = checkout.inner;
    let held = &guard;
    // Owns the service: one that waits for readiness keeps its place in the queue no longer than the work lasts.
    let work = async move {
        poll_fn(|cx| inner.poll_ready(cx)).await?;
        held.handler_started();
        let answer = pin!(inner.call(request));
        reached(answer, || held.handler_not_reached()).await
    };
    // The handler is gone at the end of this block, however its work ended.
    let ended = {
        let work = pin!(work);
        held.keep(max_hold, late.as_deref(), work).await
    };
    let mut response = match ended {
        Ended::Finished(Ok(response)) => response,
        Ended::Finished(Err(error)) => {
            guard.release().await;
            return Err(error);
        }
        Ended::HeldTooLong => {
            guard.release().await;
            return Ok(Problem::from(ProblemCode::AnswerTimeout).into_response(form));
        }
        Ended::BodyLate => {
            guard.release().await;
            return Ok(Problem::from(ProblemCode::BodyTimeout).into_response(form));
        }
        Ended::LeaseLost => return Ok(lost(guard).await.into_response(form)),
    };
    if nested::is_marked(response.extensions()) {
        tracing::error!(
            resource = &*route.resource,
            "a price inside this one refused a request that was paid for here; nothing is taken, and no further quote is given"
        );
        route.nested.remember();
        guard.handler_not_reached();
        guard.release().await;
        return Ok(response.map(ResponseBody::streaming));
    }
    if response.status() == StatusCode::PAYMENT_REQUIRED {
        guard.release().await;
        return Ok(Problem::from(ProblemCode::UpstreamPaymentRequired).into_response(form));
    }
    strip_payment_headers(response.headers_mut());
    let consumes = match response.extensions_mut().remove::<Consumption>() {
        Some(consumption) => consumption == Consumption::Consume,
        None => route.consumes(response.status(), response.headers()),
    };
    if !consumes {
        tracing::debug!(payment = %guard.transfer().key(), status = response.status().as_u16(), "not sold");
        guard.release().await;
        return Ok(response.map(ResponseBody::streaming));
    }
    match guard.commit().await {
        Committed::Done => {
            let paid = guard.transfer();
            tracing::info!(payment = %paid.key(), payer = ?paid.payer, amount = %paid.amount, "sold");
            mark_sold(response.headers_mut(), paid);
            Ok(response.map(ResponseBody::streaming))
        }
        Committed::LeaseLost => Ok(lost(guard).await.into_response(form)),
        Committed::Unknown => {
            tracing::error!(payment = %guard.transfer().key(), "whether the sale was recorded is not known");
            guard.release().await;
            Ok(Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN).into_response(form))
        }
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

/// Another holds the pair now, or sold it already: this answer must not leave.
async fn lost(guard: LeaseGuard) -> Problem {
    tracing::warn!(payment = %guard.transfer().key(), "lease lost; the answer is withheld");
    if guard.lost().await {
        ProblemCode::AlreadyConsumed.into()
    } else {
        Problem::after(ProblemCode::RedemptionInProgress, ASK_AGAIN)
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
