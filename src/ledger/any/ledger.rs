//! `AnyLedger` forwards to the ledger that it wraps.

#[cfg(feature = "postgres")]
use crate::ledger::PostgresLedger;
#[cfg(feature = "redis")]
use crate::ledger::RedisLedger;
#[cfg(feature = "sqlite")]
use crate::ledger::SqliteLedger;
use crate::ledger::{
    AccountLedger, Announcements, BookedSale, Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, LedgerSize,
    Maintenance, MemoryLedger, RenewOutcome, ReserveOutcome, Sale, Settling,
};
use crate::protocol::{ChainTime, IntentKey, Network, PaymentId};

/// Any ledger of this crate, for programs whose configuration chooses the ledger. Clones share the ledger.
///
/// [`open`](Self::open) takes the ledger's address. To change other settings, open the ledger by its own builder and
/// convert it with `From`.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let folder = std::env::temp_dir().join(format!("any-ledger-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("ledger.db").display().to_string();
/// use tower_x402::{
///     ledger::{AnyLedger, Ledger, Maintenance, MemoryLedger},
///     protocol::{ChainTime, Network},
/// };
///
/// let ledger = AnyLedger::open(&format!("sqlite:{path}")).await?;
/// ledger.begin(Network::BASE, ChainTime::from_unix(1_795_280_400)).await?;
/// assert_eq!(ledger.low_water_mark(Network::BASE).await?, Some(ChainTime::from_unix(1_795_280_400)));
///
/// let for_tests = AnyLedger::from(MemoryLedger::new());
/// # drop(for_tests);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AnyLedger {
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Memory(MemoryLedger),
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteLedger),
    #[cfg(feature = "postgres")]
    Postgres(PostgresLedger),
    #[cfg(feature = "redis")]
    Redis(RedisLedger),
}

/// Evaluates an expression with the wrapped ledger.
macro_rules! of_each {
    ($any:expr, $ledger:ident => $answer:expr) => {
        match &$any.kind {
            Kind::Memory($ledger) => $answer,
            #[cfg(feature = "sqlite")]
            Kind::Sqlite($ledger) => $answer,
            #[cfg(feature = "postgres")]
            Kind::Postgres($ledger) => $answer,
            #[cfg(feature = "redis")]
            Kind::Redis($ledger) => $answer,
        }
    };
}

pub(super) use of_each;

impl From<MemoryLedger> for AnyLedger {
    fn from(ledger: MemoryLedger) -> Self {
        Self { kind: Kind::Memory(ledger) }
    }
}

#[cfg(feature = "sqlite")]
impl From<SqliteLedger> for AnyLedger {
    fn from(ledger: SqliteLedger) -> Self {
        Self { kind: Kind::Sqlite(ledger) }
    }
}

#[cfg(feature = "postgres")]
impl From<PostgresLedger> for AnyLedger {
    fn from(ledger: PostgresLedger) -> Self {
        Self { kind: Kind::Postgres(ledger) }
    }
}

#[cfg(feature = "redis")]
impl From<RedisLedger> for AnyLedger {
    fn from(ledger: RedisLedger) -> Self {
        Self { kind: Kind::Redis(ledger) }
    }
}

impl Ledger for AnyLedger {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        of_each!(self, ledger => ledger.begin(network, now).await)
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        of_each!(self, ledger => ledger.reserve(claim).await)
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        of_each!(self, ledger => ledger.renew(lease).await)
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        of_each!(self, ledger => ledger.settling(lease, settling).await)
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        of_each!(self, ledger => ledger.not_settled(lease).await)
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        of_each!(self, ledger => ledger.commit(lease, answer).await)
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        of_each!(self, ledger => ledger.release(lease).await)
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        of_each!(self, ledger => ledger.consumed(intent).await)
    }

    async fn begun(&self, intent: IntentKey, payment: PaymentId) -> Result<Option<Settling>, LedgerError> {
        of_each!(self, ledger => ledger.begun(intent, payment).await)
    }

    async fn begun_among(
        &self,
        intent: IntentKey,
        payments: &[PaymentId],
    ) -> Result<Option<(PaymentId, Settling)>, LedgerError> {
        of_each!(self, ledger => ledger.begun_among(intent, payments).await)
    }

    async fn health(&self) -> Result<(), LedgerError> {
        of_each!(self, ledger => ledger.health().await)
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        of_each!(self, ledger => ledger.sweep(network, head).await)
    }

    fn announcements(&self) -> Option<&impl Announcements> {
        Some(self)
    }

    fn accounts(&self) -> Option<&impl AccountLedger> {
        Some(self)
    }

    fn answer_space(&self) -> Option<usize> {
        of_each!(self, ledger => ledger.answer_space())
    }
}

impl Announcements for AnyLedger {
    async fn unannounced(&self, after: Option<&BookedSale>, most: usize) -> Result<Vec<BookedSale>, LedgerError> {
        of_each!(self, ledger => ledger.unannounced(after, most).await)
    }

    async fn announced(&self, payment: PaymentId) -> Result<(), LedgerError> {
        of_each!(self, ledger => ledger.announced(payment).await)
    }
}

impl Maintenance for AnyLedger {
    async fn size(&self) -> Result<LedgerSize, LedgerError> {
        of_each!(self, ledger => ledger.size().await)
    }

    async fn low_water_mark(&self, network: Network) -> Result<Option<ChainTime>, LedgerError> {
        of_each!(self, ledger => ledger.low_water_mark(network).await)
    }

    async fn raise_mark_to(&self, network: Network, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        of_each!(self, ledger => ledger.raise_mark_to(network, time).await)
    }

    async fn lower_mark_to(&self, network: Network, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        of_each!(self, ledger => ledger.lower_mark_to(network, time).await)
    }
}
