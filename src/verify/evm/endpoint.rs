//! `Endpoint`: a node, and whether to ask and to believe it at the moment.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{evm::json_rpc::Transport, verify::VerifyErrorKind};

/// How long a node's proof of its chain stays valid. HTTP hides reconnections from us, so a time limit replaces them.
const PROOF_LASTS: Duration = Duration::from_secs(60);
/// How long a node rests after a failure: doubling from the first to the second value.
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The same for a node that served another chain or token: that lasts minutes rather than a moment.
const LONG_REST: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));
/// The longest rest that a node can ask for.
const WAIT_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Endpoint {
    /// Its index among the endpoints, which names it in logs instead of its URL.
    pub(super) index: usize,
    pub(super) transport: Transport,
    state: Mutex<State>,
}

/// Times are monotonic.
#[derive(Debug, Default)]
struct State {
    /// When it last proved to serve our chain; `None` if it must prove everything before it is believed.
    proved_at: Option<Duration>,
    /// The foreign chain or token that it served, until it proves otherwise.
    wrong: Option<VerifyErrorKind>,
    /// The number of failures since the last usable answer.
    failures: u32,
    /// Better not asked until then.
    rests_until: Duration,
    /// Must not be asked before then, even if there is no other endpoint.
    shut_until: Duration,
    round: Round,
}

/// Numbers the time between two failures. A call that began before a failure says nothing new about it: many concurrent
/// calls that fail for one reason are one failure, and a proof from before it proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Round(u64);

