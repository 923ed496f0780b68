//! `Promise`: what a quote said of a pass, by which the pass is judged once it is over.

use serde::{Deserialize, Serialize};

/// What a pass is good for, by the quote that named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Promise {
    /// So many calls its price buys singly, or as many as it covers, where that is fewer.
    pub(super) calls: u64,
    /// It lasts that long, in Unix seconds, with something off for clocks that differ. `None` if it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<u64>,
    /// It was bought to save money: after fewer calls it has cost more than they would have cost singly.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) saves: bool,
}

impl Promise {
    /// Of a pass for so many calls, and that many seconds, which is bought at this Unix time.
    pub(super) fn new(calls: u64, seconds: Option<u64>, now: u64) -> Self {
        let until = seconds.map(|seconds| now.saturating_add(seconds - seconds / 10));
        Self { calls, until, saves: false }
    }

    /// Whether a pass that is over at this Unix time, after so many calls, was worse than half of that; or than all of it, however long it was
    /// good, where it was to save money.
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
