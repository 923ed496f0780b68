//! `Claim` and `Lease`: a request to a ledger, and its grant.

use std::{sync::Arc, time::Duration};

use super::settling::Settling;
use crate::protocol::{Amount, ChainTime, IntentKey, Payment, PurchaseKey};

/// How far the verifier's head may lag behind the chain.
const HEAD_LAG: Duration = Duration::from_secs(3 * 60);
/// How far two clocks may be apart.
pub(super) const CLOCK_SKEW: Duration = Duration::from_secs(2 * 60);

/// The longest lease.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(60 * 60);
/// A lease whose end is further away than this was granted before the clock was set back, and has expired.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) const FURTHEST_END: Duration = Duration::from_secs(LONGEST_LEASE.as_secs() + CLOCK_SKEW.as_secs());

/// How much later the transaction of a dropped block may be mined again and still count as the same payment, if it is
/// not shown in between: twice the twelve hours in which an OP-stack chain can drop unsafe blocks.
const MINED_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// A request to reserve an intent together with one of several candidate payments.
///
/// ```
/// use std::time::Duration;
/// use tower_x402::{ledger::Claim, protocol::{Amount, ChainTime, IntentKey, Network, Transfer, TxHash}};
/// let now = ChainTime::from_unix(1_795_280_400);
/// let paid = |position, units| {
///     Transfer::new(Network::BASE, TxHash::new([0xab; 32]), position)
///         .with_amount(Amount::from_base_units(units))
///         .with_block(22_000_000, now)
/// };
/// let claim = Claim::builder("demand-insights", IntentKey::new([7; 16]))
///     .payments(vec![paid(0, 700_000), paid(4, 490_000)])
///     .pay_until(now.after(Duration::from_secs(900)))
///     .head(now)
///     .build();
/// // The smallest is tried first.
/// assert_eq!(claim.payments()[0].position(), Some(4));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    resource: Arc<str>,
    intent: IntentKey,
    purchase: Option<PurchaseKey>,
    pay_until: ChainTime,
    payments: Vec<Payment>,
    head: ChainTime,
    max_payment_age: Duration,
    lease: Duration,
    /// How long the route keeps the answer that the claim may buy.
    answer_kept: Duration,
    covered: bool,
}

/// Builds a [`Claim`]. Defaults: no candidate, times at the beginning of chain time, a payment age of a day and a lease
/// of a minute.
#[derive(Clone, Debug)]
#[must_use]
pub struct ClaimBuilder(Claim);

impl ClaimBuilder {
    /// Adds candidates after those that were added before. They are tried from the smallest amount up; equal amounts in
    /// the order of the receipt.
    pub fn payments(mut self, payments: impl IntoIterator<Item = impl Into<Payment>>) -> Self {
        let mut payments: Vec<Payment> = payments.into_iter().map(Into::into).collect();
        payments.sort_by_key(|payment| (payment.amount(), payment.position()));
        match self.0.payments.is_empty() {
            true => self.0.payments = payments,
            false => self.0.payments.append(&mut payments),
        }
        self
    }

    /// Sets the purchase, if the client names one. A purchase buys one answer, by any one of its payments.
    pub fn purchase(mut self, purchase: impl Into<Option<PurchaseKey>>) -> Self {
        self.0.purchase = purchase.into();
        self
    }

    /// Sets until when, in chain time, a payment for the intent counts: the intent's expiry plus grace.
    pub const fn pay_until(mut self, time: ChainTime) -> Self {
        self.0.pay_until = time;
        self
    }

    /// Sets the chain time at which the candidates were judged.
    pub const fn head(mut self, head: ChainTime) -> Self {
        self.0.head = head;
        self
    }

    /// Sets the maximum age of a payment's block, in chain time.
    pub const fn max_payment_age(mut self, age: Duration) -> Self {
        self.0.max_payment_age = age;
        self
    }

    /// Sets how long a grant holds unless it is renewed: at most an hour.
    pub const fn lease(mut self, length: Duration) -> Self {
        self.0.lease = if length.as_nanos() > LONGEST_LEASE.as_nanos() { LONGEST_LEASE } else { length };
        self
    }

    /// Sets how long the route keeps the answer that the claim may buy. The sale is kept at least as long, since its
    /// answer is forgotten with it.
    pub(crate) const fn answer_kept(mut self, time: Duration) -> Self {
        self.0.answer_kept = time;
        self
    }

    /// Sets whether a deposit on the chain covers the candidates. Covered payments are no cheaper to make than settled
    /// ones, and need not wait behind these.
    pub(crate) const fn covered(mut self, covered: bool) -> Self {
        self.0.covered = covered;
        self
    }

    /// Returns the claim.
    #[must_use]
    pub fn build(self) -> Claim {
        self.0
    }
}

