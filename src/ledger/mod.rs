//! The record of sales. A [`Ledger`] consumes an intent and a payment together, once; it knows nothing of chains or
//! HTTP.
//!
//! A pair of intent and transfer is *free*, then *reserved* under a lease, then free again or *consumed* for good. A lease that is
//! not renewed runs out, and the next [`reserve`](Ledger::reserve) takes it over. The fencing token of a lease ensures that a
//! former holder can no longer renew, commit or release it.
//!
//! [`Maintenance`] is for operators, and [`SalesBook`] for sellers. [`Announcements`] has the sales that wait for a
//! seller's hook, and [`AccountLedger`] the prepaid calls and amounts that were not used yet.

mod account;
mod announcements;
mod answer_space;
mod any;
mod book;
mod claim;
#[cfg(feature = "test-util")]
pub mod conformance;
mod decide;
mod erased;
mod error;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod events;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod last_sale;
mod maintenance;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod sale;
mod settling;
mod slices;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod stored;

/// The rules of every ledger about claims and accounts, as pure functions, to use in a ledger of your own.
///
/// The ledger reads the inputs of [`decide`](rules::decide), or of [`decide_account`](rules::decide_account), and writes the result in
/// one transaction.
pub mod rules {
    pub use super::{
        account::{AccountAnswer, AccountQuestion, AccountRecord, AccountTime, AccountVerdict, decide_account},
        decide::{Candidate, Decision, Entry, decide},
    };
}

use std::{future::Future, sync::Arc, time::Duration};

/// The driver of the Redis ledger, for a caller that opens its own connection.
#[cfg(feature = "redis")]
pub use ::redis as redis_driver;
pub use account::{
    Account, AccountId, AccountLedger, AccountMemo, ChargeOutcome, Claims, ClosedAccount, Draw, DrawLease, DrawOutcome,
    DrawRenewal, OpenOutcome, Opening, ReflectOutcome, Reflection,
};
pub use announcements::Announcements;
pub use any::AnyLedger;
pub use book::{BookedSale, DayTotal, KnownPayment, Refund, RefundOutcome, Sales, SalesBook, SalesQuery, UtcDay};
pub(crate) use claim::LONGEST_LEASE;
pub use claim::{Claim, ClaimBuilder, Lease};
pub(crate) use erased::{Boxed, ErasedLedger, accounts_of};
pub use error::{LedgerError, LedgerErrorKind};
pub use maintenance::{LedgerSize, Maintenance};
pub use memory::{LedgerCounts, MemoryLedger};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresLedger, PostgresLedgerBuilder};
#[cfg(feature = "redis")]
pub use redis::{Durability, RedisLedger, RedisLedgerBuilder};
pub use sale::{KeptAnswer, Sale};
pub use settling::Settling;
pub(crate) use slices::LaterSlices;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteLedger, SqliteLedgerBuilder};
/// The driver of the SQL ledgers, for a caller that opens its own pool.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use sqlx;

use crate::protocol::{ChainTime, IntentKey, Network, PaymentId};

