//! `Pacing`: how long to wait before a seller is asked again.

use std::time::Duration;

use rand::Rng as _;
use tokio::time::{Instant, sleep};

/// The longest pause without a request by the seller, in seconds.
const BACKOFF_MAX: u64 = 15;
/// The shortest pause, even if the seller asks for less.
const PAUSE_MIN: Duration = Duration::from_millis(500);

/// The pauses of one conversation.
pub(crate) struct Pacing {
    deadline: Instant,
    longest: Duration,
    own: u32,
}

impl Pacing {
    /// Creates pauses that all end by `deadline` and, jitter aside, are no longer than `longest`.
    pub(crate) const fn new(deadline: Instant, longest: Duration) -> Self {
        Self { deadline, longest, own: 0 }
    }

    /// Returns the next pause: as long as the seller asks, within bounds, plus up to 20 % jitter. `None` if it would
    /// end too late.
    pub(crate) fn next(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let own = Duration::from_secs((1 << self.own.min(8)).min(BACKOFF_MAX));
        self.own += u32::from(asked.is_none());
        let pause = asked.unwrap_or(own).clamp(PAUSE_MIN, self.longest.max(PAUSE_MIN));
        let pause = pause.mul_f64(rand::rng().random_range(1.0..1.2));
        (Instant::now() + pause <= self.deadline).then_some(pause)
    }

    /// Waits for that pause.
    pub(crate) async fn wait(pause: Duration) {
        sleep(pause).await;
    }
}
