//! `EndpointPool`: one question, several endpoints. The first is asked; when it is slow, fails, or its answer alone decides
//! nothing (`null`), so are the others.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use serde_json::{json, value::RawValue};
use tokio::time::{sleep, timeout};

use super::{
    decode,
    endpoint::{Due, Endpoint, Round},
    endpoint_check::EndpointCheck,
    pool_answer::{BlockTag, NoAnswer, PoolAnswer, Whom},
    view::{Block, TxReceipt},
};
use crate::{
    clock::Clock,
    evm::json_rpc::{Fault, Question},
    protocol::TxHash,
    verify::{VerifyError, VerifyErrorKind},
};

/// How long an endpoint that stood in for another is asked first.
const LEAD_LASTS: Duration = Duration::from_secs(60);

pub(super) struct EndpointPool {
    pub(super) endpoints: Vec<Arc<Endpoint>>,
    pub(super) check: EndpointCheck,
    pub(super) call_timeout: Duration,
    pub(super) clock: Arc<dyn Clock>,
    /// The endpoint to ask first, and until when.
    lead: Mutex<(usize, Duration)>,
}

type Call<'a> = BoxFuture<'a, Called<'a>>;

/// What an endpoint said, and when it was asked.
struct Called<'a> {
    endpoint: &'a Endpoint,
    round: Round,
    answer: Result<Box<RawValue>, Fault>,
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

    /// The receipt of a transaction. That there is none is believed only when every live endpoint says so.
    pub(super) async fn receipt(&self, transaction: TxHash) -> Result<Option<TxReceipt>, NoAnswer> {
        match self.receipts(transaction, Whom::default(), |_| true).await? {
            PoolAnswer::Decided(_, receipt) => Ok(Some(receipt)),
            PoolAnswer::Doubtful(_) => Ok(None),
        }
    }

    /// The receipt of a transaction that `settles` it, or else all that were said to be it; that there is none is believed
    /// as above.
    pub(super) async fn receipts(
        &self,
        transaction: TxHash,
        whom: Whom,
        settles: impl Fn(&TxReceipt) -> bool + Send + Sync,
    ) -> Result<PoolAnswer<TxReceipt>, NoAnswer> {
        let question = Question { method: "eth_getTransactionReceipt", params: json!([transaction.to_string()]) };
        let read = |raw: &RawValue| decode::receipt(raw, transaction);
        let settles = |_, receipt: &Option<TxReceipt>| receipt.as_ref().is_some_and(&settles);
        self.ask(&question, whom, read, settles).await.map(PoolAnswer::flatten)
    }

    /// The sealed block at a height or under a name; believed to be absent like a receipt.
    pub(super) async fn block(&self, tag: BlockTag) -> Result<Option<Block>, VerifyError> {
        self.block_if(tag, None, |_| true).await
    }

    /// Like [`block`](Self::block), and this endpoint is asked `first`; a block that is not `possible` is no usable answer.
    pub(super) async fn block_if(
        &self,
        tag: BlockTag,
        first: Option<usize>,
        possible: impl Fn(&Block) -> bool + Send + Sync,
    ) -> Result<Option<Block>, VerifyError> {
        let read = |raw: &RawValue| match tag.read(raw)? {
            Some(block) if !possible(&block) => Err(Fault::Answer),
            block => Ok(block),
        };
        let whom = Whom { first, but: None };
        Ok(self.ask(&tag.question(), whom, read, |_, block| block.is_some()).await?.any_some())
    }

    /// The latest block. One that is not `possible` is no usable answer; `settles` tells whether what an endpoint says is
    /// new enough to ask no other.
    pub(super) async fn latest(
        &self,
        possible: impl Fn(&Block) -> bool + Send + Sync,
        settles: impl Fn(usize, &Block) -> bool + Send + Sync,
    ) -> Result<PoolAnswer<Block>, VerifyError> {
        let read = |answer: Result<&RawValue, Fault>| match answer {
            Err(fault) if fault.is_of_the_endpoint() => Err(fault),
            // No client chose this question: whoever has no good answer to it has none to any.
            answer => {
                let latest = answer.and_then(|raw| BlockTag::Latest.read(raw)).ok().flatten();
                latest.filter(&possible).ok_or(Fault::Endpoint)
            }
        };
        Ok(self.ask_all(&BlockTag::Latest.question(), Whom::default(), read, settles).await?)
    }

    /// A contract call that changes nothing; `None` where it reverted.
    pub(super) async fn eth_call<T: Send>(
        &self,
        params: serde_json::Value,
        read: impl Fn(&RawValue) -> Result<T, Fault> + Send + Sync,
    ) -> Result<Option<T>, VerifyError> {
        let question = Question { method: "eth_call", params };
        let read = |answer: Result<&RawValue, Fault>| match answer {
            Err(Fault::Reverted) => Ok(None),
            answer => answer.and_then(&read).map(Some),
        };
        Ok(self.ask_all(&question, Whom::default(), read, |_, _| true).await?.any_some())
    }

    async fn ask<T: Send>(
        &self,
        question: &Question,
        whom: Whom,
        read: impl Fn(&RawValue) -> Result<T, Fault> + Send + Sync,
        settles: impl Fn(usize, &T) -> bool + Send + Sync,
    ) -> Result<PoolAnswer<T>, NoAnswer> {
        let read = |answer: Result<&RawValue, Fault>| match answer {
            Err(Fault::Reverted) => Err(Fault::Answer),
            answer => answer.and_then(&read),
        };
        self.ask_all(question, whom, read, settles).await
    }

    /// Asks one endpoint, then the others as the need arises, until an answer settles it or none is left.
    async fn ask_all<T: Send>(
        &self,
        question: &Question,
        whom: Whom,
        read: impl Fn(Result<&RawValue, Fault>) -> Result<T, Fault> + Send + Sync,
        settles: impl Fn(usize, &T) -> bool + Send + Sync,
    ) -> Result<PoolAnswer<T>, NoAnswer> {
        let mut others = self.order(whom).map_err(|error| NoAnswer { error, unusable: false })?.into_iter();
        let mut calls: FuturesUnordered<Call<'_>> = FuturesUnordered::new();
        calls.extend(others.next().map(|first| self.call(first, question)));
        let (mut doubtful, mut unusable) = (Vec::new(), false);
        loop {
            let Called { endpoint, round, answer } = tokio::select! {
                called = calls.next() => match called {
                    Some(called) => called,
                    None => break,
                },
                () = sleep(self.call_timeout / 5), if others.len() > 0 => {
                    calls.extend(others.next().map(|next| self.call(next, question)));
                    continue;
                }
            };
            let answer = read(answer.as_deref().map_err(|fault| *fault));
            self.note(endpoint, round, answer.as_ref().err().copied());
            match answer {
                Ok(answer) if settles(endpoint.index, &answer) => {
                    self.lead_by(endpoint.index);
                    return Ok(PoolAnswer::Decided(endpoint.index, answer));
                }
                Ok(answer) => {
                    doubtful.push((endpoint.index, answer));
                    calls.extend(others.by_ref().map(|next| self.call(next, question)));
                }
                Err(fault) => {
                    tracing::debug!(endpoint = endpoint.index, method = question.method, ?fault, "no usable answer");
                    // An endpoint that is down has no say; one that is up and made no sense has not agreed.
                    unusable |= !fault.is_of_the_endpoint();
                    calls.extend(others.next().map(|next| self.call(next, question)));
                }
            }
        }
        if unusable || doubtful.is_empty() {
            return Err(NoAnswer { error: self.no_answer(), unusable });
        }
        Ok(PoolAnswer::Doubtful(doubtful))
    }

    /// What an answer, or the lack of one, says of the endpoint.
    fn note(&self, endpoint: &Endpoint, round: Round, fault: Option<Fault>) {
        match fault {
            None => endpoint.answered(round),
            Some(fault) if fault.is_of_the_endpoint() => {
                endpoint.failed(round, self.clock.monotonic(), fault.wait());
            }
            Some(_) => {}
        }
    }

    /// One call, believed only from an endpoint whose chain is proved; where that is due it is done beside the call.
    fn call<'a>(&'a self, endpoint: &'a Arc<Endpoint>, question: &'a Question) -> Call<'a> {
        async move {
            let round = endpoint.round();
            let call = endpoint.transport.call(question);
            let answer = timeout(self.call_timeout, async {
                if endpoint.due(self.clock.monotonic()) == Due::Nothing {
                    return call.await;
                }
                match tokio::join!(self.check.prove(endpoint), call) {
                    (Err(_), Ok(_) | Err(Fault::Answer | Fault::Reverted)) => Err(Fault::Endpoint),
                    (_, answer) => answer,
                }
            });
            let mut answer = answer.await.unwrap_or(Err(Fault::Endpoint));
            // It may have been found to lie while this call was under way.
            if endpoint.wrong().is_some() {
                answer = Err(Fault::Endpoint);
            }
            Called { endpoint, round, answer }
        }
        .boxed()
    }

    /// Has an endpoint prove once more that it serves our chain, and tells whether it did.
    pub(super) async fn prove_again(&self, index: usize) -> bool {
        let Some(endpoint) = self.endpoints.get(index) else { return false };
        let round = endpoint.round();
        let proved = self.check.prove(endpoint).await.is_ok();
        if !proved {
            self.note(endpoint, round, Some(Fault::Endpoint));
        }
        proved
    }

    /// Whom to ask, in order: those that can be expected to answer; if there are none, those that failed but once.
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

    /// Unavailable; or, where every endpoint serves something else, what the first does.
    pub(super) fn no_answer(&self) -> VerifyError {
        let mut wrong = self.endpoints.iter().map(|endpoint| endpoint.wrong());
        let first = wrong.next().flatten().filter(|_| wrong.all(|other| other.is_some()));
        VerifyError::new(first.unwrap_or(VerifyErrorKind::Unavailable))
    }
}