/// Records sales, so that each payment and each intent buys only one answer.
///
/// Use one ledger for each recipient on a chain, however many merchants, routes and processes there are: two ledgers
/// would sell each transfer twice. Every method is one transaction or one script. A single write under unique indexes
/// decides its outcome, never a value that was read earlier.
///
/// An `Err` means that the backend failed and the outcome is unknown. Dropping a returned future must be harmless.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `Ledger`",
    label = "this is not a ledger, nor an `Arc` of one",
    note = "pass an opened ledger by value or in an `Arc`, such as `SqliteLedger::open(path).await?`",
    note = "`SqliteLedger`, `PostgresLedger` and `RedisLedger` need the features `sqlite`, `postgres` and `redis`"
)]
pub trait Ledger: Send + Sync + 'static {
    /// Begins the ledger's memory of a network and returns its low-water mark there: its existing mark, or else `now`.
    /// Repeatable. Before this, [`reserve`](Self::reserve) grants none of the network's payments.
    ///
    /// No payment that was shown there so far may be later than `now`. Sales of an earlier ledger are therefore not
    /// sold again.
    fn begin(&self, network: Network, now: ChainTime) -> impl Future<Output = Result<ChainTime, LedgerError>> + Send;

    /// Reserves the claim's intent together with the first of its transfers that is free.
    ///
    /// A transfer is not free if it is sold, if another lease holds it, or if it was mined at or below its network's low-water mark. A lease
    /// that ran out is no obstacle: it is taken over in the same step, under a new fencing token.
    ///
    /// Once its settlement has [begun](Self::settling), a payment belongs to its intent until either is sold. A claim
    /// of another intent on the unsettled payment is then refused as if the payment were held for the length of the
    /// claim's own lease, because the signature may be public by now. The intent itself is granted this payment again,
    /// in a lease that [carries the record](Lease::settling), and no other unsettled payment. A
    /// [settled](crate::protocol::Payment::is_settled) candidate stays free: its payer proved the payment in another
    /// way.
    ///
    /// A [purchase](Claim::purchase) is reserved in the same step, and consumed with the sale. While another payment
    /// holds it, the claim is refused as if the payment were held; once another payment bought it, the refusal is final
    /// ([`ReserveOutcome::PurchaseConsumed`]). The purchase is free again once the other payment is released, or once
    /// its lease ran out without a record that the settlement [has begun](Self::settling). A lease on a payment or an
    /// intent with such a record belongs to the purchase of the record, whatever the claim names.
    ///
    /// If a sold, settled transfer is shown with a later block time than the recorded one, the later time decides how
    /// long the sale is kept.
    ///
    /// A claim may have as many transfers as a transaction. The paywall asks about at most 32 at a time, in their
    /// order, and continues while none of the earlier ones is free.
    fn reserve(&self, claim: &Claim) -> impl Future<Output = Result<ReserveOutcome, LedgerError>> + Send;

    /// Extends a lease to its full length from now, if it is still held. A lease that ran out is held until it is taken over.
    fn renew(&self, lease: &Lease) -> impl Future<Output = Result<RenewOutcome, LedgerError>> + Send;

    /// Records durably that the lease's payment is about to be settled for its intent, and renews the lease, if it is still held (as for
    /// [`renew`](Self::renew)). Repeatable: the last record counts. Unless the outcome is [`RenewOutcome::Held`], the payment must not be
    /// settled.
    ///
    /// The record outlives the lease, and keeps the lease's purchase for the payment. The sale of the intent or the
    /// payment ends it in the same atomic step; so do [`not_settled`](Self::not_settled), and age, once it rules out
    /// that the payment returns ([`Lease::keep_until`]).
    fn settling(
        &self,
        lease: &Lease,
        settling: &Settling,
    ) -> impl Future<Output = Result<RenewOutcome, LedgerError>> + Send;

    /// Removes the record of a [begun](Self::settling) settlement, because the payment was certainly not settled, and
    /// will not be. Repeatable; does nothing unless the lease is still held.
    fn not_settled(&self, lease: &Lease) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Consumes intent and transfer, durably, if the lease is still held (as for [`renew`](Self::renew)). Repeatable: returns
    /// [`CommitOutcome::Done`] also if this lease was committed before.
    ///
    /// If the payment was settled after its reservation ([`Lease::settled_by`]), the sale is recorded with the lease's
    /// transfer instead, in the same atomic step: its transaction, position and block. It is kept until
    /// [`Lease::keep_until`].
    ///
    /// A sale that is [to be announced](Lease::announcing) is marked in the same atomic step, if the ledger has
    /// [announcements](Self::announcements). A repeated commit marks nothing again.
    ///
    /// An `answer` is stored in the same atomic step, and [`consumed`](Self::consumed) returns it until its time ends.
    /// A repeated commit neither changes nor prolongs a stored answer. A ledger without [space](Self::answer_space) for
    /// the answer does not keep it, but still records the sale.
    fn commit(
        &self,
        lease: &Lease,
        answer: Option<&KeptAnswer>,
    ) -> impl Future<Output = Result<CommitOutcome, LedgerError>> + Send;

    /// Frees intent and transfer. Repeatable; does nothing unless the lease is still held and was not committed.
    fn release(&self, lease: &Lease) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Returns the sale of this intent; `None` if it is not consumed.
    fn consumed(&self, intent: IntentKey) -> impl Future<Output = Result<Option<Sale>, LedgerError>> + Send;

    /// Returns the record of a settlement that was [begun](Self::settling) of this payment for this intent; `None` if
    /// there is none.
    fn begun(
        &self,
        intent: IntentKey,
        payment: PaymentId,
    ) -> impl Future<Output = Result<Option<Settling>, LedgerError>> + Send;

    /// Returns the payment, among these, whose settlement was [begun](Self::settling) for this intent, with its record;
    /// `None` if there is none.
    ///
    /// A transaction may have many payments. The default implementation asks about them one by one; every ledger of
    /// this crate looks up the intent's record, of which there is at most one.
    fn begun_among(
        &self,
        intent: IntentKey,
        payments: &[PaymentId],
    ) -> impl Future<Output = Result<Option<(PaymentId, Settling)>, LedgerError>> + Send {
        async move {
            for payment in payments {
                if let Some(begun) = self.begun(intent, *payment).await? {
                    return Ok(Some((*payment, begun)));
                }
            }
            Ok(None)
        }
    }

    /// Checks that the backend answers and can be written to.
    fn health(&self) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Forgets old records of a network, with its head at `head`, and returns the number of forgotten sales. Sales with
    /// an earlier [`keep_until`](Lease::keep_until) are forgotten with their answers and purchases, and the network's
    /// low-water mark rises to the block time of each. It also forgets expired answers, idle leases, and records of
    /// settlements whose payments can no longer return.
    ///
    /// The paywall calls it in the background: at the first reservation of a process, then once a minute while there
    /// are reservations, and more often under load. Every step must be short, because sales go on meanwhile. Concurrent
    /// calls must be harmless. A call may leave records for a later one, and a ledger may forget at other times, too.
    fn sweep(&self, network: Network, head: ChainTime) -> impl Future<Output = Result<u64, LedgerError>> + Send;

    /// Returns the sales that wait for their announcement, if the ledger marks them. By default it does not, and
    /// [`on_sold`](crate::X402Layer::on_sold) is refused: a crash between a sale and its hook would lose the
    /// announcement.
    fn announcements(&self) -> Option<&impl Announcements> {
        None::<&announcements::NoAnnouncements>
    }

    /// Returns the accounts of passes and payment channels, if the ledger has any. By default it has none;
    /// [`Merchant::pass`](crate::Merchant::pass) and [`channel_settler`](crate::MerchantBuilder::channel_settler) are then refused.
    fn accounts(&self) -> Option<&impl AccountLedger> {
        None::<&account::NoAccounts>
    }

    /// Returns the limit for all kept answers in bytes, if the ledger keeps answers. By default it keeps none:
    /// [`commit`](Self::commit) ignores them, and [`redeliver`](crate::X402Layer::redeliver) has no effect.
    ///
    /// An answer for which there is no space is delivered once. The limit protects sales, which share the ledger's memory
    /// or disk with the answers.
    fn answer_space(&self) -> Option<usize> {
        None
    }
}

