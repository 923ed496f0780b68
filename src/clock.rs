//! Time as a parameter: the library's notion of "now", replaceable in tests.

use std::{
    fmt,
    sync::OnceLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A source of time.
///
/// Quotes are dated by [`unix`](Clock::unix); leases and staleness are measured by
/// [`monotonic`](Clock::monotonic), which no operator can set back. The age of a payment is measured
/// by neither: it is chain time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Seconds since 1970-01-01 UTC.
    fn unix(&self) -> u64;
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn monotonic(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}
