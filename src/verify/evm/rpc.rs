//! `Pool`: one question, several endpoints. The first is asked; when it is slow, fails, or its answer alone decides
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
    endpoint::{Due, Endpoint},
    proof::Prover,
    view::{Block, Receipt},
};
use crate::{
    clock::Clock,
    json_rpc::{Fault, Question},
    protocol::TxHash,
    verify::{VerifyError, VerifyErrorKind},
};

/// How long an endpoint that stood in for another is asked first.
const LEAD_LASTS: Duration = Duration::from_secs(60);

pub(super) struct Pool {
    pub(super) endpoints: Vec<Arc<Endpoint>>,
    pub(super) prover: Prover,
    pub(super) call_timeout: Duration,
    pub(super) clock: Arc<dyn Clock>,
    /// The endpoint to ask first, and until when.
    lead: Mutex<(usize, Duration)>,
}

/// Which block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tag {
    Latest,
    Safe,
    Finalized,
    Number(u64),
}

/// What the endpoints said.
pub(super) enum Asked<T> {
    /// The endpoint of this index did, and that decides it.
    Decided(usize, T),
    /// Each said something that decides nothing alone.
    Doubtful(Vec<(usize, T)>),
}

/// Why there is neither.
pub(super) struct NoAnswer {
    pub(super) error: VerifyError,
    /// An endpoint that is up answered with nothing usable: the question may be the reason.
    pub(super) unusable: bool,
}

impl From<NoAnswer> for VerifyError {
    fn from(none: NoAnswer) -> Self {
        none.error
    }
}

