//! Accounts: the memory ledger against the suite, and the suite against ledgers that do it wrong.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_x402::{
    clock::Clock as _,
    ledger::{
        Account, AccountId, AccountLedger, AccountMemo, ChargeOutcome, Claim, ClosedAccount, CommitOutcome, Draw,
        DrawLease, DrawOutcome, DrawRenewal, KeptAnswer, Lease, Ledger, LedgerError, MemoryLedger, OpenOutcome,
        Opening, ReflectOutcome, Reflection, RenewOutcome, ReserveOutcome, Sale, Settling,
        conformance::{self, Harness},
        rules::{AccountAnswer, AccountQuestion, AccountRecord, AccountTime, decide_account},
    },
    protocol::{Amount, ChainTime, IntentKey, Network, PaymentId},
    testing::FakeClock,
};

use crate::Memory;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_ledger_keeps_accounts_as_it_should() {
    let report = conformance::run_accounts(&Memory::new(50)).await.unwrap();
    assert!(!report.passed.is_empty() && report.left_out.is_empty());
}

#[tokio::test]
async fn a_ledger_of_ones_own_that_follows_the_rule_conforms() {
    let report = conformance::run_accounts(&Bench(Fault::None, FakeClock::new(0))).await.unwrap();
    assert!(!report.passed.is_empty());
}

/// What a ledger does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Reads, and writes later.
    ReadsThenWrites,
    /// Charges whoever had a lease at any time.
    UnfencedCharge,
    /// Spends again what is charged again.
    ChargesTwice,
    /// Spends all that is held.
    ChargesAll,
    /// Spends more than is held.
    ChargesMore,
    /// Gives back what was charged.
    ReleaseUndoesCharge,
    /// Gives an amount to two.
    ForgetsLeases,
    /// Never takes over.
    LapsedStay,
    /// Takes over what is live.
    LapsesAtOnce,
    /// Grants after the end.
    IgnoresEnd,
    /// Grants what was closed.
    IgnoresClosing,
    /// Begins anew when it is opened again.
    OpensAnew,
    /// Keeps the limit of the first opening.
    NeverRaises,
    /// Keeps one account for all.
    OneForAll,
    /// Keeps no memo.
    ForgetsMemo,
    /// Grants whatever is expected.
    IgnoresExpected,
    /// Says that it has taken back, and has not.
    TakesNothingBack,
    /// Says that what is busy is used up.
    NeverBusy,
    /// Forgets every account that has an end.
    ForgetsEarly,
    /// Forgets none.
    ForgetsNever,
    /// Loses a charge whose caller is gone.
    LosesDroppedCharges,
    /// Opens as if nothing had been spent before.
    IgnoresSpent,
    /// Keeps no claims.
    ForgetsClaims,
    /// Takes a limit only if it is higher.
    NeverLowers,
    /// Takes what was read earlier for what was read later.
    TakesOlder,
    /// Keeps what is held beside a claim that is not on record.
    KeepsVoidLeases,
    /// Writes the note over the memo.
    NotesInMemo,
    /// Says that all that is claimable is owed.
    ListsAll,
    /// Lists nothing that is closed.
    ListsOpen,
    /// Lists in any order.
    ListsUnordered,
    /// Forgets what is closed, though it is owed.
    ForgetsOwed,
}

#[derive(Clone)]
struct Broken {
    fault: Fault,
    inner: MemoryLedger,
    clock: FakeClock,
    records: Arc<Mutex<HashMap<AccountId, AccountRecord>>>,
    charged: Arc<Mutex<Vec<u64>>>,
}

impl Broken {
    fn now(&self) -> AccountTime {
        let (wall, lease) = (self.clock.unix() * 1_000_000, self.clock.monotonic().as_micros() as u64);
        match self.fault {
            Fault::IgnoresEnd => AccountTime { wall: 0, lease },
            Fault::LapsedStay => AccountTime { wall, lease: 0 },
            _ => AccountTime { wall, lease },
        }
    }

    async fn ask(&self, question: AccountQuestion) -> AccountAnswer {
        let id = if self.fault == Fault::OneForAll { AccountId::new([0; 16]) } else { question.account() };
        let before = self.records.lock().unwrap().get(&id).cloned();
        if self.fault == Fault::ReadsThenWrites {
            tokio::task::yield_now().await;
        }
        let before = match self.fault {
            Fault::ReadsThenWrites => before,
            // In one step.
            _ => self.records.lock().unwrap().get(&id).cloned(),
        };
        let before = before.filter(|_| self.fault != Fault::OpensAnew || !matches!(question, AccountQuestion::Open(_)));
        let verdict = decide_account(before.clone(), &question, self.now());
        if let Some(record) = verdict.write {
            self.records.lock().unwrap().insert(id, self.bent(before, record, &question));
        }
        verdict.answer
    }

