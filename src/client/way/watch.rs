//! `Watch`: what was observed of a transfer or a cancellation.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::PayerError;

/// How often a transfer that no node has is resent while sending is refused.
const REFUSALS_MAX: u32 = 6;
/// How often in a row a payment must be reported impossible to be believed, because nodes behind one address may
/// disagree.
const IMPOSSIBLE_MIN: u32 = 3;

/// What was observed of a transfer.
#[derive(Default)]
pub(crate) struct Watch {
    /// When it was last sent, or first seen.
    pub(crate) moved: Option<Instant>,
    refusals: u32,
    impossible: u32,
    pub(crate) reason: Option<PayerError>,
}

impl Watch {
    pub(crate) fn is_over(&self, pause: Duration) -> bool {
        self.moved.is_some_and(|moved| moved.elapsed() >= pause)
    }

    /// Counts a status: one that makes another payment possible is believed only after several reports in a row.
    pub(crate) const fn saw(&mut self, is_impossible: bool) {
        self.impossible = if is_impossible { self.impossible + 1 } else { 0 };
    }

    pub(crate) const fn is_impossible(&self) -> bool {
        self.impossible >= IMPOSSIBLE_MIN
    }

    /// Notes the result of sending; returns `true` after too many refusals.
    pub(crate) fn sent(&mut self, refusal: Option<PayerError>) -> bool {
        self.reason = refusal;
        self.refusals += u32::from(self.reason.is_some());
        self.refusals >= REFUSALS_MAX
    }
}
