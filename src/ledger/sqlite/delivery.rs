//! An answer on its way to its caller, and its fate if the caller does not take it.

use std::sync::Arc;

use super::{
    super::{DrawLease, DrawOutcome, Lease, LedgerError, ReserveOutcome, account::AccountAnswer},
    question::{Answer, Question},
};

/// The sender of an answer. An answer that is not taken returns to it.
pub(super) trait TakesBack: Send + Sync + 'static {
    /// Releases a lease that reached no caller.
    fn give_back(self: Arc<Self>, lease: Lease);

    /// The same for a lease on an account.
    fn give_back_draw(self: Arc<Self>, lease: DrawLease);

    /// Keeps a sale: for a caller that has asked again and waits, or else for one that asks later.
    fn keep(self: Arc<Self>, sale: Unheard);
}

/// An answer on its way to its caller, which may leave before the answer is sent or taken.
///
/// A grant that reaches no caller is released: otherwise it would hold the payment until its lease ran out, and count
/// as an attempt. A sale whose caller left is kept for a caller that asks again.
pub(super) struct Delivery {
    question: Question,
    /// `None` once the caller took it.
    answer: Option<Result<Answer, LedgerError>>,
    sender: Arc<dyn TakesBack>,
}

impl Delivery {
    pub(super) const fn new(
        question: Question,
        answer: Result<Answer, LedgerError>,
        sender: Arc<dyn TakesBack>,
    ) -> Self {
        Self { question, answer: Some(answer), sender }
    }

    pub(super) fn take(mut self) -> Result<Answer, LedgerError> {
        self.answer.take().unwrap_or(Err(LedgerError::unavailable()))
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        match (&self.question, self.answer.take()) {
            (_, Some(Ok(Answer::Reserved(ReserveOutcome::Granted(lease))))) => {
                tracing::debug!(intent = %lease.intent(), "the caller has left; its grant is released");
                Arc::clone(&self.sender).give_back(lease);
            }
            (_, Some(Ok(Answer::Account(AccountAnswer::Drawn(DrawOutcome::Granted(lease)))))) => {
                tracing::debug!(account = %lease.account(), "the caller has left; its grant is released");
                Arc::clone(&self.sender).give_back_draw(lease);
            }
            (Question::Commit(lease, _), Some(Ok(Answer::Sold { sold: true, only_now }))) => {
                Arc::clone(&self.sender).keep(Unheard { lease: lease.clone(), only_now });
            }
            _ => {}
        }
    }
}

/// A sale that was written and flushed, and whose caller does not know of it.
pub(super) struct Unheard {
    lease: Lease,
    only_now: bool,
}

impl Unheard {
    pub(super) fn is_of(&self, question: &Question) -> bool {
        matches!(question, Question::Commit(lease, _) if *lease == self.lease)
    }

    pub(super) fn into_answer(self) -> Answer {
        Answer::Sold { sold: true, only_now: self.only_now }
    }
}
