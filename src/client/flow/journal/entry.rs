//! `JournalEntry`: one purchase, as the journal keeps it.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{channel::ChannelRecord, charge::PermitCharge, signed::Signed};
use crate::{
    client::{
        PaymentMethod, PreparedAuthorization, PreparedPermit, PreparedTransfer, PurchaseId, Standard,
        payer::PreparedVoucher,
    },
    protocol::{
        Address, Amount, ChainTime, IntentId, Network, Quote, TxHash, permit2::SignedPermit, v2::SignedAuthorization,
    },
};

/// How long a closed purchase is kept after [`JournalEntry::counts_from`]: the day that a budget covers, and an hour.
pub(crate) const RETENTION: Duration = Duration::from_secs(25 * 60 * 60);

/// How long a seller keeps a pass's answer after the sale.
const PASS_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The state of a purchase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PurchaseState {
    /// A transfer is recorded and may have been sent; or an authorization, a permit or a voucher is recorded and may
    /// have been shown and used.
    Paying,
    /// The transfer happened; the answer has not arrived yet.
    Redeeming,
    /// The transfer happened and is not known to be spent; or the authorization or permit was shown and is not known to
    /// be used. The seller answered without confirming the payment. It is offered for the next quote of the same
    /// request that it covers, and for another request to the same seller at exactly the same price; a permit only for
    /// the same request.
    Unspent,
    /// The answer arrived.
    Answered,
    /// The seller refused the payment for good, it is too old for any seller, or it was abandoned.
    Refused,
    /// According to the chain, nothing was transferred and nothing ever will be.
    Void,
}

impl PurchaseState {
    /// Returns whether the purchase is unfinished: it is finished before the same request is paid again.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Paying | Self::Redeeming | Self::Unspent)
    }
}

/// One purchase, as a journal keeps it. [`to_record`](Self::to_record) returns the text to store.
///
/// It may hold signed transactions, authorizations and permits, which a thief could send, though they pay only the
/// accounts that they name. It never holds a key. It also holds intent, secret and transaction hash, which together are
/// a bearer proof: the first to present them gets the answer. Keep it where only the payer can read it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JournalEntry {
    /// The purchase's name.
    pub id: PurchaseId,
    /// When the purchase began, by the payer's clock.
    pub at: ChainTime,
    /// Its state.
    pub state: PurchaseState,
    /// The host that the request went to, with the port.
    pub host: String,
    /// Method and path of the request, without the query, which may hold secrets.
    pub request: String,
    /// The request's fingerprint: 128 bits of a hash over method, address and body.
    pub(crate) fingerprint: String,
    /// The intent under which the payment is redeemed; empty if the seller names none, and takes only signed payments.
    pub intent: String,
    /// The secret behind the payment's [tag](crate::protocol::PaymentTag). For a transfer it is the original intent,
    /// which stays when a fresh one replaces `intent`. For an authorization it is its own secret, but in MPP, where the
    /// nonce is the hash of a challenge, it is the challenge's id. A permit has none. `None` if this client prepared no
    /// payment.
    pub secret: Option<String>,
    /// The latest time at which a payment counts for that intent.
    pub expiry: ChainTime,
    /// The account that is paid.
    pub recipient: Address,
    /// The chain.
    pub network: Network,
    /// Whether the network differs from the one that the seller's `Pay` names: a proof then names it.
    pub(crate) is_elsewhere: bool,
    /// The amount, in base units; of a permit in the scheme `upto`, the maximum.
    pub amount: Amount,
    /// The decimals of the amount.
    pub decimals: u8,
    /// The prepared payment.
    pub(crate) payment: JournalPayment,
    /// The transaction that paid, once it is known to be mined.
    pub transaction: Option<TxHash>,
    /// When its transfer was found in a block or found impossible, or its authorization bought an answer, by the
    /// payer's clock. The day for which it counts against the budget begins here.
    pub settled: Option<ChainTime>,
    /// Whether the caller got a successful answer (2xx) for it, without a confirmation that the payment was taken.
    pub(crate) delivered: bool,
    /// How many calls ended because the seller answered the proof with another bill.
    pub(crate) billed: u32,
    /// What was charged of a permit, once the seller has stated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) charged: Option<PermitCharge>,
    /// Whether it buys a pass for a pass layer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_pass: bool,
}

