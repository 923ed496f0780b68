//! `PayLayer`: what a client is wrapped in, and its settings.

use std::{fmt, sync::Arc, time::Duration};

use tower_layer::Layer;

use super::{
    Budget, Entry, Event, Journal, JournalError, Pay, Payer, ProofIn, PurchaseId, Step, book::Book, budget::Spent,
    erased::ErasedPayer, host,
};
use crate::{
    clock::{Clock, SystemClock},
    protocol::Amount,
};

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
    pub(super) clock: Arc<dyn Clock>,
    pub(super) on_event: Option<Arc<OnEvent>>,
    pub(super) settings: Settings,
}

type OnEvent = dyn Fn(&Event) + Send + Sync;

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
    pub(super) least_time_to_pay: Duration,
    pub(super) payment_age: Duration,
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
            // Five blocks of Base.
            least_time_to_pay: Duration::from_secs(10),
            // A seller's day, and an hour for its clock, its head and its block times.
            payment_age: Duration::from_secs(25 * 60 * 60),
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
            clock: Arc::new(SystemClock),
            on_event: None,
            settings: Settings::default(),
        }
    }

    /// The limits that it keeps.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.shared.budget
    }

    /// Returns what counts against the budget's limit per day now, in base units: the payments of the last 24 hours
    /// and those under way.
    ///
    /// ```
    /// # use tower_x402::{client::{Budget, MemoryJournal, NoPayer, PayLayer}, protocol::Asset};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment("0.50").per_day("10").build()?;
    /// let layer = PayLayer::builder(NoPayer, budget, MemoryJournal::new()).build().await?;
    /// let shown = |amount: tower_x402::protocol::Amount| amount.to_decimal(layer.budget().decimals());
    /// assert_eq!((shown(layer.spent()), shown(layer.remaining())), ("0".into(), "10".into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn spent(&self) -> Amount {
        self.spent_at("").in_all
    }

    /// Returns what the limit per day leaves, in base units. Another payment may take it before you do.
    #[must_use]
    pub fn remaining(&self) -> Amount {
        self.shared.budget.left(self.spent_at("")).0
    }

    /// Returns what counts against the limit per host now, in base units. `host` may be spelled in any way, with a port
    /// or without.
    #[must_use]
    pub fn spent_on(&self, host: &str) -> Amount {
        self.spent_at(host).by_host
    }

    /// Returns what the limits per host and per day together leave for this host, in base units.
    #[must_use]
    pub fn remaining_for(&self, host: &str) -> Amount {
        self.shared.budget.left(self.spent_at(host)).1
    }

    fn spent_at(&self, host: &str) -> Spent {
        self.shared.book.spent(&host::of_entry(host), &self.shared.budget)
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
    clock: Arc<dyn Clock>,
    on_event: Option<Arc<OnEvent>>,
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

    /// For how long a call waits. Default: 15 min.
    ///
    /// It counts twice: from the call until money moves (the seller's first answer, the payer's turn, preparing the
    /// transfer), after which the call ends in [`PayError::TimedOut`](super::PayError::TimedOut) and nothing was paid;
    /// and from the payment until the answer is there, after which the call ends in an error that names the payment. It
    /// does not count while the approval hook is asked, nor for the body of an answer.
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

    /// How much time a quote must leave for a payment, by its expiry; rounded down to whole seconds. Default: 10 s.
    ///
    /// What is paid in the last moment may be in a block only after the quote is over. Such quotes are declined, before
    /// the payment is signed as well as when they come.
    pub const fn least_time_to_pay(mut self, time: Duration) -> Self {
        self.settings.least_time_to_pay = time;
        self
    }

    /// For how long after it was mined a payment that bought nothing is kept for another try. Default: 25 h, for sellers
    /// accept payments for a day unless they set something else; the rest is for clocks that differ.
    ///
    /// Then it is closed as lost, and the same request pays anew. Set it higher for sellers that accept older payments.
    pub const fn payment_age(mut self, age: Duration) -> Self {
        self.settings.payment_age = age;
        self
    }

    /// Told of every step of every purchase, in the calling task: be quick. Takes the place of
    /// [`on_event`](Self::on_event).
    pub fn on_step(self, on_step: impl Fn(&Step) + Send + Sync + 'static) -> Self {
        self.on_event(move |event| on_step(&event.step))
    }

    /// Told of every step of every purchase, with the purchase's name, in the calling task: be quick. Takes the place
    /// of [`on_step`](Self::on_step).
    pub fn on_event(mut self, on_event: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Arc::new(on_event));
        self
    }

    /// What time it is, for the budget's day and a quote's expiry. Default: the machine's clock.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Reads the journal, and with it what is unfinished and what was spent.
    ///
    /// # Errors
    /// [`JournalError`]: nothing is paid on half a memory.
    pub async fn build(self) -> Result<PayLayer, JournalError> {
        let Self { payer, budget, journal, clock, on_event, settings } = self;
        let book = Arc::new(Book::open(journal, Arc::clone(&clock)).await?);
        let settings = settings.bounded();
        Ok(PayLayer { shared: Arc::new(Shared { payer, budget, book, clock, on_event, settings }) })
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