impl Claim {
    /// Returns a builder of a claim on the intent, for the resource of that name.
    pub fn builder(resource: impl Into<Arc<str>>, intent: IntentKey) -> ClaimBuilder {
        ClaimBuilder(Self {
            resource: resource.into(),
            intent,
            purchase: None,
            pay_until: ChainTime::default(),
            payments: Vec::new(),
            head: ChainTime::default(),
            max_payment_age: Duration::from_secs(24 * 60 * 60),
            lease: Duration::from_secs(60),
            answer_kept: Duration::ZERO,
            covered: false,
        })
    }

    /// Returns the seller's name of the resource.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the name, shared.
    pub(super) fn shared_resource(&self) -> Arc<str> {
        Arc::clone(&self.resource)
    }

    /// Returns the intent.
    #[must_use]
    pub const fn intent(&self) -> IntentKey {
        self.intent
    }

    /// Returns the purchase, if the client names one.
    #[must_use]
    pub const fn purchase(&self) -> Option<PurchaseKey> {
        self.purchase
    }

    /// Returns the candidates, in the order in which they are tried.
    #[must_use]
    pub fn payments(&self) -> &[Payment] {
        &self.payments
    }

    /// Removes and returns the candidates.
    pub(super) fn take_payments(&mut self) -> Vec<Payment> {
        std::mem::take(&mut self.payments)
    }

    /// Returns the same claim on these candidates, in this order.
    pub(super) fn with_payments(self, payments: Vec<Payment>) -> Self {
        Self { payments, ..self }
    }

    /// Returns the chain time at which the candidates were judged. The ledger forgets old records by it.
    #[must_use]
    pub const fn head(&self) -> ChainTime {
        self.head
    }

    /// Returns how long a grant holds unless it is renewed.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// Whether no candidate is settled, and none is covered. Such a claim costs its author only a signature, which may
    /// be worthless.
    #[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
    pub(super) fn is_unproven(&self) -> bool {
        !self.covered && !self.payments.iter().any(Payment::is_settled)
    }

    /// Returns how long, in chain time, a record of this intent and that payment must be kept: until age rules out that
    /// either returns. This includes a payment that a reorganisation drops and that is mined again up to a day later. A
    /// route that keeps its answer extends it by the answer's time.
    #[must_use]
    pub fn keep_until(&self, payment: &Payment) -> ChainTime {
        let margin = HEAD_LAG.saturating_add(2 * CLOCK_SKEW).saturating_add(MINED_AGAIN).saturating_add(self.lease);
        let age = self.max_payment_age.saturating_add(self.answer_kept);
        payment.time().max(self.pay_until).after(age.saturating_add(margin))
    }
}

/// A pair of intent and payment, held for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a lease that is neither committed nor released blocks its payment until it runs out"]
pub struct Lease {
    intent: IntentKey,
    /// Shared, because many parts hold the lease, and the receipt has the same payment.
    payment: Arc<Payment>,
    fence: u64,
    length: Duration,
    settling: Option<Box<Settling>>,
    /// Whether the payment was unsettled at the grant.
    unsettled: bool,
    /// Until when, in chain time, a payment for the intent counts.
    pay_until: ChainTime,
    keep_until: ChainTime,
    announce: bool,
    /// The maximum that the payer allowed, if the seller charged a part of it.
    maximum: Option<Amount>,
}

impl Lease {
    /// Returns the lease for a ledger that grants `claim` on `payment`. No two grants of one ledger have the same
    /// `fence`.
    pub fn new(claim: &Claim, payment: &Payment, fence: u64) -> Self {
        Self {
            intent: claim.intent,
            payment: Arc::new(payment.clone()),
            fence,
            length: claim.lease,
            settling: None,
            unsettled: !payment.is_settled(),
            pay_until: claim.pay_until,
            keep_until: claim.keep_until(payment),
            announce: false,
            maximum: None,
        }
    }

    /// Returns the same lease, whose sale is recorded with this charge, in base units: the part that the seller takes
    /// of the amount that the payer allowed. A larger charge, or a charge of a payment that was settled at the
    /// reservation, changes nothing. The last charge counts.
    ///
    /// ```
    /// use tower_x402::{
    ///     ledger::{Claim, Lease},
    ///     protocol::{Address, Amount, IntentKey, Network, SignedTransfer},
    /// };
    /// let (token, payer) = (Address::new([0x83; 20]), Address::new([0x11; 20]));
    /// let allowed = SignedTransfer::new(Network::BASE, token, payer, [0x42; 32]).with_amount(Amount::from_base_units(100_000));
    /// let claim = Claim::builder("complete", IntentKey::new([7; 16])).payments([allowed]).build();
    /// let lease = Lease::new(&claim, &claim.payments()[0], 1).charging(Amount::from_base_units(1_858));
    /// assert_eq!(lease.payment().amount(), Amount::from_base_units(1_858));
    /// assert_eq!(lease.maximum(), Some(Amount::from_base_units(100_000)));
    /// ```
    pub fn charging(mut self, charge: Amount) -> Self {
        let maximum = self.maximum.unwrap_or(self.payment.amount());
        if self.unsettled && charge <= maximum {
            self.maximum = Some(maximum);
            self.payment = Arc::new(Arc::unwrap_or_clone(self.payment).charged(charge));
        }
        self
    }

