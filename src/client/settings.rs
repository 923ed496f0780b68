//! `Settings`: how a layer pays, with a default for everything.

use std::time::Duration;

use tokio::time::Instant;

use super::{PaymentMethod, ProofIn, Standard};

/// Longer than any process lives: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// The most that is kept in memory of an answer: 16 MiB.
const LARGEST: usize = 16 * 1024 * 1024;

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) proof_in: ProofIn,
    pub(super) prefer: PaymentMethod,
    /// For how many answers a deposit into a channel is to last.
    pub(super) deposit_for: u32,
    /// Those that are signed for; of equal prices the first goes first.
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
            // As the clients of the standard do.
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
            // A seller's day, and an hour for its clock, its head and its block times.
            payment_age: Duration::from_secs(25 * 60 * 60),
            // What sellers keep of an answer, unless they set something else.
            read_ahead: 256 * 1024,
            acknowledged_by_caller: false,
            body_timeout: None,
        }
    }
}

impl Settings {
    /// Bounds what would be endless: `Duration::MAX` is a way to say "for ever", and no moment is that far away.
    pub(super) fn bounded(mut self) -> Self {
        let Self { poll_every, bump_after, patience, answer_timeout, longest_pause, .. } = &mut self;
        for pause in [poll_every, bump_after, patience, answer_timeout, longest_pause] {
            *pause = (*pause).min(LONGEST);
        }
        self.read_ahead = self.read_ahead.min(LARGEST);
        self
    }

    /// The deadline of an answer's body, counted from its head.
    pub(super) fn body_until(&self) -> Option<Instant> {
        Instant::now().checked_add(self.body_timeout?)
    }

    /// How long one answer is waited for, once money has moved, by a call that ends at `deadline`.
    pub(super) fn patience_until(&self, deadline: Instant) -> Duration {
        self.answer_timeout.min(deadline.saturating_duration_since(Instant::now()))
    }
}
