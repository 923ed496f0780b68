//! `ChannelState` and `VoucherState`: what a seller reports about a channel.

use serde::Serialize;

use super::{ChannelId, Voucher};
use crate::protocol::{
    Amount, ChainTime, PaymentSignature,
    v2::{InvalidMessage, object::Object, values},
};

/// A seller's or a facilitator's report on a channel: `extra.channelState`.
///
/// It is untrusted. Claimed total and balance are read from the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChannelState {
    /// The channel.
    pub channel_id: ChannelId,
    /// All deposits minus withdrawals and refunds, in base units, claimed or not.
    pub balance: Amount,
    /// The claimed part, in base units.
    pub total_claimed: Amount,
    /// When the payer began to withdraw; zero if it did not.
    #[serde(serialize_with = "values::write_seconds")]
    pub withdraw_requested_at: ChainTime,
    /// The number of refunds of this channel.
    #[serde(serialize_with = "values::write_text")]
    pub refund_nonce: u64,
    /// The total that the seller has charged so far, in base units, claimed or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged_cumulative_amount: Option<Amount>,
}

/// The last voucher that a seller has, reported to the payer that signed it: `extra.voucherState`.
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

    /// Sets the number of refunds.
    #[must_use]
    pub const fn with_refund_nonce(mut self, nonce: u64) -> Self {
        self.refund_nonce = nonce;
        self
    }

    /// Sets the total charged so far, in base units.
    #[must_use]
    pub const fn with_charged(mut self, total: Amount) -> Self {
        self.charged_cumulative_amount = Some(total);
        self
    }

    /// Reads a state. Sellers and facilitators write `withdrawRequestedAt` and `refundNonce` as numbers or as
    /// strings.
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
