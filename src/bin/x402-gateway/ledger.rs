//! The ledger that the flags or the configuration name.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use http::Uri;
use tower_x402::{
    ledger::{
        AnyLedger, LedgerError, LedgerErrorKind, Maintenance as _, MemoryLedger, PostgresLedger, RedisLedger,
        SqliteLedger, sqlx::postgres::PgConnectOptions,
    },
    protocol::{ChainTime, Network},
};

use super::{failure::Failure, secret::Secret};

/// The default ledger, in the working directory.
const DEFAULT_FILE: &str = "x402-ledger.db";

const KINDS: &str = "the ledger is `memory`, `sqlite:PATH`, `postgres://…` or `redis://…`";
const NO_FILE: &str =
    "the ledger sqlite:PATH needs the path of a file, such as sqlite:x402-ledger.db; without one it is `memory`";

/// Where sales are recorded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum LedgerArg {
    Memory,
    Sqlite(PathBuf),
    /// A URL.
    Postgres(Secret),
    /// A URL.
    Redis(Secret),
}

impl LedgerArg {
    /// Returns the default: in memory for a development chain, which is as short-lived, else a file.
    pub(crate) fn default_for(dev: bool) -> Self {
        if dev { Self::Memory } else { Self::Sqlite(DEFAULT_FILE.into()) }
    }

    /// Parses the name of a ledger.
    ///
    /// # Errors
    /// The error does not repeat what was given: it may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            let named = !path.is_empty() && path != ":memory:";
            return if named { Ok(Self::Sqlite(path.into())) } else { Err(NO_FILE) };
        }
        match text.split_once("://") {
            None if text == "memory" => Ok(Self::Memory),
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(text.to_owned().into())),
            Some(("redis" | "rediss" | "valkey" | "valkeys", _)) => Ok(Self::Redis(text.to_owned().into())),
            _ => Err(KINDS),
        }
    }

    /// Returns whether several replicas may sell from this ledger. They must then share a sealing key.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_) | Self::Redis(_))
    }

    /// Returns the ledger's public name, without user and password.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Memory => "memory".to_owned(),
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres(url) => place("postgres", url),
            Self::Redis(url) => place("redis", url),
        }
    }

    /// Returns the key file beside a ledger file.
    pub(crate) fn key_file(&self) -> Option<PathBuf> {
        let Self::Sqlite(path) = self else { return None };
        let mut name = OsString::from(path);
        name.push(".key");
        Some(name.into())
    }

    /// Opens the ledger, and creates its tables if it has any.
    ///
    /// # Errors
    /// The error does not repeat the URL.
    pub(crate) async fn open(&self, keep_book: bool) -> Result<AnyLedger, Failure> {
        Ok(match self {
            Self::Memory => MemoryLedger::new().into(),
            Self::Sqlite(path) => sqlite(path).await?.into(),
            Self::Postgres(url) => migrated(url).await?.into(),
            Self::Redis(url) => redis(url, keep_book).await?.into(),
        })
    }

    /// Makes an existing ledger refuse payments mined on this network until then, and returns its mark.
    ///
    /// # Errors
    /// The error does not repeat the URL.
    pub(crate) async fn raise_mark(&self, network: Network, to: ChainTime) -> Result<ChainTime, Failure> {
        let ledger = self.present().await?;
        let mark = ledger.raise_mark_to(network, to).await;
        let mark =
            mark.map_err(|error| failed(error, || format!("{} has no ledger to raise the mark of", self.name())))?;
        mark.ok_or_else(|| {
            Failure::environment(format!("{} has not begun: start the server, it begins now", self.name()))
        })
    }

    /// Opens the book of an existing ledger that has begun on this network.
    ///
    /// # Errors
    /// The error does not repeat the URL.
    pub(crate) async fn book(&self, network: Network) -> Result<AnyLedger, Failure> {
        let book = self.present().await?;
        let mark = book.low_water_mark(network).await;
        let mark = mark.map_err(|error| failed(error, || format!("{} has no ledger", self.name())))?;
        mark.map(|_| book)
            .ok_or_else(|| Failure::environment(format!("{} has not begun: nothing was sold", self.name())))
    }

    /// Opens an existing ledger. Nothing is created, sold or deleted.
    async fn present(&self) -> Result<AnyLedger, Failure> {
        Ok(match self {
            Self::Memory => return Err(Failure::usage("name the ledger that is meant, for instance with --ledger")),
            Self::Sqlite(path) if !path.is_file() => {
                return Err(Failure::usage(format!("there is no ledger {}", path.display())));
            }
            Self::Sqlite(path) => sqlite(path).await?.into(),
            Self::Postgres(url) => postgres(url).await?.into(),
            Self::Redis(url) => redis(url, false).await?.into(),
        })
    }
}

