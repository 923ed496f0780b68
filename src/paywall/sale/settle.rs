//! Settlement under a lease, for any way to pay.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use tokio::runtime::Handle;
use tracing::Instrument as _;

use crate::{
    ledger::{RenewOutcome, Settling},
    paywall::{
        refusal::{ASK_AGAIN, Problem, Rejection},
        sale::{
            ending::Ending,
            kept_answer::Shown,
            reservation::{LeaseGuard, Records, UntilNow},
            upkeep::HoldOutcome,
        },
    },
    protocol::{
        Amount, ChainTime, Payment, ProblemCode, TxHash,
        v2::{Reason, SettleResponse},
    },
};

/// How long the settlement of a payment, with its confirmation, may take.
const SETTLE_AND_CONFIRM: Duration = Duration::from_secs(180);

/// A reserved payment that is still to be settled. Each way to pay that settles has its own type.
pub(crate) trait Unsettled: Send + Sync {
    /// The record that the ledger keeps before anything is sent.
    fn record(&self) -> Settling;

    /// Whether settling sends anything out of this process that must be on record before. Writes to the ledger alone need no record.
    fn sends(&self) -> bool {
        true
    }

    /// Whether the handler sets the charge, up to what the payer allowed. The charge is known, and held by the lease, before the
    /// settlement.
    fn is_metered(&self) -> bool;

    /// Settles the payment, and records the results. `charge` is the part of the reserved amount to be paid.
    fn settle<'a>(&'a self, charge: Amount, records: &'a Records)
    -> Pin<Box<dyn Future<Output = Settled> + Send + 'a>>;

    /// Decides what the result means for the sale. `begun` is the settlement that is recorded by now.
    fn conclude(&self, settled: Settled, begun: Option<&Settling>) -> Outcome;

    /// Returns the reply where it is unknown whether the payment is settled.
    fn outcome_unknown(&self, transaction: Option<TxHash>) -> Problem;

    /// The transaction that made the payment, where the payment does not name it.
    fn made_by(&self) -> Option<TxHash> {
        None
    }

    /// Returns the reply about a settled payment that has bought nothing yet.
    fn made(&self, transaction: TxHash) -> SettleResponse;

    /// Ends what counts against the payer until the payment is settled.
    fn is_settled(&mut self) {}

    /// Gives back anything held besides the lease, where nothing is sold.
    fn let_go(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    /// The settlement reply for the payer of a sale, where it says more than the payment.
    fn told(&self) -> Option<SettleResponse> {
        None
    }

    /// What the log records of the sale for a restored ledger, where it is more than the payment.
    fn logged(&self) -> Option<String> {
        None
    }

    /// The proof that a client of this payment shows to get a sold answer again.
    fn shown(&self) -> Shown;
}

/// The result of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Done(Payment),
    /// Done in the transaction that the settler named.
    Named(Payment),
    /// Not settled by this attempt, as far as can be known.
    Refused(Reason),
    /// The payment was used for something else: it can never be settled.
    Spent,
    Unknown(Option<TxHash>),
}

/// What the result of a settlement means for the sale.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The payment is settled, as given: the answer is sold.
    Sell(Payment),
    /// The payment is not settled under this lease: the lease ends, and this is the answer.
    Refuse(Rejection),
    /// Everything sent for the payment is settled, and it buys nothing under this lease. The lease ends, its record stays, and this is the
    /// answer.
    Keep(Rejection),
    /// The payment may be settled: the lease is left to run out, and this is the answer.
    Unknown(Problem),
}

/// Returns whether a payment, mined in this transaction at this time, belongs to the settlement `begun`. It does if the transaction is the
/// settlement's, or if it was mined no earlier than the settlement began. The nonce was unused at that beginning, so a payment mined within
/// the same second was settled after it.
pub(crate) fn is_of(transaction: Option<TxHash>, mined: ChainTime, begun: &Settling) -> bool {
    transaction.is_some_and(|transaction| begun.transaction == Some(transaction)) || mined >= begun.head
}

/// What a settlement leaves to its caller.
pub(crate) struct Settlement {
    unsettled: Box<dyn Unsettled>,
    guard: LeaseGuard,
    outcome: Result<(), NotSettled>,
}