    /// What it writes instead.
    fn bent(&self, before: Option<AccountRecord>, record: AccountRecord, question: &AccountQuestion) -> AccountRecord {
        let json = |record: AccountRecord| serde_json::from_str::<serde_json::Value>(&record.to_string()).unwrap();
        let (before, mut json) = (before.map_or(serde_json::Value::Null, json), json(record.clone()));
        match (self.fault, question) {
            (Fault::ForgetsLeases, AccountQuestion::Draw(_)) => {
                // Beside what it holds for each of them.
                let limit: u64 = json["limit"].as_str().unwrap().parse().unwrap_or(0);
                json["limit"] = limit.saturating_mul(2).to_string().into();
                json["spent"] = json["limit"].clone();
                json["held"] = serde_json::json!([]);
                json["spent"] = "0".into();
            }
            (Fault::LapsesAtOnce, AccountQuestion::Draw(_)) => {
                json["held"].as_array_mut().unwrap().iter_mut().for_each(|held| held[2] = 0.into());
            }
            (Fault::ForgetsMemo, _) => drop(json.as_object_mut().unwrap().remove("memo")),
            (Fault::IgnoresClosing, AccountQuestion::Close(_)) => drop(json.as_object_mut().unwrap().remove("closed")),
            (Fault::ForgetsClaims, AccountQuestion::Open(_)) => drop(json.as_object_mut().unwrap().remove("claims")),
            (Fault::NeverLowers, AccountQuestion::Reflect(_)) => {
                let number = |json: &serde_json::Value| json["limit"].as_str().unwrap().parse::<u128>().unwrap();
                json["limit"] = number(&json).max(number(&before)).to_string().into();
            }
            (Fault::TakesOlder, AccountQuestion::Reflect(_)) => {
                drop(json["claims"].as_object_mut().unwrap().remove("as_of"));
            }
            (Fault::KeepsVoidLeases, AccountQuestion::Reflect(_)) => {
                json["held"] = before["held"].as_array().cloned().unwrap_or_default().into();
            }
            (Fault::NotesInMemo, AccountQuestion::Reflect(_)) => {
                let note = json["claims"].get("note").cloned().unwrap_or_else(|| "".into());
                json.as_object_mut().unwrap().insert("memo".into(), note);
            }
            _ => return record,
        }
        // What is no record cannot be written.
        AccountRecord::parse(&json.to_string()).unwrap_or(record)
    }
}

impl AccountLedger for Broken {
    async fn open_account(&self, opening: &Opening) -> Result<OpenOutcome, LedgerError> {
        let mut opening = opening.clone();
        if self.fault == Fault::IgnoresSpent {
            opening = opening.with_spent(Amount::ZERO);
        }
        if let (Fault::NeverRaises, Some(account)) = (self.fault, self.account(opening.id()).await?) {
            let lower = Opening::new(opening.id(), account.limit);
            opening = opening.lasts().map_or(lower.clone(), |lasts| lower.lasting(lasts));
        }
        match self.ask(AccountQuestion::Open(opening)).await {
            AccountAnswer::Opened(outcome) => Ok(outcome),
            other => panic!("{other:?}"),
        }
    }

    async fn draw(&self, draw: &Draw) -> Result<DrawOutcome, LedgerError> {
        let draw = match self.fault {
            Fault::IgnoresExpected => Draw::new(draw.account(), draw.amount(), draw.lease()),
            _ => draw.clone(),
        };
        match self.ask(AccountQuestion::Draw(draw)).await {
            AccountAnswer::Drawn(DrawOutcome::Busy { .. }) if self.fault == Fault::NeverBusy => {
                Ok(DrawOutcome::UsedUp { left: Amount::ZERO })
            }
            AccountAnswer::Drawn(outcome) => Ok(outcome),
            other => panic!("{other:?}"),
        }
    }

    async fn renew_draw(&self, lease: &DrawLease) -> Result<DrawRenewal, LedgerError> {
        match self.ask(AccountQuestion::Renew(lease.clone())).await {
            AccountAnswer::Renewed(outcome) => Ok(outcome),
            other => panic!("{other:?}"),
        }
    }

