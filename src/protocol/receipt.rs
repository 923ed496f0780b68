//! `Receipt`: payer, amount and transfer of a payment.

use std::sync::Arc;

use super::{Address, Amount, ChainTime, IntentId, Network, Payment, PaymentId, ProvedBy, TxHash};

/// The payment for an answer, for the handler. The layer puts it into the request's extensions.
///
/// **A receipt without a [`transaction`](Self::transaction) is not money.** It is a signed payment, which the layer settles only once
/// the handler has answered, and which can still fail: the payer may have emptied the wallet by then. A handler with side effects,
/// such as a top-up, an order or a mail, must not act on it.
///
/// The payer is the account that sent the money. [`proved_by`](Self::proved_by) tells whether the client has proved to
/// be that payer: with [`ProvedBy::Nothing`], the receipt does not authenticate the client.
///
/// A handler under test gets one like this:
///
/// ```
/// use tower_x402::{Receipt, protocol::{Address, Amount, Asset, ChainTime, IntentId, Network, Transfer, TxHash}};
/// let transfer = Transfer::new(Network::BASE, TxHash::new([0xab; 32]), 3)
///     .with_token(Asset::USDC_BASE.contract())
///     .with_payer(Address::new([0x11; 20]))
///     .with_recipient(Address::new([0x5a; 20]))
///     .with_amount(Amount::from_base_units(490_000))
///     .with_block(22_000_000, ChainTime::from_unix(1_795_280_400));
/// let receipt = Receipt::new("demand-insights", IntentId::new("AUbX-9_k").unwrap(), transfer);
/// assert_eq!(receipt.payment_id().to_string(), format!("eip155:8453/0x{}/3", "ab".repeat(32)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    resource: Arc<str>,
    intent: IntentId,
    payment: Arc<Payment>,
    proved_by: ProvedBy,
    pass: Option<PassCall>,
    maximum: Option<Amount>,
}

/// The pass by which a call was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassCall {
    /// The seller's name of the pass.
    pub name: Arc<str>,
    /// The number of the call: how many calls of this pass were started up to and including this one, whatever their
    /// outcome.
    pub number: u64,
}

impl Receipt {
    /// Returns a receipt for that payment, redeemed without a proof of the payer. The layer makes receipts; this is for
    /// a service's tests.
    #[must_use]
    pub fn new(resource: impl Into<Arc<str>>, intent: IntentId, payment: impl Into<Payment>) -> Self {
        Self::of(resource.into(), intent, Arc::new(payment.into()))
    }

    /// Returns the receipt of a shared payment.
    pub(crate) const fn of(resource: Arc<str>, intent: IntentId, payment: Arc<Payment>) -> Self {
        Self { resource, intent, payment, proved_by: ProvedBy::Nothing, pass: None, maximum: None }
    }

    /// Sets how the redemption proved that it comes from the payer.
    #[must_use]
    pub const fn with_proof(mut self, proved_by: ProvedBy) -> Self {
        self.proved_by = proved_by;
        self
    }

    /// Marks it as the receipt of a call by a pass, which the payment bought before.
    #[must_use]
    pub fn with_pass(mut self, name: impl Into<Arc<str>>, number: u64) -> Self {
        self.pass = Some(PassCall { name: name.into(), number });
        self
    }

    /// Returns the pass by which the request was made; `None` if the request was paid for by itself.
    ///
    /// With a pass, all other parts of the receipt describe the payment that bought the pass, and
    /// [`intent`](Self::intent) identifies the pass. Payment and number together are the idempotency key of side
    /// effects.
    #[must_use]
    pub const fn pass(&self) -> Option<&PassCall> {
        self.pass.as_ref()
    }

    /// Sets the maximum that the handler may charge.
    #[must_use]
    pub const fn with_maximum(mut self, maximum: Amount) -> Self {
        self.maximum = Some(maximum);
        self
    }

    /// Returns the maximum that the handler may [charge](crate::Charge), in base units; `None` if the payer pays a
    /// fixed amount.
    ///
    /// Until the handler has answered, [`amount`](Self::amount) equals the maximum. If an answer was charged before a
    /// crash, `amount` is that charge and no longer changes.
    #[must_use]
    pub const fn maximum(&self) -> Option<Amount> {
        self.maximum
    }

    /// Replaces a signed payment by its settled form.
    pub(crate) fn settled_by(mut self, payment: Arc<Payment>) -> Self {
        self.payment = payment;
        self
    }

    /// Returns how the redemption proved that it comes from the payer.
    #[must_use]
    pub const fn proved_by(&self) -> ProvedBy {
        self.proved_by
    }

    /// Returns the id of this payment.
    ///
    /// It does not prove that the money came: check [`transaction`](Self::transaction) first. It is the idempotency
    /// key of side effects, since a handler may be started several times for one payment.
    #[must_use]
    pub fn payment_id(&self) -> PaymentId {
        self.payment.id()
    }

    /// Returns the seller's name of the resource.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the intent of the quote.
    #[must_use]
    pub const fn intent(&self) -> &IntentId {
        &self.intent
    }

    /// Returns the account that sent the money.
    #[must_use]
    pub fn payer(&self) -> Address {
        self.payment.payer()
    }

    /// Returns the account that received it.
    #[must_use]
    pub fn recipient(&self) -> Address {
        self.payment.recipient()
    }

    /// Returns the token contract.
    #[must_use]
    pub fn token(&self) -> Address {
        self.payment.token()
    }

    /// Returns the amount that was sent, in base units; it may be more than the price.
    #[must_use]
    pub fn amount(&self) -> Amount {
        self.payment.amount()
    }

    /// Returns the chain.
    #[must_use]
    pub fn network(&self) -> Network {
        self.payment.network()
    }

    /// Returns the transaction; `None` for a signed payment, which is settled once the handler has answered. Without
    /// a transaction, no money has moved yet.
    #[must_use]
    pub fn transaction(&self) -> Option<TxHash> {
        self.payment.transaction()
    }

    /// Returns the position of the transfer's log in the transaction's receipt, from 0; `None` for a signed payment.
    #[must_use]
    pub fn position(&self) -> Option<u32> {
        self.payment.position()
    }

    /// Returns the time of its block, or the time at which a signed payment was shown.
    #[must_use]
    pub fn block_time(&self) -> ChainTime {
        self.payment.time()
    }

    /// Returns the height of its block; `None` for a signed payment.
    #[must_use]
    pub fn block_number(&self) -> Option<u64> {
        self.payment.block_number()
    }

    /// Returns the payment itself.
    #[must_use]
    pub fn payment(&self) -> &Payment {
        &self.payment
    }
}