type Call<'a> = BoxFuture<'a, (&'a Endpoint, Result<Box<RawValue>, Fault>)>;

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

impl Pool {
    pub(super) fn new(
        endpoints: Vec<Arc<Endpoint>>,
        prover: Prover,
        call_timeout: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { endpoints, prover, call_timeout, clock, lead: Mutex::new((0, Duration::ZERO)) }
    }

    /// The receipt of a transaction. That there is none is believed only when every live endpoint says so.
    pub(super) async fn receipt(&self, transaction: TxHash) -> Result<Option<Receipt>, NoAnswer> {
        let question = Question { method: "eth_getTransactionReceipt", params: json!([transaction.to_string()]) };
        let read = |raw: &RawValue| decode::receipt(raw, transaction);
        self.ask(&question, read, |_, receipt| receipt.is_some()).await.map(Asked::any_some)
    }

    /// The sealed block at a height or under a name; believed to be absent like a receipt.
    pub(super) async fn block(&self, tag: Tag) -> Result<Option<Block>, VerifyError> {
        self.block_if(tag, |_| true).await
    }

    /// Like [`block`](Self::block); a block that is not `possible` is no usable answer.
    pub(super) async fn block_if(
        &self,
        tag: Tag,
        possible: impl Fn(&Block) -> bool + Send + Sync,
    ) -> Result<Option<Block>, VerifyError> {
        let read = |raw: &RawValue| match tag.read(raw)? {
            Some(block) if !possible(&block) => Err(Fault::Answer),
            block => Ok(block),
        };
        Ok(self.ask(&tag.question(), read, |_, block| block.is_some()).await?.any_some())
    }

    /// The latest block. One that is not `possible` is no usable answer; `settles` tells whether what an endpoint says is
    /// new enough to ask no other.
    pub(super) async fn latest(
        &self,
        possible: impl Fn(&Block) -> bool + Send + Sync,
        settles: impl Fn(usize, &Block) -> bool + Send + Sync,
    ) -> Result<Asked<Block>, VerifyError> {
        let read = |raw: &RawValue| Tag::Latest.read(raw)?.filter(&possible).ok_or(Fault::Answer);
        Ok(self.ask(&Tag::Latest.question(), read, settles).await?)
    }

    /// A contract call that changes nothing; `None` where it reverted.
    pub(super) async fn eth_call<T: Send>(
        &self,
        params: serde_json::Value,
        read: impl Fn(&RawValue) -> Result<T, Fault> + Send + Sync,
    ) -> Result<Option<T>, VerifyError> {
        let question = Question { method: "eth_call", params };
        let read = |raw: Option<&RawValue>| raw.map(&read).transpose();
        Ok(self.ask_all(&question, read, |_, _| true).await?.any_some())
    }

    async fn ask<T: Send>(
        &self,
        question: &Question,
        read: impl Fn(&RawValue) -> Result<T, Fault> + Send + Sync,
        settles: impl Fn(usize, &T) -> bool + Send + Sync,
    ) -> Result<Asked<T>, NoAnswer> {
        let read = |raw: Option<&RawValue>| raw.ok_or(Fault::Answer).and_then(&read);
        self.ask_all(question, read, settles).await
    }

    /// Asks one endpoint, then the others as the need arises, until an answer settles it or none is left.
    ///
    /// `read` gets `None` for a call that reverted.
    async fn ask_all<T: Send>(
        &self,
        question: &Question,
        read: impl Fn(Option<&RawValue>) -> Result<T, Fault> + Send + Sync,
        settles: impl Fn(usize, &T) -> bool + Send + Sync,
    ) -> Result<Asked<T>, NoAnswer> {
        let mut others = self.order().map_err(|error| NoAnswer { error, unusable: false })?.into_iter();
        let mut calls: FuturesUnordered<Call<'_>> = FuturesUnordered::new();
        calls.extend(others.next().map(|first| self.call(first, question)));
        let (mut doubtful, mut unusable) = (Vec::new(), false);
        loop {
            let (endpoint, answer) = tokio::select! {
                answer = calls.next() => match answer {
                    Some(answer) => answer,
                    None => break,
                },
                () = sleep(self.call_timeout / 5), if others.len() > 0 => {
                    calls.extend(others.next().map(|next| self.call(next, question)));
                    continue;
                }
            };
            let answer = match answer {
                Ok(raw) => read(Some(&raw)),
                Err(Fault::Reverted) => read(None),
                Err(fault) => Err(fault),
            };
            match answer {
                Ok(answer) if settles(endpoint.index, &answer) => {
                    self.lead_by(endpoint.index);
                    return Ok(Asked::Decided(endpoint.index, answer));
                }
                Ok(answer) => {
                    doubtful.push((endpoint.index, answer));
                    calls.extend(others.by_ref().map(|next| self.call(next, question)));
                }
                Err(fault) => {
                    tracing::debug!(endpoint = endpoint.index, method = question.method, ?fault, "no usable answer");
                    // An endpoint that is down has no say; one that is up and made no sense has not agreed.
                    unusable |= fault != Fault::Endpoint;
                    calls.extend(others.next().map(|next| self.call(next, question)));
                }
            }
        }
        if unusable || doubtful.is_empty() {
            return Err(NoAnswer { error: self.no_answer(), unusable });
        }
        Ok(Asked::Doubtful(doubtful))
    }

    /// One call, believed only from an endpoint whose chain is proved; where that is due it is done beside the call.
    fn call<'a>(&'a self, endpoint: &'a Arc<Endpoint>, question: &'a Question) -> Call<'a> {
        async move {
            let call = endpoint.transport.call(question);
            let answer = timeout(self.call_timeout, async {
                if endpoint.due(self.clock.monotonic()) == Due::Nothing {
                    return call.await;
                }
                let (proof, answer) = tokio::join!(self.prover.prove(endpoint), call);
                proof.map_err(|_| Fault::Endpoint).and(answer)
            });
            let mut answer = answer.await.unwrap_or(Err(Fault::Endpoint));
            // It may have been found to lie while this call was under way.
            if endpoint.dropped().is_some() {
                answer = Err(Fault::Endpoint);
            }
            if answer.as_ref().err() == Some(&Fault::Endpoint) {
                endpoint.failed(self.clock.monotonic());
            }
            (&**endpoint, answer)
        }
        .boxed()
    }

    /// Whom to ask, in order: those that can be expected to answer; if there are none, all that were not dropped.
    fn order(&self) -> Result<Vec<&Arc<Endpoint>>, VerifyError> {
        let now = self.clock.monotonic();
        let (lead, until) = *self.lead.lock().unwrap_or_else(PoisonError::into_inner);
        let mut order: Vec<_> = self.endpoints.iter().filter(|endpoint| endpoint.is_live(now)).collect();
        if order.is_empty() {
            order.extend(self.endpoints.iter().filter(|endpoint| endpoint.dropped().is_none()));
        }
        order.sort_by_key(|endpoint| endpoint.index != lead || now >= until);
        if order.is_empty() { Err(self.no_answer()) } else { Ok(order) }
    }

    fn lead_by(&self, index: usize) {
        let mut lead = self.lead.lock().unwrap_or_else(PoisonError::into_inner);
        if lead.0 != index {
            *lead = (index, self.clock.monotonic() + LEAD_LASTS);
        }
    }

    /// Unavailable; or, where every endpoint was dropped, why.
    pub(super) fn no_answer(&self) -> VerifyError {
        let mut dropped = self.endpoints.iter().map(|endpoint| endpoint.dropped());
        let first = dropped.next().flatten().filter(|_| dropped.all(|other| other.is_some()));
        VerifyError::new(first.unwrap_or(VerifyErrorKind::Unavailable))
    }
}

impl<T> Asked<Option<T>> {
    fn any_some(self) -> Option<T> {
        match self {
            Self::Decided(_, answer) => answer,
            Self::Doubtful(answers) => answers.into_iter().find_map(|(_, answer)| answer),
        }
    }
}

impl Tag {
    fn question(self) -> Question {
        let name = match self {
            Self::Latest => "latest".to_owned(),
            Self::Safe => "safe".to_owned(),
            Self::Finalized => "finalized".to_owned(),
            Self::Number(number) => format!("{number:#x}"),
        };
        Question { method: "eth_getBlockByNumber", params: json!([name, false]) }
    }

    fn read(self, raw: &RawValue) -> Result<Option<Block>, Fault> {
        let block = decode::block(raw)?;
        match (self, block) {
            (Self::Number(number), Some(block)) if block.number != number => Err(Fault::Answer),
            _ => Ok(block),
        }
    }
}