impl Settlement {
    pub(crate) fn into_parts(self: Box<Self>) -> (LeaseGuard, Option<Box<dyn Unsettled>>, Result<(), NotSettled>) {
        (self.guard, Some(self.unsettled), self.outcome)
    }
}

/// Why nothing is sold.
pub(crate) enum NotSettled {
    /// The lease is released, and this is the answer.
    Refused(Rejection),
    LeaseLost,
    /// It is unknown whether the payment is settled. If this lease may have sent it, the lease is left to expire; otherwise it is released.
    Unknown(Problem),
}

impl<A, ResB, E> From<NotSettled> for Ending<A, ResB, E> {
    fn from(not: NotSettled) -> Self {
        match not {
            NotSettled::Refused(rejection) => Self::NoSale(Err(rejection.into())),
            NotSettled::LeaseLost => Self::LeaseLost,
            NotSettled::Unknown(problem) => Self::Unknown(problem),
        }
    }
}

/// Settles a payment while the lease is held; `None` if that panicked.
///
/// The settlement has a task of its own. If the client leaves, the settler's report must still be recorded, and the lease stays with the
/// payment until then. After that the lease is released, so that the next request need not wait until it runs out.
pub(crate) fn settle(
    mut unsettled: Box<dyn Unsettled>,
    mut guard: LeaseGuard,
) -> impl Future<Output = Option<Box<Settlement>>> {
    // The future and its result are boxed: most redemptions settle nothing, and stay small.
    let mut work = Box::pin(async move {
        let outcome = settle_under(&mut *unsettled, &mut guard).await;
        Box::new(Settlement { unsettled, guard, outcome })
    });
    async move {
        // A settlement that need not wait needs no task.
        if let Poll::Ready(settlement) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
            return Some(settlement);
        }
        match Handle::try_current() {
            Ok(runtime) => runtime.spawn(work.in_current_span()).await.ok(),
            Err(_) => Some(work.await),
        }
    }
}

async fn settle_under(unsettled: &mut dyn Unsettled, guard: &mut LeaseGuard) -> Result<(), NotSettled> {
    let begun = match unsettled.sends() {
        true => guard.begin_settling(unsettled.record()).await,
        false => Ok(RenewOutcome::Held),
    };
    match begun {
        Ok(RenewOutcome::Held) => {}
        Ok(RenewOutcome::LeaseLost) => return Err(NotSettled::LeaseLost),
        // A transaction that an earlier holder sent may still be mined.
        Err(_) if guard.begun().is_some() => return Err(NotSettled::Unknown(unsettled.outcome_unknown(None))),
        Err(_) => {
            guard.is_not_settled().await;
            return Err(NotSettled::Refused(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN).into()));
        }
    }
    let records = guard.records(unsettled.record());
    let settled =
        match guard.keep(SETTLE_AND_CONFIRM, None, pin!(unsettled.settle(guard.payment().amount(), &records))).await {
            HoldOutcome::Finished(settled) => settled,
            HoldOutcome::LeaseLost => return Err(NotSettled::LeaseLost),
            HoldOutcome::HeldTooLong | HoldOutcome::BodyLate => Settled::Unknown(None),
        };
    // A sent authorization is public, even if its settlement failed: any reader of the chain can send it again.
    let begun = guard.begun_by_now(unsettled.record());
    match unsettled.conclude(settled, begun.as_ref()) {
        Outcome::Sell(paid) => {
            guard.paid_by(paid);
            // The handler may not have run yet, but the money has left the payer's balance.
            unsettled.is_settled();
            Ok(())
        }
        Outcome::Refuse(rejection) => match guard.is_not_settled().await {
            UntilNow::Held => Err(NotSettled::Refused(rejection)),
            UntilNow::LeaseLost => Err(NotSettled::LeaseLost),
            UntilNow::Unknown => Err(NotSettled::Unknown(unsettled.outcome_unknown(None))),
        },
        Outcome::Keep(rejection) => {
            guard.is_settled();
            Err(NotSettled::Refused(rejection))
        }
        Outcome::Unknown(problem) => {
            tracing::error!(payment = %guard.payment().id(), "whether the payment is settled is not known");
            Err(NotSettled::Unknown(problem))
        }
    }
}
