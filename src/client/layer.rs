//! `PayLayer`: what a client is wrapped in, and its settings.

use std::{fmt, sync::Arc, time::Duration};

use tower_layer::Layer;

use super::{
    Budget, Entry, Journal, JournalError, Pay, Payer, ProofIn, PurchaseId, Step, book::Book, erased::ErasedPayer,
};
use crate::clock::{Clock, SystemClock};

/// Makes a client pay: see [the module](super).
///
/// Clones are one payer, one budget and one journal.
#[derive(Clone)]
pub struct PayLayer {
    shared: Arc<Shared>,
}

/// What all calls have in common.
pub(super) struct Shared {
    pub(super) payer: Box<dyn ErasedPayer>,
    pub(super) budget: Budget,
    pub(super) book: Arc<Book>,
    pub(super) clock: Box<dyn Clock>,
    pub(super) on_step: Option<Arc<OnStep>>,
    pub(super) settings: Settings,
}

type OnStep = dyn Fn(&Step) + Send + Sync;

/// Longer than any process lives: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) proof_in: ProofIn,
    pub(super) confirmations: u64,
    pub(super) poll_every: Duration,
    pub(super) resend_after: Duration,
    pub(super) bump_after: Duration,
    pub(super) bumps_max: usize,
    pub(super) patience: Duration,
    pub(super) answer_timeout: Duration,
    pub(super) longest_pause: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            proof_in: ProofIn::Header,
            confirmations: 1,
            poll_every: Duration::from_secs(1),
            resend_after: Duration::from_secs(10),
            bump_after: Duration::from_secs(30),
            bumps_max: 5,
            patience: Duration::from_secs(15 * 60),
            // A seller's longest hold is ten minutes.
            answer_timeout: Duration::from_secs(11 * 60),
            longest_pause: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// `Duration::MAX` is a way to say "for ever", and no moment is that far away.
    fn bounded(mut self) -> Self {
        let Self { poll_every, bump_after, patience, answer_timeout, longest_pause, .. } = &mut self;
        for pause in [poll_every, bump_after, patience, answer_timeout, longest_pause] {
            *pause = (*pause).min(LONGEST);
        }
        self
    }
}

impl PayLayer {
    /// A layer that pays by `payer`, within `budget`, and writes to `journal` before any money moves.
    pub fn builder(payer: impl Payer, budget: Budget, journal: impl Journal) -> PayLayerBuilder {
        PayLayerBuilder {
            payer: Box::new(payer),
            budget,
            journal: Box::new(journal),
            clock: Box::new(SystemClock),
            on_step: None,
            settings: Settings::default(),
        }
    }

    /// The purchases that are not finished, oldest first: each is gone on with when its request is sent again.
    #[must_use]
    pub fn unfinished(&self) -> Vec<Entry> {
        self.shared.book.unfinished()
    }

    /// Gives an unfinished purchase up: the same request then pays anew. What was paid for it is lost, unless the
    /// seller is asked by hand. `false` where there is none of that name, or a call is at work on it.
    ///
    /// # Errors
    /// [`JournalError`]: it may be open again after a restart.
    pub async fn abandon(&self, purchase: PurchaseId) -> Result<bool, JournalError> {
        self.shared.book.abandon(purchase).await
    }
}

impl<S> Layer<S> for PayLayer {
    type Service = Pay<S>;

    fn layer(&self, inner: S) -> Pay<S> {
        Pay::new(inner, Arc::clone(&self.shared))
    }
}

impl fmt::Debug for PayLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PayLayer")
            .field("budget", &self.shared.budget)
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

/// Sets how a [`PayLayer`] pays. What is not set is as good for most.
#[must_use]
pub struct PayLayerBuilder {
    payer: Box<dyn ErasedPayer>,
    budget: Budget,
    journal: Box<dyn super::journal::ErasedJournal>,
    clock: Box<dyn Clock>,
    on_step: Option<Arc<OnStep>>,
    settings: Settings,
}

impl PayLayerBuilder {
    /// Where proofs travel. Default: in the header.
    pub const fn proof_in(mut self, place: ProofIn) -> Self {
        self.settings.proof_in = place;
        self
    }

    /// In how many blocks a transfer must be before it is redeemed, its own included. Default: 1, as sellers ask.
    pub const fn confirmations(mut self, blocks: u64) -> Self {
        self.settings.confirmations = blocks;
        self
    }

    /// How often the chain is asked for a transfer that was sent. Default: every second.
    pub const fn poll_every(mut self, pause: Duration) -> Self {
        self.settings.poll_every = pause;
        self
    }

    /// After how long in no block a transfer is replaced by a dearer one. Default: 30 s, five times at most.
    pub const fn bump_after(mut self, pause: Duration) -> Self {
        self.settings.bump_after = pause;
        self
    }

    /// For how long a call waits, counted from the payment, until the answer is there. Default: 15 min.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// For how long one attempt to redeem waits for the answer's head. Default: 11 min, for sellers hold a request for
    /// up to ten. An attempt that is given up is made again: the seller may be at work on it all the same.
    pub const fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.settings.answer_timeout = timeout;
        self
    }

    /// The longest pause that a seller's `Retry-After` is granted. Default: 60 s.
    pub const fn longest_pause(mut self, pause: Duration) -> Self {
        self.settings.longest_pause = pause;
        self
    }

    /// Told of every step of every purchase, in the calling task: be quick.
    pub fn on_step(mut self, on_step: impl Fn(&Step) + Send + Sync + 'static) -> Self {
        self.on_step = Some(Arc::new(on_step));
        self
    }

    /// What time it is, for the budget's day and a quote's expiry. Default: the machine's clock.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Reads the journal, and with it what is unfinished and what was spent.
    ///
    /// # Errors
    /// [`JournalError`]: nothing is paid on half a memory.
    pub async fn build(self) -> Result<PayLayer, JournalError> {
        let book = Arc::new(Book::open(self.journal).await?);
        let Self { payer, budget, clock, on_step, settings, .. } = self;
        let settings = settings.bounded();
        Ok(PayLayer { shared: Arc::new(Shared { payer, budget, book, clock, on_step, settings }) })
    }
}

impl fmt::Debug for PayLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PayLayerBuilder")
            .field("budget", &self.budget)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
