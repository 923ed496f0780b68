//! `EvmVerifier`: judges a transaction with its receipt, and the sealed block at its height, at the chain's current
//! head.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::timeout;
use tracing::Instrument as _;

use super::{
    authorizations::Authorizations,
    decode,
    endpoint_pool::EndpointPool,
    finality::Finality,
    head::Head,
    judge::{Policy, Tip, judge},
    receipts::{Found, Receipts},
    reorg_monitor::ReorgMonitor,
    signatures::SignerInquiries,
    view::Block,
};
use crate::{
    evm::eip3009::Nonce,
    protocol::{Address, Asset, ChainTime, Network, PaymentSignature, Terms, TokenDomain, TxHash, permit2::Permit},
    verify::{NonceState, Signatures, Verdict, Verifier, VerifyError, VerifyErrorKind},
};

/// Verifies ERC-20 transfers on an EVM chain over JSON-RPC, with one or several endpoints. Clones share endpoints, head and caches.
///
/// It has no background task and needs no shutdown: it calls its endpoints only while payments are redeemed. A
/// redemption costs one round trip, `eth_getTransactionReceipt` and `eth_getTransactionByHash` at once. The chain's head is shared by
/// all redemptions and refreshed when it is older than one block time; while payments wait to be mined, up to four times a second.
///
/// Answers are checked as far as they can be:
///
/// - An endpoint's chain id is checked before its first answer counts, every minute, and after every failure.
/// - A receipt must be of the transaction in question and of the sealed block at its height, with its logs in order.
/// - Sender and call data of a transaction must match its hash and its signature. For transaction types of a single
///   chain, such as deposits, the endpoint is believed.
/// - A transaction is absent only if every endpoint that is up says so; so is the use of an authorization's nonce.
///
/// No error, log line or `Debug` output contains a URL (they hold keys) or text of a node.
///
/// ```no_run
/// # async fn example() -> Result<(), tower_x402::verify::VerifyError> {
/// use tower_x402::{protocol::Network, verify::EvmVerifier};
/// let verifier = EvmVerifier::connect(["https://mainnet.base.org"]).await?;
/// assert_eq!(verifier.network(), Network::BASE);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct EvmVerifier {
    pub(super) inner: Arc<Inner>,
}

/// The state that the clones of an [`EvmVerifier`] share.
pub(super) struct Inner {
    pub(super) network: Network,
    pub(super) finality: Finality,
    pub(super) pool: Arc<EndpointPool>,
    pub(super) head: Arc<Head>,
    pub(super) receipts: Arc<Receipts>,
    pub(super) signatures: SignerInquiries,
    pub(super) authorizations: Authorizations,
    pub(super) policy: Policy,
    /// `None` if only safe or finalized payments count anyway.
    pub(super) reorgs: Option<Arc<ReorgMonitor>>,
    pub(super) total_timeout: Duration,
}

/// Omits the endpoints' URLs, because they hold keys.
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
    /// Returns the chain that the endpoints serve.
    #[must_use]
    pub fn network(&self) -> Network {
        self.inner.network
    }

    /// Returns the number of payments that reorganisations have removed since this verifier was created: they were in a sealed block
    /// when they were verified, and in none once that height was `safe`. Each is logged; sales are not revoked. The check runs with
    /// later redemptions, at most once a minute.
    #[must_use]
    pub fn vanished_payments(&self) -> u64 {
        self.inner.reorgs.as_ref().map_or(0, |reorgs| reorgs.vanished())
    }

    /// Returns a token with the decimals and the symbol that its contract states.
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
        Ok(self.inner.head.wall_time().map_or(head, |now| head.max(now)))
    }

    fn signatures(&self) -> Option<&impl Signatures> {
        Some(self)
    }
}

impl Signatures for EvmVerifier {
    async fn signer(
        &self,
        message: &str,
        signature: &PaymentSignature,
        accounts: &[Address],
    ) -> Result<Option<Address>, VerifyError> {
        let Inner { signatures, total_timeout, .. } = &*self.inner;
        let signer = timeout(*total_timeout, signatures.signer(message, signature, accounts)).await;
        signer.unwrap_or_else(|_| Err(VerifyError::unavailable()))
    }

