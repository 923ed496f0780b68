//! A ledger whose commits are applied, and not confirmed while a file says so.

use std::{fs, future::pending, path::PathBuf};

use tower_x402::{
    ledger::{
        Announcements, Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, RenewOutcome, ReserveOutcome,
        Sale, Settling,
    },
    protocol::{ChainTime, IntentKey, Network, PaymentId},
};

/// While there is a file of this name, commits are applied and seem to fail.
pub const UNCONFIRMED: &str = "unconfirmed";
/// While there is one of this name, commits are applied and never end.
pub const STUCK: &str = "stuck";
/// Is written behind such a commit.
pub const COMMITTED: &str = "committed";

pub struct Unsure<L> {
    ledger: L,
    folder: PathBuf,
}

impl<L> Unsure<L> {
    pub const fn new(ledger: L, folder: PathBuf) -> Self {
        Self { ledger, folder }
    }
}

impl<L: Ledger> Ledger for Unsure<L> {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.ledger.begin(network, now).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        self.ledger.reserve(claim).await
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        self.ledger.renew(lease).await
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        self.ledger.settling(lease, settling).await
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.ledger.not_settled(lease).await
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        let outcome = self.ledger.commit(lease, answer).await;
        if self.folder.join(STUCK).exists() {
            fs::write(self.folder.join(COMMITTED), "").unwrap();
            pending().await
        }
        if self.folder.join(UNCONFIRMED).exists() { Err(LedgerError::unavailable()) } else { outcome }
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.ledger.release(lease).await
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        self.ledger.consumed(intent).await
    }

    async fn begun(&self, intent: IntentKey, payment: PaymentId) -> Result<Option<Settling>, LedgerError> {
        self.ledger.begun(intent, payment).await
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        self.ledger.sweep(network, head).await
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.ledger.health().await
    }

    fn announcements(&self) -> Option<&impl Announcements> {
        self.ledger.announcements()
    }

    fn answer_space(&self) -> Option<usize> {
        self.ledger.answer_space()
    }
}
