//! `RedisLedgerBuilder`: the connection to the server, and the checks before the first sale.

use std::{fmt, sync::Arc, time::Duration};

use ::redis as driver;
use driver::{Client, IntoConnectionInfo, ProtocolVersion, RedisResult};

use super::{
    super::{LedgerError, answer_space::ANSWER_SPACE},
    connection::{Connection, TIME_LIMIT},
    error::{KEY_PREFIX, REPLICAS, SENTINELS, URL},
    handle::{RedisInner, RedisLedger, Replicated},
    source::Source,
};

/// The default prefix of every key.
const PREFIX: &str = "ledger";
/// The longest wait for replicas. The rest of a commit's time limit is for the commit itself.
const LONGEST_WAIT: Duration = Duration::from_millis(1_000);
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Configures a [`RedisLedger`].
///
/// ```no_run
/// use std::time::Duration;
/// use tower_x402::ledger::RedisLedger;
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let ledger = RedisLedger::builder()
///     .key_prefix("shop")
///     .wait_replicas(1, Duration::from_millis(500))
///     .time_limit(Duration::from_secs(1))
///     .connect("redis://redis.internal")
///     .await?;
/// # Ok(()) }
/// ```
#[must_use]
pub struct RedisLedgerBuilder {
    prefix: String,
    replicas: Option<(u32, Duration)>,
    evicts: bool,
    durable: bool,
    keeps_book: bool,
    answer_bytes: usize,
    time_limit: Duration,
    sentinels: Option<(Vec<String>, String)>,
}

impl RedisLedger {
    /// Connects to `redis://user:password@host:port/database` with the default settings.
    ///
    /// # Errors
    /// As [`RedisLedgerBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self, LedgerError> {
        Self::builder().connect(url).await
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> RedisLedgerBuilder {
        RedisLedgerBuilder::new()
    }
}

impl RedisLedgerBuilder {
    fn new() -> Self {
        let prefix = PREFIX.to_owned();
        let (evicts, durable, keeps_book) = (false, false, false);
        let (time_limit, answer_bytes) = (TIME_LIMIT, ANSWER_SPACE);
        Self { prefix, replicas: None, evicts, durable, keeps_book, answer_bytes, time_limit, sentinels: None }
    }

    /// Finds the server through these sentinels, each a URL: the leader of the service `service`. They are asked at
    /// first, and again whenever the server does not answer or no longer leads. Host and port of the ledger's own URL
    /// are then ignored.
    pub fn sentinels<U: Into<String>>(self, urls: impl IntoIterator<Item = U>, service: impl Into<String>) -> Self {
        Self { sentinels: Some((urls.into_iter().map(Into::into).collect(), service.into())), ..self }
    }

    /// Accepts only a server that loses no sales in a crash of its machine, or only those of a second or two: one with
    /// an append-only file, flushed with every write or every second. [`health`](super::super::Ledger::health) checks
    /// it again. By default a server with snapshots only, or without persistence, is accepted with a warning; after a
    /// loss it sells the lost payments again.
    pub fn require_durability(self, required: bool) -> Self {
        Self { durable: required, ..self }
    }

    /// Sets whether every sale is kept for good in the book of sales: off by default. Each sale then takes about 0.8 kB
    /// more of the server's memory, for ever, and the server must not run out of it. Without it, the book has a sale
    /// only as long as its payment could be shown again. All replicas should have the same setting.
    pub fn keep_book(self, keep: bool) -> Self {
        Self { keeps_book: keep, ..self }
    }

    /// Sets how many bytes of the server's memory all kept answers may take: 64 MiB by default. An answer for which
    /// there is no room is delivered once, and not kept; likewise an answer that would fill more than four fifths of
    /// the server's `maxmemory`. All replicas should have the same limit.
    pub fn answers_up_to(self, bytes: usize) -> Self {
        Self { answer_bytes: bytes, ..self }
    }

    /// Sets the prefix of every key, as its hash tag, `ledger` by default: 1 to 32 of the characters `a` to `z`, `0` to `9` and `_`.
    pub fn key_prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Confirms a commit only after this many replicas have it too (`WAIT`). If they do not have it within `timeout`,
    /// the commit fails, and can be repeated. Commits then use a connection of their own, since `WAIT` blocks later
    /// commands on its connection; a connection that the caller passes in is shared with all other questions.
    pub fn wait_replicas(self, replicas: u32, timeout: Duration) -> Self {
        Self { replicas: Some((replicas, timeout)), ..self }
    }

