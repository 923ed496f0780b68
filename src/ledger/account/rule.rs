//! The rule of every ledger about accounts: decides each question, and the record to write.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{
    claim::{Draw, DrawLease, Opening},
    id::{AccountId, AccountMemo},
    outcome::{Account, ChargeOutcome, ClosedAccount, DrawOutcome, DrawRenewal, OpenOutcome, ReflectOutcome},
    record::{AccountRecord, ClaimRecord, Held, REMEMBERED_ALONE},
    reflection::Reflection,
    time::AccountTime,
};
use crate::{
    ledger::claim::{CLOCK_SKEW, LONGEST_LEASE},
    protocol::Amount,
};

/// The most reservations of one account that may be under way at the same time.
const MOST_HELD: usize = 64;

/// A question about one account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccountQuestion {
    /// [`open_account`](super::AccountLedger::open_account)
    Open(Opening),
    /// [`draw`](super::AccountLedger::draw)
    Draw(Draw),
    /// [`renew_draw`](super::AccountLedger::renew_draw)
    Renew(DrawLease),
    /// [`charge`](super::AccountLedger::charge)
    Charge(DrawLease, Amount, Option<AccountMemo>),
    /// [`take_back`](super::AccountLedger::take_back)
    TakeBack(DrawLease, Amount, Option<AccountMemo>),
    /// [`release_draw`](super::AccountLedger::release_draw)
    Release(DrawLease),
    /// [`close_account`](super::AccountLedger::close_account)
    Close(AccountId),
    /// [`account`](super::AccountLedger::account)
    Look(AccountId),
    /// [`reflect`](super::AccountLedger::reflect)
    Reflect(Reflection),
}

/// The answer to an [`AccountQuestion`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccountAnswer {
    /// To [`Open`](AccountQuestion::Open).
    Opened(OpenOutcome),
    /// To [`Draw`](AccountQuestion::Draw).
    Drawn(DrawOutcome),
    /// To [`Renew`](AccountQuestion::Renew).
    Renewed(DrawRenewal),
    /// To [`Charge`](AccountQuestion::Charge) and [`TakeBack`](AccountQuestion::TakeBack).
    Charged(ChargeOutcome),
    /// To [`Release`](AccountQuestion::Release): whether the lease was held until now.
    Released(bool),
    /// To [`Close`](AccountQuestion::Close); `None` if there is no such account.
    Closed(Option<ClosedAccount>),
    /// To [`Look`](AccountQuestion::Look); `None` if there is no such account.
    Account(Option<Account>),
    /// To [`Reflect`](AccountQuestion::Reflect).
    Reflected(ReflectOutcome),
}

impl AccountQuestion {
    /// Returns the account that the question is about.
    #[must_use]
    pub const fn account(&self) -> AccountId {
        match self {
            Self::Open(opening) => opening.id(),
            Self::Draw(draw) => draw.account(),
            Self::Renew(lease) | Self::Charge(lease, ..) | Self::TakeBack(lease, ..) | Self::Release(lease) => {
                lease.account()
            }
            Self::Close(id) | Self::Look(id) => *id,
            Self::Reflect(reflection) => reflection.account(),
        }
    }

    /// Returns whether the write must survive a power failure. A lease need not, since its holder does not survive
    /// either.
    #[must_use]
    pub const fn must_be_durable(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Charge(..) | Self::TakeBack(..) | Self::Close(_) | Self::Reflect(_))
    }

    /// Returns whether the question begins something. Questions that end or renew leases come first.
    #[must_use]
    pub const fn begins(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Draw(_))
    }

    /// Returns whether the question can spend money or give it back. A ledger that may have lost its last records
    /// refuses these questions and no others, so that earlier sales can still be claimed.
    #[must_use]
    pub fn spends(&self) -> bool {
        match self {
            Self::Open(opening) => !opening.limit().is_zero(),
            Self::Draw(draw) => !draw.is_for_upkeep() || !draw.amount().is_zero(),
            _ => false,
        }
    }
}

