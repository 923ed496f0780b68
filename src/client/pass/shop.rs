//! `Shop`: a seller of passes, its held pass, and whether to buy another one.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderValue, Uri};
use tokio::time::Instant;

use super::{
    address::Address,
    held::HeldPass,
    in_use::{Fate, InUse},
    notes::Notes,
    promise::Promise,
    turn::Turns,
    word::{Sold, Word},
};

/// How long nothing is bought after a failed attempt.
const PAUSE: Duration = Duration::from_secs(60);
/// The same, in seconds, after something unusable was sold: the next one would be no better.
const LONG_PAUSE: u64 = 24 * 60 * 60;

/// A seller of passes: one for each origin, for the life of the process.
pub(super) struct Shop {
    origin: String,
    /// Whether quotes name its passes: each is bought at the price and address of a current quote.
    pub(super) is_quoted: bool,
    /// Admits one request at a time that buys or fetches a pass.
    pub(super) turns: Turns,
    state: Mutex<State>,
}

struct State {
    /// Where the last pass was bought, or the next one will be. Changes only during a turn to buy.
    address: Address,
    /// The promise of the quote by which that pass is paid for. `None` until a payment is recorded.
    promise: Option<Promise>,
    /// Whether a purchase at that address has begun, and may have been paid without an answer.
    is_unfinished: bool,
    /// Whether that purchase has recorded a payment of its own.
    is_paid: bool,
    held: Option<InUse>,
    /// The token that was given up last.
    given_up: Option<String>,
    /// Passes that were given up with requests in progress, and when they ended, in Unix seconds.
    leaving: Vec<(InUse, u64)>,
    /// Nothing new is bought until this Unix time, because something unusable was sold.
    unusable_until: Option<u64>,
    pause: Option<Instant>,
    /// The same for requests with their own limits.
    pause_within: Option<Instant>,
    /// Methods and paths where no pass counts.
    refused: Notes,
}

/// What the answer to a request with a pass implies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Learned {
    /// Whether the state to save has changed.
    pub(super) is_news: bool,
    /// Whether the pass is over, given up by this answer or earlier.
    pub(super) is_over: bool,
}

