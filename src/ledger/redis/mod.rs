//! What was sold, on Redis 7 or Valkey, shared by replicas.
//!
//! Every question is one Lua script, so that it is answered in one step, by one clock, the server's. All keys share one
//! hash tag; Redis Cluster is not supported beyond that: only a connection to the node that owns the slot works.
//!
//! # What the server has to be
//!
//! - **It must not evict.** [`connect`](RedisLedger::connect) refuses a server whose `maxmemory-policy` is not `noeviction`,
//!   and [`health`](super::Ledger::health) looks again. A server short of memory then grants nothing, but records what
//!   is being sold.
//! - **It must be durable.** With `appendonly yes` and `appendfsync always` a sale is on the server's disk before it is
//!   confirmed; with `everysec` a crash of the machine can lose the sales of the last second or two, and each of
//!   these payments buys another answer until it is too old. Snapshots alone lose minutes, and by them alone a server is
//!   taken with a warning: [`durability`](RedisLedger::durability) tells what it keeps, and
//!   [`require_durability`](RedisLedgerBuilder::require_durability) refuses it.
//! - **Fail-over is weaker than PostgreSQL's.** Replication is asynchronous: a replica that is promoted may lack the
//!   last sales. [`wait_replicas`](RedisLedgerBuilder::wait_replicas) confirms a sale only when so many replicas have received it,
//!   which makes that rare, not impossible: nothing makes the fail-over choose one of them. Where a payment sold
//!   twice is too much, call [`raise_mark_to`](RedisLedger::raise_mark_to) with the present time after each fail-over, or use
//!   PostgreSQL.
//! - **Emptied, it sells nothing.** A ledger remembers that it [began](super::Ledger::begin). If that is gone (a restart
//!   without persistence, `FLUSHALL`, a fail-over to an empty server), every question fails until a merchant
//!   is built anew; that starts the memory in the present, and refuses all payments made before.
//!
//! # The seller's book
//!
//! Each sale is a hash under the receipt's payment id, which names chain, transaction and position:
//! `{ledger}:payment:eip155:8453/0x…/3`, with `resource`, `payer`, `recipient`, `token`, `amount` (base units), `block_number`,
//! `block_time` and `keep_until` (chain time, Unix seconds), `intent`, `fence`, `reserved_at` and `consumed_at` (Unix
//! milliseconds). The sorted set `{ledger}:sold` has their ids by `consumed_at`. It takes about 1.2 kB. A sale stays until age rules out that its payment comes back, also where a reorganisation drops
//! it and it is mined again within a day: a little over two days, unless the maximum payment age is another; what is mined again later than that, and was not shown
//! meanwhile, is not known any more. Copy the book elsewhere before. What was sold today:
//!
//! ```sh
#![doc = include_str!("sold_today.sh")]
//! ```

mod builder;
mod commands;
mod connection;
mod durability;
mod handle;
mod scripts;
mod source;
mod words;

pub use ::redis as driver;
pub use builder::{RedisConnectError, RedisLedgerBuilder};
pub use durability::Durability;
pub use handle::RedisLedger;

use words::{seconds, word};

use super::{Counts, LedgerError, events};
use crate::protocol::ChainTime;

impl RedisLedger {
    /// What happened since the ledger was begun, on all replicas, and what it holds now.
    ///
    /// # Errors
    /// [`LedgerError`] when the server does not answer, or has contents of another version.
    pub async fn counts(&self) -> Result<Counts, LedgerError> {
        let answer = self.ask(&self.inner.scripts.counts, &[]).await?;
        let [_, numbers @ .., mark] = answer.as_slice() else { return Err(LedgerError::Incompatible) };
        let numbers: Option<Vec<u64>> = numbers.iter().map(|number| number.parse().ok()).collect();
        let Some(&[reserved, consumed, released, expired, held, remembered]) = numbers.as_deref() else {
            return Err(LedgerError::Incompatible);
        };
        let [held, remembered] = [held, remembered].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let low_water_mark = mark.parse().ok().map(ChainTime::from_unix);
        Ok(Counts { reserved, consumed, released, expired, held, remembered, low_water_mark })
    }

    /// The low-water mark: payments up to this block time are refused. `None` until the ledger is begun.
    ///
    /// # Errors
    /// As [`counts`](Self::counts).
    pub async fn low_water_mark(&self) -> Result<Option<ChainTime>, LedgerError> {
        Ok(self.counts().await?.low_water_mark)
    }

    /// Raises the low-water mark to `time`, if it is lower: for an operator who restored a backup, or after a fail-over to
    /// a replica that may lack the last sales. Give it the verifier's [`horizon`](crate::verify::Verifier::horizon). What was sold and lost is then refused,
    /// and so is every payment up to `time` that was not redeemed yet.
    ///
    /// # Errors
    /// [`LedgerError`] when the server does not answer, or the ledger has not begun.
    pub async fn raise_mark_to(&self, time: ChainTime) -> Result<(), LedgerError> {
        self.move_mark("raise", time).await
    }

    /// Lowers the low-water mark to `time`, if it is higher: for an operator who imported the records of every sale of a
    /// payment later than `time`. Any that is missing can be sold once more.
    ///
    /// # Errors
    /// As [`raise_mark_to`](Self::raise_mark_to).
    pub async fn lower_mark_to(&self, time: ChainTime) -> Result<(), LedgerError> {
        self.move_mark("lower", time).await
    }

    /// Forgets every sale that may be forgotten when the head is at `head`, and every idle lease; tells how many sales. Selling
    /// does the same, a few at a time. It may be broken off.
    ///
    /// # Errors
    /// [`LedgerError`] when the server does not answer, or the ledger has not begun.
    pub async fn sweep(&self, head: ChainTime) -> Result<u64, LedgerError> {
        let mut sum = 0;
        loop {
            let answer = self.ask(&self.inner.scripts.sweep, &[seconds(head)]).await?;
            let [_, expired, forgotten] = answer.as_slice() else { return Err(LedgerError::Incompatible) };
            let [expired, forgotten] = [expired, forgotten].map(|number| number.parse::<u64>().unwrap_or(0));
            events::expired(expired);
            events::forgotten(forgotten);
            if expired == 0 && forgotten == 0 {
                return Ok(sum);
            }
            sum += forgotten;
        }
    }

    async fn move_mark(&self, way: &str, time: ChainTime) -> Result<(), LedgerError> {
        let answer = self.ask(&self.inner.scripts.mark, &[way.to_owned(), seconds(time)]).await?;
        word(&answer, &[("done", ())])
    }
}