    /// Accepts a server with any `maxmemory-policy`. Unless that is `noeviction`, a server that is short of memory
    /// drops records of sales, and each of these payments buys another answer.
    pub fn allow_eviction_to_sell_twice(self) -> Self {
        Self { evicts: true, ..self }
    }

    /// Sets how long one question may take before it fails as [`Unavailable`](crate::ledger::LedgerErrorKind::Unavailable): 1.9 s
    /// by default.
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Connects to `redis://user:password@host:port/database`, and checks that the server can keep a ledger.
    ///
    /// # Errors
    /// [`LedgerError`] of the kind [`Setting`](crate::ledger::LedgerErrorKind::Setting);
    /// [`Unsafe`](crate::ledger::LedgerErrorKind::Unsafe) if the server evicts keys, or does not say whether it does;
    /// [`Incompatible`](crate::ledger::LedgerErrorKind::Incompatible) if another version wrote its contents;
    /// [`Unavailable`](crate::ledger::LedgerErrorKind::Unavailable) without an answer within the [time limit](Self::time_limit).
    pub async fn connect(self, url: &str) -> Result<RedisLedger, LedgerError> {
        self.check()?;
        let client = client(url).map_err(|_| URL)?;
        self.connect_client(client).await
    }

    /// Connects with the caller's client, for example with its own certificates.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_client(self, client: driver::Client) -> Result<RedisLedger, LedgerError> {
        self.connect_to(Source::Client(client)).await
    }

    /// Uses the caller's connection. It has to reconnect by itself; the ledger does not repair a failure that the
    /// connection overlooks, such as a hanging server.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn on(self, connection: driver::aio::ConnectionManager) -> Result<RedisLedger, LedgerError> {
        self.connect_to(Source::Manager(connection)).await
    }

    async fn connect_to(self, source: Source) -> Result<RedisLedger, LedgerError> {
        self.check()?;
        let source = match self.sentinels {
            Some((urls, service)) => led(source, &urls, &service)?,
            None => source,
        };
        #[cfg(feature = "redis-tls")]
        choose_crypto();
        let connection = || Connection::new(source.clone(), self.time_limit);
        let replicated = self.replicas.map(|(replicas, wait)| Replicated { connection: connection(), replicas, wait });
        let (evicts, durable, books, answers) = (self.evicts, self.durable, self.keeps_book, self.answer_bytes);
        let inner = RedisInner::new(self.prefix, connection(), replicated, evicts, durable, books, answers);
        let ledger = RedisLedger { inner: Arc::new(inner) };
        ledger.check().await?;
        if !self.durable {
            ledger.warn_if_it_forgets().await?;
        }
        Ok(ledger)
    }

    /// Checks the settings before a server is contacted.
    fn check(&self) -> Result<(), LedgerError> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !(1..=32).contains(&self.prefix.len()) || !self.prefix.bytes().all(plain) {
            return Err(KEY_PREFIX);
        }
        if self.replicas.is_some_and(|(count, wait)| count == 0 || !(SHORTEST_WAIT..=LONGEST_WAIT).contains(&wait)) {
            return Err(REPLICAS);
        }
        Ok(())
    }
}

fn client(url: &str) -> RedisResult<Client> {
    let info = url.into_connection_info()?;
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    // With RESP3 the driver notices a connection that breaks while it is idle.
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    Client::open(info.set_tcp_settings(tcp).set_redis_settings(redis))
}

/// A source for the server that these sentinels name.
fn led(source: Source, urls: &[String], service: &str) -> Result<Source, LedgerError> {
    let Source::Client(server) = source else { return Err(SENTINELS) };
    let sentinels: RedisResult<Vec<_>> = urls.iter().map(|url| client(url)).collect();
    let sentinels = sentinels.map_err(|_| URL)?;
    if sentinels.is_empty() {
        return Err(SENTINELS);
    }
    Ok(Source::Sentinels { sentinels: sentinels.into(), service: service.into(), client: server })
}

/// Installs the crypto provider of the HTTP client, unless the program chose one.
#[cfg(feature = "redis-tls")]
fn choose_crypto() {
    // An error means that another thread has installed one meanwhile.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    }
}

/// Does not show the sentinels.
impl fmt::Debug for RedisLedgerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLedgerBuilder").field("key_prefix", &self.prefix).finish_non_exhaustive()
    }
}
