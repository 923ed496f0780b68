//! The ledger's questions, sent to the writer or to a reading connection.

use super::{
    super::{
        AccountLedger, Announcements, Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, RenewOutcome,
        ReserveOutcome, Sale, Settling, events,
        sql::{self, count, in_time},
    },
    codes::ask,
    handle::SqliteLedger,
    question::{Answer, MemoryChange, Question},
};
use crate::protocol::{ChainTime, IntentKey, Network, PaymentId};

impl Ledger for SqliteLedger {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.tell(MemoryChange::Start(network, now)).await?.ok_or(LedgerError::incompatible())
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        let Answer::Reserved(reservation) = self.ask(Question::Reserve(claim.clone())).await? else {
            return Err(LedgerError::unavailable());
        };
        if let ReserveOutcome::Granted(lease) = &reservation {
            events::reserved(lease);
        }
        Ok(reservation)
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        self.keep(Question::Renew(lease.clone())).await
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        self.keep(Question::Settling(lease.clone(), *settling)).await
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.ask(Question::NotSettled(lease.clone())).await.map(drop)
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        let question = Question::Commit(
            lease.clone(),
            KeptAnswer::to_keep(answer).map(|answer| (answer.clone(), self.answer_space)),
        );
        let Answer::Sold { sold, only_now } = self.ask(question).await? else {
            return Err(LedgerError::unavailable());
        };
        if only_now {
            events::consumed(lease);
        }
        Ok(if sold { CommitOutcome::Done } else { CommitOutcome::LeaseLost })
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        if let Answer::Released(true) = self.ask(Question::Release(lease.clone())).await? {
            events::released(lease);
        }
        Ok(())
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        if !self.queue.home().is_sound() {
            return Err(LedgerError::unavailable());
        }
        let question = || {
            let question = sqlx::query_as::<_, (bool, Option<Vec<u8>>)>(self.statements.sold.sql());
            question.bind(intent.as_bytes().to_vec()).fetch_one(&self.readers)
        };
        let (consumed, answer) = in_time(self.time_limit, ask(question)).await?;
        Ok(consumed.then(|| Sale::new().with_answer(answer.map(Into::into))))
    }

    async fn begun(&self, intent: IntentKey, payment: PaymentId) -> Result<Option<Settling>, LedgerError> {
        Ok(self.begun_among(intent, &[payment]).await?.map(|(_, begun)| begun))
    }

    async fn begun_among(
        &self,
        intent: IntentKey,
        payments: &[PaymentId],
    ) -> Result<Option<(PaymentId, Settling)>, LedgerError> {
        if !self.queue.home().is_sound() {
            return Err(LedgerError::unavailable());
        }
        let question = || {
            let question = sqlx::query_as::<_, (String, Vec<u8>, i64, Option<Vec<u8>>)>(self.statements.begun.sql());
            question.bind(intent.as_bytes().to_vec()).fetch_optional(&self.readers)
        };
        let begun = in_time(self.time_limit, ask(question)).await?;
        let Some((payment, request, head, transaction)) = begun else { return Ok(None) };
        let Some(payment) = sql::among(payments, &payment)? else { return Ok(None) };
        Ok(Some((payment, sql::settling(request, head, transaction)?)))
    }

    /// Writes, and flushes.
    async fn health(&self) -> Result<(), LedgerError> {
        self.tell(MemoryChange::Beat).await.map(drop)
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        let mut forgotten = 0;
        loop {
            let Answer::Swept { sales, more } = self.ask(Question::Sweep(network, head)).await? else {
                return Err(LedgerError::unavailable());
            };
            events::forgotten(count(sales));
            forgotten += count(sales);
            if !more {
                return Ok(forgotten);
            }
        }
    }

    fn announcements(&self) -> Option<&impl Announcements> {
        Some(self)
    }

    fn accounts(&self) -> Option<&impl AccountLedger> {
        Some(self)
    }

    fn answer_space(&self) -> Option<usize> {
        Some(self.answer_space)
    }
}

impl SqliteLedger {
    /// Asks to renew a lease.
    async fn keep(&self, question: Question) -> Result<RenewOutcome, LedgerError> {
        match self.ask(question).await? {
            Answer::Renewed(true) => Ok(RenewOutcome::Held),
            Answer::Renewed(false) => Ok(RenewOutcome::LeaseLost),
            _ => Err(LedgerError::unavailable()),
        }
    }
}