/// The prepared payment of a purchase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub(crate) enum JournalPayment {
    /// None yet, or a payment made elsewhere.
    #[default]
    None,
    /// The purchase's transfers, oldest first; at most one of them can be mined.
    Transfer(Vec<PreparedTransfer>),
    /// The one authorization that was signed.
    Authorization {
        /// The authorization, as shown now.
        authorized: PreparedAuthorization,
        /// Every transaction prepared to cancel it, oldest first. Of those with the same nonce, at most one can be
        /// mined.
        cancellations: Vec<PreparedTransfer>,
    },
    /// The purchase's permit, as shown now.
    Permit(PreparedPermit),
    /// The purchase's voucher, as shown now.
    Voucher(Box<PreparedVoucher>),
    /// A channel that pays for purchases; such an entry is no purchase itself.
    Channel(Box<ChannelRecord>),
}

/// Omits intent and secret, which together with the transaction are the proof.
impl fmt::Debug for JournalEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalEntry")
            .field("id", &self.id)
            .field("at", &self.at)
            .field("state", &self.state)
            .field("host", &self.host)
            .field("request", &self.request)
            .field("recipient", &self.recipient)
            .field("network", &self.network)
            .field("amount", &self.amount)
            .field("payment", &self.payment)
            .field("transaction", &self.transaction)
            .finish_non_exhaustive()
    }
}

impl JournalEntry {
    /// Returns the transaction to look for: the one that paid, or the last one prepared.
    #[must_use]
    pub fn transaction(&self) -> Option<TxHash> {
        self.transaction.or_else(|| self.transfers().iter().rev().find_map(PreparedTransfer::transaction))
    }

    /// Returns every transfer that was prepared for it, oldest first.
    #[must_use]
    pub fn transfers(&self) -> &[PreparedTransfer] {
        if let JournalPayment::Transfer(transfers) = &self.payment { transfers } else { &[] }
    }

    /// Returns the authorization that was prepared for it, if it is paid in that way.
    #[must_use]
    pub(crate) const fn authorized(&self) -> Option<&PreparedAuthorization> {
        if let JournalPayment::Authorization { authorized, .. } = &self.payment { Some(authorized) } else { None }
    }

    /// Returns every transaction that was prepared to cancel its authorization, oldest first.
    #[must_use]
    pub fn cancellations(&self) -> &[PreparedTransfer] {
        if let JournalPayment::Authorization { cancellations, .. } = &self.payment { cancellations } else { &[] }
    }

    /// Returns whether a journal must still have it at `now`: while it is open, and for 25 hours after
    /// [`counts_from`](Self::counts_from).
    #[must_use]
    pub fn is_kept_at(&self, now: ChainTime) -> bool {
        self.state.is_open() || now.unix() < self.counts_from().after(RETENTION).unix()
    }

    /// Returns when the day begins for which it counts against the budget: the time when it was settled, or when the
    /// purchase began. If it is paid by a signature that no transaction is known to have used, the day begins no
    /// earlier than that signature's end. Before it is settled it counts however old it is.
    #[must_use]
    pub fn counts_from(&self) -> ChainTime {
        let settled = self.settled.unwrap_or(self.at).max(self.at);
        if let JournalPayment::Channel(_) = self.payment {
            return settled;
        }
        let is_known = self.transaction.is_some() || self.charged.is_some_and(|charged| charged.is_certain);
        let outstanding = self.signed().filter(|_| !is_known);
        outstanding.map_or(settled, |signed| settled.max(signed.valid_before()))
    }

