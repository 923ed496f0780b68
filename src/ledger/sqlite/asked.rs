//! A question in the queue, with the way back to its caller.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    super::{DrawLease, Lease, LedgerError, account::AccountQuestion},
    delivery::{Delivery, TakesBack},
    question::{Answer, Question},
};

/// A waiting question with its caller.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) answer: Option<Result<Answer, LedgerError>>,
    by: By,
}

enum By {
    Caller(oneshot::Sender<Delivery>),
    /// The ledger itself. It does not need the answer after this time.
    Itself(Instant),
}

impl Asked {
    pub(super) fn new(question: Question) -> (Self, oneshot::Receiver<Delivery>) {
        let (reply, answer) = oneshot::channel();
        (Self { question, answer: None, by: By::Caller(reply) }, answer)
    }

    /// Releases a lease that reached no caller. After its length it expires by itself.
    pub(super) fn give_back(lease: Lease) -> Self {
        Self::by_itself(lease.length(), Question::Release(lease))
    }

    /// The same for a lease on an account.
    pub(super) fn give_back_draw(lease: DrawLease) -> Self {
        Self::by_itself(lease.length(), Question::Account(AccountQuestion::Release(lease)))
    }

    fn by_itself(within: Duration, question: Question) -> Self {
        let now = Instant::now();
        let until = now.checked_add(within).unwrap_or(now);
        Self { question, answer: None, by: By::Itself(until) }
    }

    /// Whether the answer is no longer needed.
    pub(super) fn is_obsolete(&self) -> bool {
        match &self.by {
            By::Caller(reply) => reply.is_closed(),
            By::Itself(until) => Instant::now() >= *until,
        }
    }

    pub(super) const fn is_the_ledgers_own(&self) -> bool {
        matches!(self.by, By::Itself(_))
    }

    pub(super) fn reply<T: TakesBack>(self, sender: &Arc<T>) {
        if let By::Caller(reply) = self.by {
            let answer = self.answer.unwrap_or(Err(LedgerError::unavailable()));
            // If the caller has left meanwhile, dropping the delivery handles the answer.
            let _ = reply.send(Delivery::new(self.question, answer, Arc::<T>::clone(sender)));
        }
    }
}
