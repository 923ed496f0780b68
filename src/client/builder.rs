//! `PayLayerBuilder`: how a layer pays.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    Budget, Journal, JournalError, MemoryJournal, PayLayer, Payer, PaymentMethod, ProofIn, PurchaseEvent,
    PurchaseProgress, Standard,
    flow::journal::ErasedJournal,
    flow::progress::OnProgress,
    flow::registry::PurchaseRegistry,
    inner::ClientInner,
    payer::{ErasedPayer, NoPayer},
    settings::Settings,
};
use crate::clock::{Clock, SystemClock};

impl PayLayer {
    /// Returns a builder for a layer that pays with `payer`, within `budget`, and writes to `journal` before any money moves.
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

    /// Returns a builder for a layer without a wallet, which redeems payments that were made elsewhere. Each request
    /// names its transaction in an [`AlreadyPaid`](super::AlreadyPaid) extension. Without the extension, a request with
    /// a price ends in [`PayErrorKind::Declined`](super::PayErrorKind::Declined).
    ///
    /// It remembers its purchases until the process ends, or for good with a [`journal`](PayLayerBuilder::journal).
    ///
    /// ```
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

/// Builds a [`PayLayer`]. Every setting has a default.
///
/// ```
/// # #[cfg(feature = "test-util")] {
/// # use tower_x402::{protocol::{Address, Asset, ChainTime}, testing::*};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use std::time::Duration;
/// use tower_x402::client::{Budget, MemoryJournal, PayLayer, ProofIn};
/// # let wallet = ScriptedPayer::new(ScriptedVerifier::new(ChainTime::from_unix(0)), Address::new([2; 20]));
///
/// let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment("0.50").per_day("10").build()?;
/// let layer = PayLayer::builder(wallet, budget, MemoryJournal::new())
///     .proof_in(ProofIn::Body)
///     .patience(Duration::from_secs(60))
///     .on_progress(|progress| println!("{} {}", progress.purchase, progress.event.name()))
///     .build()
///     .await?;
/// assert!(layer.unfinished().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Replaces the journal: for [`PayLayer::redeem_only`], which otherwise remembers nothing when the process ends.
    pub fn journal(mut self, journal: impl Journal) -> Self {
        self.journal = Box::new(journal);
        self
    }

    /// Sets where proofs travel. Default: in the header.
    pub const fn proof_in(mut self, place: ProofIn) -> Self {
        self.settings.proof_in = place;
        self
    }

    /// Sets the method if a seller takes several at the same price. Default:
    /// [authorization](PaymentMethod::Authorization), which costs no gas and no wait.
    ///
    /// A cheaper method always goes first. If the payer cannot use the preferred method, or the budget forbids it, the
    /// layer uses another.
    ///
    /// Only with [`PaymentMethod::Channel`], the layer opens a payment channel at each seller that offers channels, and
    /// pays by it if that costs no more than another method. A channel locks a [deposit](Self::deposit_for) until it is
    /// closed: see [channels](crate::guide::channels#for-payers).
    pub const fn prefer(mut self, method: PaymentMethod) -> Self {
        self.settings.prefer = method;
        self
    }

    /// Sets how many answers a deposit into a payment channel should pay for. Default: 10. A deposit is at least what
    /// the seller asks for, and smaller than this if the [budget](super::BudgetBuilder::per_deposit) leaves less.
    pub const fn deposit_for(mut self, answers: u32) -> Self {
        self.settings.deposit_for = answers;
        self
    }

    /// Sets the standards in which authorizations are signed, in order of preference at equal prices. Default:
    /// [`Standard::ALL`], so MPP is used if it is cheaper, or the only offer.
    ///
    /// With none, the layer pays nothing by authorization.
    pub fn standards(mut self, standards: impl IntoIterator<Item = Standard>) -> Self {
        self.settings.standards = standards.into_iter().collect();
        self
    }

    /// Sets how many blocks, including its own, must confirm a transfer before it is redeemed. Default: 1, as sellers
    /// ask.
    pub const fn confirmations(mut self, blocks: u64) -> Self {
        self.settings.confirmations = blocks;
        self
    }

    /// Sets the interval at which the chain is asked about a sent transfer. Default: 1 s.
    pub const fn poll_every(mut self, pause: Duration) -> Self {
        self.settings.poll_every = pause;
        self
    }

    /// Sets how long a transfer waits for a block before it is replaced by one with a higher fee. Default: 30 s, at
    /// most five times.
    pub const fn bump_after(mut self, pause: Duration) -> Self {
        self.settings.bump_after = pause;
        self
    }

