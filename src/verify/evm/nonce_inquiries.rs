//! The questions to endpoints about authorizations and permits.

use futures_util::FutureExt as _;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{
    decode,
    endpoint_pool::EndpointPool,
    pool_answer::{BlockTag, NoAnswer, PoolAnswer, Whom},
};
use crate::{
    evm::{
        block_range::BlockRange,
        eip3009::{Nonce, Trace},
        json_rpc::{Fault, Question, Transport},
        proxy::PermitNonce,
        settled,
    },
    protocol::{Address, TxHash, permit2::Permit},
    verify::VerifyError,
};

/// Whether a nonce was used at an endpoint's latest block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) used: bool,
    pub(super) height: u64,
}

impl EndpointPool {
    /// Returns the parsed result of a contract's function; `None` is believed only if every live endpoint says so.
    pub(super) async fn stated<T: Send>(
        &self,
        contract: Address,
        data: Vec<u8>,
        read: impl Fn(&[u8]) -> Option<T> + Send + Sync,
    ) -> Result<Option<T>, VerifyError> {
        let question = Question { method: "eth_call", params: decode::eth_call_at(contract, &data, "latest") };
        let read = |answer: Result<&RawValue, Fault>| match answer {
            Err(Fault::Reverted) => Ok(None),
            answer => decode::returned(answer?).map(|returned| read(&returned)),
        };
        Ok(self.ask_all(&question, Whom::default(), read, |_, stated| stated.is_some()).await?.any_some())
    }

    /// Asks whether a nonce is used. One endpoint that says so decides it for now.
    pub(super) async fn nonce(&self, nonce: &Nonce) -> Result<PoolAnswer<Seen>, NoAnswer> {
        let question = |height| nonce.state_at(height);
        let ask = |transport| seen(transport, question, Nonce::read_state).boxed();
        self.ask_each("nonce", Whom::default(), ask, |_, seen| seen.used).await
    }

    /// The same for a permit's nonce.
    pub(super) async fn permit_nonce(&self, nonce: &PermitNonce) -> Result<PoolAnswer<Seen>, NoAnswer> {
        let (question, read) = (|height| nonce.state_at(height), |raw: &RawValue| nonce.read_state(raw));
        let ask = |transport| seen(transport, question, read).boxed();
        self.ask_each("permit", Whom::default(), ask, |_, seen| seen.used).await
    }

    /// Returns the transactions in those blocks that transferred a permit's token from its payer to its recipient, by
    /// one endpoint that knows any.
    pub(super) async fn transfers_of(&self, permit: &Permit, range: &BlockRange) -> Result<Vec<TxHash>, NoAnswer> {
        let question = &settled::transfers_of(permit, range);
        let patience = self.call_timeout * 3 / 4;
        let ask = async |transport: &Transport| {
            match timeout(patience, transport.call(question)).await.unwrap_or(Err(Fault::Answer)) {
                // As for the traces of authorizations, below.
                Err(Fault::Endpoint | Fault::Reverted | Fault::TooLong) => Err(Fault::Answer),
                answer => settled::read_transfers_of(permit, range, &answer?),
            }
        };
        let knows_any = |_, found: &Vec<TxHash>| !found.is_empty();
        let asked = self.ask_each("eth_getLogs", Whom::default(), |transport| ask(transport).boxed(), knows_any);
        Ok(match asked.await? {
            PoolAnswer::Decided(_, found) => found,
            PoolAnswer::Doubtful(_) => Vec::new(),
        })
    }

    /// Returns whether a nonce was already used at that height: only if every live endpoint says so.
    pub(super) async fn was_used(&self, nonce: &Nonce, height: u64) -> Result<bool, NoAnswer> {
        self.all_say_used(&nonce.state_at(height), Nonce::read_state).await
    }

    /// The same for a permit's nonce.
    pub(super) async fn permit_was_used(&self, nonce: &PermitNonce, height: u64) -> Result<bool, NoAnswer> {
        self.all_say_used(&nonce.state_at(height), |raw| nonce.read_state(raw)).await
    }

    async fn all_say_used(
        &self,
        question: &Question,
        read: impl Fn(&RawValue) -> Result<bool, Fault> + Send + Sync,
    ) -> Result<bool, NoAnswer> {
        let said = self.ask(question, Whom::default(), read, |_, used| !used).await?;
        Ok(matches!(said, PoolAnswer::Doubtful(_)))
    }

    /// Returns the use of a nonce in those blocks, and the endpoint that reports it. One endpoint is enough for a
    /// transfer, because its receipt is judged afterwards. An unused or cancelled nonce needs the word of every live
    /// endpoint, because the payer then signs again.
    pub(super) async fn trace(
        &self,
        nonce: &Nonce,
        range: &BlockRange,
        whom: Whom,
    ) -> Result<Option<(usize, Trace)>, NoAnswer> {
        let question = &nonce.logs(range);
        let patience = self.call_timeout * 3 / 4;
        let ask = async |transport: &Transport| {
            match timeout(patience, transport.call(question)).await.unwrap_or(Err(Fault::Answer)) {
                // Many endpoints refuse a range with a status of 400 or 413. That must not make them unavailable for
                // payments. An endpoint that is down was just left out, when it was asked for the nonce.
                Err(Fault::Endpoint | Fault::Reverted | Fault::TooLong) => Err(Fault::Answer),
                answer => nonce.read_logs(&answer?, range),
            }
        };
        let is_used = |_, found: &Option<Trace>| matches!(found, Some(Trace::Used(_)));
        Ok(match self.ask_each("eth_getLogs", whom, |transport| ask(transport).boxed(), is_used).await? {
            PoolAnswer::Decided(by, found) => found.map(|found| (by, found)),
            PoolAnswer::Doubtful(said) => {
                let first = said.first().and_then(|(by, found)| Some((*by, (*found)?)));
                first.filter(|(_, first)| said.iter().all(|(_, found)| found.as_ref() == Some(first)))
            }
        })
    }
}

/// Asks for the state at a height that this endpoint has just named: behind one address there may be nodes on different
/// blocks, and a node that has not reached the height then fails, instead of reporting the nonce as unused.
async fn seen(
    transport: &Transport,
    question: impl Fn(u64) -> Question,
    read: impl Fn(&RawValue) -> Result<bool, Fault>,
) -> Result<Seen, Fault> {
    let latest = transport.call(&BlockTag::Latest.question()).await.map_err(of_no_call)?;
    let height = BlockTag::Latest.read(&latest)?.ok_or(Fault::Answer)?.number;
    let state = transport.call(&question(height)).await.map_err(of_no_call)?;
    Ok(Seen { used: read(&state)?, height })
}

/// A token with authorizations, and Permit2, do not revert on these questions.
fn of_no_call(fault: Fault) -> Fault {
    if fault == Fault::Reverted { Fault::Answer } else { fault }
}
