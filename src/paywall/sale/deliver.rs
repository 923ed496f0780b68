//! Delivery: the handler runs under a lease, and its answer leaves only after its own commit.

use std::{
    fmt::Write as _,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body::Body;
use tokio::{sync::Notify, time::Instant};
use tower_service::Service;

use crate::{
    ledger::RenewOutcome,
    metrics,
    paywall::{
        body::{RequestBody, ResponseBody},
        door::{format::ReplyFormat, refuse::write},
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection, Requote},
        sale::{
            answer::{Answer, Candidate, read},
            ending::{Ending, Unsold},
            kept::{Shown, keep, sold_before},
            recording::commit,
            reservation::{Committed, HoldOutcome, LeaseGuard},
        },
        seller::{
            consumption::{ByHead, by_head},
            nested,
            route::Route,
        },
        way::{
            Purchase,
            authorization::{
                judgement::{self, Conclusion, Settled},
                unsettled::{SETTLE_AND_CONFIRM, Unsettled},
            },
        },
    },
    protocol::{
        ProblemCode, Transfer, base64_header,
        headers::{PAYMENT_RESPONSE, PRIVATE_NO_STORE, expose, strip_payment_headers, strip_shared_caching},
    },
};

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
    let Purchase { mut guard, mut receipt, unsettled } = purchase;
    let (route, format) = (Arc::clone(&request.route), ReplyFormat::of_request(&request));
    let mut made = None;
    if let Some(pending) = unsettled.as_deref().filter(|_| route.settle_first) {
        let (unsettled, requote) = pending;
        // Boxed: it is large, and most payments are settled already.
        match Box::pin(settle(Ending::Sale(()), unsettled, requote, &mut guard)).await.split() {
            Ok(()) => {
                receipt = receipt.settled_by(guard.transfer().clone());
                made = Some(unsettled.pending(Some(guard.transfer().transaction)));
            }
            Err(ending) => return answer(conclude(ending, guard, Some(unsettled), &route).await, format, &route),
        }
    }
    let mut request = request.into_request(unread);
    request.extensions_mut().insert(receipt);
    if !route.keep_ranges {
        // What is sold is the whole answer: a part of it would cost as much.
        request.headers_mut().remove(header::RANGE);
        request.headers_mut().remove(header::IF_RANGE);
    }
    let late = request.body_mut().watch(route.pace());
    let hold_end = Instant::now().checked_add(route.merchant.max_hold);
    // The handler is gone at the end of this statement, however its work ended.
    let outcome = run(request, inner, &guard, late.as_deref(), &route).await;
    let mut ending = read(judge(outcome, &route, &guard), &route, &guard, hold_end).await;
    if let Some((unsettled, requote)) = unsettled.as_deref().filter(|_| made.is_none()) {
        ending = Box::pin(settle(ending, unsettled, requote, &mut guard)).await;
    }
    let concluded = conclude(ending, guard, unsettled.as_deref().map(|(unsettled, _)| unsettled), &route).await;
    let mut response = answer(concluded, format, &route)?;
    if let Some(made) = made.filter(|_| !response.headers().contains_key(PAYMENT_RESPONSE)) {
        response.headers_mut().insert(PAYMENT_RESPONSE, made.to_header());
        expose(response.headers_mut());
    }
    Ok(response)
}