/// Returns the host, port and path of a URL, without user, password and options, which may hold a password.
fn place(kind: &str, url: &Secret) -> String {
    let Ok(uri) = url.parse::<Uri>() else { return kind.to_owned() };
    let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{kind}://{}{port}{}", uri.host().unwrap_or_default(), uri.path())
}

async fn sqlite(path: &Path) -> Result<SqliteLedger, Failure> {
    SqliteLedger::open(path).await.map_err(|error| {
        failed(error, || {
            let path = path.display();
            format!("cannot use {path} as a ledger: it must be a file of one, or a new one in a folder where it can be written")
        })
    })
}

async fn postgres(url: &Secret) -> Result<PostgresLedger, Failure> {
    let is_url = url.parse::<PgConnectOptions>().is_ok();
    if !is_url {
        return Err(Failure::usage("the ledger is no URL such as postgres://user:password@host:5432/database"));
    }
    PostgresLedger::connect(url).await.map_err(|error| {
        failed(error, || {
            "the PostgreSQL of the ledger cannot be reached: see that it runs, and that host, database, user and password are right"
        })
    })
}

async fn migrated(url: &Secret) -> Result<PostgresLedger, Failure> {
    let ledger = postgres(url).await?;
    ledger.migrate().await.map_err(|error| {
        failed(
            error,
            || "the PostgreSQL of the ledger refuses the ledger's tables: see that its user may create tables",
        )
    })?;
    Ok(ledger)
}

async fn redis(url: &Secret, keep_book: bool) -> Result<RedisLedger, Failure> {
    RedisLedger::builder().keep_book(keep_book).connect(url).await.map_err(|error| match error.kind() {
        LedgerErrorKind::Setting => Failure::usage(format!("the ledger: {error}")),
        LedgerErrorKind::Unsafe => Failure::environment(format!("the Redis of the ledger: {error}")),
        _ => failed(
            error,
            || "the Redis of the ledger cannot be reached: see that it runs, and that host, user and password are right",
        ),
    })
}

/// Turns a ledger's error into a failure: with advice if the ledger cannot be reached.
fn failed<S: ToString>(error: LedgerError, unavailable: impl FnOnce() -> S) -> Failure {
    if error.is_transient() { Failure::environment(unavailable().to_string()) } else { Failure::environment(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_told_by_its_beginning() {
        let url = |text: &str| Secret::from(text.to_owned());
        for (text, ledger) in [
            ("memory", LedgerArg::Memory),
            ("sqlite:ledger.db", LedgerArg::Sqlite("ledger.db".into())),
            ("sqlite:/var/lib/a b.db", LedgerArg::Sqlite("/var/lib/a b.db".into())),
            ("sqlite://ledger.db", LedgerArg::Sqlite("ledger.db".into())),
            ("sqlite:///var/lib/ledger.db", LedgerArg::Sqlite("/var/lib/ledger.db".into())),
            ("postgres://a:b@c/d", LedgerArg::Postgres(url("postgres://a:b@c/d"))),
            ("postgresql://c", LedgerArg::Postgres(url("postgresql://c"))),
            ("redis://c", LedgerArg::Redis(url("redis://c"))),
            ("rediss://c", LedgerArg::Redis(url("rediss://c"))),
            ("valkey://c", LedgerArg::Redis(url("valkey://c"))),
        ] {
            assert_eq!(LedgerArg::parse(text), Ok(ledger), "{text}");
        }
        for wrong in
            ["", "paper", "Memory", "sqlite", "sqlite:", "sqlite://", "sqlite::memory:", "postgres", "mysql://c"]
        {
            assert!(LedgerArg::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_key_of_a_file_lies_beside_it() {
        assert_eq!(LedgerArg::Sqlite("a/b.db".into()).key_file(), Some("a/b.db.key".into()));
        assert_eq!(LedgerArg::Memory.key_file(), None);
    }

    #[test]
    fn no_url_is_shown() {
        for url in ["postgres://user:hunter2@host/db", "redis://user:hunter2@host"] {
            let shown = format!("{:?}", LedgerArg::parse(url));
            assert!(!shown.contains("hunter2") && !shown.contains("host"), "{shown}");
        }
    }

    #[test]
    fn a_name_has_neither_user_nor_password() {
        for (url, name) in [
            ("memory", "memory"),
            ("sqlite:a/b.db", "sqlite:a/b.db"),
            ("postgresql://user:hunter2@host:5433/db?password=hunter2", "postgres://host:5433/db"),
            ("rediss://:hunter2@host", "redis://host/"),
            ("postgres://user:hun ter2@host/db", "postgres"),
        ] {
            assert_eq!(LedgerArg::parse(url).unwrap().name(), name);
        }
    }
}
