//! Is it spent? The [`Ledger`] marks an intent and a transfer together, once; it knows nothing of chains or HTTP.
//!
//! A pair of intent and transfer is *free*, then *reserved* under a lease, then free again or *consumed* for good.
//! A lease that is not kept up runs out and is taken over by the next [`reserve`](Ledger::reserve); the fence in
//! it makes sure that whoever lost it can no longer renew, commit or release.

mod attempts;
mod claim;
#[cfg(feature = "test-util")]
pub mod conformance;
mod decide;
mod erased;
mod error;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod events;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::{future::Future, sync::Arc, time::Duration};

pub use claim::{Claim, Lease};
pub(crate) use erased::{Boxed, ErasedLedger};
pub use error::LedgerError;
pub use memory::{Counts, MemoryLedger};
#[cfg(feature = "postgres")]
pub use postgres::PostgresLedger;
#[cfg(feature = "redis")]
pub use redis::RedisLedger;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use sql::TablePrefixError;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteLedger, SqliteLedgerBuilder};
/// The driver of the SQL ledgers, for whoever brings a pool.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use sqlx;

use crate::protocol::{ChainTime, IntentKey};

/// Remembers what was sold.
///
/// One recipient on one chain has one ledger, whatever the number of merchants, routes and processes: two would sell
/// each transfer twice. Every method is one transaction or one script; what decides is a single write judged by
/// unique indexes, never a value read earlier. An `Err` means only that the backend failed, and nothing is
/// known of the outcome. Dropping a returned future must be harmless.
pub trait Ledger: Send + Sync + 'static {
    /// Starts a ledger's memory, and tells its low-water mark: one that has none yet has it at `now`; any other stays as
    /// it is. Repeatable. Before this, [`reserve`](Self::reserve) grants nothing.
    ///
    /// `now` is a time that no payment which was shown to anybody has passed: what a ledger before this one sold is not
    /// sold again.
    fn begin(&self, now: ChainTime) -> impl Future<Output = Result<ChainTime, LedgerError>> + Send;

    /// Reserves the claim's intent together with the first of its transfers that is free.
    ///
    /// Passed over are transfers that are sold, that another lease holds, or that were mined at or below the
    /// low-water mark. A lease that ran out is no obstacle: it is taken over here, in the same step, under a fresh fence.
    ///
    /// A grant counts as an attempt of this intent and transfer, until a [`release`](Ledger::release) says that the
    /// handler was not started. After 16 attempts the pair cools down from the end of the last one (its release, or
    /// the moment its lease ran out): 60 s, doubled by each further attempt, 15 min at most. While it does, the claim
    /// is refused rather than given its next transfer, which is another customer's.
    ///
    /// A sale is forgotten in here, some at a time, when the claim's head is beyond its
    /// [`keep_until`](Claim::keep_until), and the low-water mark is raised to its block time.
    fn reserve(&self, claim: &Claim) -> impl Future<Output = Result<ReserveOutcome, LedgerError>> + Send;

    /// Prolongs a lease by its full length from now, if it is still held: a lease that ran out is, until it is taken
    /// over.
    fn renew(&self, lease: &Lease) -> impl Future<Output = Result<RenewOutcome, LedgerError>> + Send;

    /// Consumes intent and transfer, durably, if the lease is still held (as for [`renew`](Self::renew));
    /// [`CommitOutcome::Done`] also when this very lease is committed already.
    fn commit(&self, lease: &Lease) -> impl Future<Output = Result<CommitOutcome, LedgerError>> + Send;

    /// Frees intent and transfer. Repeatable; does nothing unless the lease is still held and not committed.
    fn release(&self, lease: &Lease, handler: AttemptOutcome) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Whether this intent bought its answer.
    fn is_consumed(&self, intent: IntentKey) -> impl Future<Output = Result<bool, LedgerError>> + Send;

    /// Whether the backend can be reached and written to.
    fn health(&self) -> impl Future<Output = Result<(), LedgerError>> + Send;
}

/// A handle that is shared.
impl<L: Ledger> Ledger for Arc<L> {
    fn begin(&self, now: ChainTime) -> impl Future<Output = Result<ChainTime, LedgerError>> + Send {
        L::begin(self, now)
    }

    fn reserve(&self, claim: &Claim) -> impl Future<Output = Result<ReserveOutcome, LedgerError>> + Send {
        L::reserve(self, claim)
    }

    fn renew(&self, lease: &Lease) -> impl Future<Output = Result<RenewOutcome, LedgerError>> + Send {
        L::renew(self, lease)
    }

    fn commit(&self, lease: &Lease) -> impl Future<Output = Result<CommitOutcome, LedgerError>> + Send {
        L::commit(self, lease)
    }

    fn release(&self, lease: &Lease, handler: AttemptOutcome) -> impl Future<Output = Result<(), LedgerError>> + Send {
        L::release(self, lease, handler)
    }

    fn is_consumed(&self, intent: IntentKey) -> impl Future<Output = Result<bool, LedgerError>> + Send {
        L::is_consumed(self, intent)
    }

    fn health(&self) -> impl Future<Output = Result<(), LedgerError>> + Send {
        L::health(self)
    }
}

/// What became of a claim. Of several refusals that apply, the first in this order is given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum ReserveOutcome {
    /// Intent and transfer are held.
    Granted(Lease),
    /// The intent bought its answer already.
    IntentConsumed,
    /// Every transfer of the claim bought something already.
    PaymentUsed,
    /// The intent is held by another lease; or none of its transfers is free, and one at least is held.
    Busy {
        /// When the lease that is in the way runs out unless it is renewed; of several, the first. Most end sooner.
        retry_after: Duration,
    },
    /// The handler was started too often for this intent and the transfer that it would get.
    TooManyAttempts {
        /// When the next start is allowed.
        retry_after: Duration,
    },
    /// Every transfer that is not used up was mined at or below the ledger's low-water mark: it may have been spent
    /// before this ledger's memory began, or in what it has forgotten. Last of all: were one free or held, the
    /// answer would be another.
    BeforeMemory,
}

/// What became of a lease at renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum RenewOutcome {
    /// It is held, and lasts its full length from now.
    Held,
    /// Another holds the pair, or nobody does.
    LeaseLost,
}

/// What became of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum CommitOutcome {
    /// It is recorded, durably, under this lease.
    Done,
    /// The lease was lost; nothing was recorded under it.
    LeaseLost,
}

/// Whether the handler ran under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// It was called: the attempt counts.
    Started,
    /// It was never called: the attempt does not count.
    NotStarted,
}
