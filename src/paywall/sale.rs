//! The sale: the handler runs under a lease, and its answer leaves only after its own commit.

use std::{fmt::Write as _, future::poll_fn, pin::pin};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use tower_service::Service;

use super::{
    body::{RequestBody, ResponseBody},
    checkout::Checkout,
    lease::{Committed, Ended, LeaseGuard},
    order::Order,
    respond::{ASK_AGAIN, Problem, is_grpc_failure},
};
use crate::protocol::{
    ProblemCode, Receipt, Transfer,
    headers::{PAYMENT_RESPONSE, PRIVATE_NO_STORE, expose, strip_payment_headers, strip_shared_caching},
};

/// Set by a handler in its response's extensions: whether this very answer is sold, whatever the route's rule says.
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
    body: RequestBody<B>,
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
    let request = Request::from_parts(parts, body);
    let mut inner = checkout.inner;
    let held = &guard;
    // Owns the service: one that waits for readiness keeps its place in the queue no longer than the work lasts.
    let work = async move {
        poll_fn(|cx| inner.poll_ready(cx)).await?;
        held.handler_started();
        inner.call(request).await
    };
    // The handler is gone at the end of this block, however its work ended.
    let ended = {
        let work = pin!(work);
        held.keep(max_hold, work).await
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
        Ended::LeaseLost => return Ok(lost(guard).await.into_response(form)),
    };
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
