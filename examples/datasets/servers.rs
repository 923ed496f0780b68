//! The ledgers on a server of their own.

use tower_x402::ledger::{LedgerErrorKind, PostgresLedger, RedisLedger, sqlx::postgres::PgConnectOptions};

use super::{ledger::failed, run::Failure, secret::Secret};

pub(crate) async fn postgres(url: &Secret) -> Result<PostgresLedger, Failure> {
    let is_url = url.parse::<PgConnectOptions>().is_ok();
    if !is_url {
        return Err(Failure::flags("--ledger is no URL such as postgres://user:password@host:5432/database"));
    }
    PostgresLedger::connect(url).await.map_err(|error| {
        failed(error, || {
            "the PostgreSQL of --ledger cannot be reached: see that it runs, and that host, database, user and password are right"
        })
    })
}

pub(crate) async fn migrated(url: &Secret) -> Result<PostgresLedger, Failure> {
    let ledger = postgres(url).await?;
    ledger.migrate().await.map_err(|error| {
        failed(error, || "the PostgreSQL of --ledger refuses the ledger's tables: see that its user may create tables")
    })?;
    Ok(ledger)
}

pub(crate) async fn redis(url: &Secret, keep_book: bool) -> Result<RedisLedger, Failure> {
    RedisLedger::builder().keep_book(keep_book).connect(url).await.map_err(|error| match error.kind() {
        LedgerErrorKind::Setting => Failure::flags(format!("--ledger: {error}")),
        LedgerErrorKind::Unsafe => Failure::world(format!("the Redis of --ledger: {error}")),
        _ => failed(
            error,
            || "the Redis of --ledger cannot be reached: see that it runs, and that host, user and password are right",
        ),
    })
}
