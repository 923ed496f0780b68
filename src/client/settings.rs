//! `Settings`: how a layer pays, with the default of each setting.

use std::time::Duration;

use tokio::time::Instant;

use super::{PaymentMethod, ProofIn, Standard};

/// Ten years: longer than any process lives.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// The most of an answer that is kept in memory: 16 MiB.
const LARGEST: usize = 16 * 1024 * 1024;

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) proof_in: ProofIn,
    pub(super) prefer: PaymentMethod,
    /// The number of answers that a deposit into a channel should pay for.
    pub(super) deposit_for: u32,
    /// The standards in which the layer signs, in order of preference at equal prices.
    pub(super) standards: Vec<Standard>,
    pub(super) confirmations: u64,
    pub(super) poll_every: Duration,
    pub(super) resend_after: Duration,
    pub(super) bump_after: Duration,
    pub(super) bumps_max: usize,
    pub(super) patience: Duration,
    pub(super) answer_timeout: Duration,
    pub(super) longest_pause: Duration,
    pub(super) least_time_to_pay: Duration,
    pub(super) payment_age: Duration,
    pub(super) read_ahead: usize,
    pub(super) acknowledged_by_caller: bool,
    pub(super) body_timeout: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            proof_in: ProofIn::Header,
            prefer: PaymentMethod::Authorization,
            // The default of the standard's own clients.
            deposit_for: 10,
            standards: Standard::ALL.to_vec(),
            confirmations: 1,
            poll_every: Duration::from_secs(1),
            resend_after: Duration::from_secs(10),
            bump_after: Duration::from_secs(30),
            bumps_max: 5,
            patience: Duration::from_secs(15 * 60),
            // A seller's longest hold is ten minutes.
            answer_timeout: Duration::from_secs(11 * 60),
            longest_pause: Duration::from_secs(60),
            // Five blocks of Base.
            least_time_to_pay: Duration::from_secs(10),
            // A seller's day, plus an hour for the seller's clock, its chain head and block times.
            payment_age: Duration::from_secs(25 * 60 * 60),
            // The size up to which sellers keep an answer by default.
            read_ahead: 256 * 1024,
            acknowledged_by_caller: false,
            body_timeout: None,
        }
    }
}

impl Settings {
    /// Bounds the durations: callers may say `Duration::MAX` for "forever", but no `Instant` is that far away. Bounds
    /// the read-ahead as well.
    pub(super) fn bounded(mut self) -> Self {
        let Self { poll_every, bump_after, patience, answer_timeout, longest_pause, .. } = &mut self;
        for pause in [poll_every, bump_after, patience, answer_timeout, longest_pause] {
            *pause = (*pause).min(LONGEST);
        }
        self.read_ahead = self.read_ahead.min(LARGEST);
        self
    }

    /// Returns the deadline of an answer's body, counted from its head.
    pub(super) fn body_until(&self) -> Option<Instant> {
        Instant::now().checked_add(self.body_timeout?)
    }

    /// Returns how long a call that ends at `deadline` waits for one answer after money has moved.
    pub(super) fn patience_until(&self, deadline: Instant) -> Duration {
        self.answer_timeout.min(deadline.saturating_duration_since(Instant::now()))
    }
}
