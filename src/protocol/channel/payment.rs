//! `VoucherPayment`: one sale that a voucher pays for.

use super::{BATCH_SETTLEMENT, ChannelConfig, ChannelId};
use crate::protocol::{Address, Amount, ChainTime, IntentKey, Network, PaymentId};

/// A voucher's payment for one answer. No transaction makes it: it is charged to the channel, and claimed later with
/// other charges.
///
/// Channel, total and intent identify it: after an answer that cost nothing, an honest client signs the same total
/// again for another answer.
///
/// ```
/// use tower_x402::protocol::{Amount, Address, Asset, IntentKey, Network, Payment, channel::{ChannelConfig, VoucherPayment}};
/// let channel = ChannelConfig::new(Address::new([0x11; 20]), Address::new([0x5a; 20]), Asset::USDC_BASE.contract());
/// let of = |intent| VoucherPayment::new(Network::BASE, &channel, 30_000, IntentKey::new([intent; 16]));
/// let payment = Payment::from(of(1).with_amount(Amount::from_base_units(10_000)));
/// assert_eq!((payment.payer(), payment.transaction()), (channel.payer, None));
/// assert_eq!(payment.id(), of(1).payment_id());
/// assert_ne!(payment.id(), of(2).payment_id());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VoucherPayment {
    network: Network,
    channel: ChannelId,
    /// Bytes instead of a `u128` keep the alignment of [`Transfer`](crate::protocol::Transfer), so that a list of
    /// transfers is converted to payments in place.
    total: [u8; 16],
    intent: IntentKey,
    /// Derived from channel, total and intent.
    name: [u8; 32],
    /// The account that owns the channel.
    pub payer: Address,
    /// The token contract.
    pub token: Address,
    /// The account that is paid.
    pub recipient: Address,
    /// The cost of the answer, in base units: the price or the maximum, and the charge once it is known.
    pub amount: Amount,
    /// When the voucher was shown, in chain time.
    pub shown: ChainTime,
}

impl VoucherPayment {
    /// Returns the payment for this intent by a channel's voucher over this total, in base units. Amount and time of
    /// showing are zero until they are set.
    #[must_use]
    pub fn new(network: Network, channel: &ChannelConfig, total: u128, intent: IntentKey) -> Self {
        Self::of_channel(network, (channel, channel.id(network)), total, intent)
    }

    /// Like [`new`](Self::new), with the channel's id, which takes five rounds of Keccak to compute.
    pub(crate) fn of_channel(
        network: Network,
        (channel, id): (&ChannelConfig, ChannelId),
        total: u128,
        intent: IntentKey,
    ) -> Self {
        let ChannelConfig { payer, token, receiver, .. } = *channel;
        Self::restored(network, id, total, intent).between(payer, token, receiver)
    }

    /// Returns the payment of a channel of which only the id is known. Its parties are not set.
    pub(crate) fn restored(network: Network, channel: ChannelId, total: u128, intent: IntentKey) -> Self {
        let mut named = [0; 64];
        named[..32].copy_from_slice(channel.as_bytes());
        let total = total.to_be_bytes();
        named[32..48].copy_from_slice(&total);
        named[48..].copy_from_slice(intent.as_bytes());
        let name = blake3::derive_key("tower-x402 2026-11 payment by voucher", &named);
        let [payer, token, recipient] = [Address::ZERO; 3];
        let (amount, shown) = (Amount::ZERO, ChainTime::from_unix(0));
        Self { network, channel, total, intent, name, payer, token, recipient, amount, shown }
    }

    /// Sets payer, token and recipient.
    pub(crate) const fn between(mut self, payer: Address, token: Address, recipient: Address) -> Self {
        (self.payer, self.token, self.recipient) = (payer, token, recipient);
        self
    }

    /// Sets the cost of the answer, in base units.
    #[must_use]
    pub const fn with_amount(mut self, amount: Amount) -> Self {
        self.amount = amount;
        self
    }

    /// Sets when the voucher was shown, in chain time.
    #[must_use]
    pub const fn with_shown(mut self, shown: ChainTime) -> Self {
        self.shown = shown;
        self
    }

    /// Returns the chain.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.network
    }

    /// Returns the channel.
    #[must_use]
    pub const fn channel(&self) -> ChannelId {
        self.channel
    }

    /// Returns the total of its voucher, in base units.
    #[must_use]
    pub const fn total(&self) -> u128 {
        u128::from_be_bytes(self.total)
    }

    /// Returns the intent that it pays for.
    #[must_use]
    pub const fn intent(&self) -> IntentKey {
        self.intent
    }

    /// Returns the 32 bytes that identify it among all payments of its payer.
    #[must_use]
    pub const fn nonce(&self) -> &[u8; 32] {
        &self.name
    }

    /// Returns the name of this payment.
    #[must_use]
    pub const fn payment_id(&self) -> PaymentId {
        PaymentId::of_authorization(self.network, BATCH_SETTLEMENT, self.payer, self.name)
    }
}