/// What an endpoint must prove before its answer counts.
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
        Self { index, transport, state: Mutex::default() }
    }

    /// Returns the present round. Read it before a call begins.
    pub(super) fn round(&self) -> Round {
        self.state().round
    }

    pub(super) fn due(&self, now: Duration) -> Due {
        match self.state().proved_at {
            Some(at) if now < at + PROOF_LASTS => Due::Nothing,
            Some(_) => Due::Chain,
            None => Due::Everything,
        }
    }

    /// Whether the endpoint is expected to answer.
    pub(super) fn is_live(&self, now: Duration) -> bool {
        now >= self.state().rests_until
    }

    /// Whether the endpoint must not be asked, even if there is no other: it failed repeatedly, or asked for a rest.
    pub(super) fn is_shut(&self, now: Duration) -> bool {
        now < self.state().shut_until
    }

    /// Why the endpoint is not believed, if it served another chain or token at its last proof.
    pub(super) fn wrong(&self) -> Option<VerifyErrorKind> {
        self.state().wrong.clone()
    }

    pub(super) fn proved(&self, round: Round, now: Duration) {
        let mut state = self.state();
        if state.round == round {
            (state.proved_at, state.wrong) = (Some(now), None);
        }
    }

    /// Notes a usable answer.
    pub(super) fn answered(&self, round: Round) {
        let mut state = self.state();
        if state.round == round {
            (state.failures, state.rests_until, state.shut_until) = (0, Duration::ZERO, Duration::ZERO);
        }
    }

    /// Notes a failure, and the rest that the endpoint asked for, if any.
    pub(super) fn failed(&self, round: Round, now: Duration, wait: Option<Duration>) {
        let mut state = self.state();
        if state.round == round {
            let rest = state.rest(REST);
            // A single failure must not refuse all payments if there is no other endpoint.
            let shut = wait.is_some() || state.failures > 1;
            state.leave_alone(now, rest.max(wait.unwrap_or_default().min(WAIT_MAX)), shut);
        }
    }

    /// Notes that the endpoint served another chain or token.
    pub(super) fn found_wrong(&self, why: VerifyErrorKind, now: Duration) {
        let mut state = self.state();
        let rest = state.rest(LONG_REST);
        state.leave_alone(now, rest, true);
        state.wrong = Some(why);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a failure, and returns the length of the rest.
    fn rest(&mut self, (first, longest): (Duration, Duration)) -> Duration {
        self.failures = self.failures.saturating_add(1);
        first.saturating_mul(1 << (self.failures - 1).min(10)).min(longest)
    }

    fn leave_alone(&mut self, now: Duration, rest: Duration, shut: bool) {
        self.proved_at = None;
        self.rests_until = now + rest;
        self.shut_until = if shut { self.rests_until } else { now };
        self.round.0 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn endpoint() -> Option<Endpoint> {
        Transport::new("http://127.0.0.1:1").map(|transport| Endpoint::new(0, transport))
    }

    /// Fails, and returns for how many seconds the endpoint rests, and for how many it is shut.
    fn fail(endpoint: &Endpoint, now: Duration, wait: Option<Duration>) -> (u64, u64) {
        endpoint.failed(endpoint.round(), now, wait);
        let seconds = |is_over: &dyn Fn(Duration) -> bool| {
            (0..1_000).find(|seconds| is_over(now + Duration::from_secs(*seconds))).unwrap_or(u64::MAX)
        };
        (seconds(&|at| endpoint.is_live(at)), seconds(&|at| !endpoint.is_shut(at)))
    }

    #[test]
    fn rests_double_and_end() -> Result<(), &'static str> {
        let endpoint = endpoint().ok_or("a URL")?;
        let mut now = 100 * SECOND;
        let mut rests = Vec::new();
        for _ in 0..8 {
            rests.push(fail(&endpoint, now, None));
            now += 60 * SECOND;
        }
        // After one failure other endpoints take over, and an only endpoint is still asked.
        assert_eq!(rests[0], (1, 0));
        assert_eq!(rests[1..], [2, 4, 8, 16, 30, 30, 30].map(|seconds| (seconds, seconds)));
        // A proof alone does not reset the failures; a usable answer does.
        endpoint.proved(endpoint.round(), now);
        assert_eq!(fail(&endpoint, now, None), (30, 30));
        endpoint.answered(endpoint.round());
        assert!(endpoint.is_live(now) && !endpoint.is_shut(now));
        assert_eq!(fail(&endpoint, now, None), (1, 0));
        Ok(())
    }

    #[test]
    fn calls_that_began_before_a_failure_count_for_nothing() -> Result<(), &'static str> {
        let endpoint = endpoint().ok_or("a URL")?;
        let (now, before) = (100 * SECOND, endpoint.round());
        for _ in 0..50 {
            endpoint.failed(before, now, None);
        }
        assert!(endpoint.is_live(now + SECOND) && !endpoint.is_shut(now), "one failure");
        endpoint.proved(before, now);
        endpoint.answered(before);
        assert_eq!(endpoint.due(now), Due::Everything);
        assert!(!endpoint.is_live(now));
        Ok(())
    }

    #[test]
    fn a_wait_that_is_asked_for_is_kept_within_limits() -> Result<(), &'static str> {
        for (asked, kept) in [(0, 1), (1, 1), (17, 17), (60, 60), (61, 60), (u64::MAX, 60)] {
            let endpoint = endpoint().ok_or("a URL")?;
            assert_eq!(fail(&endpoint, 100 * SECOND, Some(Duration::from_secs(asked))), (kept, kept), "{asked}");
        }
        Ok(())
    }

    #[test]
    fn what_was_wrong_rests_longer_and_must_prove_itself_anew() -> Result<(), &'static str> {
        let endpoint = endpoint().ok_or("a URL")?;
        let (now, before) = (100 * SECOND, endpoint.round());
        endpoint.proved(before, now);
        assert_eq!(endpoint.due(now), Due::Nothing);
        assert_eq!(endpoint.due(now + PROOF_LASTS), Due::Chain);
        for rest in [10, 20, 40, 80, 160, 320, 600, 600] {
            endpoint.found_wrong(VerifyErrorKind::StaleHead, now);
            // A proof or an answer that was under way does not restore it.
            endpoint.proved(before, now);
            endpoint.answered(before);
            assert_eq!((endpoint.wrong(), endpoint.due(now)), (Some(VerifyErrorKind::StaleHead), Due::Everything));
            let [last, over] = [rest * SECOND - Duration::from_nanos(1), rest * SECOND].map(|rest| now + rest);
            assert!(!endpoint.is_live(last) && endpoint.is_shut(last), "{rest}");
            assert!(endpoint.is_live(over) && !endpoint.is_shut(over), "{rest}");
        }
        endpoint.proved(endpoint.round(), now);
        assert_eq!((endpoint.wrong(), endpoint.due(now)), (None, Due::Nothing));
        Ok(())
    }
}