    async fn domain(&self, token: Address) -> Result<Option<TokenDomain>, VerifyError> {
        let Inner { authorizations, total_timeout, .. } = &*self.inner;
        let domain = timeout(*total_timeout, authorizations.domain(token)).await;
        domain.unwrap_or_else(|_| Err(VerifyError::unavailable()))
    }

    async fn nonce_state(
        &self,
        token: Address,
        payer: Address,
        nonce: &[u8; 32],
        since: ChainTime,
    ) -> Result<NonceState, VerifyError> {
        let Inner { authorizations, total_timeout, .. } = &*self.inner;
        let nonce = Nonce { token, payer, nonce: *nonce };
        let state = timeout(*total_timeout, authorizations.state(&nonce, since)).await;
        state.unwrap_or_else(|_| Err(VerifyError::unavailable()))
    }

    async fn permit_state(&self, permit: &Permit, since: ChainTime) -> Result<NonceState, VerifyError> {
        let Inner { authorizations, total_timeout, .. } = &*self.inner;
        let state = timeout(*total_timeout, authorizations.permit_state(permit, since)).await;
        state.unwrap_or_else(|_| Err(VerifyError::unavailable()))
    }
}

impl Inner {
    async fn examine(&self, terms: &Terms, transaction: TxHash) -> Result<Verdict, VerifyError> {
        let Self { head, receipts, .. } = self;
        let (tip, found) = tokio::try_join!(head.tip(), receipts.get(transaction))?;
        let mined_in = found.as_ref().and_then(|found| found.receipt().mined_in).map(|mined_in| mined_in.number);
        let verdict = self.judge_at(&tip, terms, transaction, found).await?;
        let waits = matches!(verdict, Verdict::NotConfirmed { .. }) && self.next_block_may_do(&tip, mined_in);
        // The transaction may be in a block that came since.
        match if waits { head.after(&tip, mined_in.unwrap_or_default()).await } else { None } {
            Some(newer) => self.judge_at(&newer, terms, transaction, receipts.get(transaction).await?).await,
            None => Ok(verdict),
        }
    }

    /// Judges this record at this head.
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
        let mut verdict = judge(transaction, &found.record, block.as_ref(), tip, terms, policy);
        if !stands(&verdict, &found, block.as_ref()) {
            // The record may be from before a reorganisation, from a block that was not sealed then, or false.
            let contradicted = block.is_some_and(|block| !found.receipt().is_of(&block));
            let doubted = Arc::clone(&found);
            let Some(newer) = receipts.again(transaction, found, contradicted).await? else { return Ok(unknown) };
            found = newer;
            if !Arc::ptr_eq(&found, &doubted) {
                block = self.sealed(&found, tip).await?;
                verdict = judge(transaction, &found.record, block.as_ref(), tip, terms, policy);
            }
        }
        if let (Verdict::Paid { .. }, Some(block), Some(reorgs)) = (&verdict, &block, &self.reorgs) {
            reorgs.paid(transaction, block);
        }
        Ok(verdict)
    }

    /// Returns whether one more block could make a payment count that is in a block of that height, or in none yet.
    fn next_block_may_do(&self, tip: &Tip, mined_in: Option<u64>) -> bool {
        let deep_enough = |number| tip.confirmed.is_some_and(|highest| number <= highest.saturating_add(1));
        let shallow = mined_in.is_some_and(|number| number <= tip.head.number && !deep_enough(number));
        matches!(self.finality, Finality::Confirmations(_)) && !shallow
    }

    /// Returns the sealed block at the height that the receipt names, if the head has reached it.
    async fn sealed(&self, found: &Found, tip: &Tip) -> Result<Option<Block>, VerifyError> {
        match found.receipt().mined_in {
            Some(mined_in) if mined_in.number <= tip.head.number => self.head.block(mined_in.number).await,
            _ => Ok(None),
        }
    }
}

/// Returns whether a verdict may rest on a cached record: a payment, or one in the chain that is not deep enough yet. Anything else may
/// have changed since.
fn stands(verdict: &Verdict, found: &Found, block: Option<&Block>) -> bool {
    match verdict {
        Verdict::Paid { .. } => true,
        Verdict::NotConfirmed { .. } => block.is_some_and(|block| found.receipt().is_of(block)),
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
