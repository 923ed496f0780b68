//! `Endpoint`: a node, and whether it is to be believed at the moment.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{json_rpc::Transport, verify::VerifyErrorKind};

/// How long a node is believed to serve the chain that it proved to serve. HTTP hides from us when a connection is made
/// anew, so time stands in for it.
const PROOF_LASTS: Duration = Duration::from_secs(60);
/// How long a node that failed is left alone: doubling, from and to.
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

#[derive(Debug)]
pub(super) struct Endpoint {
    /// Its place among the endpoints: what it is called in logs, where its URL has no business.
    pub(super) index: usize,
    pub(super) transport: Transport,
    state: Mutex<State>,
}

/// By monotonic time.
#[derive(Clone, Debug)]
enum State {
    /// It proved at that time to serve our chain.
    Proven { at: Duration },
    /// It must prove it before it is believed, and is best left alone until then.
    Doubted { until: Duration, failures: u32 },
    /// It served another chain or token: whatever it says from now on is not heard.
    Dropped(VerifyErrorKind),
}

/// What must be proved before an answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// The chain id.
    Chain,
    /// The chain id and the decimals of the tokens.
    Everything,
}

impl Endpoint {
    pub(super) fn new(index: usize, transport: Transport) -> Self {
        Self { index, transport, state: Mutex::new(State::Doubted { until: Duration::ZERO, failures: 0 }) }
    }

    pub(super) fn due(&self, now: Duration) -> Due {
        match *self.state() {
            State::Proven { at } if now < at + PROOF_LASTS => Due::Nothing,
            State::Proven { .. } => Due::Chain,
            State::Doubted { .. } | State::Dropped(_) => Due::Everything,
        }
    }

    /// Whether it may be expected to answer.
    pub(super) fn is_live(&self, now: Duration) -> bool {
        match *self.state() {
            State::Proven { .. } => true,
            State::Doubted { until, .. } => now >= until,
            State::Dropped(_) => false,
        }
    }

    /// Why it is not heard any more.
    pub(super) fn dropped(&self) -> Option<VerifyErrorKind> {
        match &*self.state() {
            State::Dropped(why) => Some(why.clone()),
            _ => None,
        }
    }

    pub(super) fn proved(&self, now: Duration) {
        let mut state = self.state();
        if !matches!(*state, State::Dropped(_)) {
            *state = State::Proven { at: now };
        }
    }

    /// It failed. Many calls at once that fail for one reason count as one failure.
    pub(super) fn failed(&self, now: Duration) {
        let mut state = self.state();
        let failures = match *state {
            State::Proven { .. } => 1,
            State::Doubted { until, failures } if now >= until => failures.saturating_add(1),
            State::Doubted { .. } | State::Dropped(_) => return,
        };
        let (first, longest) = REST;
        let rest = first.saturating_mul(1 << (failures - 1).min(10)).min(longest);
        *state = State::Doubted { until: now + rest, failures };
    }

    pub(super) fn drop_for(&self, why: VerifyErrorKind) {
        *self.state() = State::Dropped(why);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
