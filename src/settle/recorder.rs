//! `TransactionRecorder`: records the hash of a transaction before a settler sends it.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use crate::protocol::TxHash;

type Recorded = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Records the transaction that is about to settle a payment. After a crash, the paywall first looks up this
/// transaction.
///
/// A settler that signs its transactions itself [records](Self::record) each hash before it sends the transaction. One
/// that delegates this, such as a facilitator's client, learns the hash too late and does not use the recorder.
///
/// ```
/// use tower_x402::{protocol::TxHash, settle::TransactionRecorder};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let hash = TxHash::new([0xab; 32]);
/// assert!(TransactionRecorder::none().record(hash).await);
/// // A record that cannot be written.
/// assert!(!TransactionRecorder::new(|_| async { false }).record(hash).await);
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TransactionRecorder {
    write: Option<Arc<dyn Fn(TxHash) -> Recorded + Send + Sync>>,
}

impl TransactionRecorder {
    /// Creates a recorder that calls `write`, which returns whether the record is durable.
    pub fn new<F, W>(write: F) -> Self
    where
        F: Fn(TxHash) -> W + Send + Sync + 'static,
        W: Future<Output = bool> + Send + 'static,
    {
        Self { write: Some(Arc::new(move |transaction| Box::pin(write(transaction)))) }
    }

    /// Returns a recorder that records nothing, for a settler without a ledger.
    #[must_use]
    pub const fn none() -> Self {
        Self { write: None }
    }

    /// Records a transaction. If this returns `false`, the transaction must not be sent.
    #[must_use = "a transaction that is not recorded must not be sent"]
    pub async fn record(&self, transaction: TxHash) -> bool {
        match &self.write {
            Some(write) => write(transaction).await,
            None => true,
        }
    }
}

impl fmt::Debug for TransactionRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionRecorder").field("writes", &self.write.is_some()).finish()
    }
}
