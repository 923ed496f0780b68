//! Is it paid? ERC-20 transfers, read over JSON-RPC from one or several nodes.
//!
//! An [`EvmVerifier`] needs no task and no shutdown: while nobody redeems, it asks nobody anything. A redemption costs one
//! `eth_getTransactionReceipt`, and whoever finds the chain's head older than one block time has it refreshed, once for all.
//! While a payment is waited for, each time somebody asks, the head is looked at up to four times a second, so that a payment
//! counts when its block is there.
//!
//! What a node says is not taken on trust: its chain id is proved before it is believed and again whenever it failed, its
//! receipts must be of the transaction that was asked about and of the sealed block at their height, and that there is
//! no such transaction counts only when every node that is up says so. Nothing that a node said, and no URL (they hold keys),
//! ever appears in an error, a log or `Debug` output.
//!
//! ```no_run
//! # async fn example() -> Result<(), tower_x402::verify::VerifyError> {
//! use tower_x402::{protocol::Network, verify::evm::EvmVerifier};
//! let verifier = EvmVerifier::connect(["https://mainnet.base.org"]).await?;
//! assert_eq!(verifier.network(), Network::BASE);
//! # Ok(()) }
//! ```

#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod bench;
mod builder;
mod chain;
mod decode;
mod endpoint;
mod endpoint_check;
mod endpoint_pool;
mod gate;
mod head;
mod head_state;
mod judge;
mod pool_answer;
mod receipts;
mod reorg_monitor;
mod single_flight;
mod view;

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::timeout;
use tracing::Instrument as _;

pub use builder::EvmVerifierBuilder;

use self::{
    endpoint_pool::EndpointPool,
    head::Head,
    judge::{Policy, Tip, judge},
    receipts::{Found, Receipts},
    reorg_monitor::ReorgMonitor,
    view::Block,
};
use crate::{
    protocol::{Address, Asset, ChainTime, Network, Terms, TxHash},
    verify::{Verdict, Verifier, VerifyError, VerifyErrorKind},
};

/// How deep in the chain a payment must be before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finality {
    /// That many sealed blocks, its own included; at least 1.
    Confirmations(u32),
    /// At or below the block that the nodes call `safe` (on Base some minutes old): only a reorganisation of
    /// Ethereum itself could take it back.
    Safe,
    /// At or below the block that the nodes call `finalized` (on Base a quarter of an hour old).
    Finalized,
}

/// One sealed block.
impl Default for Finality {
    fn default() -> Self {
        Self::Confirmations(1)
    }
}

impl Finality {
    fn retry_after(self, block_time: Duration) -> Duration {
        let blocks = match self {
            // Asking is cheap, and an answer may be there as soon as the block is.
            Self::Confirmations(_) => return (block_time / 2).max(Duration::from_secs(1)),
            Self::Safe => 5,
            Self::Finalized => 30,
        };
        block_time.saturating_mul(blocks).max(Duration::from_secs(1))
    }
}

/// Verifies transfers on an EVM chain over JSON-RPC. Clones share everything.
#[derive(Clone)]
pub struct EvmVerifier {
    inner: Arc<Inner>,
}

struct Inner {
    network: Network,
    finality: Finality,
    pool: Arc<EndpointPool>,
    head: Arc<Head>,
    receipts: Arc<Receipts>,
    policy: Policy,
    /// Not where only what is safe counts anyway.
    reorgs: Option<Arc<ReorgMonitor>>,
    total_timeout: Duration,
}

/// Without the endpoints' URLs: they hold keys.
impl fmt::Debug for EvmVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { network, finality, pool, .. } = &*self.inner;
        f.debug_struct("EvmVerifier")
            .field("network", network)
            .field("finality", finality)
            .field("endpoints", &pool.endpoints.len())
            .finish_non_exhaustive()
    }
}

