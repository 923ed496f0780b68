//! `History`: the transfers of a span of blocks, found by log queries and judged by their receipts.
//!
//! A log only tells which transactions to look at. The listed transfers come from receipts, as payments do, and have
//! the same ids.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json, value::RawValue};
use tokio::time::timeout;

use super::{
    decode,
    endpoint_pool::EndpointPool,
    head::Head,
    judge::{Policy, Tip, judge},
    pool_answer::{NoAnswer, PoolAnswer, Whom},
    verifier::EvmVerifier,
    view::Block,
};
use crate::{
    evm::{
        block_range::BlockRange,
        erc20::TRANSFER_TOPIC,
        json_rpc::{Fault, Question, Transport},
    },
    protocol::{Address, Amount, ChainTime, Network, Terms, Transfer, TxHash},
    verify::{TransferHistory, TransferQuery, Verdict, VerifyError, VerifyErrorKind},
};

/// The most blocks that one call searches. Many endpoints refuse more.
const RANGE_MAX: u64 = 2_000;
/// How many transactions are examined at once: few, compared with those of sales.
const AT_ONCE: usize = 4;

impl TransferHistory for EvmVerifier {
    async fn transfers(&self, query: &TransferQuery) -> Result<Vec<Transfer>, VerifyError> {
        let inner = &*self.inner;
        let (network, pool, head) = (inner.network, &inner.pool, &inner.head);
        if let Some(asset) = query.assets().iter().find(|asset| asset.network() != network) {
            let kind = VerifyErrorKind::WrongChain { expected: asset.network(), found: network };
            return Err(VerifyError::new(kind));
        }
        let history = History { network, pool, head, policy: &inner.policy, query };
        history.transfers(head.tip().await?).await
    }
}

struct History<'a> {
    network: Network,
    pool: &'a EndpointPool,
    head: &'a Arc<Head>,
    policy: &'a Policy,
    query: &'a TransferQuery,
}