/// What leaves, once the lease has ended.
fn answer<ResB, E>(
    concluded: Result<Response<ResponseBody<ResB>>, Unsold<E>>,
    format: ReplyFormat,
    route: &Route,
) -> Result<Response<ResponseBody<ResB>>, E> {
    match concluded {
        Ok(response) => Ok(response),
        Err(Unsold::Rejected(rejection)) => {
            metrics::redeemed(&route.resource, rejection.outcome());
            Ok(write(rejection, format, &route.resource))
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
        guard.handler_not_reached();
        return Ending::NoSale(Ok(response.map(ResponseBody::streaming)));
    }
    if response.status() == StatusCode::PAYMENT_REQUIRED {
        return Ending::NoSale(Err(ProblemCode::UpstreamPaymentRequired.into()));
    }
    strip_payment_headers(response.headers_mut());
    match by_head(&mut response, &*route.consumes, route.consumes_body.as_ref()) {
        ByHead::Sold => Ending::Sale(Candidate { response, asks_body: false }),
        ByHead::AskBody => Ending::Sale(Candidate { response, asks_body: true }),
        ByHead::NotSold => {
            tracing::debug!(payment = %guard.transfer().payment_id(), status = response.status().as_u16(), "not sold");
            Ending::NoSale(Ok(response.map(ResponseBody::streaming)))
        }
    }
}

/// Settles the payment of an answer that is to be sold, while the lease is held.
async fn settle<A, ResB, E>(
    ending: Ending<A, ResB, E>,
    unsettled: &Unsettled,
    requote: &Requote,
    guard: &mut LeaseGuard,
) -> Ending<A, ResB, E> {
    let Ending::Sale(answer) = ending else { return ending };
    match guard.begin_settling(unsettled.begun()).await {
        Ok(RenewOutcome::Held) => {}
        Ok(RenewOutcome::LeaseLost) => return Ending::LeaseLost,
        // What an earlier holder sent may still be mined.
        Err(_) if guard.begun().is_some() => return Ending::Unknown(unsettled.outcome_unknown(None)),
        Err(_) => {
            guard.is_not_settled().await;
            return Ending::NoSale(Err(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN).into()));
        }
    }
    let recorder = guard.recorder(unsettled.begun());
    let settled = match guard.keep(SETTLE_AND_CONFIRM, None, pin!(unsettled.settle(&recorder))).await {
        HoldOutcome::Finished(settled) => settled,
        HoldOutcome::LeaseLost => return Ending::LeaseLost,
        HoldOutcome::HeldTooLong | HoldOutcome::BodyLate => Settled::Unknown(None),
    };
    // The signature is public once it is sent, also where that failed: whoever reads the chain can send it again.
    let begun = guard.begun_by_now(unsettled.begun());
    match judgement::conclude(settled, &unsettled.case(begun.as_ref()), unsettled.head()) {
        Conclusion::Sell(transfer) => {
            guard.paid_by(transfer);
            Ending::Sale(answer)
        }
        Conclusion::Prove(transaction) => {
            guard.is_not_settled().await;
            Ending::NoSale(Err(unsettled.to_prove(transaction).into()))
        }
        Conclusion::Refuse(reason) => match guard.is_not_settled().await {
            true => Ending::NoSale(Err(requote.clone().refuse(reason, Some(unsettled.payer())).into())),
            false => Ending::LeaseLost,
        },
        Conclusion::Unknown(transaction) => {
            tracing::error!(payment = %unsettled.payment_id(), "whether the payment is settled is not known");
            Ending::Unknown(unsettled.outcome_unknown(transaction))
        }
    }
}

/// Ends the lease, and only then lets the answer leave.
async fn conclude<ResB, E>(
    ending: Ending<Answer<ResB>, ResB, E>,
    guard: LeaseGuard,
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
        Ending::LeaseLost => return Err(withheld(guard, unsettled, route).await.into()),
        Ending::Unknown(problem) => return Err(problem.into()),
    };
    let paid = guard.transfer();
    mark_sold(response.headers_mut(), paid);
    let kept = kept.map(|(redelivery, body)| keep(&redelivery, paid, response.status(), response.headers(), &body));
    let unknown = |taken| match unsettled {
        Some(unsettled) => unsettled.outcome_unknown(Some(taken)),
        None => Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN),
    };
    let taken = paid.transaction;
    let Some((committed, guard)) = commit(guard, kept, route).await else { return Err(unknown(taken).into()) };
    match committed {
        Committed::Done => {
            let paid = guard.transfer();
            // What a restored ledger has to be told of it: `LoggedSale`.
            tracing::info!(
                payment = %paid.payment_id(), intent = %const_hex::encode(guard.intent().as_bytes()), resource = &*route.resource, payer = ?paid.payer, amount = %paid.amount,
                "sold"
            );
            count(route, paid);
            Ok(response)
        }
        Committed::LeaseLost => Err(withheld(guard, unsettled, route).await.into()),
        Committed::Unknown => {
            tracing::error!(payment = %guard.transfer().payment_id(), "whether the sale was recorded is not known");
            guard.release().await;
            Err(unknown(taken).into())
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
async fn withheld(guard: LeaseGuard, unsettled: Option<&Unsettled>, route: &Route) -> Rejection {
    tracing::warn!(payment = %guard.transfer().payment_id(), "lease lost; the answer is withheld");
    let paid = guard.transfer();
    let shown = unsettled.map_or(Shown::Transaction(paid.transaction), Unsettled::shown);
    match guard.lost().await {
        Some(sale) => sold_before(sale, shown, route.redelivery().is_some()),
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
    headers.insert(PAYMENT_RESPONSE, base64_header(taken.as_bytes()));
    headers.insert(header::CACHE_CONTROL, PRIVATE_NO_STORE);
    strip_shared_caching(headers);
    expose(headers);
}
