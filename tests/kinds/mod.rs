//! A ledger of any kind, in a place of its own, so that one test says the same of each.

pub mod redis_server;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tower_x402::{
    ledger::{
        Account, AccountId, AccountLedger, AccountMemo, Announcements, BookedSale, ChargeOutcome, Claim, ClosedAccount,
        CommitOutcome, Draw, DrawLease, DrawOutcome, DrawRenewal, KeptAnswer, KnownPayment, Lease, Ledger, LedgerError,
        LedgerSize, Maintenance, OpenOutcome, Opening, PostgresLedger, RedisLedger, ReflectOutcome, Reflection,
        RefundOutcome, RenewOutcome, ReserveOutcome, Sale, SalesBook, SalesQuery, Settling, SqliteLedger,
        redis_driver as driver,
        sqlx::{self, AssertSqlSafe, Connection as _, PgPool, SqliteConnection, postgres::PgPoolOptions},
    },
    protocol::{Amount, ChainTime, IntentKey, Network, PaymentId, TxHash},
};

use crate::support::servers;

/// Where the ledgers of these tests begin.
pub const MARK: u64 = 1_795_280_000;
pub const PATIENT: Duration = Duration::from_secs(60);

pub fn time(seconds: u64) -> ChainTime {
    ChainTime::from_unix(seconds)
}

/// A prefix that no other test has.
pub fn prefix() -> String {
    let number = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), Instant::now());
    let letters = (0..13).map(|place| char::from(b'a' + (number >> (4 * place) & 15) as u8));
    std::iter::once('t').chain(letters).collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Sqlite,
    Postgres,
    Redis,
}

#[derive(Clone, Debug)]
pub enum AnyLedger {
    Sqlite(SqliteLedger),
    Postgres(PostgresLedger),
    Redis(RedisLedger),
}

