//! Helpers for the checks of accounts.

use super::{
    super::{AccountId, AccountLedger, AccountMemo, ChargeOutcome, Draw, DrawLease, DrawOutcome, OpenOutcome, Opening},
    fixture::{Fault, Fixture, LONG, must_be},
    harness::Harness,
};
use crate::protocol::Amount;

pub(super) fn units(units: u64) -> Amount {
    Amount::from_base_units(units.into())
}

pub(super) fn memo(text: &str) -> Result<AccountMemo, Fault> {
    AccountMemo::new(text).ok_or(Fault::new("the memo is too long"))
}

impl<H: Harness<Ledger: AccountLedger>> Fixture<'_, H> {
    /// The id of an account that is not open.
    pub(super) fn account(&self) -> AccountId {
        AccountId::new(self.name())
    }

    /// Opens an account with this limit.
    pub(super) async fn open(&self, limit: u64) -> Result<AccountId, Fault> {
        let id = self.account();
        must_be!(self.ledger.open_account(&Opening::new(id, units(limit))).await?, OpenOutcome::Open(account) if account.limit == units(limit), "a new account");
        Ok(id)
    }

    /// Makes a draw that must be granted, for longer than any check takes.
    pub(super) async fn draw(&self, id: AccountId, amount: u64) -> Result<DrawLease, Fault> {
        granted(self.ledger.draw(&Draw::new(id, units(amount), LONG)).await?)
    }

    /// Makes a draw that must be granted, with a lease short enough to wait for.
    pub(super) async fn draw_briefly(&self, id: AccountId, amount: u64) -> Result<DrawLease, Fault> {
        granted(self.ledger.draw(&Draw::new(id, units(amount), self.harness.lease())).await?)
    }

    /// Returns the outcome of a draw.
    pub(super) async fn told(&self, id: AccountId, amount: u64) -> Result<DrawOutcome, Fault> {
        Ok(self.twin.draw(&Draw::new(id, units(amount), LONG)).await?)
    }

    /// Charges a lease.
    pub(super) async fn charge(&self, lease: &DrawLease, amount: u64) -> Result<ChargeOutcome, Fault> {
        Ok(self.ledger.charge(lease, units(amount), None).await?)
    }

    /// Returns the spent amount of an account.
    pub(super) async fn spent(&self, id: AccountId) -> Result<Amount, Fault> {
        let account = self.twin.account(id).await?.ok_or(Fault::new("an account that was opened is unknown"))?;
        Ok(account.spent)
    }
}

pub(super) fn granted(outcome: DrawOutcome) -> Result<DrawLease, Fault> {
    match outcome {
        DrawOutcome::Granted(lease) => Ok(lease),
        other => Err(Fault::new(format!("what is left was refused: {other:?}"))),
    }
}

pub(super) const fn done(left: u64) -> impl Fn(&ChargeOutcome) -> bool {
    move |outcome| matches!(outcome, ChargeOutcome::Done { left: told } if *told == units(left))
}
