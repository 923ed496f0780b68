//! `ChannelState` and `VoucherState`: what a seller tells of a channel.

use serde::Serialize;

use super::{ChannelId, Voucher};
use crate::protocol::{
    Amount, ChainTime, PaymentSignature,
    v2::{InvalidMessage, object::Object, values},
};

/// What a seller, or a facilitator, says about a channel: `extra.channelState`.
///
/// It is a stranger's word. What is claimed and what is there, the chain tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChannelState {
    /// The channel.
    pub channel_id: ChannelId,
    /// All that was deposited and not withdrawn or paid back, in base units: claimed and not.
    pub balance: Amount,
    /// What of it is claimed, in base units.
    pub total_claimed: Amount,
    /// When the payer began to withdraw; chain time zero: it did not.
    #[serde(serialize_with = "values::write_seconds")]
    pub withdraw_requested_at: ChainTime,
    /// How many refunds of this channel there were.
    #[serde(serialize_with = "values::write_text")]
    pub refund_nonce: u64,
    /// All that the seller charged so far, in base units, claimed or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged_cumulative_amount: Option<Amount>,
}

/// The last voucher that a seller has, towards the payer that signed it: `extra.voucherState`.
///
/// `Debug` does not show the signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct VoucherState {
    /// Its total, in base units.
    #[serde(serialize_with = "values::write_text")]
    pub signed_max_claimable: u128,
    /// Its signature.
    #[serde(serialize_with = "values::write_text")]
    pub signature: PaymentSignature,
}

impl ChannelState {
    /// Returns the state of a channel without a withdrawal or a refund.
    #[must_use]
    pub const fn new(channel: ChannelId, balance: Amount, total_claimed: Amount) -> Self {
        Self {
            channel_id: channel,
            balance,
            total_claimed,
            withdraw_requested_at: ChainTime::from_unix(0),
            refund_nonce: 0,
            charged_cumulative_amount: None,
        }
    }

    /// Sets when the payer began to withdraw.
    #[must_use]
    pub const fn with_withdrawal(mut self, requested_at: ChainTime) -> Self {
        self.withdraw_requested_at = requested_at;
        self
    }

    /// Sets how many refunds there were.
    #[must_use]
    pub const fn with_refund_nonce(mut self, nonce: u64) -> Self {
        self.refund_nonce = nonce;
        self
    }

    /// Sets all that was charged so far, in base units.
    #[must_use]
    pub const fn with_charged(mut self, total: Amount) -> Self {
        self.charged_cumulative_amount = Some(total);
        self
    }

    /// Reads a state. Sellers and facilitators write the two numbers as numbers or as texts.
    pub(in crate::protocol) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let number = |name| match object.json::<u64>(name) {
            Ok(number) => number.ok_or(InvalidMessage::member(name)),
            Err(_) => object.required(name, |text| values::units(text).and_then(|units| units.try_into().ok())),
        };
        Ok(Self {
            channel_id: object.required("channelId", |text| text.parse().ok())?,
            balance: object.required("balance", values::amount)?,
            total_claimed: object.required("totalClaimed", values::amount)?,
            withdraw_requested_at: ChainTime::from_unix(number("withdrawRequestedAt")?),
            refund_nonce: number("refundNonce")?,
            charged_cumulative_amount: object.parsed("chargedCumulativeAmount", values::amount)?,
        })
    }
}

impl VoucherState {
    pub(in crate::protocol) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        Ok(Self {
            signed_max_claimable: object.required("signedMaxClaimable", values::units)?,
            signature: object.required("signature", |text| text.parse().ok())?,
        })
    }
}

impl From<&Voucher> for VoucherState {
    fn from(voucher: &Voucher) -> Self {
        Self { signed_max_claimable: voucher.max_claimable, signature: voucher.signature.clone() }
    }
}
