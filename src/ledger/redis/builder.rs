//! `RedisLedgerBuilder`: where the server is, and what is asked of it before anything is sold.

use std::{fmt, sync::Arc, time::Duration};

use ::redis as driver;
use driver::{Client, IntoConnectionInfo, ProtocolVersion, RedisResult, aio::ConnectionManager};

use super::{
    super::LedgerError,
    connection::{Connection, TIME_LIMIT},
    handle::{RedisInner, RedisLedger, Replicated},
    source::Source,
};

/// Before the name of every key.
const PREFIX: &str = "ledger";
/// The longest wait for replicas: the rest of the time a commit may take is for the commit.
const LONGEST_WAIT: Duration = Duration::from_millis(1_000);
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// How a [`RedisLedger`] is connected.
#[must_use]
pub struct RedisLedgerBuilder {
    source: RedisResult<Source>,
    prefix: String,
    replicas: Option<(u32, Duration)>,
    evicts: bool,
    durable: bool,
    time_limit: Duration,
    sentinels: Option<(Vec<String>, String)>,
}

/// Why a server is not taken for a ledger. It carries neither a URL nor anything that the server said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisConnectError {
    /// The URL cannot be used.
    #[error("this is no URL such as `redis://user:password@host:6379/0` (`rediss` needs the feature `redis-tls`)")]
    Url,
    /// The key prefix has other characters than `a` to `z`, `0` to `9` and `_`, none, or more than 32.
    #[error("a key prefix is 1 to 32 of the characters a to z, 0 to 9 and _")]
    KeyPrefix,
    /// Replicas are waited for, but none of them, or for no time, or too long.
    #[error("a commit waits for one replica at least, and for 1 ms to 1 s")]
    Replicas,
    /// The server would drop sales when it runs short of memory, and each of them would be sold once more.
    #[error("the server may evict what was sold: set `maxmemory-policy noeviction`")]
    Evicts,
    /// Neither CONFIG nor INFO tells whether the server would drop sales.
    #[error("the server does not tell its `maxmemory-policy`: allow the user `config|get` or `info`")]
    PolicyUnknown,
    /// The server would lose sales in a crash, or does not tell, and [durability](RedisLedgerBuilder::require_durability) is
    /// required.
    #[error("the server may lose what was sold: set `appendonly yes`, and `appendfsync always` or `everysec`")]
    NotDurable,
    /// Sentinels are named for a server that is not found by them: none of them, or a connection of the caller's.
    #[error("sentinels are one URL or more, with a URL for the server")]
    Sentinels,
    /// The ledger could not be asked.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl RedisLedger {
    /// Connects to `redis://user:password@host:port/database`, with the default settings.
    ///
    /// # Errors
    /// As [`RedisLedgerBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self, RedisConnectError> {
        Self::builder(url).connect().await
    }

    /// The same, with settings.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tower_x402::ledger::RedisLedger;
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let ledger = RedisLedger::builder("redis://redis.internal")
    ///     .key_prefix("shop")
    ///     .wait_replicas(1, Duration::from_millis(500))
    ///     .connect()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn builder(url: &str) -> RedisLedgerBuilder {
        RedisLedgerBuilder::for_url(url)
    }

    /// With a client of the caller's: with certificates of its own, for instance.
    pub fn builder_for(client: driver::Client) -> RedisLedgerBuilder {
        RedisLedgerBuilder::for_client(client)
    }

    /// On a connection of the caller's. It has to renew itself when it breaks: what it does not notice, a server that hangs,
    /// say, nobody mends.
    pub fn builder_on(connection: driver::aio::ConnectionManager) -> RedisLedgerBuilder {
        RedisLedgerBuilder::for_manager(connection)
    }
}

impl RedisLedgerBuilder {
    pub(super) fn for_url(url: &str) -> Self {
        Self::new(client(url).map(Source::Client))
    }

    pub(super) fn for_client(client: Client) -> Self {
        Self::new(Ok(Source::Client(client)))
    }

    pub(super) fn for_manager(connection: ConnectionManager) -> Self {
        Self::new(Ok(Source::Manager(connection)))
    }

    fn new(source: RedisResult<Source>) -> Self {
        let prefix = PREFIX.to_owned();
        Self { source, prefix, replicas: None, evicts: false, durable: false, time_limit: TIME_LIMIT, sentinels: None }
    }

