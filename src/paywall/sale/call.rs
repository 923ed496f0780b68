//! A call by a pass: the handler runs while a part of the pass is held, and its answer leaves only after the charge.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body::Body;
use tokio::time::Instant;
use tower_service::Service;

use crate::{
    metrics,
    paywall::{
        body::{RequestBody, ResponseBody},
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, ChargeFault, Fault, Problem, Rejection},
        sale::{
            answer::{Answer, read},
            charge::{Said, of_fixed, of_maximum},
            draw::{Charged, DrawGuard},
            ending::{Ending, Unsold},
            handler::{judge, run},
            holder::Holder,
            parts,
        },
        seller::{pass::terms::PassTerms, pricing::Cost},
    },
    protocol::{
        Amount, ProblemCode, Receipt,
        headers::{EXPOSED_BY_PASS, PRIVATE_NO_STORE, X402_PASS_REMAINING, expose_line, strip_shared_caching},
    },
};

/// A held part of a pass, which buys the handler's answer.
pub(crate) struct Call {
    pub(crate) guard: DrawGuard,
    pub(crate) receipt: Receipt,
    pub(crate) pass: Arc<PassTerms>,
    /// What the request costs without a pass.
    pub(crate) cost: Cost,
}

/// Runs the handler, and charges the pass for its answer.
pub(crate) async fn deliver_call<S, B, ResB>(
    request: PricedRequest,
    unread: Option<B>,
    inner: S,
    call: Call,
) -> Result<Response<ResponseBody<ResB>>, Unsold<S::Error>>
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>>,
    B: Body<Data = Bytes>,
    ResB: Body<Data = Bytes>,
{
    let Call { mut guard, receipt, pass, cost } = call;
    let route = Arc::clone(&request.route);
    let digest = parts::digest(&request);
    let mut request = request.into_request(unread);
    request.extensions_mut().insert(receipt);
    parts::ask_for_all(&mut request, &route);
    let late = request.body_mut().watch(route.pace());
    let hold_end = route.consumes_body.as_ref().and_then(|_| Instant::now().checked_add(route.merchant.max_hold));
    // The handler is gone at the end of this statement, however its work ended.
    let outcome = run(request, inner, Holder::Pass(&guard), late.as_deref(), &route).await;
    let ending = judge(outcome, &route, Holder::Pass(&guard));
    let ending = read(ending, &route, Holder::Pass(&guard), hold_end).await;
    let Answer { mut response, said, .. } = match ending {
        Ending::Sale(answer) => answer,
        Ending::NoSale(answer) => {
            guard.release().await;
            if answer.is_ok() {
                metrics::redeemed(&route.resource, "not_sold");
            }
            return answer;
        }
        Ending::LeaseLost => {
            guard.lost();
            return Err(busy().into());
        }
        Ending::Unknown(problem) => return Err(problem.into()),
    };
    let charge = match charge(said, &pass, cost, guard.amount()) {
        Ok(charge) => charge,
        Err(fault) => {
            guard.release().await;
            return Err(Rejection::from(Fault::Charge(fault)).into());
        }
    };
    match guard.charge_part(charge, None).await {
        Charged::Done(left) => {
            tracing::debug!(account = %guard.account(), pass = &*pass.name, resource = &*route.resource, "called by pass");
            metrics::redeemed(&route.resource, "pass");
            let headers = response.headers_mut();
            let left = pass.remaining(left, route.merchant.decimals());
            if let Some(left) = left.and_then(|left| HeaderValue::try_from(left).ok()) {
                headers.insert(X402_PASS_REMAINING, left);
            }
            headers.insert(header::CACHE_CONTROL, PRIVATE_NO_STORE);
            strip_shared_caching(headers);
            expose_line(headers, EXPOSED_BY_PASS);
            parts::tell(headers, digest.filter(|_| !charge.is_zero()), &route);
            Ok(response)
        }
        Charged::LeaseLost => {
            tracing::warn!(account = %guard.account(), "lease lost; the answer is withheld");
            guard.lost();
            Err(busy().into())
        }
        Charged::Unknown => {
            tracing::error!(account = %guard.account(), "whether the call was charged is not known");
            guard.release().await;
            Err(unknown().into())
        }
    }
}

/// Returns what a call spends of the held part. From a pass that holds an amount, that is the handler's charge.
fn charge(said: Said, pass: &PassTerms, cost: Cost, held: Amount) -> Result<Amount, ChargeFault> {
    match pass.is_charged(cost) {
        true => of_maximum(said, held),
        false => of_fixed(said, cost, cost.amount).map(|()| held),
    }
}

/// The amounts that other calls hold may be given back.
fn busy() -> Problem {
    Problem::after(ProblemCode::PassBusy, ASK_AGAIN)
}

fn unknown() -> Problem {
    let detail = "Whether this call was charged to the pass is not known; X402-Pass-Remaining of the next answer tells. Ask again after Retry-After.";
    Problem { detail: Some(detail), ..Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN) }
}
