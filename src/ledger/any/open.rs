//! `AnyLedger::open`: a ledger by its address.

use std::fmt;

use super::ledger::AnyLedger;
#[cfg(feature = "postgres")]
use crate::ledger::PostgresLedger;
#[cfg(feature = "redis")]
use crate::ledger::RedisLedger;
#[cfg(feature = "sqlite")]
use crate::ledger::SqliteLedger;
use crate::ledger::{LedgerError, LedgerErrorKind, MemoryLedger};

/// Why [`AnyLedger::open`] opens no ledger. Its text holds nothing of the address, which may have a password.
#[derive(Clone, Debug)]
pub struct OpenLedgerError {
    kind: OpenLedgerErrorKind,
    source: Option<LedgerError>,
}

/// The kind of an [`OpenLedgerError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenLedgerErrorKind {
    /// The address is none of the four forms.
    Address,
    /// The crate was built without the feature of this ledger.
    MissingFeature(&'static str),
    /// The ledger refused its address or its server; the [source](std::error::Error::source) is the ledger's error, where it is one.
    Ledger(LedgerErrorKind),
    /// The settings of the Redis server are unsafe for a ledger, or the URL is none of Redis. `RedisLedger::connect` names the setting.
    Redis,
}

impl OpenLedgerError {
    /// Returns the kind of error.
    #[must_use]
    pub const fn kind(&self) -> OpenLedgerErrorKind {
        self.kind
    }

    const fn new(kind: OpenLedgerErrorKind) -> Self {
        Self { kind, source: None }
    }
}

impl From<LedgerError> for OpenLedgerError {
    fn from(error: LedgerError) -> Self {
        Self { kind: OpenLedgerErrorKind::Ledger(error.kind()), source: Some(error) }
    }
}

#[cfg(feature = "redis")]
impl From<crate::ledger::RedisConnectError> for OpenLedgerError {
    fn from(error: crate::ledger::RedisConnectError) -> Self {
        match error.kind() {
            crate::ledger::RedisConnectErrorKind::Ledger(kind) => Self::from(LedgerError::from(kind)),
            _ => Self::new(OpenLedgerErrorKind::Redis),
        }
    }
}

impl fmt::Display for OpenLedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            OpenLedgerErrorKind::Address => {
                f.write_str("a ledger's address is `memory`, `sqlite:PATH`, `postgres://…` or `redis://…`")
            }
            OpenLedgerErrorKind::MissingFeature(feature) => {
                write!(f, "this ledger needs the feature `{feature}` of tower-x402; enable it")
            }
            OpenLedgerErrorKind::Ledger(_) => {
                f.write_str("the ledger cannot be opened; check its address and its server")
            }
            OpenLedgerErrorKind::Redis => f.write_str(
                "this Redis cannot keep a ledger; open it with `RedisLedger::connect` to learn which setting to change",
            ),
        }
    }
}

impl std::error::Error for OpenLedgerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

impl AnyLedger {
    /// Opens the ledger at this address and creates its tables, with the usual settings.
    ///
    /// | Address | Ledger |
    /// |---|---|
    /// | `memory` | a new [`MemoryLedger`]: what was sold is forgotten with the process |
    /// | `sqlite:PATH`, `sqlite://PATH` | `SqliteLedger::open` (feature `sqlite`) |
    /// | `postgres://…`, `postgresql://…` | `PostgresLedger::connect` and `migrate` (feature `postgres`) |
    /// | `redis://…`, `rediss://…`, `valkey://…`, `valkeys://…` | `RedisLedger::connect` (feature `redis`) |
    ///
    /// # Errors
    /// [`OpenLedgerError`]; nothing was opened.
    pub async fn open(address: &str) -> Result<Self, OpenLedgerError> {
        if let Some(path) = address.strip_prefix("sqlite:") {
            return sqlite(path.strip_prefix("//").unwrap_or(path)).await;
        }
        match address.split_once("://") {
            None if address == "memory" => Ok(MemoryLedger::new().into()),
            Some(("postgres" | "postgresql", _)) => postgres(address).await,
            Some(("redis" | "rediss" | "valkey" | "valkeys", _)) => redis(address).await,
            _ => Err(OpenLedgerError::new(OpenLedgerErrorKind::Address)),
        }
    }
}

async fn sqlite(path: &str) -> Result<AnyLedger, OpenLedgerError> {
    // SQLite would read these as a database in memory.
    if path.is_empty() || path.starts_with(":memory:") {
        return Err(OpenLedgerError::new(OpenLedgerErrorKind::Address));
    }
    #[cfg(feature = "sqlite")]
    return Ok(SqliteLedger::open(path).await?.into());
    #[cfg(not(feature = "sqlite"))]
    Err(OpenLedgerError::new(OpenLedgerErrorKind::MissingFeature("sqlite")))
}

async fn postgres(url: &str) -> Result<AnyLedger, OpenLedgerError> {
    #[cfg(feature = "postgres")]
    {
        let ledger = PostgresLedger::connect(url).await?;
        ledger.migrate().await?;
        Ok(ledger.into())
    }
    #[cfg(not(feature = "postgres"))]
    {
        let _ = url;
        Err(OpenLedgerError::new(OpenLedgerErrorKind::MissingFeature("postgres")))
    }
}

async fn redis(url: &str) -> Result<AnyLedger, OpenLedgerError> {
    #[cfg(feature = "redis")]
    return Ok(RedisLedger::connect(url).await?.into());
    #[cfg(not(feature = "redis"))]
    {
        let _ = url;
        Err(OpenLedgerError::new(OpenLedgerErrorKind::MissingFeature("redis")))
    }
}
