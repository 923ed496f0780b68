//! `InUse`: the pass that is held, and what its showings have told of it.

use super::{held::HeldPass, notes::Notes, word::Word};

/// How many paths are kept where it was taken.
const MOST_PATHS: usize = 1_000;

/// What becomes of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    /// It does not count at this path, and is kept for others.
    Refused,
    /// It is used up, or its time is over. Where it bought nothing at all, the next one would be no better.
    Over {
        bought_nothing: bool,
    },
    /// It was good at this path: its seller closed it, or does not know it any more.
    Closed,
}

pub(super) struct InUse {
    pub(super) pass: HeldPass,
    /// It was paid for just now, and bought nothing yet.
    is_untried: bool,
    /// How many requests are under way with it, and whether one that was under way at the same time ended without a charge. What it held
    /// came back then, after others were told that nothing was left.
    pub(super) under_way: usize,
    gave_back: bool,
    /// A request ended without an answer, here or in an earlier process. Its seller counts the call as spent, and gives it back later.
    may_give_back: bool,
    /// Paths whose price is above its amount.
    uncovered: Notes,
}

impl InUse {
    /// A pass that was sold just now, or long ago.
    pub(super) const fn bought(pass: HeldPass, is_untried: bool) -> Self {
        let uncovered = Notes::new();
        Self { pass, is_untried, under_way: 0, gave_back: false, may_give_back: false, uncovered }
    }

    /// A pass of an earlier process.
    pub(super) fn restored(pass: HeldPass) -> Self {
        Self { may_give_back: true, ..Self::bought(pass, false) }
    }

    pub(super) fn counts_at(&self, path: &str) -> bool {
        !self.uncovered.has(path)
    }

    /// A request goes out with it.
    pub(super) const fn begins(&mut self) {
        self.gave_back &= self.under_way > 0;
        self.under_way += 1;
    }

    /// A request ended without an answer.
    pub(super) const fn is_left(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.may_give_back = true;
    }

    /// A request to this path was answered.
    pub(super) fn ends(&mut self, path: &str, word: Word) -> Fate {
        self.under_way = self.under_way.saturating_sub(1);
        self.gave_back |= !matches!(word, Word::Left { .. });
        if let Word::Left { is_answer: true, .. } | Word::Answered = word {
            self.pass.calls = self.pass.calls.saturating_add(1);
        }
        match word {
            Word::Left { left, .. } => {
                self.pass.remaining = Some(left);
                self.is_taken(path);
            }
            // No answer by a pass that counts nothing says more than that.
            Word::Answered if self.pass.is_timed => self.is_taken(path),
            Word::Answered => {}
            Word::Invalid if self.pass.taken.contains(path) => return Fate::Closed,
            Word::Invalid => return Fate::Refused,
            Word::UsedUp if self.is_for_lower_prices_than_at(path) => self.uncovered.add(path),
            Word::UsedUp | Word::Expired => return Fate::Over { bought_nothing: self.is_untried },
            // No word against the pass. Where it was taken before, the next one may be, too.
            Word::Billed if self.pass.taken.contains(path) => self.uncovered.add(path),
            Word::Billed => return Fate::Refused,
            Word::Nothing => {}
        }
        let is_last = self.under_way == 0 && !self.gave_back && !self.may_give_back;
        let is_used_up = self.pass.remaining.as_deref() == Some("0") && is_last;
        if is_used_up { Fate::Over { bought_nothing: false } } else { Fate::Kept }
    }

    fn is_taken(&mut self, path: &str) {
        self.is_untried = false;
        let taken = &mut self.pass.taken;
        if taken.len() < MOST_PATHS {
            taken.insert(path.to_owned());
        }
    }

    /// An amount may be below one price and above others. It is used up where it does not cover what it covered before.
    fn is_for_lower_prices_than_at(&self, path: &str) -> bool {
        let is_whole = self.pass.remaining.is_none();
        let covers_others = self.pass.worth.is_some() && (is_whole || !self.pass.taken.is_empty());
        covers_others && !self.pass.taken.contains(path)
    }
}
