//! `RedisLedgerBuilder`: where the server is, and what is asked of it before anything is sold.

use std::{fmt, sync::Arc, time::Duration};

use ::redis as driver;
use driver::{Client, IntoConnectionInfo, ProtocolVersion, RedisResult};

use super::{
    super::LedgerError,
    RedisLedger, Replicated, Shared,
    link::{Link, TIME_LIMIT},
};

/// Before the name of every key.
const PREFIX: &str = "ledger";
/// The longest wait for replicas: the rest of the time a commit may take is for the commit.
const LONGEST_WAIT: Duration = Duration::from_millis(1_000);
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// How a [`RedisLedger`] is connected.
#[must_use]
pub struct RedisLedgerBuilder {
    client: RedisResult<Client>,
    prefix: String,
    replicas: Option<(u32, Duration)>,
    evicts: bool,
    time_limit: Duration,
}

/// Why a server is not taken for a ledger. It carries neither a URL nor anything that the server said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisConnectError {
    /// The URL cannot be used.
    #[error("this is no URL such as `redis://user:password@host:6379/0` (`rediss` needs the feature `redis-tls`)")]
    Url,
    /// The key prefix has other characters than `a` to `z` and `_`, none, or more than 32.
    #[error("a key prefix is 1 to 32 of the characters a to z and _")]
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
    /// The ledger could not be asked.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl RedisLedgerBuilder {
    pub(super) fn for_url(url: &str) -> Self {
        Self::for_client(url.into_connection_info().and_then(|info| {
            let tcp = info.tcp_settings().clone().set_nodelay(true);
            // With RESP3 the driver notices a connection that breaks while nobody asks.
            let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            Client::open(info.set_tcp_settings(tcp).set_redis_settings(redis))
        }))
    }

    pub(super) fn for_client(client: RedisResult<Client>) -> Self {
        Self { client, prefix: PREFIX.to_owned(), replicas: None, evicts: false, time_limit: TIME_LIMIT }
    }

    /// What every key begins with, as its hash tag, instead of `ledger`: 1 to 32 of `a` to `z` and `_`.
    pub fn key_prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Lets a commit be done only when that many replicas have it too (`WAIT`); when they do not within `timeout`, it
    /// fails, and can be repeated. Commits then have a connection of their own, since `WAIT` holds up what
    /// comes after it.
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
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        if !(1..=32).contains(&self.prefix.len()) || !self.prefix.bytes().all(plain) {
            return Err(RedisConnectError::KeyPrefix);
        }
        if self.replicas.is_some_and(|(count, wait)| count == 0 || !(SHORTEST_WAIT..=LONGEST_WAIT).contains(&wait)) {
            return Err(RedisConnectError::Replicas);
        }
        let client = self.client.map_err(|_| RedisConnectError::Url)?;
        #[cfg(feature = "redis-tls")]
        choose_crypto();
        let replicated = match self.replicas {
            Some((replicas, wait)) => {
                Some(Replicated { link: Link::new(client.clone(), self.time_limit)?, replicas, wait })
            }
            None => None,
        };
        let shared = Shared::new(self.prefix, Link::new(client, self.time_limit)?, replicated, self.evicts);
        let ledger = RedisLedger { shared: Arc::new(shared) };
        ledger.check().await?;
        Ok(ledger)
    }
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
