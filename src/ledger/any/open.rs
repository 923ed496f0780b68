//! `AnyLedger::open`: a ledger by its address.

use super::ledger::AnyLedger;
#[cfg(feature = "postgres")]
use crate::ledger::PostgresLedger;
#[cfg(feature = "redis")]
use crate::ledger::RedisLedger;
#[cfg(feature = "sqlite")]
use crate::ledger::SqliteLedger;
use crate::ledger::{LedgerError, MemoryLedger};

const ADDRESS: LedgerError =
    LedgerError::setting("a ledger's address is `memory`, `sqlite:PATH`, `postgres://…` or `redis://…`");

impl AnyLedger {
    /// Opens the ledger at this address with the default settings, and creates its tables.
    ///
    /// | Address | Ledger |
    /// |---|---|
    /// | `memory` | a new [`MemoryLedger`]: its sales are lost when the process ends |
    /// | `sqlite:PATH`, `sqlite://PATH` | `SqliteLedger::open` (feature `sqlite`) |
    /// | `postgres://…`, `postgresql://…` | `PostgresLedger::connect` and `migrate` (feature `postgres`) |
    /// | `redis://…`, `rediss://…`, `valkey://…`, `valkeys://…` | `RedisLedger::connect` (feature `redis`) |
    ///
    /// # Errors
    /// [`LedgerError`] of the kind [`Setting`](crate::ledger::LedgerErrorKind::Setting) if the address is none of
    /// these, or the ledger's feature is not enabled; otherwise as the ledger's own function.
    pub async fn open(address: &str) -> Result<Self, LedgerError> {
        if let Some(path) = address.strip_prefix("sqlite:") {
            return sqlite(path.strip_prefix("//").unwrap_or(path)).await;
        }
        match address.split_once("://") {
            None if address == "memory" => Ok(MemoryLedger::new().into()),
            Some(("postgres" | "postgresql", _)) => postgres(address).await,
            Some(("redis" | "rediss" | "valkey" | "valkeys", _)) => redis(address).await,
            _ => Err(ADDRESS),
        }
    }
}

async fn sqlite(path: &str) -> Result<AnyLedger, LedgerError> {
    // SQLite would open a database in memory for these paths.
    if path.is_empty() || path.starts_with(":memory:") {
        return Err(ADDRESS);
    }
    #[cfg(feature = "sqlite")]
    return Ok(SqliteLedger::open(path).await?.into());
    #[cfg(not(feature = "sqlite"))]
    Err(LedgerError::setting("this ledger needs the feature `sqlite` of tower-x402: enable it"))
}

async fn postgres(url: &str) -> Result<AnyLedger, LedgerError> {
    #[cfg(feature = "postgres")]
    {
        let ledger = PostgresLedger::connect(url).await?;
        ledger.migrate().await?;
        Ok(ledger.into())
    }
    #[cfg(not(feature = "postgres"))]
    {
        let _ = url;
        Err(LedgerError::setting("this ledger needs the feature `postgres` of tower-x402: enable it"))
    }
}

async fn redis(url: &str) -> Result<AnyLedger, LedgerError> {
    #[cfg(feature = "redis")]
    return Ok(RedisLedger::connect(url).await?.into());
    #[cfg(not(feature = "redis"))]
    {
        let _ = url;
        Err(LedgerError::setting("this ledger needs the feature `redis` of tower-x402: enable it"))
    }
}