    /// Asks these sentinels, URLs of their own, which server leads under the name `service`: at the beginning, and whenever
    /// the one that led does not answer or leads no longer. Of the ledger's own URL all but host and port holds for it.
    pub fn sentinels<U: Into<String>>(self, urls: impl IntoIterator<Item = U>, service: impl Into<String>) -> Self {
        Self { sentinels: Some((urls.into_iter().map(Into::into).collect(), service.into())), ..self }
    }

    /// Takes only a server that loses no sale, or those of a second or two, when its machine crashes: one with an append-only
    /// file, flushed with every write or every second. [`health`](super::super::Ledger::health) looks again. Otherwise a server
    /// that keeps snapshots, or nothing, is taken with a warning, and sells again what it lost.
    pub fn require_durability(self, required: bool) -> Self {
        Self { durable: required, ..self }
    }

    /// What every key begins with, as its hash tag, instead of `ledger`: 1 to 32 of `a` to `z`, `0` to `9` and `_`.
    pub fn key_prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Lets a commit be done only when that many replicas have it too (`WAIT`); when they do not within `timeout`, it
    /// fails, and can be repeated. Commits then have a connection of their own, since `WAIT` holds up what
    /// comes after it; a connection of the caller's they share with all other questions.
    pub fn wait_replicas(self, replicas: u32, timeout: Duration) -> Self {
        Self { replicas: Some((replicas, timeout)), ..self }
    }

    /// Takes a server whatever its `maxmemory-policy`. Unless that is `noeviction`, a server short of memory drops
    /// records of sales, and each of these payments buys another answer.
    pub fn allow_eviction_to_sell_twice(self) -> Self {
        Self { evicts: true, ..self }
    }

    /// How long one question may take before it is given up as [`LedgerError::Unavailable`]: 1.9 s unless set here.
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Connects, and makes sure that the server is one to keep a ledger on.
    ///
    /// # Errors
    /// [`RedisConnectError`]: the settings, the server's eviction policy, contents of another version, or no answer
    /// within two seconds.
    pub async fn connect(self) -> Result<RedisLedger, RedisConnectError> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !(1..=32).contains(&self.prefix.len()) || !self.prefix.bytes().all(plain) {
            return Err(RedisConnectError::KeyPrefix);
        }
        if self.replicas.is_some_and(|(count, wait)| count == 0 || !(SHORTEST_WAIT..=LONGEST_WAIT).contains(&wait)) {
            return Err(RedisConnectError::Replicas);
        }
        let source = self.source.map_err(|_| RedisConnectError::Url)?;
        let source = match self.sentinels {
            Some((urls, service)) => led(source, &urls, &service)?,
            None => source,
        };
        #[cfg(feature = "redis-tls")]
        choose_crypto();
        let connection = || Connection::new(source.clone(), self.time_limit);
        let replicated = self.replicas.map(|(replicas, wait)| Replicated { connection: connection(), replicas, wait });
        let inner = RedisInner::new(self.prefix, connection(), replicated, self.evicts, self.durable);
        let ledger = RedisLedger { inner: Arc::new(inner) };
        ledger.check().await?;
        if !self.durable {
            ledger.warn_if_it_forgets().await?;
        }
        Ok(ledger)
    }
}

fn client(url: &str) -> RedisResult<Client> {
    let info = url.into_connection_info()?;
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    // With RESP3 the driver notices a connection that breaks while nobody asks.
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    Client::open(info.set_tcp_settings(tcp).set_redis_settings(redis))
}

/// The server that these sentinels name.
fn led(source: Source, urls: &[String], service: &str) -> Result<Source, RedisConnectError> {
    let Source::Client(server) = source else { return Err(RedisConnectError::Sentinels) };
    let sentinels: RedisResult<Vec<_>> = urls.iter().map(|url| client(url)).collect();
    let sentinels = sentinels.map_err(|_| RedisConnectError::Url)?;
    if sentinels.is_empty() {
        return Err(RedisConnectError::Sentinels);
    }
    Ok(Source::Sentinels { sentinels: sentinels.into(), service: service.into(), client: server })
}

/// The provider that the HTTP client uses, unless the program chose one.
#[cfg(feature = "redis-tls")]
fn choose_crypto() {
    // An error means that another thread was faster.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    }
}

/// Says nothing of the server.
impl fmt::Debug for RedisLedgerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLedgerBuilder").field("key_prefix", &self.prefix).finish_non_exhaustive()
    }
}
