//! `FaultyLedger`: the memory ledger behind a connection that counts questions, and breaks where it is told to.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex},
};

use tower_x402::{
    ledger::{
        AttemptOutcome, Claim, CommitOutcome, Lease, Ledger, LedgerError, MemoryLedger, RenewOutcome, ReserveOutcome,
    },
    protocol::{ChainTime, IntentKey},
};

/// What can be asked of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    Begin,
    Reserve,
    Renew,
    Commit,
    Release,
    IsConsumed,
    Health,
}

/// How a question goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails, and nothing happened.
    Fails,
    /// It happens, and the answer is lost.
    AnswerLost,
    /// It never answers.
    Hangs,
}

#[derive(Clone)]
pub struct FaultyLedger {
    pub inner: Arc<MemoryLedger>,
    faults: Arc<Mutex<HashMap<Question, Fault>>>,
    asked: Arc<Mutex<Vec<Question>>>,
}

impl FaultyLedger {
    pub fn new(inner: Arc<MemoryLedger>) -> Self {
        Self { inner, faults: Arc::default(), asked: Arc::default() }
    }

    /// From now on, every question of this kind goes wrong in that way.
    pub fn breaks(&self, question: Question, fault: Fault) {
        self.faults.lock().unwrap().insert(question, fault);
    }

    pub fn mends(&self) {
        self.faults.lock().unwrap().clear();
    }

    /// What it was asked since it was last looked at.
    pub fn asked(&self) -> Vec<Question> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    async fn ask<T>(
        &self,
        question: Question,
        answer: impl Future<Output = Result<T, LedgerError>>,
    ) -> Result<T, LedgerError> {
        self.asked.lock().unwrap().push(question);
        let fault = self.faults.lock().unwrap().get(&question).copied();
        match fault {
            None => answer.await,
            Some(Fault::Fails) => Err(LedgerError::Unavailable),
            Some(Fault::AnswerLost) => {
                let _ = answer.await;
                Err(LedgerError::Unavailable)
            }
            Some(Fault::Hangs) => std::future::pending().await,
        }
    }
}

impl Ledger for FaultyLedger {
    async fn begin(&self, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.ask(Question::Begin, Ledger::begin(&*self.inner, now)).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        self.ask(Question::Reserve, Ledger::reserve(&*self.inner, claim)).await
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        self.ask(Question::Renew, Ledger::renew(&*self.inner, lease)).await
    }

    async fn commit(&self, lease: &Lease) -> Result<CommitOutcome, LedgerError> {
        self.ask(Question::Commit, Ledger::commit(&*self.inner, lease)).await
    }

    async fn release(&self, lease: &Lease, handler: AttemptOutcome) -> Result<(), LedgerError> {
        self.ask(Question::Release, Ledger::release(&*self.inner, lease, handler)).await
    }

    async fn is_consumed(&self, intent: IntentKey) -> Result<bool, LedgerError> {
        self.ask(Question::IsConsumed, Ledger::is_consumed(&*self.inner, intent)).await
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.ask(Question::Health, Ledger::health(&*self.inner)).await
    }
}