    /// Returns what counts against the budget: the amount, or the charge of a permit once the chain has confirmed it.
    /// For a voucher, its deposit.
    pub(crate) fn counted(&self) -> Amount {
        if let JournalPayment::Voucher(vouched) = &self.payment {
            // The voucher is paid from the deposit. A deposit that was made counts however the purchase ended.
            let is_void = self.state == PurchaseState::Void && self.transaction.is_none();
            return if is_void { Amount::ZERO } else { vouched.deposited() };
        }
        self.charged.filter(|charged| charged.is_certain).map_or(self.amount, |charged| charged.amount)
    }

    /// Returns the seller's stated charge of a maximum, in base units; `None` for a fixed price, or before a statement.
    /// An impossible statement counts as the maximum.
    #[must_use]
    pub fn charge(&self) -> Option<Amount> {
        self.charged.map(|charged| charged.amount)
    }

    /// Returns the permit that was signed for it, if it is paid in that way.
    #[must_use]
    pub fn permit(&self) -> Option<&SignedPermit> {
        Some(&self.permitted()?.signed)
    }

    pub(crate) const fn permitted(&self) -> Option<&PreparedPermit> {
        if let JournalPayment::Permit(permitted) = &self.payment { Some(permitted) } else { None }
    }

    pub(crate) fn vouched(&self) -> Option<&PreparedVoucher> {
        if let JournalPayment::Voucher(vouched) = &self.payment { Some(vouched) } else { None }
    }

    pub(crate) fn channel_record(&self) -> Option<&ChannelRecord> {
        if let JournalPayment::Channel(channel) = &self.payment { Some(channel) } else { None }
    }

    /// Returns whether this is the record of a payment channel, and no purchase.
    #[must_use]
    pub const fn is_channel(&self) -> bool {
        matches!(self.payment, JournalPayment::Channel(_))
    }

