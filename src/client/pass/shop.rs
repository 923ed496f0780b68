//! `Shop`: a seller of passes, the pass that is held there, and whether another one is bought.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderValue, Uri};
use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard},
    time::Instant,
};

use super::{
    address::Address,
    held::HeldPass,
    in_use::{Fate, InUse},
    notes::Notes,
    promise::Promise,
    word::{Sold, Word},
};

/// How long nothing is bought after an attempt that failed.
const PAUSE: Duration = Duration::from_secs(60);
/// The same, in seconds, after one that was sold, and is no pass that can be used: the next one would be no better.
const LONG_PAUSE: u64 = 24 * 60 * 60;

/// A seller of passes: one for each origin, for as long as the process lives.
pub(super) struct Shop {
    origin: String,
    /// Quotes name its passes: each is bought at the price, and at the address, of a quote of now.
    pub(super) is_quoted: bool,
    /// One purchase at a time.
    buying: AsyncMutex<()>,
    state: Mutex<State>,
}

struct State {
    /// Where the last one was bought, or the next one is. Only the turn to buy changes it.
    address: Address,
    /// What a quote said of that one.
    promise: Option<Promise>,
    /// A purchase at that address has begun, and may have been paid without an answer.
    is_unfinished: bool,
    held: Option<InUse>,
    /// The last token that was given up.
    given_up: Option<String>,
    /// Passes that were given up while requests were under way with them, and when they ended, in Unix seconds.
    leaving: Vec<(InUse, u64)>,
    /// Nothing new is bought until then, in Unix seconds: what came could not be used.
    unusable_until: Option<u64>,
    pause: Option<Instant>,
    /// The same for requests with limits of their own.
    pause_within: Option<Instant>,
    /// Methods and paths where no pass counts.
    refused: Notes,
}

/// What follows from the answer to a request with a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Learned {
    /// What is kept has changed.
    pub(super) is_news: bool,
    /// The pass is over, and was given up by this answer or before.
    pub(super) is_over: bool,
}

