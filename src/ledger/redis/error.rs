//! `RedisConnectError`: the reason why a server is not taken for a ledger.

use std::fmt;

use super::super::{LedgerError, LedgerErrorKind};

/// The error of [`RedisLedgerBuilder::connect`](super::RedisLedgerBuilder::connect). It carries neither a URL nor anything that the
/// server said.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use tower_x402::ledger::{RedisConnectErrorKind, RedisLedger};
///
/// let error = RedisLedger::connect("https://redis.internal").await.unwrap_err();
/// assert_eq!(error.kind(), RedisConnectErrorKind::Url);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConnectError {
    kind: RedisConnectErrorKind,
}

/// The kind of error in the settings or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedisConnectErrorKind {
    /// The URL cannot be used.
    Url,
    /// The key prefix has other characters than `a` to `z`, `0` to `9` and `_`, none, or more than 32.
    KeyPrefix,
    /// Commits are to wait for replicas, but for none of them, or for no time, or too long.
    Replicas,
    /// The server would drop sales when it runs short of memory, and each of them would be sold once more.
    Evicts,
    /// Neither `CONFIG` nor `INFO` tells whether the server would drop sales.
    PolicyUnknown,
    /// [Durability](super::RedisLedgerBuilder::require_durability) is required, and the server would lose sales in a crash, or does
    /// not tell.
    NotDurable,
    /// Sentinels are named with a server that is not found through them: the list is empty, or the connection is the caller's.
    Sentinels,
    /// The server did not answer, or has contents of another version.
    Ledger(LedgerErrorKind),
}

impl RedisConnectError {
    /// Returns the kind of error.
    #[must_use]
    pub const fn kind(&self) -> RedisConnectErrorKind {
        self.kind
    }
}

impl From<RedisConnectErrorKind> for RedisConnectError {
    fn from(kind: RedisConnectErrorKind) -> Self {
        Self { kind }
    }
}

impl From<LedgerError> for RedisConnectError {
    fn from(error: LedgerError) -> Self {
        RedisConnectErrorKind::Ledger(error.kind()).into()
    }
}

impl fmt::Display for RedisConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            RedisConnectErrorKind::Url => {
                "this is not a URL such as `redis://user:password@host:6379/0` (`rediss` needs the feature `redis-tls`)"
            }
            RedisConnectErrorKind::KeyPrefix => "a key prefix is 1 to 32 of the characters a to z, 0 to 9 and _",
            RedisConnectErrorKind::Replicas => "a commit waits for at least one replica, and for 1 ms to 1 s",
            RedisConnectErrorKind::Evicts => {
                "the server may evict what was sold: set `maxmemory-policy noeviction`"
            }
            RedisConnectErrorKind::PolicyUnknown => {
                "the server does not tell its `maxmemory-policy`: allow the user `config|get` or `info`"
            }
            RedisConnectErrorKind::NotDurable => {
                "the server may lose what was sold: set `appendonly yes`, and `appendfsync always` or `everysec`"
            }
            RedisConnectErrorKind::Sentinels => {
                "sentinels are named for a server that is not found through them: name one or more, and the server by its URL"
            }
            RedisConnectErrorKind::Ledger(kind) => return kind.fmt(f),
        })
    }
}

impl std::error::Error for RedisConnectError {}