impl Shop {
    /// Returns `None` if the address has no origin.
    pub(super) fn new(address: Address, is_quoted: bool) -> Option<Self> {
        let origin = address.origin()?;
        let state = State {
            address,
            promise: None,
            is_unfinished: false,
            is_paid: false,
            held: None,
            given_up: None,
            leaving: Vec::new(),
            unusable_until: None,
            pause: None,
            pause_within: None,
            refused: Notes::new(),
        };
        Some(Self { origin, is_quoted, turns: Turns::default(), state: Mutex::new(state) })
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    pub(super) fn address(&self) -> Address {
        self.state().address.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave a half-made change, because each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what to save: the held pass, as if the process ended now; and an entry without a token for the next
    /// pass, as if given-up passes still in doubt bought nothing. A pass that is over may have another address.
    pub(super) fn kept(&self) -> impl Iterator<Item = HeldPass> + use<> {
        let state = self.state();
        let (unusable_until, is_unfinished, promise) =
            (state.unusable_until.max(state.doubtful_until()), state.is_unfinished, state.promise);
        let is_paid = is_unfinished && state.is_paid;
        let next = HeldPass { unusable_until, is_unfinished, is_paid, promise, ..state.pass(String::new()) };
        let next = (is_unfinished || unusable_until.is_some()).then_some(next);
        state.held.as_ref().map(InUse::kept).into_iter().chain(next)
    }

    /// Restores what was saved for this address, at this Unix time.
    pub(super) fn restore(&self, kept: HeldPass, address: Address, now: u64) {
        let mut state = self.state();
        if kept.token.is_empty() {
            (state.unusable_until, state.is_unfinished) = (kept.unusable_until, kept.is_unfinished);
            (state.address, state.promise, state.is_paid) = (address, kept.promise, kept.is_paid);
        } else {
            state.held = Some(InUse::restored(kept, now));
        }
    }

    /// Returns whether it holds a pass that is not over at this Unix time.
    pub(super) fn holds_one(&self, now: u64) -> bool {
        self.state().header(now).is_some()
    }

    /// Begins a request with the pass, unless that is over. Returns its header, and whether there is something new to
    /// save.
    pub(super) fn show(&self, now: u64) -> Option<(HeaderValue, bool)> {
        let mut state = self.state();
        let value = state.header(now)?;
        let held = state.held.as_mut()?;
        let before = held.record();
        held.begins();
        Some((value, before != held.record()))
    }

    /// Evaluates the answer to a request with that header, on this route, at this Unix time.
    pub(super) fn learn(&self, shown: &HeaderValue, route: &str, word: Word, now: u64) -> Learned {
        let mut state = self.state();
        let Some(held) = state.shown(shown) else {
            // Another request already found that the pass is over, or the token has changed.
            let is_over = matches!(word, Word::UsedUp | Word::Expired);
            return Learned { is_news: state.ends_late(shown, &word, now), is_over };
        };
        let (is_charge, before) = (matches!(word, Word::Left { .. }), held.record());
        let fate = held.ends(route, word, now);
        let is_news = is_charge || before != held.record();
        match fate {
            Fate::Kept => {}
            Fate::Refused => state.refused.add(route),
            Fate::Over => state.give_up(now),
            Fate::Closed => {
                state.give_up(now);
                state.pause = Instant::now().checked_add(PAUSE);
            }
        }
        let is_over = fate == Fate::Over;
        Learned { is_news: is_news || is_over || fate == Fate::Closed, is_over }
    }

    /// Notes that a request with that header was dropped at this Unix time, possibly after a charge. Returns whether
    /// there is something new to save.
    pub(super) fn leaves(&self, shown: &HeaderValue, now: u64) -> bool {
        let mut state = self.state();
        let Some(held) = state.shown(shown) else { return state.ends_late(shown, &Word::Nothing, now) };
        let before = held.record();
        held.is_left();
        before != held.record()
    }

    /// Returns whether a pass is believed to count on this route at this Unix time.
    pub(super) fn counts_at(&self, route: &str, now: u64) -> bool {
        let state = self.state();
        let held = state.held.as_ref().filter(|_| state.header(now).is_some());
        held.is_none_or(|held| held.counts_at(route)) && !state.refused.has(route)
    }

    /// Returns whether a request, with or without its own limits, may buy a pass at this Unix time.
    pub(super) fn may_buy(&self, now: u64, within_limits: bool) -> bool {
        let state = self.state();
        // If a pass may still turn out to have bought nothing, the next one would be no better.
        let is_in_doubt = state.leaving.iter().any(|(given_up, _)| given_up.is_in_doubt());
        !state.is_paused(within_limits) && !state.is_unfinished && !state.is_barred(now) && !is_in_doubt
    }

    /// Returns where a pass was bought that did not arrive, if none is held at this Unix time. It is fetched even while
    /// nothing new is bought.
    pub(super) fn unfinished(&self, now: u64, within_limits: bool) -> Option<Uri> {
        let state = self.state();
        let is_due = state.is_unfinished && state.header(now).is_none() && !state.is_paused(within_limits);
        is_due.then(|| state.address.url.clone())
    }

    /// Pauses buying. If the attempt had its request's own limits, only for such requests.
    pub(super) fn pause(&self, within_limits: bool) {
        let (mut state, until) = (self.state(), Instant::now().checked_add(PAUSE));
        match within_limits {
            true => state.pause_within = until,
            false => state.pause = until,
        }
    }

    /// Stops buying for a day, in later processes too, because what was sold is unusable at this Unix time.
    pub(super) fn set_aside(&self, now: u64) {
        self.state().set_aside(now, now);
    }

    /// Begins a purchase at this address and Unix time. No other one begins until it has ended. Until it records a
    /// payment, it is unknown what it buys, because it may find an earlier payment.
    pub(super) fn begins(&self, address: Address, now: u64) {
        let mut state = self.state();
        (state.promise, state.is_paid, state.is_unfinished) = (None, false, true);
        if state.address != address {
            state.refused = Notes::new();
            state.address = address;
        }
        // Another attempt may have set it a moment ago.
        state.unusable_until = state.unusable_until.filter(|_| state.is_barred(now));
    }

    /// Notes that the purchase has recorded a payment by a quote with this promise.
    pub(super) fn pays(&self, promise: Option<Promise>) {
        let mut state = self.state();
        (state.promise, state.is_paid) = (promise, true);
    }

    /// Returns whether the purchase at the address has recorded a payment of its own.
    pub(super) fn is_paid(&self) -> bool {
        self.state().is_paid
    }

    /// Notes that no purchase is unfinished at the address.
    pub(super) fn is_finished(&self) {
        self.state().is_unfinished = false;
    }

    /// Returns whether this token is held, or was given up last.
    pub(super) fn knows(&self, token: &str) -> bool {
        let state = self.state();
        let held = state.held.as_ref().map(|held| held.pass.token.as_str());
        [held, state.given_up.as_deref()].contains(&Some(token))
    }

    /// Gives up an expired pass if it delivered less than its quote promised, or nothing, by this Unix time. Returns
    /// whether it did.
    pub(super) fn ends(&self, now: u64) -> bool {
        let mut state = self.state();
        let ends = state.held.as_ref().is_some_and(|held| held.ends_badly(now));
        if ends {
            state.give_up(now);
        }
        ends
    }

    /// Gives up a pass of which nothing is left, according to its seller, at this Unix time. Returns whether it did. A
    /// lost call may still come back, but only a repeatable request can find out.
    pub(super) fn gives_up_empty(&self, now: u64) -> bool {
        let mut state = self.state();
        let is_empty = |held: &InUse| held.under_way == 0 && held.pass.remaining.as_deref() == Some("0");
        let gives_up = state.held.as_ref().is_some_and(is_empty);
        if gives_up {
            state.give_up(now);
        }
        gives_up
    }

    /// Holds what was sold, at this Unix time. With `is_own`, the present purchase bought it, and its quote's promise
    /// applies; otherwise an earlier one did.
    pub(super) fn hold(&self, sold: Sold, is_own: bool, now: u64) {
        let mut state = self.state();
        // The expired one, with which calls may be in progress.
        state.give_up(now);
        let promise = state.promise.filter(|_| is_own);
        let is_timed = sold.is_timed();
        let pass = state.pass(sold.pass);
        let pass = HeldPass { expires: sold.expires, worth: sold.worth, is_timed, promise, ..pass };
        state.held = Some(InUse::bought(pass, is_own));
        // Only the pauses end: `unusable_until`, which an earlier pass may have set meanwhile, still applies.
        (state.pause, state.pause_within) = (None, None);
    }
}

impl State {
    fn pass(&self, token: String) -> HeldPass {
        HeldPass::new(self.address.url.to_string(), self.address.name.clone(), token)
    }

    /// Returns the header with a pass that is not over at this Unix time.
    fn header(&self, now: u64) -> Option<HeaderValue> {
        let is_good = |held: &&InUse| held.pass.expires.is_none_or(|end| now < end);
        let held = self.held.as_ref().filter(is_good)?;
        let mut value = HeaderValue::from_str(&held.pass.token).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    fn shown(&mut self, value: &HeaderValue) -> Option<&mut InUse> {
        self.held.as_mut().filter(|held| held.pass.token.as_bytes() == value.as_bytes())
    }

    fn is_paused(&self, within_limits: bool) -> bool {
        let is_over = |until: Option<Instant>| until.is_none_or(|until| Instant::now() >= until);
        !is_over(self.pause) || within_limits && !is_over(self.pause_within)
    }

    fn is_barred(&self, now: u64) -> bool {
        // A time further ahead came from a clock that was ahead.
        let soon = now..=now.saturating_add(LONG_PAUSE);
        self.unusable_until.is_some_and(|until| now < until && soon.contains(&until))
    }

    /// Prevents purchases for a day from `since`, which may be earlier than now. An earlier finding may prevent them
    /// for longer.
    fn set_aside(&mut self, since: u64, now: u64) {
        let before = self.unusable_until.filter(|_| self.is_barred(now));
        self.unusable_until = before.max(Some(since.saturating_add(LONG_PAUSE)));
    }

    /// Gives up the pass at this Unix time. While requests with it are in progress, it stays in `leaving`.
    fn give_up(&mut self, now: u64) {
        let Some(held) = self.held.take() else { return };
        self.given_up = Some(held.pass.token.clone());
        // It may have expired long ago.
        let ended = held.pass.expires.map_or(now, |end| end.min(now));
        if !self.judge(&held, ended, now) && held.under_way > 0 {
            self.leaving.push((held, ended));
        }
    }

    /// Judges a pass that ended at this Unix time, possibly long ago. Returns whether it was bad; then the next one
    /// would be no better.
    fn judge(&mut self, given_up: &InUse, ended: u64, now: u64) -> bool {
        let (pass, was_bad) = (&given_up.pass, given_up.was_bad(ended));
        if was_bad {
            tracing::warn!(url = %pass.url, calls = pass.calls, "a pass bought too little: no other is bought for a day");
            self.set_aside(ended, now);
        }
        was_bad
    }

    /// Ends a request with a given-up pass. After the last one, the pass is judged again by its answered calls. Returns
    /// whether there is something new to save.
    fn ends_late(&mut self, value: &HeaderValue, word: &Word, now: u64) -> bool {
        let is_it = |(pass, _): &(InUse, u64)| pass.pass.token.as_bytes() == value.as_bytes();
        let Some(at) = self.leaving.iter().position(is_it) else { return false };
        let (mut given_up, ended) = self.leaving.swap_remove(at);
        let was_in_doubt = given_up.is_in_doubt();
        given_up.counts(word);
        if given_up.under_way > 0 {
            let is_news = was_in_doubt && !given_up.is_in_doubt();
            self.leaving.push((given_up, ended));
            return is_news;
        }
        self.judge(&given_up, ended, now) || was_in_doubt
    }

    /// Returns until when purchases are prevented if no call in progress with a given-up pass is answered.
    fn doubtful_until(&self) -> Option<u64> {
        let doubtful = self.leaving.iter().filter(|(pass, _)| pass.is_in_doubt());
        doubtful.map(|(_, ended)| ended.saturating_add(LONG_PAUSE)).max()
    }
}