impl EvmVerifier {
    /// Verifies over these endpoints, http or https, with the default settings.
    ///
    /// # Errors
    /// Like [`EvmVerifierBuilder::connect`].
    pub async fn connect(urls: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, VerifyError> {
        Self::builder().endpoints(urls).connect().await
    }

    /// For other settings than the default ones.
    pub fn builder() -> EvmVerifierBuilder {
        EvmVerifierBuilder::new()
    }

    /// The chain that the endpoints serve.
    #[must_use]
    pub fn network(&self) -> Network {
        self.inner.network
    }

    /// How many payments were in a sealed block when they were judged and were in none when that block's height had become
    /// `safe`: what reorganisations cost since this verifier was made. Each is logged, none is taken back. They are looked at on
    /// later redemptions, at most once a minute.
    #[must_use]
    pub fn vanished_payments(&self) -> u64 {
        self.inner.reorgs.as_ref().map_or(0, |reorgs| reorgs.vanished())
    }

    /// A token with the decimals and the symbol that its contract states.
    ///
    /// # Errors
    /// [`WrongToken`](VerifyErrorKind::WrongToken) if there is no token at that address, or its symbol is not 1 to 32
    /// graphic ASCII characters (name such a token yourself, with [`Asset::new`]);
    /// [`Unavailable`](VerifyErrorKind::Unavailable) if no endpoint answered.
    pub async fn asset(&self, contract: Address) -> Result<Asset, VerifyError> {
        let pool = &self.inner.pool;
        let (decimals, symbol) = tokio::try_join!(
            pool.eth_call(decode::decimals_call(contract), decode::decimals),
            pool.eth_call(decode::symbol_call(contract), decode::symbol),
        )?;
        let (decimals, symbol) = (decimals.flatten(), symbol.flatten());
        let stated = decimals.zip(symbol).ok_or(VerifyErrorKind::WrongToken { contract, expected: 0, found: None });
        let (decimals, symbol) = stated.map_err(VerifyError::new)?;
        Ok(Asset::new(self.inner.network, contract, decimals, symbol))
    }
}

impl Verifier for EvmVerifier {
    async fn check(&self, network: Network, assets: &[Asset]) -> Result<(), VerifyError> {
        let found = self.inner.network;
        let elsewhere = assets.iter().map(Asset::network).chain([network]).find(|other| *other != found);
        if let Some(expected) = elsewhere {
            return Err(VerifyError::new(VerifyErrorKind::WrongChain { expected, found }));
        }
        let tokens = assets.iter().map(|asset| (asset.contract(), asset.decimals())).collect();
        self.inner.pool.check.accept(&self.inner.pool.endpoints, tokens).await
    }

    async fn verify(&self, terms: &Terms, transaction: TxHash) -> Result<Verdict, VerifyError> {
        let Inner { network, total_timeout, .. } = *self.inner;
        if terms.network() != network {
            let kind = VerifyErrorKind::WrongChain { expected: terms.network(), found: network };
            return Err(VerifyError::new(kind));
        }
        let span = tracing::debug_span!("verify", %network, %transaction);
        let examined = timeout(total_timeout, self.inner.examine(terms, transaction)).instrument(span.clone());
        let answer = examined.await.unwrap_or_else(|_| Err(VerifyError::unavailable()));
        match &answer {
            Ok(verdict) => tracing::debug!(parent: &span, verdict = name(verdict), "verified"),
            Err(error) => tracing::warn!(parent: &span, %error, "not verified"),
        }
        answer
    }

    async fn head(&self) -> Result<ChainTime, VerifyError> {
        let Inner { head, total_timeout, .. } = &*self.inner;
        let tip = timeout(*total_timeout, head.tip()).await;
        tip.unwrap_or_else(|_| Err(VerifyError::unavailable())).map(|tip| tip.head.time)
    }

