//! `InUse`: the held pass, and what its uses have shown. A route is a method and a path.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    held::HeldPass,
    notes::{LASTING, Notes},
    word::Word,
};
use crate::protocol::Amount;

/// How many routes that took the pass are kept.
const MOST_ROUTES: usize = 1_000;

/// Amounts are compared with this many decimals, at least as many as any token has.
const DECIMALS: u8 = 18;

/// What happens to the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    /// It does not count on this route, and is kept for others.
    Refused,
    /// It is used up or expired.
    Over,
    /// It worked on this route, and was then refused twice with time in between: its seller closed it, or no longer
    /// knows it.
    Closed,
}

pub(super) struct InUse {
    pub(super) pass: HeldPass,
    /// Whether this client paid for it, and no call was answered yet.
    is_untried: bool,
    /// How many requests with it are in progress, and whether one of them ended without a charge. What that one held
    /// came back after others were told that nothing was left.
    pub(super) under_way: usize,
    gave_back: bool,
    /// Whether no other request was in progress when the last one went out.
    is_alone: bool,
    /// Whether a request ended without an answer, here or in an earlier process. Its seller counts the call as spent,
    /// and gives it back later.
    may_give_back: bool,
    /// When it was refused on a route that took it before, if no answer by it came since. One replica may not know it
    /// yet.
    refused: Option<Instant>,
    /// Routes where it does not count for a while: the price exceeds its amount, or it was refused or ignored once.
    uncovered: Notes,
}

impl InUse {
    /// Creates it for a pass that was sold, recently or long ago.
    pub(super) const fn bought(pass: HeldPass, is_untried: bool) -> Self {
        let (gave_back, is_alone, may_give_back) = (false, false, false);
        let uncovered = Notes::new();
        Self { pass, is_untried, under_way: 0, gave_back, is_alone, may_give_back, refused: None, uncovered }
    }

    /// Restores a pass of an earlier process, at this Unix time.
    pub(super) fn restored(mut pass: HeldPass, now: u64) -> Self {
        let is_untried = pass.has_failed && pass.calls == 0;
        // The clock may have been ahead.
        pass.refused_at = pass.refused_at.map(|at| at.min(now));
        let since = |at| Instant::now().checked_sub(Duration::from_secs(now.saturating_sub(at)));
        let refused = pass.refused_at.map(|at| since(at).unwrap_or_else(Instant::now));
        Self { may_give_back: true, refused, ..Self::bought(pass, is_untried) }
    }

    /// Returns the pass for the file. A killed process cannot record the outcome of its calls in progress.
    pub(super) fn kept(&self) -> HeldPass {
        HeldPass { has_failed: self.may_have_failed(), ..self.pass.clone() }
    }

    const fn may_have_failed(&self) -> bool {
        self.pass.has_failed || self.is_in_doubt()
    }

    pub(super) fn counts_at(&self, route: &str) -> bool {
        !self.uncovered.has(route)
    }

    /// Notes that a request goes out with it.
    pub(super) const fn begins(&mut self) {
        self.is_alone = self.under_way == 0;
        self.gave_back &= !self.is_alone;
        self.under_way += 1;
    }

    /// Returns what is worth saving besides what is left.
    pub(super) fn record(&self) -> (usize, bool, bool, u64) {
        let enough = self.pass.promise.map_or(1, |promise| promise.calls.max(1));
        let is_refused = self.pass.refused_at.is_some();
        (self.pass.taken.len(), self.may_have_failed(), is_refused, self.pass.calls.min(enough))
    }

    /// Notes that a request ended without an answer.
    pub(super) const fn is_left(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        (self.may_give_back, self.pass.has_failed) = (true, true);
    }

    /// Notes that a request to this route was answered, at this Unix time.
    pub(super) fn ends(&mut self, route: &str, word: Word, now: u64) -> Fate {
        self.counts(&word);
        self.gave_back |= !matches!(word, Word::Left { .. } | Word::Beside);
        match word {
            Word::Left { left, .. } => {
                self.measures(&left);
                self.pass.remaining = Some(left);
                self.is_taken(route);
            }
            // For a pass that counts nothing, an answer is the only sign that it was taken.
            Word::Answered if self.pass.is_timed => self.is_taken(route),
            Word::Answered => {}
            Word::Invalid if self.pass.taken.contains(route) => {
                if self.is_refused_again(now) {
                    return Fate::Closed;
                }
                self.uncovered.add(route);
            }
            Word::Invalid => return Fate::Refused,
            Word::UsedUp if self.may_cover_another(route) => self.uncovered.add(route),
            Word::UsedUp | Word::Expired => return Fate::Over,
            // The seller does not reject the pass. A route that took it before may take it again.
            Word::Billed if self.pass.taken.contains(route) => self.uncovered.add(route),
            Word::Billed => return Fate::Refused,
            Word::Failed | Word::Nothing | Word::Beside => {}
        }
        let is_last = self.under_way == 0 && !self.gave_back && !self.may_give_back;
        let is_used_up = self.pass.remaining.as_deref() == Some("0") && is_last;
        if is_used_up { Fate::Over } else { Fate::Kept }
    }

