//! `Shop`: a seller of passes, and the pass that is held there.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use serde::Deserialize;
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

use super::held::{HeldPass, PassError};
use crate::{
    client::http::host::with_port,
    protocol::{
        headers::{PAYMENT_RESPONSE, X402_ERROR, X402_PASS_REMAINING},
        is_loopback,
    },
};

/// How long nothing is bought after an attempt that failed.
const PAUSE: Duration = Duration::from_secs(60);
/// The same, in seconds, after one that was sold, and is no pass that can be used: the next one would be no better.
const LONG_PAUSE: u64 = 24 * 60 * 60;
/// The longest token that is taken.
const LONGEST: usize = 256;
/// How many paths are remembered.
const MOST_PATHS: usize = 1_000;

/// A seller of passes.
pub(super) struct Shop {
    pub(super) url: Uri,
    origin: String,
    /// The seller's name of its pass, where a quote told it.
    name: Option<String>,
    /// A quote named it: it is bought at the price of a quote of now.
    pub(super) is_quoted: bool,
    /// One purchase at a time.
    pub(super) buying: AsyncMutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: Option<HeldPass>,
    pause: Option<Instant>,
    /// The same for requests with limits of their own.
    pause_within: Option<Instant>,
    /// Paths where the pass was taken.
    taken: HashSet<String>,
    /// Paths where it was refused although it is good elsewhere.
    refused: HashSet<String>,
    /// Paths whose price the pass that is held has covered.
    covered: HashSet<String>,
    /// Paths whose price is above its amount.
    uncovered: HashSet<String>,
}

/// What the answer to a request with a pass says of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learned {
    Nothing,
    /// It was used, or is over.
    Changed,
    /// It does not count for this request, and nothing was done.
    Refused,
}

/// What a seller answers to the payment for a pass.
#[derive(Deserialize)]
struct Sold {
    pass: String,
    expires: Option<u64>,
    worth: Option<String>,
}

/// Scheme, host and port in one spelling.
pub(super) fn origin(uri: &Uri) -> Option<String> {
    let scheme = uri.scheme_str()?;
    let usual = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    Some(format!("{scheme}://{}", with_port(uri.authority()?, Some(usual))?))
}

impl Shop {
    pub(super) fn new(url: &str, name: Option<String>) -> Result<Self, PassError> {
        let url: Uri = url.parse().map_err(|_| PassError::Url)?;
        let is_private = url.scheme_str() == Some("https") || url.host().is_some_and(is_loopback);
        let origin = origin(&url).filter(|_| is_private).ok_or(PassError::Url)?;
        Ok(Self { url, origin, name, is_quoted: false, buying: AsyncMutex::new(()), state: Mutex::default() })
    }

    /// The same, named by a quote.
    pub(super) fn quoted(self) -> Self {
        Self { is_quoted: true, ..self }
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // There are whole assignments only.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept: the pass that is held, or that what came was none.
    pub(super) fn kept(&self) -> Option<HeldPass> {
        self.state().held.clone()
    }

    pub(super) fn hold(&self, pass: HeldPass) {
        let mut state = self.state();
        (state.held, state.pause, state.pause_within) = (Some(pass), None, None);
        (state.covered, state.uncovered) = Default::default();
    }

    /// The header with a pass that is not over, at this Unix time.
    pub(super) fn header(&self, now: u64) -> Option<HeaderValue> {
        let state = self.state();
        let is_good = |held: &&HeldPass| !held.token.is_empty() && held.expires.is_none_or(|end| now < end);
        let held = state.held.as_ref().filter(is_good)?;
        let mut value = HeaderValue::from_str(&held.token).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Whether a pass counts at this path, at this Unix time, as far as is known.
    pub(super) fn counts_at(&self, path: &str, now: u64) -> bool {
        let holds_one = self.header(now).is_some();
        let state = self.state();
        let is_uncovered = holds_one && state.uncovered.contains(path);
        !is_uncovered && !state.refused.contains(path)
    }

    /// Whether one may be bought at this Unix time, for a request with limits of its own or without.
    pub(super) fn may_buy(&self, now: u64, within_limits: bool) -> bool {
        let state = self.state();
        let is_over = |until: Option<Instant>| until.is_none_or(|until| Instant::now() >= until);
        let was_unusable = state.held.as_ref().and_then(|held| held.unusable_until).is_some_and(|until| now < until);
        is_over(state.pause) && (!within_limits || is_over(state.pause_within)) && !was_unusable
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
        let none = || HeldPass {
            url: self.url.to_string(),
            name: self.name.clone(),
            token: String::new(),
            remaining: None,
            expires: None,
            worth: None,
            unusable_until: None,
        };
        let mut state = self.state();
        state.held.get_or_insert_with(none).unusable_until = Some(now.saturating_add(LONG_PAUSE));
    }

    /// Takes what the seller answered to a payment; tells whether that is a pass.
    pub(super) fn take(&self, body: &[u8]) -> bool {
        let Ok(Sold { pass, expires, worth }) = serde_json::from_slice(body) else { return false };
        if pass.is_empty() || pass.len() > LONGEST || HeaderValue::from_str(&pass).is_err() {
            return false;
        }
        self.hold(HeldPass {
            url: self.url.to_string(),
            name: self.name.clone(),
            token: pass,
            remaining: None,
            expires,
            worth,
            unusable_until: None,
        });
        true
    }

    /// Learns from the answer to a request that showed this pass at this path.
    pub(super) fn learn(&self, shown: &HeaderValue, path: &str, status: StatusCode, headers: &HeaderMap) -> Learned {
        let mut state = self.state();
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let is_refused = text(X402_ERROR) == Some("invalid_pass");
        let otherwise = if is_refused { Learned::Refused } else { Learned::Nothing };
        let Some(held) = state.held.as_mut().filter(|held| held.token.as_bytes() == shown.as_bytes()) else {
            return otherwise;
        };
        if let Some(remaining) = text(X402_PASS_REMAINING) {
            if remaining == "0" {
                state.held = None;
            } else {
                held.remaining = Some(remaining.to_owned());
            }
            remember(&mut state.taken, path);
            remember(&mut state.covered, path);
            return Learned::Changed;
        }
        if is_refused {
            // It was good here: its seller closed it, or does not know it any more.
            if state.taken.contains(path) {
                state.held = None;
                state.pause = Instant::now().checked_add(PAUSE);
            } else {
                remember(&mut state.refused, path);
            }
            return Learned::Refused;
        }
        // The layer inside paid instead, or was asked to: the pass did not cover this.
        if status == StatusCode::PAYMENT_REQUIRED || headers.contains_key(PAYMENT_RESPONSE) {
            // An amount may be below one price and above others. It is used up where it does not cover what it covered before.
            let is_whole = held.remaining.is_none();
            let covers_others = held.worth.is_some() && (is_whole || !state.covered.is_empty());
            if covers_others && !state.covered.contains(path) {
                remember(&mut state.uncovered, path);
            } else {
                state.held = None;
            }
            return Learned::Changed;
        }
        Learned::Nothing
    }
}

fn remember(paths: &mut HashSet<String>, path: &str) {
    if paths.len() < MOST_PATHS || paths.contains(path) {
        paths.insert(path.to_owned());
    }
}