    /// Sets how long a call waits. Default: 15 min.
    ///
    /// It applies twice. First from the call until money moves (the seller's first answer, waiting for the payer,
    /// preparing the transfer): then the call ends in [`PayErrorKind::TimedOut`](super::PayErrorKind::TimedOut), and
    /// nothing was paid. Second from the payment until the answer: then the call ends in an error that names the
    /// payment. Neither the approval hook nor the answer's body counts.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// Sets how long one attempt to redeem waits for the answer's head. Default: 11 min, because sellers hold a request
    /// for up to ten. Then the attempt is repeated, because the seller may still be working on it.
    pub const fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.settings.answer_timeout = timeout;
        self
    }

    /// Sets the longest pause that a seller's `Retry-After` can cause. Default: 60 s.
    pub const fn longest_pause(mut self, pause: Duration) -> Self {
        self.settings.longest_pause = pause;
        self
    }

    /// Sets how much time a quote must leave for a payment, in whole seconds. Default: 10 s.
    ///
    /// A payment made at the last moment may be mined only after the quote has expired. Such quotes are declined, both
    /// when they arrive and before the payment is signed.
    pub const fn least_time_to_pay(mut self, time: Duration) -> Self {
        self.settings.least_time_to_pay = time;
        self
    }

    /// Sets how long the layer keeps a mined payment without an answer, or with an unread one. Default: 25 h. Sellers
    /// accept payments for a day unless configured otherwise; the extra hour covers clock differences. A payment of a
    /// [`PassLayer`](super::PassLayer) for a pass is kept for at least 30 days, because its seller keeps the pass for
    /// that long.
    ///
    /// After that it is closed as lost, and the same request pays anew. It is closed during a purchase at a seller with
    /// a `Pay` header, whose quote shows that this machine's clock is right; demands of other dialects contain no time.
    /// Set it higher for sellers that accept older payments.
    pub const fn payment_age(mut self, age: Duration) -> Self {
        self.settings.payment_age = age;
        self
    }

    /// Sets the size, in bytes, up to which an answer is read to its end before it is handed on. Default: 256 KiB; at
    /// most 16 MiB; 0 reads nothing ahead.
    ///
    /// After a broken answer, or a crash during its reading, the layer asks again with the same payment: a seller that
    /// keeps its answers delivers it again. Otherwise the call ends in
    /// [`PayErrorKind::AnswerLost`](super::PayErrorKind::AnswerLost). Larger answers, and answers that take longer than two
    /// seconds, are streamed; if such an answer breaks off, the same request asks for it again.
    pub const fn read_ahead(mut self, bytes: usize) -> Self {
        self.settings.read_ahead = bytes;
        self
    }

    /// Sets how long the body of an answer may take from its head to its end. Default: no limit, because a stream may
    /// last for hours. A body that takes longer ends in [`BodyError::TimedOut`](super::BodyError::TimedOut); its
    /// purchase stays open, and the same request asks for the answer again.
    ///
    /// [`patience`](Self::patience) and [`answer_timeout`](Self::answer_timeout) limit the time until the head. A
    /// request sets its own limit with [`Deadline`](super::Deadline).
    pub const fn body_timeout(mut self, timeout: Duration) -> Self {
        self.settings.body_timeout = Some(timeout);
        self
    }

    /// Keeps each purchase open until [`PayLayer::acknowledge`], even after its answer was read to the end, for callers
    /// that must not lose an answer between reading and storing it. Default: off; the end of the body closes the
    /// purchase.
    pub const fn acknowledged_by_caller(mut self) -> Self {
        self.settings.acknowledged_by_caller = true;
        self
    }

    /// Calls `on_event` for each step of each purchase, in the calling task, which it must not block. Replaces
    /// [`on_progress`](Self::on_progress).
    pub fn on_event(self, on_event: impl Fn(&PurchaseEvent) + Send + Sync + 'static) -> Self {
        self.on_progress(move |progress| on_event(&progress.event))
    }

    /// Calls `on_progress` for each step of each purchase, with the purchase's name, in the calling task, which it must not
    /// block. Replaces [`on_event`](Self::on_event).
    pub fn on_progress(mut self, on_progress: impl Fn(&PurchaseProgress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(on_progress));
        self
    }

    /// Sets the clock, for the budget's day and a quote's expiry. Default: the machine's.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Reads unfinished purchases and past spending from the journal, and builds the layer.
    ///
    /// # Errors
    /// [`JournalError`] if the journal cannot be read in full: nothing is paid then.
    pub async fn build(self) -> Result<PayLayer, JournalError> {
        let Self { payer, budget, journal, clock, on_progress, settings } = self;
        let registry = PurchaseRegistry::load(journal, Arc::clone(&clock)).await?;
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
