//! `RedisLedger`: a handle, and what all clones of it share.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Semaphore;

use super::{
    super::{LedgerError, attempts, last_sale::LastSale},
    connection::Connection,
    scripts::Scripts,
};

/// A ledger on Redis 7 or Valkey, for any number of replicas.
///
/// Clones share one connection. Two processes with one server and one key prefix share one ledger. Every question is answered within
/// two seconds, or fails. There is nothing to create or to migrate. [The module](super) documents the requirements of the server and
/// the book of sales.
///
/// ```no_run
/// use tower_x402::ledger::RedisLedger;
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let ledger = RedisLedger::connect("redis://seller:secret@redis.internal").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RedisLedger {
    pub(super) inner: Arc<RedisInner>,
}

pub(super) struct RedisInner {
    pub(super) prefix: String,
    /// The ledger's own record, from whose name those of all other keys follow.
    pub(super) key: String,
    pub(super) connection: Connection,
    pub(super) replicated: Option<Replicated>,
    pub(super) scripts: Scripts,
    /// The pause after each number of attempts, as JSON; the last one holds for all higher numbers.
    pub(super) pauses: String,
    /// The server may evict.
    pub(super) evicts: bool,
    /// The server must not forget.
    pub(super) durable: bool,
    /// How many bytes all kept answers may take.
    pub(super) answer_bytes: usize,
    pub(super) last_sale: LastSale,
    /// A reservation of a payment that has not happened yet costs its author nothing: one at a time, so that a crowd of them delays its
    /// own kind only.
    pub(super) unproven: Semaphore,
    /// The ledger has begun, as this handle knows.
    pub(super) begun: AtomicBool,
}

/// For commits that wait for replicas.
pub(super) struct Replicated {
    pub(super) connection: Connection,
    pub(super) replicas: u32,
    pub(super) wait: Duration,
}

impl RedisLedger {
    /// Returns the prefix of every key.
    #[must_use]
    pub fn key_prefix(&self) -> &str {
        &self.inner.prefix
    }
}

impl RedisInner {
    pub(super) fn new(
        prefix: String,
        connection: Connection,
        replicated: Option<Replicated>,
        evicts: bool,
        durable: bool,
        keeps_book: bool,
        answer_bytes: usize,
    ) -> Self {
        let mut pauses = Vec::new();
        for times in 0.. {
            let pause = attempts::cool_down(times);
            pauses.push(pause.as_millis().to_string());
            if pause >= attempts::LONGEST {
                break;
            }
        }
        Self {
            key: format!("{{{prefix}}}:ledger"),
            prefix,
            connection,
            replicated,
            scripts: Scripts::new(keeps_book),
            pauses: format!("[{}]", pauses.join(",")),
            evicts,
            durable,
            answer_bytes,
            last_sale: LastSale::default(),
            unproven: Semaphore::new(1),
            begun: AtomicBool::new(false),
        }
    }

    /// Nothing is known of what was sold: nothing may be.
    pub(super) fn not_begun(&self) -> LedgerError {
        if self.begun.load(Ordering::Relaxed) {
            tracing::error!("the ledger's server lost its records; nothing is sold until a merchant is built anew");
        }
        LedgerError::unavailable()
    }
}

/// Does not show the server.
impl fmt::Debug for RedisLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLedger").field("key_prefix", &self.inner.prefix).finish_non_exhaustive()
    }
}