    /// Returns the maximum that the payer allowed, in base units, if the seller [charges](Self::charging) a part of it;
    /// `None` if the whole payment is taken.
    #[must_use]
    pub const fn maximum(&self) -> Option<Amount> {
        self.maximum
    }

    /// Returns the same lease; its commit marks the sale for [announcement](super::Announcements).
    pub fn announcing(self) -> Self {
        Self { announce: true, ..self }
    }

    /// Returns whether the commit marks the sale.
    #[must_use]
    pub const fn is_to_announce(&self) -> bool {
        self.announce
    }

    /// Sets the record of a begun settlement for this intent and this payment, under this lease or an earlier one.
    pub fn with_settling(mut self, settling: Option<Settling>) -> Self {
        self.settling = settling.map(Box::new);
        self
    }

    /// Returns the same lease with its payment in the form that was [settled](Payment::is_settled) after the grant.
    /// Another payment, or an unsettled one, changes nothing.
    ///
    /// ```
    /// use tower_x402::{
    ///     ledger::{Claim, Lease},
    ///     protocol::{Address, Binding, ChainTime, IntentKey, Network, SignedTransfer, Transfer, TxHash},
    /// };
    /// let (token, payer, nonce) = (Address::new([0x83; 20]), Address::new([0x11; 20]), [0x42; 32]);
    /// let signed = SignedTransfer::new(Network::BASE, token, payer, nonce);
    /// let claim = Claim::builder("demand-insights", IntentKey::new([7; 16])).payments([signed]).build();
    /// let mined = Transfer::new(Network::BASE, TxHash::new([0xab; 32]), 0)
    ///     .with_token(token)
    ///     .with_payer(payer)
    ///     .with_block(22_000_000, ChainTime::from_unix(1_795_280_400))
    ///     .with_binding(Binding::none().with_nonce(nonce));
    /// let lease = Lease::new(&claim, &claim.payments()[0], 1).settled_by(mined);
    /// assert_eq!(lease.payment().block_number(), Some(22_000_000));
    /// ```
    pub fn settled_by(mut self, payment: impl Into<Payment>) -> Self {
        let payment = payment.into();
        if self.unsettled && payment.is_settled() && payment.id() == self.payment.id() {
            let counted = |payment: &Payment| payment.time().max(self.pay_until).unix();
            let later = counted(&payment).saturating_sub(counted(&self.payment));
            // Never shortens the time of the grant.
            self.keep_until = self.keep_until.after(Duration::from_secs(later));
            self.payment = Arc::new(payment);
        }
        self
    }

    /// The payment to record instead of the reserved one, if it has been settled since.
    #[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
    pub(super) fn settled_since(&self) -> Option<&Payment> {
        Some(&*self.payment).filter(|payment| self.unsettled && payment.is_settled())
    }

    /// Returns the intent that is held.
    #[must_use]
    pub const fn intent(&self) -> IntentKey {
        self.intent
    }

    /// Returns the held payment, in its settled form after [`settled_by`](Self::settled_by).
    #[must_use]
    pub fn payment(&self) -> &Payment {
        &self.payment
    }

    /// Returns the payment, shared.
    pub(crate) const fn shared_payment(&self) -> &Arc<Payment> {
        &self.payment
    }

    /// Returns the number that distinguishes this holder from every other, earlier or later.
    #[must_use]
    pub const fn fencing_token(&self) -> u64 {
        self.fence
    }

    /// Returns the record of a settlement that was begun for this intent and this payment under an earlier lease, as of
    /// this lease's grant. The payment may have been settled since. `None` if no settlement was begun, or if none can
    /// have used the payment.
    ///
    /// ```
    /// use tower_x402::{
    ///     ledger::{Claim, Lease, Settling},
    ///     protocol::{ChainTime, IntentKey, Network, Transfer, TxHash},
    /// };
    /// let paid = Transfer::new(Network::BASE, TxHash::new([0xab; 32]), 0);
    /// let claim = Claim::builder("demand-insights", IntentKey::new([7; 16])).payments([paid]).build();
    /// let begun = Settling::new([9; 16], ChainTime::from_unix(1_795_280_400));
    /// let lease = Lease::new(&claim, &claim.payments()[0], 1).with_settling(Some(begun));
    /// assert_eq!(lease.settling(), Some(&begun));
    /// ```
    #[must_use]
    pub fn settling(&self) -> Option<&Settling> {
        self.settling.as_deref()
    }

    /// Returns until when, in chain time, its sale must be kept: the later of the [`keep_until`](Claim::keep_until)
    /// times of the granted and the settled payment.
    #[must_use]
    pub const fn keep_until(&self) -> ChainTime {
        self.keep_until
    }

    /// Returns how long the lease lasts from its grant or its last renewal.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.length
    }
}