macro_rules! of_each {
    ($any:expr, $ledger:ident => $answer:expr) => {
        match $any {
            AnyLedger::Sqlite($ledger) => $answer,
            AnyLedger::Postgres($ledger) => $answer,
            AnyLedger::Redis($ledger) => $answer,
        }
    };
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

impl AccountLedger for AnyLedger {
    async fn open_account(&self, opening: &Opening) -> Result<OpenOutcome, LedgerError> {
        of_each!(self, ledger => ledger.open_account(opening).await)
    }

    async fn draw(&self, draw: &Draw) -> Result<DrawOutcome, LedgerError> {
        of_each!(self, ledger => ledger.draw(draw).await)
    }

    async fn renew_draw(&self, lease: &DrawLease) -> Result<DrawRenewal, LedgerError> {
        of_each!(self, ledger => ledger.renew_draw(lease).await)
    }

    async fn charge(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> Result<ChargeOutcome, LedgerError> {
        of_each!(self, ledger => ledger.charge(lease, amount, memo).await)
    }

    async fn take_back(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> Result<ChargeOutcome, LedgerError> {
        of_each!(self, ledger => ledger.take_back(lease, amount, memo).await)
    }

    async fn release_draw(&self, lease: &DrawLease) -> Result<(), LedgerError> {
        of_each!(self, ledger => ledger.release_draw(lease).await)
    }

    async fn close_account(&self, id: AccountId) -> Result<Option<ClosedAccount>, LedgerError> {
        of_each!(self, ledger => ledger.close_account(id).await)
    }

    async fn account(&self, id: AccountId) -> Result<Option<Account>, LedgerError> {
        of_each!(self, ledger => ledger.account(id).await)
    }

    async fn reflect(&self, reflection: &Reflection) -> Result<ReflectOutcome, LedgerError> {
        of_each!(self, ledger => ledger.reflect(reflection).await)
    }

    async fn owed(&self, after: Option<AccountId>, most: usize) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        of_each!(self, ledger => ledger.owed(after, most).await)
    }

    async fn claimable(&self, after: Option<AccountId>, most: usize) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        of_each!(self, ledger => ledger.claimable(after, most).await)
    }

    async fn sweep_accounts(&self, expired_for: Duration) -> Result<u64, LedgerError> {
        of_each!(self, ledger => ledger.sweep_accounts(expired_for).await)
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

impl AnyLedger {
    /// As a seller connects, by [`Place::address`].
    pub async fn connect(address: &str) -> Self {
        match address.split_once(':').unwrap() {
            ("sqlite", path) => Self::Sqlite(SqliteLedger::open(path).await.unwrap()),
            ("redis", _) => {
                let (url, prefix) = address.rsplit_once('#').unwrap();
                Self::Redis(RedisLedger::builder().key_prefix(prefix).connect(url).await.unwrap())
            }
            _ => Self::Postgres(PostgresLedger::connect(address).await.unwrap()),
        }
    }

    /// In no hurry.
    pub async fn patient(address: &str) -> Self {
        match address.split_once(':').unwrap() {
            ("sqlite", path) => Self::Sqlite(SqliteLedger::open(path).await.unwrap().time_limit(PATIENT)),
            ("redis", _) => {
                let (url, prefix) = address.rsplit_once('#').unwrap();
                let ledger = RedisLedger::builder().key_prefix(prefix).time_limit(PATIENT).connect(url).await;
                Self::Redis(ledger.unwrap())
            }
            _ => {
                let pool = PgPoolOptions::new().max_connections(4).connect_lazy(address).unwrap();
                Self::Postgres(PostgresLedger::from(pool).time_limit(PATIENT))
            }
        }
    }

    /// In no hurry, with so many bytes for answers, and with its tables.
    pub async fn with_answer_space(address: &str, bytes: usize) -> Self {
        match address.split_once(':').unwrap() {
            ("sqlite", path) => {
                let builder = SqliteLedger::builder().time_limit(PATIENT).answers_up_to(bytes);
                Self::Sqlite(builder.open(path).await.unwrap())
            }
            ("redis", _) => {
                let (url, prefix) = address.rsplit_once('#').unwrap();
                let builder = RedisLedger::builder().key_prefix(prefix).time_limit(PATIENT).answers_up_to(bytes);
                Self::Redis(builder.connect(url).await.unwrap())
            }
            _ => {
                let builder = PostgresLedger::builder().time_limit(PATIENT).answers_up_to(bytes);
                Self::Postgres(builder.run_migrations(true).connect(address).await.unwrap())
            }
        }
    }

    /// In no hurry, and with every sale in its book for good.
    pub async fn booking(address: &str) -> Self {
        match address.split_once(':').unwrap() {
            ("redis", _) => {
                let (url, prefix) = address.rsplit_once('#').unwrap();
                let ledger = RedisLedger::builder().key_prefix(prefix).time_limit(PATIENT).keep_book(true);
                Self::Redis(ledger.connect(url).await.unwrap())
            }
            _ => Self::patient(address).await,
        }
    }

    pub async fn migrate(&self) -> Result<(), LedgerError> {
        match self {
            Self::Sqlite(ledger) => ledger.migrate().await,
            Self::Postgres(ledger) => ledger.migrate().await,
            Self::Redis(_) => Ok(()),
        }
    }

    /// Lets go of whatever it holds open.
    pub async fn close(self) {
        if let Self::Sqlite(ledger) = &self {
            ledger.close().await;
        }
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

impl SalesBook for AnyLedger {
    async fn page(
        &self,
        query: &SalesQuery,
        after: Option<&BookedSale>,
        most: usize,
    ) -> Result<Vec<BookedSale>, LedgerError> {
        of_each!(self, ledger => ledger.page(query, after, most).await)
    }

    async fn known(&self, payments: &[PaymentId]) -> Result<Vec<KnownPayment>, LedgerError> {
        of_each!(self, ledger => ledger.known(payments).await)
    }

    async fn note_refund(&self, payment: PaymentId, transaction: TxHash) -> Result<RefundOutcome, LedgerError> {
        of_each!(self, ledger => ledger.note_refund(payment, transaction).await)
    }
}

/// Where one ledger lies.
pub struct Place {
    pub kind: Kind,
    address: String,
    folder: TempDir,
    /// An operator's, on PostgreSQL.
    operators: Option<PgPool>,
}

impl Place {
    /// An empty one; `None`, aloud, where there is no server of this kind.
    pub async fn new(kind: Kind) -> Option<Self> {
        let server = match kind {
            Kind::Sqlite => "",
            Kind::Postgres => servers::postgres().await?,
            Kind::Redis => redis_server::shared().await?,
        };
        Some(Self::on(kind, server).await)
    }

    /// On this server.
    pub async fn on(kind: Kind, server: &str) -> Self {
        let (folder, name) = (tempfile::tempdir().unwrap(), prefix());
        let address = match kind {
            Kind::Sqlite => format!("sqlite:{}", folder.path().join("ledger.db").display()),
            Kind::Redis => format!("{server}#{name}"),
            Kind::Postgres => format!("{server}?options[search_path]={name}"),
        };
        let operators = PgPoolOptions::new().max_connections(2);
        let operators = (kind == Kind::Postgres).then(|| operators.connect_lazy(&address).unwrap());
        let place = Self { kind, address, folder, operators };
        if kind == Kind::Postgres {
            place.sql(&format!("CREATE SCHEMA {name}")).await;
        }
        place
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub async fn ledger(&self) -> AnyLedger {
        AnyLedger::patient(&self.address).await
    }

    /// A ledger whose memory starts at the mark.
    pub async fn begun(&self) -> AnyLedger {
        let ledger = self.ledger().await;
        ledger.migrate().await.unwrap();
        ledger.begin(Network::BASE, time(MARK)).await.unwrap();
        ledger
    }

    /// Statements, as an operator would put them; nothing for Redis.
    pub async fn sql(&self, statements: &str) {
        let statements = AssertSqlSafe(statements.to_owned());
        match self.kind {
            Kind::Sqlite => {
                let mut connection = SqliteConnection::connect(&self.address).await.unwrap();
                sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
            Kind::Postgres => drop(sqlx::raw_sql(statements).execute(self.pool()).await.unwrap()),
            Kind::Redis => {}
        }
    }

    /// What a query counts; not for Redis.
    pub async fn count(&self, query: &str) -> u64 {
        let query = AssertSqlSafe(query.to_owned());
        let count: i64 = match self.kind {
            Kind::Sqlite => {
                let mut connection = SqliteConnection::connect(&self.address).await.unwrap();
                sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap()
            }
            _ => sqlx::query_scalar(query).fetch_one(self.pool()).await.unwrap(),
        };
        count.cast_unsigned()
    }

    /// The ledger has to be on PostgreSQL.
    pub fn pool(&self) -> &PgPool {
        self.operators.as_ref().unwrap()
    }

    /// The server and the first part of every key; the ledger has to be on Redis.
    pub async fn redis(&self) -> (driver::aio::MultiplexedConnection, String) {
        let (url, prefix) = self.address.rsplit_once('#').unwrap();
        let connection = driver::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
        (connection, format!("{{{prefix}}}:"))
    }

    pub async fn redis_keys(&self) -> Vec<String> {
        let (mut connection, prefix) = self.redis().await;
        driver::cmd("KEYS").arg(format!("{prefix}*")).query_async(&mut connection).await.unwrap()
    }

    /// Makes it as if nobody had ever used it.
    pub async fn empty(&self) {
        match self.kind {
            Kind::Sqlite => {
                let path = self.address.strip_prefix("sqlite:").unwrap();
                for companion in ["", "-wal", "-shm"] {
                    let _ = std::fs::remove_file(format!("{path}{companion}"));
                }
            }
            Kind::Postgres => {
                let tables = "DROP TABLE ledger_memory, ledger_marks, ledger_sales, ledger_answers, ledger_book, ledger_refunds, ledger_settling, ledger_unannounced, ledger_accounts, ledger_charges";
                self.sql(&format!("DROP VIEW ledger_sold; {tables}")).await;
            }
            Kind::Redis => {
                let (keys, (mut connection, _)) = (self.redis_keys().await, self.redis().await);
                if !keys.is_empty() {
                    let _: u64 = driver::cmd("DEL").arg(keys).query_async(&mut connection).await.unwrap();
                }
            }
        }
    }

    /// Leaves nothing behind.
    pub async fn remove(self) {
        match self.kind {
            Kind::Sqlite => {}
            Kind::Postgres => {
                let schema = self.address.rsplit('=').next().unwrap();
                self.sql(&format!("DROP SCHEMA {schema} CASCADE")).await;
                self.pool().close().await;
            }
            Kind::Redis => self.empty().await,
        }
    }
}

/// The same test on each kind of ledger.
macro_rules! on_each_kind {
    ($($test:ident)*) => { $(
        mod $test {
            use crate::kinds::Kind;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$test(Kind::Sqlite).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$test(Kind::Postgres).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis() {
                super::$test(Kind::Redis).await;
            }
        }
    )* };
}
pub(crate) use on_each_kind;