    async fn charge(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> Result<ChargeOutcome, LedgerError> {
        let amount = match self.fault {
            Fault::ChargesAll => lease.amount(),
            Fault::ChargesMore => amount.min(lease.amount()),
            _ => amount,
        };
        if self.fault == Fault::LosesDroppedCharges {
            // The caller may leave here: its lease is gone.
            let _ = self.ask(AccountQuestion::Release(lease.clone())).await;
            tokio::task::yield_now().await;
            let again = Draw::new(lease.account(), lease.amount(), lease.length());
            let told = self.ask(AccountQuestion::Draw(again)).await;
            let AccountAnswer::Drawn(DrawOutcome::Granted(lease)) = told else { return Ok(ChargeOutcome::LeaseLost) };
            return self.charged(&lease, amount, memo).await;
        }
        let outcome = self.charged(lease, amount, memo).await?;
        match (self.fault, outcome) {
            (Fault::UnfencedCharge, ChargeOutcome::LeaseLost) => Ok(ChargeOutcome::Done { left: Amount::ZERO }),
            (Fault::ChargesTwice, ChargeOutcome::Done { .. }) => {
                if self.charged.lock().unwrap().contains(&lease.fencing_token()) {
                    let more = Draw::new(lease.account(), amount, lease.length());
                    if let DrawOutcome::Granted(more) = self.draw(&more).await? {
                        return self.charged(&more, amount, None).await;
                    }
                }
                self.charged.lock().unwrap().push(lease.fencing_token());
                Ok(outcome)
            }
            (_, outcome) => Ok(outcome),
        }
    }

    async fn take_back(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> Result<ChargeOutcome, LedgerError> {
        let amount = if self.fault == Fault::TakesNothingBack { Amount::ZERO } else { amount };
        match self.ask(AccountQuestion::TakeBack(lease.clone(), amount, memo.cloned())).await {
            AccountAnswer::Charged(outcome) => Ok(outcome),
            other => panic!("{other:?}"),
        }
    }

    async fn release_draw(&self, lease: &DrawLease) -> Result<(), LedgerError> {
        if self.fault == Fault::ReleaseUndoesCharge {
            let mut records = self.records.lock().unwrap();
            let Some(record) = records.get_mut(&lease.account()) else { return Ok(()) };
            let mut json: serde_json::Value = serde_json::from_str(&record.to_string()).unwrap();
            let charged = json["charged"].as_array().cloned().unwrap_or_default();
            if charged.contains(&lease.fencing_token().into()) {
                json["spent"] = "0".into();
                *record = AccountRecord::parse(&json.to_string()).unwrap();
                return Ok(());
            }
        }
        self.ask(AccountQuestion::Release(lease.clone())).await;
        Ok(())
    }

    async fn close_account(&self, id: AccountId) -> Result<Option<ClosedAccount>, LedgerError> {
        match self.ask(AccountQuestion::Close(id)).await {
            AccountAnswer::Closed(closed) => Ok(closed),
            other => panic!("{other:?}"),
        }
    }

    async fn account(&self, id: AccountId) -> Result<Option<Account>, LedgerError> {
        match self.ask(AccountQuestion::Look(id)).await {
            AccountAnswer::Account(account) => Ok(account),
            other => panic!("{other:?}"),
        }
    }

    async fn reflect(&self, reflection: &Reflection) -> Result<ReflectOutcome, LedgerError> {
        match self.ask(AccountQuestion::Reflect(reflection.clone())).await {
            AccountAnswer::Reflected(outcome) => Ok(outcome),
            other => panic!("{other:?}"),
        }
    }

    async fn owed(&self, after: Option<AccountId>, most: usize) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        Ok(match self.fault {
            Fault::ListsAll => self.listed(AccountRecord::is_open_to_claims, after, most),
            Fault::ListsOpen => self.listed(|record| record.is_owed() && record.is_open_to_claims(), after, most),
            _ => self.listed(AccountRecord::is_owed, after, most),
        })
    }

    async fn claimable(&self, after: Option<AccountId>, most: usize) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        Ok(self.listed(AccountRecord::is_open_to_claims, after, most))
    }

    async fn sweep_accounts(&self, expired_for: Duration) -> Result<u64, LedgerError> {
        let now = self.now();
        let (mut records, fault) = (self.records.lock().unwrap(), self.fault);
        let before = records.len();
        records.retain(|_, record| match fault {
            Fault::ForgetsEarly => record.expires().is_none(),
            Fault::ForgetsNever => true,
            Fault::ForgetsOwed => !record.at(now).closed,
            _ => !record.is_forgettable(expired_for, now),
        });
        Ok((before - records.len()) as u64)
    }
}

impl Broken {
    fn listed(
        &self,
        is_on: impl Fn(&AccountRecord) -> bool,
        after: Option<AccountId>,
        most: usize,
    ) -> Vec<(AccountId, Account)> {
        let (records, now) = (self.records.lock().unwrap(), self.now());
        let behind = records.iter().filter(|(id, record)| is_on(record) && after.is_none_or(|after| **id > after));
        let mut listed: Vec<_> = behind.map(|(id, record)| (*id, record.at(now))).collect();
        match self.fault {
            Fault::ListsUnordered => listed.sort_by_key(|(id, _)| std::cmp::Reverse(*id)),
            _ => listed.sort_by_key(|(id, _)| *id),
        }
        listed.truncate(most);
        listed
    }