impl History<'_> {
    async fn transfers(&self, tip: Tip) -> Result<Vec<Transfer>, VerifyError> {
        let Some((first, last)) = self.span(&tip).await? else { return Ok(Vec::new()) };
        let (mut found, mut next, mut width) = (Vec::new(), first, RANGE_MAX);
        while next <= last {
            let range = BlockRange::between(next, last.min(next.saturating_add(width - 1)));
            match self.transactions(&range).await {
                Ok(transactions) => {
                    found.extend(self.look_at(transactions, &tip).await?);
                    next = range.next();
                }
                // The range may be too wide for an endpoint.
                Err(NoAnswer { unusable: true, .. }) if width > 1 => width /= 2,
                Err(none) => return Err(none.error),
            }
        }
        found.sort_by_key(|transfer| (transfer.block_number, transfer.transaction, transfer.position));
        Ok(found)
    }

    /// Returns the first and the last block of the span that are deep enough.
    async fn span(&self, tip: &Tip) -> Result<Option<(u64, u64)>, VerifyError> {
        let query = self.query;
        let Some(highest) = tip.confirmed else { return Ok(None) };
        if query.recipients().is_empty() || query.assets().is_empty() {
            return Ok(None);
        }
        let first = self.first_since(query.start(), highest).await?;
        let end = match query.end() {
            Some(until) => self.first_since(until, highest).await?,
            None => highest.saturating_add(1),
        };
        Ok(end.checked_sub(1).filter(|last| first <= *last).map(|last| (first, last)))
    }

    /// Returns the first block of that time or later, up to this one; if there is none, the height after it.
    async fn first_since(&self, time: ChainTime, highest: u64) -> Result<u64, VerifyError> {
        let (mut low, mut high) = (0, highest.saturating_add(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.block(middle).await?.time < time {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    async fn block(&self, number: u64) -> Result<Block, VerifyError> {
        self.head.block(number).await?.ok_or_else(VerifyError::unavailable)
    }

    /// Returns the transactions of these blocks with matching transfers. Uses the logs of two endpoints, if there are
    /// two, since one may lack some.
    async fn transactions(&self, range: &BlockRange) -> Result<BTreeSet<TxHash>, NoAnswer> {
        let (first, mut transactions) = self.logged(range, None).await?;
        match self.logged(range, first).await {
            Ok((_, more)) => transactions.extend(more),
            Err(_) => tracing::debug!("there is no second endpoint to ask for logs"),
        }
        Ok(transactions)
    }

    /// The same from one endpoint, with the endpoint's index.
    async fn logged(
        &self,
        range: &BlockRange,
        but: Option<usize>,
    ) -> Result<(Option<usize>, BTreeSet<TxHash>), NoAnswer> {
        let question = &self.question(range);
        let patience = self.pool.call_timeout * 3 / 4;
        let ask = async |transport: &Transport| {
            match timeout(patience, transport.call(question)).await.unwrap_or(Err(Fault::Answer)) {
                // Many endpoints refuse a range with a status of 400 or 413. That must not make them unavailable for
                // payments.
                Err(Fault::Endpoint | Fault::Reverted | Fault::TooLong) => Err(Fault::Answer),
                answer => self.read(&answer?, range),
            }
        };
        let whom = Whom { first: None, but };
        Ok(match self.pool.ask_each("eth_getLogs", whom, |transport| ask(transport).boxed(), |_, _| true).await? {
            PoolAnswer::Decided(endpoint, transactions) => (Some(endpoint), transactions),
            PoolAnswer::Doubtful(answers) => (None, answers.into_iter().flat_map(|(_, found)| found).collect()),
        })
    }

    fn question(&self, range: &BlockRange) -> Question {
        let tokens: Vec<_> = self.query.assets().iter().map(|asset| format!("{:x}", asset.contract())).collect();
        let to: Vec<_> = self.query.recipients().iter().map(|to| const_hex::encode_prefixed(topic(to))).collect();
        let filter = json!({
            "address": tokens,
            "topics": [const_hex::encode_prefixed(TRANSFER_TOPIC), Value::Null, to],
            "fromBlock": range.first(),
            "toBlock": range.last(),
        });
        Question { method: "eth_getLogs", params: Value::Array(vec![filter]) }
    }

    /// Parses the logs. A log that was not asked for makes the answer unusable.
    fn read(&self, raw: &RawValue, range: &BlockRange) -> Result<BTreeSet<TxHash>, Fault> {
        let logs: Vec<alloy::rpc::types::Log> = decode::parse(raw)?;
        let of = |log: &alloy::rpc::types::Log| {
            let [kind, _, to, ..] = log.topics() else { return None };
            let emitter = Address::new(log.address().into_array());
            let is_asked_for = kind.0 == TRANSFER_TOPIC
                && self.query.recipients().iter().any(|recipient| topic(recipient) == to.0)
                && self.query.assets().iter().any(|asset| asset.contract() == emitter)
                && log.block_number.is_some_and(|height| range.has(height))
                && !log.removed;
            log.transaction_hash.filter(|_| is_asked_for).map(|hash| TxHash::new(hash.0))
        };
        logs.iter().map(|log| of(log).ok_or(Fault::Answer)).collect()
    }

    async fn look_at(&self, transactions: BTreeSet<TxHash>, tip: &Tip) -> Result<Vec<Transfer>, VerifyError> {
        let each = transactions.into_iter().map(|transaction| self.paid(transaction, tip));
        let paid: Vec<Vec<Transfer>> = stream::iter(each).buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(paid.into_iter().flatten().filter(|transfer| self.query.is_in_span(transfer.block_time)).collect())
    }

    /// Returns all transfers of this transaction to the recipients, by its receipt.
    async fn paid(&self, transaction: TxHash, tip: &Tip) -> Result<Vec<Transfer>, VerifyError> {
        let records = self.pool.records(transaction, Whom::default(), |receipt| receipt.mined_in.is_some()).await?;
        let PoolAnswer::Decided(_, record) = records else {
            tracing::warn!(%transaction, "an endpoint has a log of this transaction, and none has its receipt");
            return Err(VerifyError::unavailable());
        };
        let block = match record.receipt.mined_in.filter(|mined_in| mined_in.number <= tip.head.number) {
            Some(mined_in) => self.head.block(mined_in.number).await?,
            None => None,
        };
        let mut paid = Vec::new();
        for recipient in self.query.recipients() {
            // Transfers of any amount and any age count.
            let terms = Terms::builder(self.network, *recipient, Amount::from_base_units(1))
                .assets(Arc::clone(self.query.assets()))
                .max_payment_age(Duration::MAX)
                .build();
            if let Verdict::Paid { transfers, .. } =
                judge(transaction, &record, block.as_ref(), tip, &terms, self.policy)
            {
                paid.extend(transfers);
            }
        }
        Ok(paid)
    }
}

/// An account in the form of a log's topic.
fn topic(account: &Address) -> [u8; 32] {
    let mut topic = [0; 32];
    topic[12..].copy_from_slice(account.as_bytes());
    topic
}