impl Shop {
    /// `None` if the address has no origin.
    pub(super) fn new(address: Address, is_quoted: bool) -> Option<Self> {
        let origin = address.origin()?;
        let state = State {
            address,
            promise: None,
            is_unfinished: false,
            held: None,
            given_up: None,
            leaving: Vec::new(),
            unusable_until: None,
            pause: None,
            pause_within: None,
            refused: Notes::new(),
        };
        Some(Self { origin, is_quoted, buying: AsyncMutex::new(()), state: Mutex::new(state) })
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    pub(super) fn address(&self) -> Address {
        self.state().address.clone()
    }

    /// Waits for the turn to buy.
    pub(super) async fn turn(&self) -> AsyncMutexGuard<'_, ()> {
        self.buying.lock().await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // There are whole assignments only.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is or was a pass of it in this process.
    pub(super) fn had_one(&self) -> bool {
        let state = self.state();
        state.held.is_some() || state.given_up.is_some()
    }

    /// What is kept: the pass that is held, as if its process ended now; and, without a token, what holds for the next one, as if those that
    /// were given up bought nothing while that is in doubt. A pass that is over may be of another address.
    pub(super) fn kept(&self) -> impl Iterator<Item = HeldPass> + use<> {
        let state = self.state();
        let (unusable_until, is_unfinished, promise) =
            (state.unusable_until.max(state.doubtful_until()), state.is_unfinished, state.promise);
        let next = HeldPass { unusable_until, is_unfinished, promise, ..state.pass(String::new()) };
        let next = (is_unfinished || unusable_until.is_some()).then_some(next);
        state.held.as_ref().map(InUse::kept).into_iter().chain(next)
    }

    /// Takes over what was kept, and is of this address, at this Unix time.
    pub(super) fn restore(&self, kept: HeldPass, address: Address, now: u64) {
        let mut state = self.state();
        if kept.token.is_empty() {
            (state.unusable_until, state.is_unfinished) = (kept.unusable_until, kept.is_unfinished);
            (state.address, state.promise) = (address, kept.promise);
        } else {
            state.held = Some(InUse::restored(kept, now));
        }
    }

    /// Whether a pass that is not over is held, at this Unix time.
    pub(super) fn holds_one(&self, now: u64) -> bool {
        self.state().header(now).is_some()
    }

    /// Begins a request with the pass, unless that is over: the header that shows it, and whether that is news.
    pub(super) fn show(&self, now: u64) -> Option<(HeaderValue, bool)> {
        let mut state = self.state();
        let value = state.header(now)?;
        let held = state.held.as_mut()?;
        let before = held.record();
        held.begins();
        Some((value, before != held.record()))
    }

    /// Learns from the answer to a request with that header, of this method and path, at this Unix time.
    pub(super) fn learn(&self, shown: &HeaderValue, route: &str, word: Word, now: u64) -> Learned {
        let mut state = self.state();
        let Some(held) = state.shown(shown) else {
            // Another request learned it before.
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

    /// A request with that header was left at this Unix time, and whether it was charged is open. Tells whether that is news.
    pub(super) fn leaves(&self, shown: &HeaderValue, now: u64) -> bool {
        let mut state = self.state();
        let Some(held) = state.shown(shown) else { return state.ends_late(shown, &Word::Nothing, now) };
        let before = held.record();
        held.is_left();
        before != held.record()
    }

    /// Whether a pass counts for this method and path, at this Unix time, as far as is known.
    pub(super) fn counts_at(&self, route: &str, now: u64) -> bool {
        let state = self.state();
        let held = state.held.as_ref().filter(|_| state.header(now).is_some());
        held.is_none_or(|held| held.counts_at(route)) && !state.refused.has(route)
    }

    /// Whether one may be bought at this Unix time, for a request with limits of its own or without.
    pub(super) fn may_buy(&self, now: u64, within_limits: bool) -> bool {
        let state = self.state();
        // The next one would be no better than one that turns out to have bought nothing.
        let is_in_doubt = state.leaving.iter().any(|(given_up, _)| given_up.is_in_doubt());
        !state.is_paused(within_limits) && !state.is_unfinished && !state.is_barred(now) && !is_in_doubt
    }

    /// Where one was bought that never came, if none is held at this Unix time. It is fetched also where nothing new is bought.
    pub(super) fn unfinished(&self, now: u64, within_limits: bool) -> Option<Uri> {
        let state = self.state();
        let is_due = state.is_unfinished && state.header(now).is_none() && !state.is_paused(within_limits);
        is_due.then(|| state.address.url.clone())
    }

    /// Buys nothing for a while: where the attempt had limits of its request, for such requests alone.
    pub(super) fn pause(&self, within_limits: bool) {
        let (mut state, until) = (self.state(), Instant::now().checked_add(PAUSE));
        match within_limits {
            true => state.pause_within = until,
            false => state.pause = until,
        }
    }

    /// What came cannot be used at this Unix time: nothing is bought for long, by later processes either.
    pub(super) fn set_aside(&self, now: u64) {
        self.state().set_aside(now, now);
    }

    /// A purchase begins there, at this Unix time: until it has its answer, it is finished before another one begins.
    pub(super) fn begins(&self, address: Address, promise: Option<Promise>, now: u64) {
        let mut state = self.state();
        (state.promise, state.is_unfinished) = (promise, true);
        if state.address != address {
            state.refused = Notes::new();
            state.address = address;
        }
        // What bars others may have been found a moment ago.
        state.unusable_until = state.unusable_until.filter(|_| state.is_barred(now));
    }

    /// No purchase is left at the address.
    pub(super) fn is_finished(&self) {
        self.state().is_unfinished = false;
    }

    /// Whether this is the token that is held, or was given up last.
    pub(super) fn knows(&self, token: &str) -> bool {
        let state = self.state();
        let held = state.held.as_ref().map(|held| held.pass.token.as_str());
        [held, state.given_up.as_deref()].contains(&Some(token))
    }

    /// Gives up a pass whose time is over, where that is worse than its quote said, or it bought nothing, at this Unix time; tells whether
    /// there was one.
    pub(super) fn ends(&self, now: u64) -> bool {
        let mut state = self.state();
        let ends = state.held.as_ref().is_some_and(|held| held.ends_badly(now));
        if ends {
            state.give_up(now);
        }
        ends
    }

    /// Gives up a pass of which its seller said that nothing is left, at this Unix time; tells whether there was one. What was lost of it may
    /// come back, but only a request that can be sent again may find out.
    pub(super) fn gives_up_empty(&self, now: u64) -> bool {
        let mut state = self.state();
        let is_empty = |held: &InUse| held.under_way == 0 && held.pass.remaining.as_deref() == Some("0");
        let gives_up = state.held.as_ref().is_some_and(is_empty);
        if gives_up {
            state.give_up(now);
        }
        gives_up
    }

    /// Holds what was sold, at this Unix time: in the purchase that was begun, whose quote it is judged by, or in one of long ago.
    pub(super) fn hold(&self, sold: Sold, is_own: bool, now: u64) {
        let mut state = self.state();
        // One whose time is over, which calls may be under way with.
        state.give_up(now);
        let promise = state.promise.filter(|_| is_own);
        let is_timed = sold.is_timed();
        let pass = state.pass(sold.pass);
        let pass = HeldPass { expires: sold.expires, worth: sold.worth, is_timed, promise, ..pass };
        state.held = Some(InUse::bought(pass, is_own));
        // What came of an earlier one meanwhile bars the next.
        (state.pause, state.pause_within) = (None, None);
    }
}

impl State {
    fn pass(&self, token: String) -> HeldPass {
        HeldPass::new(self.address.url.to_string(), self.address.name.clone(), token)
    }

    /// The header with a pass that is not over, at this Unix time.
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
        // A moment further off was written by a clock that was ahead.
        let soon = now..=now.saturating_add(LONG_PAUSE);
        self.unusable_until.is_some_and(|until| now < until && soon.contains(&until))
    }

    /// Bars others from a moment on that was earlier than now. What was found before may bar them for longer.
    fn set_aside(&mut self, since: u64, now: u64) {
        let before = self.unusable_until.filter(|_| self.is_barred(now));
        self.unusable_until = before.max(Some(since.saturating_add(LONG_PAUSE)));
    }

    /// Gives the pass up at this Unix time. While requests are under way with it, it keeps its word by them.
    fn give_up(&mut self, now: u64) {
        let Some(held) = self.held.take() else { return };
        self.given_up = Some(held.pass.token.clone());
        // Its time may have been over for long.
        let ended = held.pass.expires.map_or(now, |end| end.min(now));
        if !self.judge(&held, ended, now) && held.under_way > 0 {
            self.leaving.push((held, ended));
        }
    }

    /// Judges a pass that ended at this Unix time, which may be long ago; tells whether it was bad. Then the next one would be no better.
    fn judge(&mut self, given_up: &InUse, ended: u64, now: u64) -> bool {
        let (pass, was_bad) = (&given_up.pass, given_up.was_bad(ended));
        if was_bad {
            tracing::warn!(url = %pass.url, calls = pass.calls, "a pass bought too little: no other is bought for a day");
            self.set_aside(ended, now);
        }
        was_bad
    }

    /// A request with a pass that was given up has ended. After the last one the pass is judged again, by those that were answered. Tells
    /// whether that is news.
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

    /// Until when others are barred if no call that is under way with a pass that was given up is answered.
    fn doubtful_until(&self) -> Option<u64> {
        let doubtful = self.leaving.iter().filter(|(pass, _)| pass.is_in_doubt());
        doubtful.map(|(_, ended)| ended.saturating_add(LONG_PAUSE)).max()
    }
}
