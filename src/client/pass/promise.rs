//! `Promise`: the terms that a quote stated for a pass, to compare with what it delivered.

use serde::{Deserialize, Serialize};

/// What a quote says that a pass provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Promise {
    /// The number of calls that its price buys singly, or that it covers, whichever is less.
    pub(super) calls: u64,
    /// The Unix time until which it must last, with a tenth taken off for clock differences. `None` if the quote states
    /// no duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<u64>,
    /// Whether it was bought to save money: with fewer calls it has cost more than single answers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) saves: bool,
}

impl Promise {
    /// Creates the promise of a pass with this many calls and seconds, bought at this Unix time.
    pub(super) fn new(calls: u64, seconds: Option<u64>, now: u64) -> Self {
        let until = seconds.map(|seconds| now.saturating_add(seconds - seconds / 10));
        Self { calls, until, saves: false }
    }

    /// Returns whether a pass that ended at `now` after `calls` calls broke the promise: by fewer than half the calls
    /// before its time. If it was to save money: by fewer than all the calls, however long it lasted.
    pub(super) fn is_broken(self, calls: u64, now: u64) -> bool {
        if self.saves {
            return calls < self.calls;
        }
        calls.saturating_mul(2) < self.calls && self.until.is_none_or(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_kept_by_calls_or_by_time() {
        let (timed, endless) = (Promise::new(7, Some(100), 1_000), Promise::new(7, None, 1_000));
        for (calls, now, broken_timed, broken_endless) in
            [(0, 1_000, true, true), (3, 1_089, true, true), (4, 1_000, false, false), (0, 1_090, false, true)]
        {
            assert_eq!(timed.is_broken(calls, now), broken_timed, "{calls} {now}");
            assert_eq!(endless.is_broken(calls, now), broken_endless, "{calls} {now}");
        }
        let saving = Promise { saves: true, ..timed };
        assert!(saving.is_broken(6, 1_100) && !saving.is_broken(7, 1_000));
    }
}
