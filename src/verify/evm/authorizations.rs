//! `Authorizations`: the domain of a token's authorizations (EIP-3009), and the fate of an authorization.

use std::sync::Arc;

use super::{
    endpoint_pool::EndpointPool,
    gate::Gate,
    head::Head,
    pool_answer::{NoAnswer, PoolAnswer, Whom},
    receipts::Receipts,
    view::{Log, TxReceipt},
};
use crate::{
    evm::{
        block::MinedIn,
        block_range::BlockRange,
        eip3009::{self, Nonce, Trace},
    },
    protocol::{Address, ChainTime, Network, TokenDomain},
    verify::{NonceState, VerifyError},
};

/// The most blocks that one call searches. Many endpoints refuse more.
pub(super) const RANGE_MAX: u64 = 2_000;
/// The most log queries before the search is given up: three days of Base, a range at a time.
pub(super) const SEARCHES_MAX: usize = 64;
/// How far before the requested time the search begins: the clocks of the chain and of the caller may differ.
const MARGIN: u64 = 120;
/// How many blocks ago a nonce must have been used for the absence of logs to be believed. If logs are indexed late, or
/// by other nodes behind the same address, a transaction of the last few blocks is missed. Nodes without an archive
/// keep the states of 128 blocks.
pub(super) const SETTLED_DEPTH: u64 = 64;

#[derive(Debug)]
pub(super) struct Authorizations {
    network: Network,
    pub(super) pool: Arc<EndpointPool>,
    pub(super) head: Arc<Head>,
    pub(super) receipts: Arc<Receipts>,
    /// A gate of its own: invented authorizations must not delay anything else.
    pub(super) gate: Gate,
}

impl Authorizations {
    pub(super) const fn new(
        network: Network,
        pool: Arc<EndpointPool>,
        head: Arc<Head>,
        receipts: Arc<Receipts>,
        gate: Gate,
    ) -> Self {
        Self { network, pool, head, receipts, gate }
    }

    /// Returns the domain that a token's contract states, if the token has authorizations.
    pub(super) async fn domain(&self, token: Address) -> Result<Option<TokenDomain>, VerifyError> {
        let state = eip3009::authorization_state(Address::ZERO, &[0; 32]);
        let (name, version, separator, state) = tokio::try_join!(
            self.pool.stated(token, eip3009::name(), eip3009::read_text),
            self.pool.stated(token, eip3009::version(), eip3009::read_text),
            self.pool.stated(token, eip3009::domain_separator_call(), eip3009::read_word),
            self.pool.stated(token, state, eip3009::read_flag),
        )?;
        let (Some(name), Some(version), Some(separator), Some(_)) = (name, version, separator, state) else {
            return Ok(None);
        };
        let domain = TokenDomain::new(token, name, version);
        if eip3009::domain_separator(&domain, self.network) != separator {
            tracing::warn!(%token, "a token's domain separator is not made of its name and version; its authorizations are not taken");
            return Ok(None);
        }
        Ok(Some(domain))
    }

    /// Returns whether a nonce is used. `Unused` needs the word of every endpoint that answers, at least one of them at
    /// the known head: an endpoint that is behind does not count.
    pub(super) async fn state(&self, nonce: &Nonce, since: ChainTime) -> Result<NonceState, VerifyError> {
        let _turn = self.gate.enter(None).await?;
        let head = self.head.tip().await?.head.number;
        match self.pool.nonce(nonce).await? {
            PoolAnswer::Decided(endpoint, seen) => self.find(nonce, endpoint, head.min(seen.height), since).await,
            PoolAnswer::Doubtful(all) if all.iter().any(|(_, seen)| seen.height >= head) => Ok(NonceState::Unused),
            PoolAnswer::Doubtful(_) => Err(VerifyError::unavailable()),
        }
    }