/// The decision about a question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct AccountVerdict {
    /// The record to write; `None` if it does not change.
    pub write: Option<AccountRecord>,
    /// The answer to give after the write.
    pub answer: AccountAnswer,
}

/// Decides about a question. `record` is the account's record; `None` if there is no such account.
///
/// The ledger reads the record and the time, and writes the result, in one atomic step. Nothing else decides about an account.
pub fn decide_account(record: Option<AccountRecord>, question: &AccountQuestion, now: AccountTime) -> AccountVerdict {
    match (record, question) {
        (None, AccountQuestion::Open(opening)) => {
            let record = new(opening, now);
            let answer = AccountAnswer::Opened(OpenOutcome::Open(record.at(now)));
            AccountVerdict { write: Some(record), answer }
        }
        (None, question) => AccountVerdict { write: None, answer: unknown(question) },
        (Some(mut record), question) => {
            let (answer, is_changed) = record.decide(question, now);
            AccountVerdict { write: is_changed.then_some(record), answer }
        }
    }
}

fn new(opening: &Opening, now: AccountTime) -> AccountRecord {
    // An account that is not claimable cannot have spent more than its limit.
    let spent = if opening.is_claimable() { opening.spent() } else { opening.spent().min(opening.limit()) };
    let claims = ClaimRecord { claimed: spent, since: None, as_of: None, note: AccountMemo::default() };
    AccountRecord {
        limit: opening.limit(),
        spent,
        expires: end(opening, now),
        closed: false,
        fence: 0,
        drawn: 0,
        memo: opening.memo().clone(),
        held: Vec::new(),
        charged: std::collections::VecDeque::new(),
        claims: opening.is_claimable().then(|| Box::new(claims)),
    }
}

/// The answer for an account that does not exist.
fn unknown(question: &AccountQuestion) -> AccountAnswer {
    match question {
        // Never reached by `decide_account`, which opens the account.
        AccountQuestion::Open(_) => AccountAnswer::Opened(OpenOutcome::Closed),
        AccountQuestion::Draw(_) => AccountAnswer::Drawn(DrawOutcome::Unknown),
        AccountQuestion::Renew(_) => AccountAnswer::Renewed(DrawRenewal::LeaseLost),
        AccountQuestion::Charge(..) | AccountQuestion::TakeBack(..) => AccountAnswer::Charged(ChargeOutcome::LeaseLost),
        AccountQuestion::Release(_) => AccountAnswer::Released(false),
        AccountQuestion::Close(_) => AccountAnswer::Closed(None),
        AccountQuestion::Look(_) => AccountAnswer::Account(None),
        AccountQuestion::Reflect(_) => AccountAnswer::Reflected(ReflectOutcome::Unknown),
    }
}

