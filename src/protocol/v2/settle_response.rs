//! `SettleResponse`: what became of a payment.

use serde::{Serialize, Serializer};

use super::{Extensions, InvalidMessage, JsonObject, Reason, message::header_message, object::Object, values};
use crate::protocol::{Address, Amount, Network, TxHash, channel::ChannelState};

/// The content of `PAYMENT-RESPONSE`, and a facilitator's answer to `POST /settle`: what became of a payment.
///
/// A success names its transaction and an EVM chain, and no reason. A success of `upto` that charged nothing says so by an `amount` of
/// zero, and has no transaction. Nor has one by a voucher, which says what was charged to a channel. Anything else is not read as one.
///
/// ```
/// use tower_x402::protocol::{Network, TxHash, v2::{Reason, SettleResponse}};
/// let settled = SettleResponse::settled(TxHash::new([0xab; 32]), Network::BASE);
/// assert!(settled.success);
/// let refused = SettleResponse::failed(Reason::INSUFFICIENT_FUNDS, Network::BASE);
/// assert_eq!(
///     refused.to_json(),
///     r#"{"success":false,"errorReason":"insufficient_funds","transaction":"","network":"eip155:8453"}"#
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SettleResponse {
    /// Whether the payment is settled.
    pub success: bool,
    /// Why not. [`Reason::SETTLEMENT_PENDING`] is not final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<Reason>,
    /// The same in prose. It is a stranger's: do not pass it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The payer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payer: Option<Address>,
    /// The transaction, as far as there is one. Its text is empty where there is none.
    #[serde(serialize_with = "text_or_empty")]
    pub transaction: Option<TxHash>,
    /// The chain. `None` only where a failure that was read names no EVM chain.
    #[serde(serialize_with = "text_or_empty")]
    pub network: Option<Network>,
    /// The amount that was settled, in base units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<Amount>,
    /// What extensions say.
    #[serde(skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
    /// What the scheme says besides.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub extra: JsonObject,
}

impl SettleResponse {
    /// Reports that this transaction settled the payment.
    #[must_use]
    pub fn settled(transaction: TxHash, network: Network) -> Self {
        Self { success: true, transaction: Some(transaction), ..Self::on(network) }
    }

    /// Reports that nothing was charged of a payment of `upto`, so that there is no transaction.
    #[must_use]
    pub fn charged_nothing(network: Network) -> Self {
        Self { success: true, amount: Some(Amount::ZERO), ..Self::on(network) }
    }

    /// Reports that this much was charged to a channel by a voucher, so that there is no transaction, and the channel's state since.
    #[must_use]
    pub fn charged_to_channel(charge: Amount, state: &ChannelState, network: Network) -> Self {
        Self { success: true, ..Self::on(network) }.with_charge(charge).with_channel_state(state)
    }

    /// Reports that the payment is not settled, and why.
    #[must_use]
    pub fn failed(reason: Reason, network: Network) -> Self {
        Self { error_reason: Some(reason), ..Self::on(network) }
    }

    /// Reports that the outcome is not known yet, and the transaction if that is known.
    #[must_use]
    pub fn pending(transaction: Option<TxHash>, network: Network) -> Self {
        Self { transaction, ..Self::failed(Reason::SETTLEMENT_PENDING, network) }
    }

    /// Sets the payer.
    #[must_use]
    pub const fn with_payer(mut self, payer: Address) -> Self {
        self.payer = Some(payer);
        self
    }

    /// Sets the amount that was settled.
    #[must_use]
    pub const fn with_amount(mut self, amount: Amount) -> Self {
        self.amount = Some(amount);
        self
    }

    /// Sets `extra.chargedAmount`: what was charged to a channel, also by a payment that deposits.
    #[must_use]
    pub fn with_charge(mut self, charge: Amount) -> Self {
        self.extra = self.extra.with(CHARGED, charge.to_string());
        self
    }

    /// Sets `extra.channelState`: what became of the channel.
    #[must_use]
    pub fn with_channel_state(mut self, state: &ChannelState) -> Self {
        self.extra = self.extra.with_written(STATE, state);
        self
    }

    /// Returns what was charged to a channel, in base units, if `extra` says that.
    #[must_use]
    pub fn charged_amount(&self) -> Option<Amount> {
        self.extra.text(CHARGED).and_then(values::amount)
    }

    /// Returns what became of the channel, if `extra` says that.
    #[must_use]
    pub fn channel_state(&self) -> Option<ChannelState> {
        self.extra.read_member(STATE, ChannelState::read)
    }

    /// Returns whether the outcome is not known yet: neither settled nor refused.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.error_reason == Some(Reason::SETTLEMENT_PENDING)
    }

    fn on(network: Network) -> Self {
        let (error_reason, error_message, payer, transaction, amount) = Default::default();
        let (extensions, extra) = Default::default();
        let network = Some(network);
        Self { success: false, error_reason, error_message, payer, transaction, network, amount, extensions, extra }
    }

    fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let response = Self {
            success: object.json("success")?.ok_or(InvalidMessage::member("success"))?,
            error_reason: object.parsed("errorReason", Reason::or(Reason::UNEXPECTED_SETTLE_ERROR))?,
            error_message: object.string("errorMessage")?,
            payer: object.parsed("payer", values::address)?,
            transaction: object.parsed("transaction", values::transaction)?,
            network: object.parsed("network", |text| Some(values::network(text)))?.flatten(),
            amount: object.parsed("amount", values::amount)?,
            extensions: Extensions::of(object)?,
            extra: JsonObject::of(object, "extra")?,
        };
        response.contradiction().map_or(Ok(response), |name| Err(InvalidMessage::member(name)))
    }

    /// Whether it says what was charged to a channel and what became of that, and no amount that was settled.
    fn is_by_voucher(&self) -> bool {
        self.amount.is_none() && self.charged_amount().is_some() && self.channel_state().is_some()
    }

    /// Returns the member that keeps a success from being one.
    fn contradiction(&self) -> Option<&'static str> {
        match self {
            Self { success: false, .. } => None,
            Self { error_reason: Some(_), .. } => Some("errorReason"),
            Self { transaction: None, amount, .. } if *amount != Some(Amount::ZERO) && !self.is_by_voucher() => {
                Some("transaction")
            }
            Self { network: None, .. } => Some("network"),
            _ => None,
        }
    }
}

const CHARGED: &str = "chargedAmount";
const STATE: &str = "channelState";

fn text_or_empty<T: ToString, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.as_ref().map(T::to_string).unwrap_or_default())
}

header_message!(SettleResponse, PAYMENT_RESPONSE);
