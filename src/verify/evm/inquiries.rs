//! The questions to endpoints, and the parsing of their answers.

use alloy::primitives::B256;
use futures_util::FutureExt as _;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{
    decode,
    endpoint_pool::EndpointPool,
    pool_answer::{BlockTag, NoAnswer, PoolAnswer, Whom},
    tx_record,
    view::{Block, TxReceipt, TxRecord},
};
use crate::{
    evm::json_rpc::{Fault, Question, Transport},
    protocol::{Address, TxHash},
    verify::VerifyError,
};

impl EndpointPool {
    /// Returns the receipt of a transaction. Its absence needs the word of every live endpoint.
    pub(super) async fn receipt(&self, transaction: TxHash) -> Result<Option<TxReceipt>, NoAnswer> {
        let question = tx_record::receipt(transaction);
        let read = |raw: &RawValue| decode::receipt(raw, transaction);
        Ok(self.ask(&question, Whom::default(), read, |_, receipt| receipt.is_some()).await?.any_some())
    }

    /// Returns the transaction with a receipt that `settles` the question, or else all records that endpoints gave.
    /// Absence is believed as above.
    pub(super) async fn records(
        &self,
        transaction: TxHash,
        whom: Whom,
        settles: impl Fn(&TxReceipt) -> bool + Send + Sync,
    ) -> Result<PoolAnswer<TxRecord>, NoAnswer> {
        let ask = |transport| tx_record::ask(transport, transaction).boxed();
        let settles = |_, record: &Option<TxRecord>| record.as_ref().is_some_and(|record| settles(&record.receipt));
        self.ask_each("transaction and receipt", whom, ask, settles).await.map(PoolAnswer::flatten)
    }

    /// Returns the sealed block at a height or under a name. Its absence is believed as that of a receipt.
    pub(super) async fn block(&self, tag: BlockTag) -> Result<Option<Block>, VerifyError> {
        self.block_if(tag, None, |_| true).await
    }

    /// The same as [`block`](Self::block), but asks this endpoint `first`. A block that is not `possible` is no usable
    /// answer.
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

    /// Returns the latest block. A block that is not `possible` is no usable answer. `settles` says whether an
    /// endpoint's answer is new enough to ask no other.
    pub(super) async fn latest(
        &self,
        possible: impl Fn(&Block) -> bool + Send + Sync,
        settles: impl Fn(usize, &Block) -> bool + Send + Sync,
    ) -> Result<PoolAnswer<Block>, VerifyError> {
        let read = |answer: Result<&RawValue, Fault>| match answer {
            Err(fault) if fault.is_of_the_endpoint() => Err(fault),
            // No client chose this question: an endpoint that cannot answer it well can answer none.
            answer => {
                let latest = answer.and_then(|raw| BlockTag::Latest.read(raw)).ok().flatten();
                latest.filter(&possible).ok_or(Fault::Endpoint)
            }
        };
        Ok(self.ask_all(&BlockTag::Latest.question(), Whom::default(), read, settles).await?)
    }

    /// Makes a contract call without effects; `None` if it reverted.
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

    /// Whether an account that may be a contract accepts a signature of that hash. That it has no code is believed only
    /// if every live endpoint says so.
    pub(super) async fn accepts(&self, account: Address, hash: B256, signature: &[u8]) -> Result<bool, VerifyError> {
        let question = &Question { method: "eth_call", params: decode::signature_call(account, hash, signature) };
        let patience = self.call_timeout * 3 / 4;
        let ask = async |transport: &Transport| {
            match timeout(patience, transport.call(question)).await.unwrap_or(Err(Fault::Endpoint)) {
                Err(Fault::Reverted) => Ok(Some(false)),
                // The contract or the endpoint may be the cause. If all endpoints say so, the signature is not
                // accepted.
                Err(Fault::TooLong) => Ok(None),
                // A stranger chose the code that runs. If an endpoint did not finish it, or a gateway did not wait for
                // it, the endpoint must still serve payments.
                Err(Fault::Endpoint) => Err(Fault::Answer),
                answer => decode::is_accepted(&answer?),
            }
        };
        let settles = |_, said: &Option<bool>| said.is_some();
        let said =
            self.ask_each("contract account", Whom::default(), |transport| ask(transport).boxed(), settles).await?;
        Ok(said.any_some().unwrap_or(false))
    }

    /// Asks one question. A reverted contract call is no usable answer to it.
    pub(super) async fn ask<T: Send>(
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

    /// Asks one question, and parses its answer or fault.
    pub(super) async fn ask_all<T: Send>(
        &self,
        question: &Question,
        whom: Whom,
        read: impl Fn(Result<&RawValue, Fault>) -> Result<T, Fault> + Send + Sync,
        settles: impl Fn(usize, &T) -> bool + Send + Sync,
    ) -> Result<PoolAnswer<T>, NoAnswer> {
        let read = &read;
        let ask = async |transport: &Transport| read(transport.call(question).await.as_deref().map_err(|fault| *fault));
        self.ask_each(question.method, whom, |transport| ask(transport).boxed(), settles).await
    }
}