    /// Searches for the use of the nonce, from the head backwards.
    async fn find(&self, nonce: &Nonce, first: usize, head: u64, since: ChainTime) -> Result<NonceState, VerifyError> {
        let mut width = RANGE_MAX;
        let mut range = BlockRange::up_to_latest(head, width);
        for _ in 0..SEARCHES_MAX {
            match self.pool.trace(nonce, &range, Whom { first: Some(first), but: None }).await {
                Ok(Some((by, trace))) => return self.confirmed(nonce, &range, by, trace).await,
                Ok(None) if self.is_early_enough(range.from(), head, since).await? => {
                    return self.used_longer_ago(nonce, head).await;
                }
                Ok(None) => range = range.before(width),
                // The range may be too wide for an endpoint.
                Err(NoAnswer { unusable: true, .. }) if width > 1 => {
                    width /= 2;
                    range = range.last_of(width);
                }
                Err(none) => return Err(none.error),
            }
        }
        tracing::debug!(%nonce.payer, "what used an authorization was not found with as many calls as are made");
        Err(VerifyError::unavailable())
    }

    /// Returns the meaning of a trace, after checking it against the receipt of its transaction. A log alone is one
    /// endpoint's word: it may name an unrelated transaction, which pays nothing here, so that the payer would sign
    /// again.
    async fn confirmed(
        &self,
        nonce: &Nonce,
        range: &BlockRange,
        by: usize,
        trace: Trace,
    ) -> Result<NonceState, VerifyError> {
        if self.is_in_receipt(nonce, &trace).await {
            return match trace {
                Trace::Used(transaction) => Ok(NonceState::Used(transaction)),
                Trace::Canceled(_, mined_in) if self.is_canonical(mined_in).await? => Ok(NonceState::Spent),
                Trace::Canceled(..) => Err(VerifyError::unavailable()),
            };
        }
        tracing::warn!(endpoint = by, payer = %nonce.payer, "a log says what used an authorization, and the receipt does not");
        // The others may name the right transaction. Silence is no proof while any endpoint says something else.
        match self.pool.trace(nonce, range, Whom { first: None, but: Some(by) }).await? {
            Some((_, trace @ Trace::Used(transaction))) if self.is_in_receipt(nonce, &trace).await => {
                Ok(NonceState::Used(transaction))
            }
            _ => Err(VerifyError::unavailable()),
        }
    }

    /// Returns whether the receipt of a trace's transaction contains the trace's log.
    async fn is_in_receipt(&self, nonce: &Nonce, trace: &Trace) -> bool {
        let (transaction, topics) = nonce.told_by(trace);
        let found = self.receipts.get(transaction).await;
        found.is_ok_and(|found| found.is_some_and(|found| has_log(found.receipt(), nonce.token, topics)))
    }

    /// Returns whether that block is canonical.
    async fn is_canonical(&self, mined_in: MinedIn) -> Result<bool, VerifyError> {
        let block = self.head.block(mined_in.number).await?;
        Ok(block.is_some_and(|block| mined_in.is(&block)))
    }

    /// Whether the search need not go before that height.
    pub(super) async fn is_early_enough(&self, from: u64, head: u64, since: ChainTime) -> Result<bool, VerifyError> {
        if from == 0 || head - from < SETTLED_DEPTH {
            return Ok(from == 0);
        }
        let block = self.head.block(from).await?.ok_or_else(VerifyError::unavailable)?;
        Ok(block.time.unix() < since.unix().saturating_sub(MARGIN))
    }

    /// Returns `Spent` if the nonce was certainly used so long ago that no late log can be missing.
    async fn used_longer_ago(&self, nonce: &Nonce, head: u64) -> Result<NonceState, VerifyError> {
        if self.pool.was_used(nonce, head.saturating_sub(SETTLED_DEPTH)).await? {
            return Ok(NonceState::Spent);
        }
        tracing::warn!(payer = %nonce.payer, "an authorization was used lately, and no endpoint has the log of it");
        Err(VerifyError::unavailable())
    }
}

/// Returns whether a receipt reports success, and has a log of that contract with these topics and no data.
fn has_log(receipt: &TxReceipt, emitter: Address, topics: [[u8; 32]; 3]) -> bool {
    let has_it = |log: &Log| log.emitter == emitter && log.topics == topics && log.data.is_empty();
    receipt.success == Some(true) && receipt.logs.iter().any(has_it)
}
