//! `PayLayerBuilder`: how a layer pays.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    Budget, Journal, JournalError, MemoryJournal, PayLayer, Payer, ProofIn, PurchaseEvent, PurchaseProgress,
    inner::ClientInner,
    journal::ErasedJournal,
    payer::{ErasedPayer, NoPayer},
    progress::OnProgress,
    registry::PurchaseRegistry,
    settings::Settings,
};
use crate::clock::{Clock, SystemClock};

impl PayLayer {
    /// A layer that pays by `payer`, within `budget`, and writes to `journal` before any money moves.
    pub fn builder(payer: impl Payer, budget: Budget, journal: impl Journal) -> PayLayerBuilder {
        PayLayerBuilder {
            payer: Box::new(payer),
            budget,
            journal: Box::new(journal),
            clock: Arc::new(SystemClock),
            on_progress: None,
            settings: Settings::default(),
        }
    }

    /// Returns a builder for a layer that has no wallet and pays nothing: it redeems what was paid elsewhere. Each request
    /// names its transaction in an [`AlreadyPaid`](super::AlreadyPaid) extension; one that does not is refused with
    /// [`PayError::Declined`](super::PayError::Declined) when it turns out to cost money.
    ///
    /// What it redeems is remembered until the process ends, unless it is given a [`journal`](PayLayerBuilder::journal).
    ///
    /// ```
    /// # #[cfg(feature = "test-util")]
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// use tower_x402::client::{AlreadyPaid, Body, PayLayer};
    /// # let transaction = tower_x402::protocol::TxHash::new([1; 32]);
    ///
    /// let layer = PayLayer::redeem_only().build().await?;
    /// assert!(layer.remaining().is_zero());
    ///
    /// let mut request = http::Request::post("https://seller.example/greeting").body(Body::empty())?;
    /// request.extensions_mut().insert(AlreadyPaid(transaction));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn redeem_only() -> PayLayerBuilder {
        Self::builder(NoPayer, Budget::nothing(), MemoryJournal::new())
    }
}

/// Sets how a [`PayLayer`] pays. What is not set is as good for most.
#[must_use]
pub struct PayLayerBuilder {
    payer: Box<dyn ErasedPayer>,
    budget: Budget,
    journal: Box<dyn ErasedJournal>,
    clock: Arc<dyn Clock>,
    on_progress: Option<Arc<OnProgress>>,
    settings: Settings,
}

impl PayLayerBuilder {
    /// Writes to this journal instead: for [`PayLayer::redeem_only`] above all.
    pub fn journal(mut self, journal: impl Journal) -> Self {
        self.journal = Box::new(journal);
        self
    }

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
    /// [`on_progress`](Self::on_progress).
    pub fn on_event(self, on_event: impl Fn(&PurchaseEvent) + Send + Sync + 'static) -> Self {
        self.on_progress(move |progress| on_event(&progress.event))
    }

    /// Told of every step of every purchase, with the purchase's name, in the calling task: be quick. Takes the place
    /// of [`on_event`](Self::on_event).
    pub fn on_progress(mut self, on_progress: impl Fn(&PurchaseProgress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(on_progress));
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
        let Self { payer, budget, journal, clock, on_progress, settings } = self;
        let registry = PurchaseRegistry::open(journal, Arc::clone(&clock)).await?;
        let settings = settings.bounded();
        Ok(PayLayer::new(ClientInner { payer, budget, registry, clock, on_progress, settings }))
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
