//! `FakeClock`: a clock that a test controls.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::clock::Clock;

/// A clock that changes only when a test changes it. Clones share one time.
///
/// ```
/// use std::time::Duration;
/// use tower_x402::{clock::Clock as _, testing::FakeClock};
/// let clock = FakeClock::new(1_795_280_400);
/// let shown = clock.clone();
/// clock.advance(Duration::from_millis(1_500));
/// assert_eq!(shown.unix(), 1_795_280_401);
/// assert_eq!(shown.monotonic(), Duration::from_millis(1_500));
/// clock.set_unix(0);                                   // an operator sets the date back …
/// assert_eq!((shown.unix(), shown.monotonic()), (0, Duration::from_millis(1_500)));   // … and time goes on
/// ```
#[derive(Clone, Debug)]
pub struct FakeClock {
    now: Arc<Mutex<Now>>,
}

#[derive(Clone, Copy, Debug)]
struct Now {
    unix: Duration,
    monotonic: Duration,
}

impl FakeClock {
    /// Creates a clock at this Unix time, in seconds. Its monotonic time starts at zero.
    #[must_use]
    pub fn new(unix: u64) -> Self {
        Self { now: Arc::new(Mutex::new(Now { unix: Duration::from_secs(unix), monotonic: Duration::ZERO })) }
    }

    /// Advances both the Unix time and the monotonic time.
    pub fn advance(&self, span: Duration) {
        self.with(|now| {
            now.unix = now.unix.saturating_add(span);
            now.monotonic = now.monotonic.saturating_add(span);
        });
    }

    /// Sets the Unix time, in seconds, forward or back. The monotonic time does not change.
    pub fn set_unix(&self, unix: u64) {
        self.with(|now| now.unix = Duration::from_secs(unix));
    }

    fn with<T>(&self, change: impl FnOnce(&mut Now) -> T) -> T {
        change(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Clock for FakeClock {
    fn unix(&self) -> u64 {
        self.with(|now| now.unix.as_secs())
    }

    fn monotonic(&self) -> Duration {
        self.with(|now| now.monotonic)
    }
}
