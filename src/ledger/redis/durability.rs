//! `Durability`: which sales a crash of the server loses.

use std::collections::HashMap;

use ::redis as driver;
use driver::{ErrorKind, RedisResult, aio::ConnectionManager, cmd};

use super::{super::LedgerError, handle::RedisLedger};

/// The sales that a server has on its disk, according to its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// All: an append-only file, flushed with every write.
    EveryWrite,
    /// All but those of the last second or two: an append-only file, flushed every second.
    EverySecond,
    /// An append-only file that the operating system flushes, or that the server flushes at an unknown interval.
    Sometimes,
    /// Those before the last snapshot: even a crash of the server process alone loses minutes.
    Snapshots,
    /// None: a restart loses all.
    Nothing,
    /// Unknown: the server does not report its configuration.
    Unknown,
}

impl Durability {
    /// Returns whether a crash loses no sale, or only those of a second or two.
    #[must_use]
    pub const fn is_durable(self) -> bool {
        matches!(self, Self::EveryWrite | Self::EverySecond)
    }
}

impl RedisLedger {
    /// Returns which of its sales the server would have after a crash. The setting can change while the server runs.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ledger::LedgerErrorKind::Unavailable) if the server does not answer.
    pub async fn durability(&self) -> Result<Durability, LedgerError> {
        self.inner.connection.ask(durability).await
    }

    pub(super) async fn warn_if_it_forgets(&self) -> Result<(), LedgerError> {
        let durability = self.durability().await?;
        if !durability.is_durable() {
            tracing::warn!(
                ?durability,
                "the ledger's server may lose what was sold, which is then sold once more: set `appendonly yes`"
            );
        }
        Ok(())
    }
}

async fn durability(mut connection: ConnectionManager) -> RedisResult<Durability> {
    let mut config = cmd("CONFIG");
    config.arg("GET").arg("appendonly").arg("appendfsync").arg("save");
    match config.query_async::<HashMap<String, String>>(&mut connection).await {
        Ok(found) if found.contains_key("appendonly") => return Ok(by_settings(&found)),
        Err(error) if !matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) => return Err(error),
        // Hosted servers forbid or rename the command.
        Ok(_) | Err(_) => {}
    }
    match cmd("INFO").arg("persistence").query_async::<String>(&mut connection).await {
        Ok(info) => Ok(match info.lines().find_map(|line| line.strip_prefix("aof_enabled:")).map(str::trim) {
            Some("1") => Durability::Sometimes,
            Some(_) => Durability::Snapshots,
            None => Durability::Unknown,
        }),
        Err(error) if !matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) => Err(error),
        Err(_) => Ok(Durability::Unknown),
    }
}

fn by_settings(found: &HashMap<String, String>) -> Durability {
    let setting = |name: &str| found.get(name).map_or("", String::as_str);
    match (setting("appendonly"), setting("appendfsync")) {
        ("yes", "always") => Durability::EveryWrite,
        ("yes", "everysec") => Durability::EverySecond,
        ("yes", _) => Durability::Sometimes,
        _ if setting("save").is_empty() => Durability::Nothing,
        _ => Durability::Snapshots,
    }
}