    /// Returns its signed payment, which the seller settles.
    pub(crate) const fn signed(&self) -> Option<Signed<'_>> {
        match &self.payment {
            JournalPayment::Authorization { authorized, .. } => Some(Signed::Authorization(authorized)),
            JournalPayment::Permit(permitted) => Some(Signed::Permit(permitted)),
            JournalPayment::Voucher(vouched) => Some(Signed::Voucher(vouched)),
            JournalPayment::Transfer(_) | JournalPayment::Channel(_) | JournalPayment::None => None,
        }
    }

    /// Returns the time before which its signed payment can be used.
    pub(crate) fn valid_before(&self) -> Option<ChainTime> {
        let end = self.signed()?.valid_before();
        Some(end).filter(|end| end.unix() > 0)
    }

    /// Returns the authorization that was signed for it, if it is paid in that way.
    #[must_use]
    pub fn authorization(&self) -> Option<&SignedAuthorization> {
        Some(&self.authorized()?.signed)
    }

    /// Returns the payment method.
    #[must_use]
    pub fn paid_by(&self) -> PaymentMethod {
        match self.signed() {
            Some(Signed::Authorization(_)) => PaymentMethod::Authorization,
            Some(Signed::Permit(_)) => PaymentMethod::Permit,
            Some(Signed::Voucher(_)) => PaymentMethod::Channel,
            None => PaymentMethod::Transfer,
        }
    }

    /// Returns the standard in which its signed payment is shown; `None` if it is paid by a transfer.
    #[must_use]
    pub fn standard(&self) -> Option<Standard> {
        self.signed().map(|signed| Standard::of_message(signed.message()))
    }

    /// Returns the nonce of its authorization, if that is the hash of an MPP challenge.
    pub(crate) fn challenge_hash(&self) -> Option<[u8; 32]> {
        let signed = self.authorization().filter(|_| self.standard() == Some(Standard::Mpp))?;
        Some(signed.authorization.nonce)
    }

    /// Returns whether its proof is worthless for another request: the seller's challenge, or a permit's charge, may be
    /// for this request only.
    pub(crate) fn is_for_its_request(&self) -> bool {
        self.is_pass
            || self.permitted().is_some()
            || self.vouched().is_some()
            || (self.is_shown() && self.standard() == Some(Standard::Mpp))
    }

    /// Returns the current transactions, at most one of which can be mined: its transfers, or the latest cancellations
    /// of its authorization.
    pub(crate) fn current(&self) -> &[PreparedTransfer] {
        if self.signed().is_none() {
            return self.transfers();
        }
        self.cancellations().chunk_by(|one, next| one.nonce() == next.nonce()).next_back().unwrap_or_default()
    }

    /// Returns the highest cost of its transactions. Of those with the same nonce, one is mined.
    pub(crate) fn gas(&self) -> Amount {
        let dearest = |same: &[PreparedTransfer]| same.iter().map(|one| one.fee).max().unwrap_or(Amount::ZERO);
        let cancellations = self.cancellations().chunk_by(|one, next| one.nonce() == next.nonce()).map(dearest);
        cancellations.fold(dearest(self.transfers()), |sum, fee| sum.checked_add(fee).unwrap_or(Amount::MAX))
    }

    /// Returns the token of the payment; `None` if this client prepared none.
    #[must_use]
    pub fn token(&self) -> Option<Address> {
        self.paid_with().map(|(token, _)| token)
    }

    /// Returns token and account of the payment: of the mined transfer, or the last one.
    pub(crate) fn paid_with(&self) -> Option<(Address, Address)> {
        if let Some(signed) = self.signed() {
            return Some((signed.token(), signed.payer()));
        }
        self.transfer_of(self.transaction).map(|transfer| (transfer.token, transfer.payer))
    }

    /// Returns the transfer that this transaction made; the last one for an unknown transaction.
    pub(crate) fn transfer_of(&self, transaction: Option<TxHash>) -> Option<&PreparedTransfer> {
        let is_it = |transfer: &&PreparedTransfer| transaction.is_some() && transfer.transaction() == transaction;
        self.transfers().iter().find(is_it).or(self.transfers().last())
    }

    /// Adds a transfer or a cancellation, which replaces the earlier ones on the chain.
    pub(crate) fn push_prepared(&mut self, prepared: PreparedTransfer) {
        match &mut self.payment {
            JournalPayment::Transfer(transfers) => transfers.push(prepared),
            JournalPayment::Authorization { cancellations, .. } => cancellations.push(prepared),
            // These need no transaction of the payer.
            JournalPayment::Permit(_) | JournalPayment::Voucher(_) | JournalPayment::Channel(_) => {}
            JournalPayment::None => self.payment = JournalPayment::Transfer(vec![prepared]),
        }
    }

    /// Returns the next transaction to send: the last transfer, or the last cancellation.
    pub(crate) fn last_prepared_mut(&mut self) -> Option<&mut PreparedTransfer> {
        match &mut self.payment {
            JournalPayment::Transfer(prepared) | JournalPayment::Authorization { cancellations: prepared, .. } => {
                prepared.last_mut()
            }
            JournalPayment::Permit(_)
            | JournalPayment::Voucher(_)
            | JournalPayment::Channel(_)
            | JournalPayment::None => None,
        }
    }

    /// Returns whether the proof is the signed message: the payment is not settled, or the seller accepts no other
    /// proof.
    pub(crate) fn is_shown(&self) -> bool {
        self.signed().is_some() && (self.transaction.is_none() || self.intent.is_empty())
    }

    /// Returns whether the money of an [idle](Self::is_idle) purchase has certainly moved: it is a mined transfer, a
    /// used signature, or a voucher that was sold.
    pub(crate) fn has_moved(&self) -> bool {
        self.signed().is_none() || self.is_settled() || (self.vouched().is_some() && self.is_sold())
    }

    /// Returns whether it only waits for the same request, which uses its payment or answer, or until it is too old.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state, PurchaseState::Redeeming | PurchaseState::Unspent) || self.is_sold()
    }

    /// Returns whether its seller may still give the answer when the payment is too old for others, because the answer
    /// is a pass.
    pub(crate) fn is_kept_by_seller(&self, now: ChainTime) -> bool {
        self.is_pass && now < self.counts_from().after(PASS_KEPT)
    }

    /// Returns whether it may still cost more than `limit`. A paid purchase costs nothing more.
    pub(crate) fn may_cost_more_than(&self, limit: Option<Amount>) -> bool {
        limit.is_some_and(|limit| self.amount > limit) && !self.is_settled() && !self.is_sold()
    }

    /// Returns whether the signed payment bought an answer, according to the seller, that the caller may not have read.
    pub(crate) fn is_sold(&self) -> bool {
        let is_unsettled = self.state == PurchaseState::Paying && self.transaction.is_none();
        is_unsettled && self.settled.is_some() && self.signed().is_some()
    }

    /// Returns the purchase in its state before the answer, so that its payment is shown as it was then.
    pub(crate) fn asked_again(self) -> Self {
        if self.signed().is_some() {
            return Self { state: PurchaseState::Paying, transaction: None, ..self };
        }
        Self { state: PurchaseState::Redeeming, ..self }
    }

    /// Returns whether the chain has shown the signed payment as used, possibly by an unknown transaction.
    pub(crate) fn is_settled(&self) -> bool {
        self.transaction.is_some() || self.state == PurchaseState::Redeeming
    }

    /// Returns the state after an answer to its signed payment. A settlement by an unknown transaction stays recorded.
    pub(crate) fn closed_as(&self, state: PurchaseState) -> PurchaseState {
        let unknown = self.state == PurchaseState::Redeeming && self.transaction.is_none();
        if unknown && state == PurchaseState::Unspent { PurchaseState::Redeeming } else { state }
    }

    /// Sets the terms under which its signed payment is shown from now on.
    pub(crate) fn takes_signed_terms(&mut self, intent: Option<&IntentId>, message: String) {
        self.intent = intent.map(|intent| intent.as_str().to_owned()).unwrap_or_default();
        match &mut self.payment {
            JournalPayment::Authorization { authorized, .. } => authorized.message = message,
            JournalPayment::Permit(permitted) => permitted.message = message,
            JournalPayment::Voucher(vouched) => vouched.message = message,
            JournalPayment::Transfer(_) | JournalPayment::Channel(_) | JournalPayment::None => {}
        }
    }

    /// Records that nothing of the signed payment was used, and nothing ever can be.
    pub(crate) fn becomes_void(&mut self) {
        self.state = PurchaseState::Void;
        if self.permitted().is_some() || self.vouched().is_some() {
            self.charged = Some(PermitCharge::NOTHING);
        }
    }

    /// Records that the chain shows its signed payment as used.
    pub(crate) fn mark_settled_by(&mut self, transaction: Option<TxHash>) {
        self.state = PurchaseState::Redeeming;
        self.transaction = transaction.or(self.transaction);
    }

    /// Returns whether its prepared payment is one that the quote asks for.
    pub(crate) fn pays(&self, quote: &Quote) -> bool {
        self.covers(quote) && self.payment != JournalPayment::None
    }

    /// Returns the same, but also accepts a payment made elsewhere, whose token is unknown.
    pub(crate) fn covers(&self, quote: &Quote) -> bool {
        self.amount >= quote.amount && self.is_paid_as(quote)
    }

    /// Returns whether it paid the quote's recipient, on its network and in one of its tokens.
    pub(crate) fn is_paid_as(&self, quote: &Quote) -> bool {
        (self.network, self.recipient, self.decimals) == (quote.network, quote.recipient, quote.decimals)
            && self.token().is_none_or(|token| quote.contracts.contains(&token))
    }

    pub(crate) fn mark_paid_by(&mut self, transaction: TxHash) {
        (self.state, self.transaction) = (PurchaseState::Redeeming, Some(transaction));
    }

    /// Adopts a fresh quote for the same payment. `is_elsewhere`: its network is not that of `Pay`.
    pub(crate) fn takes_terms_of(&mut self, quote: &Quote, is_elsewhere: bool) {
        self.is_elsewhere = is_elsewhere;
        self.intent = quote.intent.as_str().to_owned();
        self.expiry = quote.expiry;
    }
}