fn end(opening: &Opening, now: AccountTime) -> Option<u64> {
    Some(now.wall.saturating_add(micros(opening.lasts()?)))
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl Held {
    /// A lease with an impossibly late end has expired: the clock was set back.
    fn is_live(&self, now: AccountTime) -> bool {
        let left = self.2.saturating_sub(now.lease);
        left > 0 && left <= micros(LONGEST_LEASE) + micros(CLOCK_SKEW)
    }
}

impl AccountRecord {
    /// Decides in place. Returns the answer, and whether the record has changed.
    pub(in crate::ledger) fn decide(&mut self, question: &AccountQuestion, now: AccountTime) -> (AccountAnswer, bool) {
        match question {
            AccountQuestion::Open(opening) => {
                let before = (self.limit, self.expires, self.memo.clone());
                let outcome = self.open(opening, now);
                (AccountAnswer::Opened(outcome), before != (self.limit, self.expires, self.memo.clone()))
            }
            AccountQuestion::Draw(draw) => {
                let outcome = self.draw(draw, now);
                let is_granted = matches!(outcome, DrawOutcome::Granted(_));
                (AccountAnswer::Drawn(outcome), is_granted)
            }
            AccountQuestion::Renew(lease) => {
                let outcome = self.renew(lease, now);
                (AccountAnswer::Renewed(outcome), outcome == DrawRenewal::Held)
            }
            AccountQuestion::Charge(lease, amount, memo) => {
                let before = self.held.len();
                let outcome = self.charge(lease, *amount, memo.as_ref(), now);
                (AccountAnswer::Charged(outcome), self.held.len() != before)
            }
            AccountQuestion::TakeBack(lease, amount, memo) => {
                let before = self.held.len();
                let outcome = self.take_back(lease, *amount, memo.as_ref(), now);
                (AccountAnswer::Charged(outcome), self.held.len() != before)
            }
            AccountQuestion::Release(lease) => {
                let was_held = self.take(lease).is_some();
                (AccountAnswer::Released(was_held), was_held)
            }
            AccountQuestion::Close(_) => {
                let before = (self.closed, self.held.len());
                let closed = self.close(now);
                (AccountAnswer::Closed(Some(closed)), before != (self.closed, self.held.len()))
            }
            AccountQuestion::Look(_) => (AccountAnswer::Account(Some(self.at(now))), false),
            AccountQuestion::Reflect(reflection) => {
                let before = self.clone();
                let outcome = self.reflect(reflection, now);
                (AccountAnswer::Reflected(outcome), *self != before)
            }
        }
    }

    /// Raises the limit and the end, and never lowers them. Replaces the memo if nothing was drawn yet.
    fn open(&mut self, opening: &Opening, now: AccountTime) -> OpenOutcome {
        if self.closed {
            return OpenOutcome::Closed;
        }
        self.limit = self.limit.max(opening.limit());
        self.expires = match (self.expires, end(opening, now)) {
            (Some(before), Some(end)) => Some(before.max(end)),
            _ => None,
        };
        if self.drawn == 0 {
            self.memo = opening.memo().clone();
        }
        OpenOutcome::Open(self.at(now))
    }

    fn draw(&mut self, draw: &Draw, now: AccountTime) -> DrawOutcome {
        if self.closed {
            return DrawOutcome::Closed;
        }
        if self.expires.is_some_and(|end| now.wall >= end) {
            return DrawOutcome::Expired;
        }
        let (live, sum) = self.live(now);
        let first = self.held.iter().filter(|held| held.is_live(now)).map(|held| held.2 - now.lease).min();
        let busy = DrawOutcome::Busy { retry_after: Duration::from_micros(first.unwrap_or(0)) };
        match draw.expected() {
            Some(_) if live > 0 => return busy,
            Some(expected) if expected != self.spent => return DrawOutcome::Mismatch { spent: self.spent },
            _ => {}
        }
        let left = self.limit.checked_sub(self.spent).unwrap_or(Amount::ZERO);
        if draw.amount() > left {
            return DrawOutcome::UsedUp { left };
        }
        let free = left.checked_sub(sum).unwrap_or(Amount::ZERO);
        if draw.amount() > free || live >= MOST_HELD {
            return busy;
        }
        self.hold(draw, now)
    }

    /// Holds the amount, which is free. Expired reservations that are in the way lose their amount, the oldest first.
    fn hold(&mut self, draw: &Draw, now: AccountTime) -> DrawOutcome {
        self.fence = self.fence.saturating_add(1).max(now.wall);
        self.drawn = self.drawn.saturating_add(1);
        if draw.expected().is_some() {
            self.remember_the_last(REMEMBERED_ALONE);
        }
        let length = draw.lease().min(LONGEST_LEASE);
        self.held.push(Held(self.fence, draw.amount(), now.lease.saturating_add(micros(length))));
        while self.held.len() > MOST_HELD || !self.is_covered() || draw.expected().is_some() && self.held.len() > 1 {
            match self.held.iter().position(|held| !held.is_live(now) && held.0 != self.fence) {
                Some(place) => _ = self.held.remove(place),
                // Only live reservations are left, and they fit.
                None => break,
            }
        }
        let lease = DrawLease::new(draw, self.fence, self.drawn, self.memo.clone());
        DrawOutcome::Granted(match &self.claims {
            Some(claims) => lease.with_note(claims.note.clone()),
            None => lease,
        })
    }

    fn renew(&mut self, lease: &DrawLease, now: AccountTime) -> DrawRenewal {
        match self.held.iter_mut().find(|held| held.0 == lease.fencing_token()) {
            Some(held) => {
                held.2 = now.lease.saturating_add(micros(lease.length().min(LONGEST_LEASE)));
                DrawRenewal::Held
            }
            None => DrawRenewal::LeaseLost,
        }
    }

    fn charge(
        &mut self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
        now: AccountTime,
    ) -> ChargeOutcome {
        // A held lease was not charged yet, so it is looked up first.
        match self.held.iter().find(|held| held.0 == lease.fencing_token()) {
            None if self.charged.contains(&lease.fencing_token()) => {}
            None => return ChargeOutcome::LeaseLost,
            Some(held) if amount > held.1 => return ChargeOutcome::TooMuch,
            Some(_) => {
                // The sum stays within the limit, since the amount was held.
                let Some(spent) = self.spent.checked_add(amount) else { return ChargeOutcome::TooMuch };
                self.take(lease);
                self.spent = spent;
                self.remember(lease.fencing_token());
                self.owe(now);
                if let Some(memo) = memo {
                    self.memo = memo.clone();
                }
            }
        }
        ChargeOutcome::Done { left: self.left(now) }
    }

    /// Reduces the amount spent under earlier leases, but never below the claimed amount.
    fn take_back(
        &mut self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
        now: AccountTime,
    ) -> ChargeOutcome {
        let is_held = self.held.iter().any(|held| held.0 == lease.fencing_token());
        match is_held {
            false if self.charged.contains(&lease.fencing_token()) => {}
            false => return ChargeOutcome::LeaseLost,
            true => {
                let claimed = self.claims.as_ref().map_or(Amount::ZERO, |claims| claims.claimed);
                let Some(spent) = self.spent.checked_sub(amount).filter(|spent| *spent >= claimed) else {
                    return ChargeOutcome::TooMuch;
                };
                self.take(lease);
                self.spent = spent;
                self.remember(lease.fencing_token());
                self.owe_less();
                if let Some(memo) = memo {
                    self.memo = memo.clone();
                }
            }
        }
        ChargeOutcome::Done { left: self.left(now) }
    }

    /// Ends a reservation, if it is on record.
    fn take(&mut self, lease: &DrawLease) -> Option<Held> {
        let place = self.held.iter().position(|held| held.0 == lease.fencing_token())?;
        Some(self.held.remove(place))
    }

    fn close(&mut self, now: AccountTime) -> ClosedAccount {
        self.closed = true;
        self.end_claimable(now);
        // Expired leases must not be charged any more, since their amounts are given back.
        self.held.retain(|held| held.is_live(now));
        ClosedAccount { left: self.left(now), held: self.live(now).1 }
    }

    /// The number of live reservations, and the amount that they hold.
    fn live(&self, now: AccountTime) -> (usize, Amount) {
        let live = self.held.iter().filter(|held| held.is_live(now));
        live.fold((0, Amount::ZERO), |(count, sum), held| (count + 1, sum.checked_add(held.1).unwrap_or(Amount::MAX)))
    }

    /// The amount that can still be drawn.
    fn left(&self, now: AccountTime) -> Amount {
        let left = self.limit.checked_sub(self.spent).and_then(|left| left.checked_sub(self.live(now).1));
        left.unwrap_or(Amount::ZERO)
    }

    /// Returns the account's state at this moment.
    #[must_use]
    pub fn at(&self, now: AccountTime) -> Account {
        Account {
            limit: self.limit,
            spent: self.spent,
            held: self.live(now).1,
            expires: self.expires.map(moment),
            closed: self.closed,
            drawn: self.drawn,
            memo: self.memo.clone(),
            claims: self.claims.as_ref().map(|claims| Box::new(claims.shown())),
        }
    }
}

fn moment(micros: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_micros(micros)).unwrap_or(UNIX_EPOCH)
}

mod claims;
#[cfg(test)]
mod tests;
