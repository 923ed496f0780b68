//! `SettleResponse`: the outcome of a payment.

use serde::{Serialize, Serializer};

use super::{Extensions, InvalidMessage, JsonObject, Reason, message::header_message, object::Object, values};
use crate::protocol::{Address, Amount, Network, TxHash, channel::ChannelState};

/// The content of `PAYMENT-RESPONSE`, and a facilitator's answer to `POST /settle`: the outcome of a payment.
///
/// A success names its transaction and an EVM chain, and no reason. There are two successes without a transaction:
/// one of `upto` that charged nothing has an `amount` of zero, and one by a voucher has the charge to a channel. Any
/// other success is invalid.
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
    /// Why the payment is not settled. [`Reason::SETTLEMENT_PENDING`] is not final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<Reason>,
    /// The reason in prose. It is untrusted: do not pass it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The payer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payer: Option<Address>,
    /// The transaction, if there is one; an empty text if there is none.
    #[serde(serialize_with = "text_or_empty")]
    pub transaction: Option<TxHash>,
    /// The chain. `None` only if a failure that was read names no EVM chain.
    #[serde(serialize_with = "text_or_empty")]
    pub network: Option<Network>,
    /// The amount that was settled, in base units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<Amount>,
    /// The extensions.
    #[serde(skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
    /// Further members of the scheme.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub extra: JsonObject,
}

impl SettleResponse {
    /// Reports that this transaction settled the payment.
    #[must_use]
    pub fn settled(transaction: TxHash, network: Network) -> Self {
        Self { success: true, transaction: Some(transaction), ..Self::on(network) }
    }

    /// Reports that a payment of `upto` was charged nothing, so there is no transaction.
    #[must_use]
    pub fn charged_nothing(network: Network) -> Self {
        Self { success: true, amount: Some(Amount::ZERO), ..Self::on(network) }
    }

    /// Reports the amount that a voucher's payment charged to a channel, and the channel's state since. There is no
    /// transaction.
    #[must_use]
    pub fn charged_to_channel(charge: Amount, state: &ChannelState, network: Network) -> Self {
        Self { success: true, ..Self::on(network) }.with_charge(charge).with_channel_state(state)
    }

    /// Reports that the payment is not settled, and why.
    #[must_use]
    pub fn failed(reason: Reason, network: Network) -> Self {
        Self { error_reason: Some(reason), ..Self::on(network) }
    }

    /// Reports that the outcome is not known yet, with the transaction if it is known.
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

    /// Sets `extra.chargedAmount`: the charge to a channel, also for a payment that deposits.
    #[must_use]
    pub fn with_charge(mut self, charge: Amount) -> Self {
        self.extra = self.extra.with(CHARGED, charge.to_string());
        self
    }

    /// Sets `extra.channelState`: the channel's state after the payment.
    #[must_use]
    pub fn with_channel_state(mut self, state: &ChannelState) -> Self {
        self.extra = self.extra.with_written(STATE, state);
        self
    }

    /// Returns the charge to a channel, in base units, if `extra` has it.
    #[must_use]
    pub fn charged_amount(&self) -> Option<Amount> {
        self.extra.text(CHARGED).and_then(values::amount)
    }

    /// Returns the channel's state after the payment, if `extra` has it.
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

    /// Returns whether it has a charge to a channel and the channel's state, and no settled amount.
    fn is_by_voucher(&self) -> bool {
        self.amount.is_none() && self.charged_amount().is_some() && self.channel_state().is_some()
    }

    /// Returns the member that makes a success contradictory.
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
