//! Records what was sold on Redis 7 or Valkey, shared by replicas.
//!
//! Every question is one Lua script: it is answered atomically, by one clock, the server's. All keys share one hash tag. Redis
//! Cluster is not supported beyond that: only a connection to the node that owns the slot works.
//!
//! # Requirements of the server
//!
//! - **No eviction.** [`connect`](RedisLedger::connect) refuses a server whose `maxmemory-policy` is not `noeviction`, and
//!   [`health`](super::Ledger::health) checks it again. A server that is short of memory then grants no reservations, but still
//!   records the sales under way.
//! - **Durability.** With `appendonly yes` and `appendfsync always` a sale is on the server's disk before it is confirmed. With
//!   `everysec` a crash of the machine can lose the sales of the last second or two, and each of these payments buys another answer
//!   until it is too old. Snapshots alone lose minutes; a server that has nothing else is accepted with a warning.
//!   [`durability`](RedisLedger::durability) returns what the server keeps, and
//!   [`require_durability`](RedisLedgerBuilder::require_durability) refuses less than an append-only file.
//! - **Fail-over is weaker than PostgreSQL's.** Replication is asynchronous: a promoted replica may lack the last sales.
//!   [`wait_replicas`](RedisLedgerBuilder::wait_replicas) confirms a sale only after so many replicas have received it, which makes
//!   a loss rare, not impossible: the fail-over may choose another replica. A process whose own last sale is lost sells nothing until
//!   the mark has passed that payment; it cannot notice the loss of what only another process had sold. If a payment must never be sold twice, call
//!   [`raise_mark_to`](super::Maintenance::raise_mark_to) with the present time after each fail-over, or use PostgreSQL.
//! - **An emptied server sells nothing.** The ledger records that it has [begun](super::Ledger::begin). If that record is lost
//!   (a restart without persistence, `FLUSHALL`, a fail-over to an empty server), every question fails until a merchant is built
//!   again. The ledger's memory then begins in the present, and all earlier payments are refused.
//!
//! # Answers
//!
//! What a route [keeps](crate::Redelivery) is a string of its own, `{ledger}:answer:` and the intent in hex: the response as the buyer
//! got it, unencrypted. The script that records the sale writes it, with an expiry (`PX`), so the server drops it after its time; the
//! script that forgets the sale deletes it. Answers take memory: sales per second, times seconds kept, times bytes. Append-only file and
//! snapshots contain them too.
//!
//! All answers together take 64 MiB at most, unless [`answers_up_to`](RedisLedgerBuilder::answers_up_to) says otherwise, and no answer
//! is kept that would fill more than four fifths of the server's `maxmemory`: the rest is for sales. An answer for which there is no
//! room is delivered once, with a warning in the log; its sale is recorded all the same. The sorted set `{ledger}:answers` has the
//! size of each answer by the time at which it ends. The room of an answer that is deleted early is free again at that time.
//!
//! # The book of sales
//!
//! Each sale is a hash named by the receipt's payment id, such as `{ledger}:payment:eip155:8453/0x…/3`, with `resource`, `payer`,
//! `recipient`, `token`, `amount` (base units), `chain_id`, `tx_hash`, `log_position`, `block_number`, `block_time` and `keep_until` (chain time, Unix seconds), `intent`, `fence`, `reserved_at` and `consumed_at` (Unix
//! milliseconds). The sorted set `{ledger}:sold` has their ids by `consumed_at`. A sale takes about 1.2 kB. It is kept until its
//! payment is too old to be shown again, also if a reorganisation drops the payment and it is mined again within a day: a little
//! over two days with the default maximum payment age. A payment that is mined again later, and was not shown meanwhile, is not
//! known any more. Copy the book elsewhere before, or have it [kept](RedisLedgerBuilder::keep_book): then the hash `{ledger}:book` has each
//! sale as JSON by payment id, and the sorted set `{ledger}:booked` the ids by `consumed_at`, for good. Refunds that the seller
//! [noted](super::SalesBook::note_refund) are in the hash `{ledger}:refunds`. Sales that wait for their
//! [announcement](super::Announcements) are in the sorted set `{ledger}:unannounced`, and as JSON in the hash
//! `{ledger}:unannounced_sales`, however old they are. [`SalesBook`](super::SalesBook) reads all of it. What was sold today:
//!
//! ```sh
#![doc = include_str!("sold_today.sh")]
//! ```

mod book;
mod builder;
mod commands;
mod connection;
mod durability;
mod error;
mod handle;
mod maintenance;
mod scripts;
mod source;
mod words;

pub use ::redis as driver;
pub use builder::RedisLedgerBuilder;
pub use durability::Durability;
pub use error::{RedisConnectError, RedisConnectErrorKind};
pub use handle::RedisLedger;