    async fn horizon(&self) -> Result<ChainTime, VerifyError> {
        let head = self.head().await?;
        Ok(self.inner.head.present().map_or(head, |now| head.max(now)))
    }
}

impl Inner {
    async fn examine(&self, terms: &Terms, transaction: TxHash) -> Result<Verdict, VerifyError> {
        let Self { head, receipts, .. } = self;
        let (tip, found) = tokio::try_join!(head.tip(), receipts.get(transaction))?;
        let mined_in = found.as_ref().and_then(|found| found.receipt.mined_in).map(|mined_in| mined_in.number);
        let verdict = self.judge_at(&tip, terms, transaction, found).await?;
        let waits = matches!(verdict, Verdict::NotConfirmed { .. }) && self.next_block_may_do(&tip, mined_in);
        // It may be in a block that came since.
        match if waits { head.after(&tip, mined_in.unwrap_or_default()).await } else { None } {
            Some(newer) => self.judge_at(&newer, terms, transaction, receipts.get(transaction).await?).await,
            None => Ok(verdict),
        }
    }

    /// What is to be said of this receipt at this head.
    async fn judge_at(
        &self,
        tip: &Tip,
        terms: &Terms,
        transaction: TxHash,
        found: Option<Arc<Found>>,
    ) -> Result<Verdict, VerifyError> {
        let Self { receipts, policy, .. } = self;
        let unknown = Verdict::NotConfirmed { retry_after: policy.retry_after };
        let Some(mut found) = found else { return Ok(unknown) };
        let mut block = self.sealed(&found, tip).await?;
        let mut verdict = judge(transaction, &found.receipt, block.as_ref(), tip, terms, policy);
        if !stands(&verdict, &found, block.as_ref()) {
            // In memory since before a reorganisation, from a block that was not sealed then, or not true.
            let contradicted = block.is_some_and(|block| !found.receipt.is_of(&block));
            let doubted = Arc::clone(&found);
            let Some(newer) = receipts.again(transaction, found, contradicted).await? else { return Ok(unknown) };
            found = newer;
            if !Arc::ptr_eq(&found, &doubted) {
                block = self.sealed(&found, tip).await?;
                verdict = judge(transaction, &found.receipt, block.as_ref(), tip, terms, policy);
            }
        }
        if let (Verdict::Paid { .. }, Some(block), Some(reorgs)) = (&verdict, &block, &self.reorgs) {
            reorgs.paid(transaction, block);
        }
        Ok(verdict)
    }

    /// Whether one block more could make a payment count that is in the block of that height, or in none yet.
    fn next_block_may_do(&self, tip: &Tip, mined_in: Option<u64>) -> bool {
        let deep_enough = |number| tip.confirmed.is_some_and(|highest| number <= highest.saturating_add(1));
        let shallow = mined_in.is_some_and(|number| number <= tip.head.number && !deep_enough(number));
        matches!(self.finality, Finality::Confirmations(_)) && !shallow
    }

    /// The sealed block at the height that the receipt names, if the chain has got there.
    async fn sealed(&self, found: &Found, tip: &Tip) -> Result<Option<Block>, VerifyError> {
        match found.receipt.mined_in {
            Some(mined_in) if mined_in.number <= tip.head.number => self.head.block(mined_in.number).await,
            _ => Ok(None),
        }
    }
}

/// Whether a verdict may rest on what is remembered: a payment, or one in the chain that is not deep enough yet. A node that
/// said something else once may say better by now.
fn stands(verdict: &Verdict, found: &Found, block: Option<&Block>) -> bool {
    match verdict {
        Verdict::Paid { .. } => true,
        Verdict::NotConfirmed { .. } => block.is_some_and(|block| found.receipt.is_of(block)),
        _ => false,
    }
}

const fn name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Paid { .. } => "paid",
        Verdict::NotConfirmed { .. } => "not_confirmed",
        Verdict::NoTransfer => "no_transfer",
        Verdict::Insufficient { .. } => "insufficient",
        Verdict::TooOld => "too_old",
    }
}