/// A shared handle.
impl<L: Ledger> Ledger for Arc<L> {
    fn begin(&self, network: Network, now: ChainTime) -> impl Future<Output = Result<ChainTime, LedgerError>> + Send {
        L::begin(self, network, now)
    }

    fn reserve(&self, claim: &Claim) -> impl Future<Output = Result<ReserveOutcome, LedgerError>> + Send {
        L::reserve(self, claim)
    }

    fn renew(&self, lease: &Lease) -> impl Future<Output = Result<RenewOutcome, LedgerError>> + Send {
        L::renew(self, lease)
    }

    fn settling(
        &self,
        lease: &Lease,
        settling: &Settling,
    ) -> impl Future<Output = Result<RenewOutcome, LedgerError>> + Send {
        L::settling(self, lease, settling)
    }

    fn not_settled(&self, lease: &Lease) -> impl Future<Output = Result<(), LedgerError>> + Send {
        L::not_settled(self, lease)
    }

    fn commit(
        &self,
        lease: &Lease,
        answer: Option<&KeptAnswer>,
    ) -> impl Future<Output = Result<CommitOutcome, LedgerError>> + Send {
        L::commit(self, lease, answer)
    }

    fn release(&self, lease: &Lease) -> impl Future<Output = Result<(), LedgerError>> + Send {
        L::release(self, lease)
    }

    fn consumed(&self, intent: IntentKey) -> impl Future<Output = Result<Option<Sale>, LedgerError>> + Send {
        L::consumed(self, intent)
    }

    fn begun(
        &self,
        intent: IntentKey,
        payment: PaymentId,
    ) -> impl Future<Output = Result<Option<Settling>, LedgerError>> + Send {
        L::begun(self, intent, payment)
    }

    fn begun_among(
        &self,
        intent: IntentKey,
        payments: &[PaymentId],
    ) -> impl Future<Output = Result<Option<(PaymentId, Settling)>, LedgerError>> + Send {
        L::begun_among(self, intent, payments)
    }

    fn health(&self) -> impl Future<Output = Result<(), LedgerError>> + Send {
        L::health(self)
    }

    fn sweep(&self, network: Network, head: ChainTime) -> impl Future<Output = Result<u64, LedgerError>> + Send {
        L::sweep(self, network, head)
    }

    fn announcements(&self) -> Option<&impl Announcements> {
        L::announcements(self)
    }

    fn accounts(&self) -> Option<&impl AccountLedger> {
        L::accounts(self)
    }

    fn answer_space(&self) -> Option<usize> {
        L::answer_space(self)
    }
}

/// The outcome of a reservation. Of several refusals that apply, the ledger returns the first in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum ReserveOutcome {
    /// Intent and transfer are held.
    Granted(Lease),
    /// The intent is consumed: it bought its answer.
    IntentConsumed,
    /// Every transfer of the claim is consumed.
    PaymentUsed,
    /// The claim's purchase bought its answer with another payment.
    PurchaseConsumed,
    /// Another lease holds the intent. Whatever is on record of the claim's payments, it has to wait.
    IntentHeld {
        /// The time until that lease expires unless it is renewed. Most leases end sooner.
        retry_after: Duration,
    },
    /// No transfer is free, and at least one is held, or another payment holds the purchase.
    Busy {
        /// The time until the conflicting lease expires unless it is renewed; with several leases, until the first
        /// expires. Most leases end sooner. If the payment is being settled for another intent, or another payment for
        /// the intent or the purchase: the claim's lease length.
        retry_after: Duration,
    },
    /// Every transfer that is not consumed was mined at or below its network's low-water mark. It may have bought an
    /// answer that the ledger's memory never had or has forgotten.
    BeforeMemory,
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum RenewOutcome {
    /// The lease is held, and lasts its full length from now.
    Held,
    /// The lease was taken over, released or committed.
    LeaseLost,
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum CommitOutcome {
    /// The sale is recorded, durably, under this lease.
    Done,
    /// The lease was lost, and nothing was recorded.
    LeaseLost,
}
