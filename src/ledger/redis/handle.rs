//! `RedisLedger`: a handle, and the state that its clones share.

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
    super::{LedgerError, account::turns::Turns, last_sale::LastSales},
    connection::Connection,
    scripts::Scripts,
};

/// A ledger on Redis 7 or Valkey, for any number of replicas.
///
/// Clones share one connection. Two processes with one server and one key prefix share one ledger. A question that is
/// not answered within two seconds fails. There is nothing to create or to migrate.
///
/// ```no_run
/// use tower_x402::ledger::RedisLedger;
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let ledger = RedisLedger::connect("redis://seller:secret@redis.internal").await?;
/// # Ok(()) }
/// ```
///
/// Every question is one Lua script, which runs atomically and uses only the server's clock. All keys share one hash
/// tag. Redis Cluster is supported only through a connection to the node that owns the slot.
///
/// # Requirements of the server
///
/// - **No eviction.** [`connect`](RedisLedger::connect) refuses a server whose `maxmemory-policy` is not `noeviction`,
///   and [`health`](crate::ledger::Ledger::health) checks it again. A server without memory then grants no
///   reservations, but still records running sales.
/// - **Durability.** With `appendonly yes` and `appendfsync always` a sale is on the server's disk before it is confirmed. With
///   `everysec` a crash of the machine can lose the sales of the last second or two, and each of these payments buys another answer
///   until it is too old. Snapshots alone lose minutes; a server that has nothing else is accepted with a warning.
///   [`durability`](RedisLedger::durability) returns what the server keeps, and
///   [`require_durability`](super::RedisLedgerBuilder::require_durability) refuses less than an append-only file.
/// - **Fail-over is weaker than PostgreSQL's.** Replication is asynchronous: a promoted replica may lack the last
///   sales. [`wait_replicas`](super::RedisLedgerBuilder::wait_replicas) confirms a sale only after so many replicas
///   have received it, which makes a loss rare, not impossible: the fail-over may choose another replica. If the server
///   lost one of the last sales of a process, that process sells nothing until the mark has reached the payment; it
///   cannot notice the loss of another process's sales, nor of a call by [pass](crate::Pass). If a payment must never
///   be sold twice, call [`raise_mark_to`](crate::ledger::Maintenance::raise_mark_to) with the present time after each
///   fail-over, or use PostgreSQL.
/// - **An emptied server sells nothing.** The ledger records that it has [begun](crate::ledger::Ledger::begin). If that record is lost
///   (a restart without persistence, `FLUSHALL`, a fail-over to an empty server), every question fails until a merchant is built
///   again, or asks whether the ledger remembers a payment that was settled before. The ledger's memory then begins in the present,
///   and all earlier payments are refused.
///
/// # Answers
///
/// An answer that a route [keeps](crate::Redelivery) is a string of its own, `{ledger}:answer:` and the intent in hex:
/// the response as the buyer got it, unencrypted. The script that records the sale writes it, with an expiry (`PX`), so
/// the server drops it after its time; the script that forgets the sale deletes it. Answers take memory: sales per
/// second, times seconds kept, times bytes. Append-only file and snapshots contain them too.
///
/// All answers together take 64 MiB at most, unless [`answers_up_to`](super::RedisLedgerBuilder::answers_up_to) says otherwise, and no answer
/// is kept that would fill more than four fifths of the server's `maxmemory`: the rest is for sales. An answer for which there is no
/// room is delivered once, with a warning in the log; its sale is recorded all the same. The sorted set `{ledger}:answers` has the
/// size of each answer by the time at which it ends. The room of an answer that is deleted early is free again at that time.
///
/// # The book of sales
///
/// Each sale is a hash named by the receipt's payment id, such as `{ledger}:payment:eip155:8453/0x…/3`, with
/// `resource`, `payer`, `recipient`, `token`, `amount` (base units), `chain_id`, `tx_hash`, `log_position`,
/// `block_number`, `block_time` and `keep_until` (chain time, Unix seconds), `intent`, `fence`, `reserved_at` and
/// `consumed_at` (Unix milliseconds). The sorted set `{ledger}:sold` has their ids by `consumed_at`. A sale takes about
/// 1.2 kB. It is kept until its payment is too old to be shown again, even if a reorganisation drops the payment and it
/// is mined again within a day: a little over two days with the default maximum payment age, and longer by the time for
/// which its answer is [kept](crate::Redelivery). A payment that is mined again later, without being shown in between,
/// is unknown. Copy the book before that, or [keep](super::RedisLedgerBuilder::keep_book) it: then the hash
/// `{ledger}:book` has each sale as JSON by payment id, and the sorted set `{ledger}:booked` the ids by `consumed_at`,
/// for good. Refunds that the seller [noted](crate::ledger::SalesBook::note_refund) are in the hash `{ledger}:refunds`.
/// Sales that wait for their [announcement](crate::ledger::Announcements) are in the sorted set `{ledger}:unannounced`,
/// and as JSON in the hash `{ledger}:unannounced_sales`, however old they are. [`SalesBook`](crate::ledger::SalesBook)
/// reads all of it. What was sold today:
///
/// ```sh
#[doc = include_str!("sold_today.sh")]
/// ```
#[derive(Clone)]
pub struct RedisLedger {
    pub(super) inner: Arc<RedisInner>,
}

pub(super) struct RedisInner {
    pub(super) prefix: String,
    /// The key of the ledger's own record. All other keys derive from it.
    pub(super) key: String,
    pub(super) connection: Connection,
    pub(super) replicated: Option<Replicated>,
    pub(super) scripts: Scripts,
    /// Whether eviction is allowed.
    pub(super) evicts: bool,
    /// Whether durability is required.
    pub(super) durable: bool,
    /// The limit for all kept answers, in bytes.
    pub(super) answer_bytes: usize,
    pub(super) last_sales: LastSales,
    /// A reservation of an unsettled payment costs its author nothing: one runs at a time, so that a crowd of them
    /// delays only its own kind.
    pub(super) unproven: Semaphore,
    pub(super) turns: Turns,
    /// Whether this handle knows that the ledger has begun.
    pub(super) begun: AtomicBool,
}

/// The settings and the connection of commits that wait for replicas.
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
        Self {
            key: format!("{{{prefix}}}:ledger"),
            prefix,
            connection,
            replicated,
            scripts: Scripts::new(keeps_book),
            evicts,
            durable,
            answer_bytes,
            last_sales: LastSales::default(),
            unproven: Semaphore::new(1),
            turns: Turns::default(),
            begun: AtomicBool::new(false),
        }
    }

    /// The error of a ledger that has not begun. It does not know which payments were sold, so it must not sell.
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
