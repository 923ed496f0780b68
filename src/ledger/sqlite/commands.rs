//! The ledger's questions, put to who writes, or to a connection that reads.

use super::{
    super::{
        AttemptOutcome, Claim, CommitOutcome, Lease, Ledger, LedgerError, RenewOutcome, ReserveOutcome, events,
        sql::in_time,
    },
    codes::ask,
    handle::SqliteLedger,
    question::{Answer, Question, Word},
};
use crate::protocol::{ChainTime, IntentKey};

impl Ledger for SqliteLedger {
    async fn begin(&self, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.tell(Word::Start, now).await?.ok_or(LedgerError::Incompatible)
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        let Answer::Reserved(reservation) = self.ask(Question::Reserve(claim.clone())).await? else {
            return Err(LedgerError::Unavailable);
        };
        if let ReserveOutcome::Granted(lease) = &reservation {
            events::reserved(lease);
        }
        Ok(reservation)
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        match self.ask(Question::Renew(lease.clone())).await? {
            Answer::Renewed(true) => Ok(RenewOutcome::Held),
            Answer::Renewed(false) => Ok(RenewOutcome::LeaseLost),
            _ => Err(LedgerError::Unavailable),
        }
    }

    async fn commit(&self, lease: &Lease) -> Result<CommitOutcome, LedgerError> {
        let Answer::Sold { sold, only_now } = self.ask(Question::Commit(lease.clone())).await? else {
            return Err(LedgerError::Unavailable);
        };
        if only_now {
            events::consumed(lease);
        }
        Ok(if sold { CommitOutcome::Done } else { CommitOutcome::LeaseLost })
    }

    async fn release(&self, lease: &Lease, handler: AttemptOutcome) -> Result<(), LedgerError> {
        if let Answer::Released(true) = self.ask(Question::Release(lease.clone(), handler)).await? {
            events::released(lease);
        }
        Ok(())
    }

    async fn is_consumed(&self, intent: IntentKey) -> Result<bool, LedgerError> {
        if !self.queue.home().is_sound() {
            return Err(LedgerError::Unavailable);
        }
        let question = || {
            let question = sqlx::query_scalar(self.statements.is_consumed.sql());
            question.bind(intent.as_bytes().to_vec()).fetch_one(&self.readers)
        };
        in_time(self.time_limit, ask(question)).await
    }

    /// Writes, and flushes.
    async fn health(&self) -> Result<(), LedgerError> {
        self.tell(Word::Beat, ChainTime::from_unix(0)).await.map(drop)
    }
}
