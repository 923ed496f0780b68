//! Runs the handler under a lease, and decides whether its answer is sold.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
};

use http::{Request, Response, StatusCode};
use tokio::sync::Notify;
use tower_service::Service;

use crate::{
    metrics,
    paywall::{
        body::{RequestBody, ResponseBody},
        sale::{
            answer::Candidate,
            charge::said,
            ending::{Ending, Unsold},
            holder::Holder,
            upkeep::HoldOutcome,
        },
        seller::{
            consumption::{ByHead, by_head},
            nested,
            route::Route,
        },
    },
    protocol::{ProblemCode, headers::strip_payment_headers},
};

/// Runs the handler while the lease is held.
pub(crate) async fn run<S, B, ResB>(
    request: Request<RequestBody<B>>,
    mut inner: S,
    holder: Holder<'_>,
    late: Option<&Notify>,
    route: &Route,
) -> HoldOutcome<Result<Response<ResB>, S::Error>>
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>>,
{
    // The future owns the service: a service that waits for readiness keeps its place in the queue no longer than the work lasts.
    let work = async move {
        poll_fn(|cx| inner.poll_ready(cx)).await?;
        holder.handler_started();
        let answer = pin!(metrics::handler(&route.resource, inner.call(request)));
        reached(answer, || holder.handler_not_reached()).await
    };
    let work = pin!(work);
    holder.keep(route.merchant.max_hold, late, work).await
}

/// Decides whether the handler's answer is sold.
pub(crate) fn judge<ResB, E>(
    outcome: HoldOutcome<Result<Response<ResB>, E>>,
    route: &Route,
    holder: Holder<'_>,
) -> Ending<Candidate<ResB>, ResB, E> {
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
        holder.handler_not_reached();
        return Ending::NoSale(Ok(response.map(ResponseBody::streaming)));
    }
    if response.status() == StatusCode::PAYMENT_REQUIRED {
        return Ending::NoSale(Err(ProblemCode::UpstreamPaymentRequired.into()));
    }
    let said = said(&mut response, route);
    strip_payment_headers(response.headers_mut());
    match by_head(&mut response, &*route.consumes, route.consumes_body.as_ref()) {
        ByHead::Sold => Ending::Sale(Candidate { response, said, asks_body: false }),
        ByHead::AskBody => Ending::Sale(Candidate { response, said, asks_body: true }),
        ByHead::NotSold => {
            tracing::debug!(payment = %holder, status = response.status().as_u16(), "not sold");
            Ending::NoSale(Ok(response.map(ResponseBody::streaming)))
        }
    }
}

/// Runs the call, and calls `not` if it failed before it reached the handler. That is an immediate error without any wait, such as a
/// `LoadShed`'s. A handler that ran has waited for something first, so its failures count.
async fn reached<F, R, E>(mut answer: Pin<&mut F>, not: impl FnOnce()) -> Result<R, E>
where
    F: Future<Output = Result<R, E>>,
{
    let mut not = Some(not);
    poll_fn(|cx| {
        let polled = answer.as_mut().poll(cx);
        // Only the first poll counts.
        if let (Poll::Ready(Err(_)), Some(not)) = (&polled, not.take()) {
            not();
        }
        polled
    })
    .await
}