    /// Counts a request that ended, perhaps after the pass was given up. A failed call does not count as bought,
    /// charged or not.
    pub(super) fn counts(&mut self, word: &Word) {
        self.under_way = self.under_way.saturating_sub(1);
        match word {
            Word::Beside => {}
            // Without the header of a counted pass, it cost nothing.
            Word::Answered if !self.pass.is_timed => {}
            Word::Left { is_answer: true, .. } | Word::Answered => {
                self.pass.calls = self.pass.calls.saturating_add(1);
                self.is_untried = false;
            }
            _ => self.pass.has_failed = true,
        }
    }

    /// Returns whether it has expired at this Unix time in a way that counts against it.
    pub(super) fn ends_badly(&self, now: u64) -> bool {
        let Some(end) = self.pass.expires.filter(|end| now >= *end) else { return false };
        let may_be_untried = self.is_untried && (self.pass.has_failed || self.under_way > 0);
        may_be_untried || self.pass.breaks_its_promise(self.pass.calls, end)
    }

    /// Returns whether it bought nothing, or less than its quote promised, given that it ended at `ended`. Calls in
    /// progress may still be answered.
    pub(super) fn was_bad(&self, ended: u64) -> bool {
        let under_way = self.under_way.try_into().unwrap_or(u64::MAX);
        let bought_nothing = self.is_untried && self.pass.has_failed && under_way == 0;
        bought_nothing || self.pass.breaks_its_promise(self.pass.calls.saturating_add(under_way), ended)
    }

    /// Returns whether it may have bought nothing: its first calls are in progress.
    pub(super) const fn is_in_doubt(&self) -> bool {
        self.is_untried && self.under_way > 0
    }

    /// Notes a refusal on a route that took it before. Returns whether the first refusal was some time ago, without an
    /// answer since.
    fn is_refused_again(&mut self, now: u64) -> bool {
        self.pass.refused_at.get_or_insert(now);
        self.refused.get_or_insert_with(Instant::now).elapsed() >= LASTING
    }

    fn is_taken(&mut self, route: &str) {
        (self.refused, self.pass.refused_at) = (None, None);
        let taken = &mut self.pass.taken;
        if taken.len() < MOST_ROUTES {
            taken.insert(route.to_owned());
        }
    }

    /// Notes what a call was charged of an amount. Concurrent calls make that impossible to tell.
    fn measures(&mut self, left: &str) {
        let pass = &mut self.pass;
        let Some(worth) = pass.worth.as_deref().filter(|_| self.is_alone && self.under_way == 0) else { return };
        let before = units(pass.remaining.as_deref().unwrap_or(worth));
        let charge = before.zip(units(left)).and_then(|(before, left)| before.checked_sub(left));
        pass.least = charge.filter(|charge| !charge.is_zero()).into_iter().chain(pass.least).min();
    }

    /// Returns whether an amount that does not cover this route may cover another: it may be below one price and above
    /// others. It is used up if it does not cover the smallest known charge. If it covered this route before, prices
    /// may have risen, so that charge is forgotten.
    fn may_cover_another(&mut self, route: &str) -> bool {
        let pass = &mut self.pass;
        let (Some(_), was_taken) = (&pass.worth, pass.taken.contains(route)) else { return false };
        let Some(left) = pass.remaining.as_deref() else { return true };
        match pass.least {
            None => !was_taken && !pass.taken.is_empty(),
            Some(least) => {
                let covers = units(left).is_some_and(|left| least <= left);
                pass.least = pass.least.filter(|_| !was_taken);
                covers
            }
        }
    }
}

fn units(amount: &str) -> Option<Amount> {
    Amount::parse_decimal(amount, DECIMALS).ok()
}
