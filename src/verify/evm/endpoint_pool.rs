//! `EndpointPool`: one question, several endpoints. The first is asked, and the others as well if it is slow, fails, or
//! gives an answer that decides nothing alone (`null`).

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{sleep, timeout};

use super::{
    endpoint::{Due, Endpoint, Round},
    endpoint_check::EndpointCheck,
    pool_answer::{NoAnswer, PoolAnswer, Whom},
};
use crate::{
    clock::Clock,
    evm::json_rpc::{Fault, Transport},
    metrics,
    verify::{VerifyError, VerifyErrorKind},
};

/// How long an endpoint that replaced another stays the first choice.
const LEAD_LASTS: Duration = Duration::from_secs(60);

pub(super) struct EndpointPool {
    pub(super) endpoints: Vec<Arc<Endpoint>>,
    pub(super) check: EndpointCheck,
    pub(super) call_timeout: Duration,
    pub(super) clock: Arc<dyn Clock>,
    /// The endpoint to ask first, and until when.
    lead: Mutex<(usize, Duration)>,
}

/// A question on its way to an endpoint, with the parsing of its answer.
pub(super) type Asking<'a, T> = BoxFuture<'a, Result<T, Fault>>;
type Call<'a, T> = BoxFuture<'a, Called<'a, T>>;

/// An endpoint's answer, and the round in which it was asked.
struct Called<'a, T> {
    endpoint: &'a Endpoint,
    round: Round,
    answer: Result<T, Fault>,
}

impl fmt::Debug for EndpointPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointPool").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

impl EndpointPool {
    pub(super) fn new(
        endpoints: Vec<Arc<Endpoint>>,
        check: EndpointCheck,
        call_timeout: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { endpoints, check, call_timeout, clock, lead: Mutex::new((0, Duration::ZERO)) }
    }

    /// Asks one endpoint, then the others as needed, until an answer decides or no endpoint is left.
    pub(super) async fn ask_each<'a, T: Send + 'a>(
        &'a self,
        what: &'static str,
        whom: Whom,
        ask: impl Fn(&'a Transport) -> Asking<'a, T> + Send + Sync,
        settles: impl Fn(usize, &T) -> bool + Send + Sync,
    ) -> Result<PoolAnswer<T>, NoAnswer> {
        let mut others = self.order(whom).map_err(|error| NoAnswer { error, unusable: false })?.into_iter();
        let mut calls: FuturesUnordered<Call<'a, T>> = FuturesUnordered::new();
        calls.extend(others.next().map(|first| self.call(first, ask(&first.transport))));
        let (mut doubtful, mut unusable) = (Vec::new(), false);
        loop {
            let Called { endpoint, round, answer } = tokio::select! {
                called = calls.next() => match called {
                    Some(called) => called,
                    None => break,
                },
                () = sleep(self.call_timeout / 5), if others.len() > 0 => {
                    calls.extend(others.next().map(|next| self.call(next, ask(&next.transport))));
                    continue;
                }
            };
            self.note(endpoint, round, answer.as_ref().err().copied());
            match answer {
                Ok(answer) if settles(endpoint.index, &answer) => {
                    self.lead_by(endpoint.index);
                    return Ok(PoolAnswer::Decided(endpoint.index, answer));
                }
                Ok(answer) => {
                    doubtful.push((endpoint.index, answer));
                    calls.extend(others.by_ref().map(|next| self.call(next, ask(&next.transport))));
                }
                Err(fault) => {
                    tracing::debug!(endpoint = endpoint.index, what, ?fault, "no usable answer");
                    // An endpoint that is down has no vote; one that is up and gave no usable answer has not agreed.
                    unusable |= !fault.is_of_the_endpoint();
                    calls.extend(others.next().map(|next| self.call(next, ask(&next.transport))));
                }
            }
        }
        if unusable || doubtful.is_empty() {
            return Err(NoAnswer { error: self.no_answer(), unusable });
        }
        Ok(PoolAnswer::Doubtful(doubtful))
    }

    /// Updates the endpoint's state after a call.
    fn note(&self, endpoint: &Endpoint, round: Round, fault: Option<Fault>) {
        if fault.is_some() {
            metrics::rpc_failure(endpoint.index);
        }
        match fault {
            None => endpoint.answered(round),
            Some(fault) if fault.is_of_the_endpoint() => {
                endpoint.failed(round, self.clock.monotonic(), fault.wait());
            }
            Some(_) => {}
        }
    }

    /// Makes one call. Its answer counts only if the endpoint has proved its chain; a due proof runs beside the call.
    fn call<'a, T: Send + 'a>(&'a self, endpoint: &'a Arc<Endpoint>, call: Asking<'a, T>) -> Call<'a, T> {
        async move {
            let round = endpoint.round();
            let answer = timeout(self.call_timeout, async {
                if endpoint.due(self.clock.monotonic()) == Due::Nothing {
                    return call.await;
                }
                let is_of_the_endpoint =
                    |answer: &Result<T, Fault>| answer.as_ref().err().is_some_and(|fault| fault.is_of_the_endpoint());
                match tokio::join!(self.check.prove(endpoint), call) {
                    (Err(_), answer) if !is_of_the_endpoint(&answer) => Err(Fault::Endpoint),
                    (_, answer) => answer,
                }
            });
            let mut answer = answer.await.unwrap_or(Err(Fault::Endpoint));
            // A proof may have shown meanwhile that the endpoint serves something else.
            if endpoint.wrong().is_some() {
                answer = Err(Fault::Endpoint);
            }
            Called { endpoint, round, answer }
        }
        .boxed()
    }

    /// Lets an endpoint prove its chain again, and returns whether it did.
    pub(super) async fn prove_again(&self, index: usize) -> bool {
        let Some(endpoint) = self.endpoints.get(index) else { return false };
        let round = endpoint.round();
        let proved = self.check.prove(endpoint).await.is_ok();
        if !proved {
            self.note(endpoint, round, Some(Fault::Endpoint));
        }
        proved
    }

    /// Returns the endpoints to ask, in order: those that are expected to answer; if there are none, those with a
    /// single failure.
    fn order(&self, whom: Whom) -> Result<Vec<&Arc<Endpoint>>, VerifyError> {
        let now = self.clock.monotonic();
        let (lead, until) = *self.lead.lock().unwrap_or_else(PoisonError::into_inner);
        let all = || self.endpoints.iter().filter(|endpoint| Some(endpoint.index) != whom.but);
        let mut order: Vec<_> = all().filter(|endpoint| endpoint.is_live(now)).collect();
        if order.is_empty() {
            order.extend(all().filter(|endpoint| !endpoint.is_shut(now)));
        }
        order.sort_by_key(|endpoint| (Some(endpoint.index) != whom.first, endpoint.index != lead || now >= until));
        if order.is_empty() { Err(self.no_answer()) } else { Ok(order) }
    }

    fn lead_by(&self, index: usize) {
        let now = self.clock.monotonic();
        let mut lead = self.lead.lock().unwrap_or_else(PoisonError::into_inner);
        if lead.0 != index || now >= lead.1 {
            *lead = (index, now + LEAD_LASTS);
        }
    }

    /// Unavailable; or, if every endpoint serves something else, what is wrong with the first.
    pub(super) fn no_answer(&self) -> VerifyError {
        let mut wrong = self.endpoints.iter().map(|endpoint| endpoint.wrong());
        let first = wrong.next().flatten().filter(|_| wrong.all(|other| other.is_some()));
        VerifyError::new(first.unwrap_or(VerifyErrorKind::Unavailable))
    }
}