    async fn charged(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> Result<ChargeOutcome, LedgerError> {
        match self.ask(AccountQuestion::Charge(lease.clone(), amount, memo.cloned())).await {
            AccountAnswer::Charged(outcome) => Ok(outcome),
            other => panic!("{other:?}"),
        }
    }
}

impl Ledger for Broken {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.inner.begin(network, now).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        self.inner.reserve(claim).await
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        self.inner.renew(lease).await
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        self.inner.settling(lease, settling).await
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.inner.not_settled(lease).await
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        self.inner.commit(lease, answer).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.inner.release(lease).await
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        self.inner.consumed(intent).await
    }

    async fn begun(&self, intent: IntentKey, payment: PaymentId) -> Result<Option<Settling>, LedgerError> {
        self.inner.begun(intent, payment).await
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        self.inner.sweep(network, head).await
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.inner.health().await
    }
}

struct Bench(Fault, FakeClock);

impl Harness for Bench {
    type Ledger = Broken;

    async fn fresh(&self) -> Broken {
        let (inner, clock) = (MemoryLedger::with_clock(self.1.clone()), self.1.clone());
        Broken { fault: self.0, inner, clock, records: Arc::default(), charged: Arc::default() }
    }

    async fn share(&self, ledger: &Broken) -> Broken {
        ledger.clone()
    }

    async fn pass(&self, span: Duration) {
        self.1.advance(span);
    }

    fn skips_time(&self) -> bool {
        true
    }

    fn rounds(&self) -> usize {
        3
    }
}

#[tokio::test]
async fn every_fault_of_accounts_is_caught_by_its_check() {
    for (fault, check) in [
        (Fault::ReadsThenWrites, "twenty_draws_on_three"),
        (Fault::UnfencedCharge, "what_was_taken_over_is_lost"),
        (Fault::ChargesTwice, "a_charge_is_repeatable"),
        (Fault::ChargesAll, "a_smaller_charge_gives_back_the_rest"),
        (Fault::ChargesMore, "a_larger_charge_is_refused"),
        (Fault::ReleaseUndoesCharge, "what_is_charged_stays"),
        (Fault::ForgetsLeases, "what_is_held_is_busy"),
        (Fault::LapsedStay, "it_runs_out_and_is_free"),
        (Fault::LapsesAtOnce, "what_is_held_is_busy"),
        (Fault::IgnoresEnd, "an_expired_account_grants_nothing"),
        (Fault::IgnoresClosing, "closed_for_good"),
        (Fault::ReadsThenWrites, "closed_meanwhile"),
        (Fault::OpensAnew, "opened_again"),
        (Fault::NeverRaises, "opened_again"),
        (Fault::OneForAll, "accounts_are_told_apart"),
        (Fault::ForgetsMemo, "the_memo_of_the_last_charge"),
        (Fault::IgnoresExpected, "expected_sums"),
        (Fault::NeverBusy, "what_is_held_is_busy"),
        (Fault::ForgetsEarly, "expired_accounts_are_forgotten"),
        (Fault::ForgetsNever, "expired_accounts_are_forgotten"),
        (Fault::LosesDroppedCharges, "a_dropped_charge_is_repeated"),
        (Fault::ReadsThenWrites, "one_voucher_of_many"),
        (Fault::ReadsThenWrites, "charges_and_reflections"),
        (Fault::ReadsThenWrites, "lower_limit_or_draw"),
        (Fault::IgnoresSpent, "what_was_spent_before"),
        (Fault::ForgetsClaims, "what_is_charged_is_owed"),
        (Fault::NeverLowers, "a_limit_falls_and_rises"),
        (Fault::TakesNothingBack, "what_is_charged_is_taken_back"),
        (Fault::TakesOlder, "the_later_block_counts"),
        (Fault::KeepsVoidLeases, "claimed_and_not_on_record"),
        (Fault::NotesInMemo, "memo_and_note"),
        (Fault::ListsAll, "what_is_claimed_is_not_owed"),
        (Fault::ListsOpen, "closed_and_owed"),
        (Fault::ListsUnordered, "lists_are_paged"),
        (Fault::ForgetsOwed, "closed_and_owed"),
    ] {
        let violations = conformance::run_accounts(&Bench(fault, FakeClock::new(0))).await.unwrap_err();
        let caught: Vec<_> = violations.as_slice().iter().map(|violation| violation.check.name).collect();
        assert!(caught.contains(&check), "{fault:?} passed {check}; it was caught by {caught:?}");
    }
}
