//! `TransferHistory`: transfers to an account, sold or not.

use std::{future::Future, sync::Arc};

use super::VerifyError;
use crate::protocol::{Address, Asset, ChainTime, Transfer};

/// Lists transfers on the chain, for the seller's books. Selling needs none of this.
///
/// `EvmVerifier` (feature `evm`) implements it by log queries.
pub trait TransferHistory: Send + Sync + 'static {
    /// Returns the transfers of the query, in the order of their blocks. Each has the payment id that
    /// [`verify`](super::Verifier::verify) gives it. Transfers of zero are omitted, and so are transfers from the zero
    /// address, from the recipient itself, and from denied payers.
    ///
    /// Only blocks that are deep enough for a payment count. All transfers of the span are held in memory.
    ///
    /// # Errors
    /// [`VerifyError`] if the chain could not be read, in whole or in part.
    fn transfers(&self, query: &TransferQuery) -> impl Future<Output = Result<Vec<Transfer>, VerifyError>> + Send;
}

/// A shared handle.
impl<H: TransferHistory> TransferHistory for Arc<H> {
    fn transfers(&self, query: &TransferQuery) -> impl Future<Output = Result<Vec<Transfer>, VerifyError>> + Send {
        H::transfers(self, query)
    }
}

/// A selection of transfers: to these accounts, of these tokens, mined in a span of time.
///
/// ```
/// use tower_x402::{protocol::{Address, Asset, ChainTime}, verify::TransferQuery};
/// let query = TransferQuery::new([Address::new([0x5a; 20])], [Asset::USDC_BASE])
///     .since(ChainTime::from_unix(1_795_280_400))
///     .until(ChainTime::from_unix(1_795_366_800));
/// assert!(query.is_in_span(ChainTime::from_unix(1_795_280_400)));
/// assert!(!query.is_in_span(ChainTime::from_unix(1_795_366_800)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct TransferQuery {
    recipients: Vec<Address>,
    assets: Arc<[Asset]>,
    since: ChainTime,
    until: Option<ChainTime>,
}

impl TransferQuery {
    /// Selects all transfers of these tokens to these accounts.
    pub fn new(recipients: impl IntoIterator<Item = Address>, assets: impl IntoIterator<Item = Asset>) -> Self {
        let (mut recipients, assets): (Vec<_>, _) = (recipients.into_iter().collect(), assets.into_iter().collect());
        recipients.sort_unstable();
        recipients.dedup();
        Self { recipients, assets, since: ChainTime::from_unix(0), until: None }
    }

    /// Selects transfers in blocks of that time or later.
    pub fn since(self, time: ChainTime) -> Self {
        Self { since: time, ..self }
    }

    /// Selects only transfers in blocks before that time.
    pub fn until(self, time: ChainTime) -> Self {
        Self { until: Some(time), ..self }
    }

    /// Returns the accounts that received the transfers.
    #[must_use]
    pub fn recipients(&self) -> &[Address] {
        &self.recipients
    }

    /// Returns the tokens.
    #[must_use]
    pub fn assets(&self) -> &Arc<[Asset]> {
        &self.assets
    }

    /// Returns the time at which the span begins.
    #[must_use]
    pub const fn start(&self) -> ChainTime {
        self.since
    }

    /// Returns the time before which the span ends, if it ends.
    #[must_use]
    pub const fn end(&self) -> Option<ChainTime> {
        self.until
    }

    /// Returns whether a block of that time is in the span.
    #[must_use]
    pub fn is_in_span(&self, time: ChainTime) -> bool {
        time >= self.since && self.until.is_none_or(|until| time < until)
    }
}
