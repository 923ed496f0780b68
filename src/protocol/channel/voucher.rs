//! `Voucher`: a payer's permission to claim up to a total, and `VoucherClaim`: a claim of part of it.

use serde::{Serialize, Serializer};

use super::{ChannelConfig, ChannelId};
use crate::protocol::{
    PaymentSignature,
    v2::{InvalidMessage, object::Object, values},
};

/// A payer's permission to claim up to this total of a channel. The total includes all earlier vouchers.
///
/// `Debug` does not show the signature.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Voucher {
    /// The channel.
    pub channel: ChannelId,
    /// The total, in base units: the maximum that may be claimed of the channel since its first voucher.
    pub max_claimable: u128,
    /// The signature of the payer authorizer, or one that the payer's contract accepts.
    pub signature: PaymentSignature,
}

/// The claimed part of a voucher: one row of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VoucherClaim {
    /// The channel of the voucher.
    pub config: ChannelConfig,
    /// The voucher. From a key, the contract accepts only 65 bytes with a low `s` and a `v` of 27 or 28: any other
    /// signature makes all claims of its transaction fail.
    pub voucher: Voucher,
    /// The total that the channel has paid after the claim, in base units: at most the voucher's.
    pub total_claimed: u128,
}

impl Voucher {
    /// Combines the signed values and their signature.
    #[must_use]
    pub const fn new(channel: ChannelId, max_claimable: u128, signature: PaymentSignature) -> Self {
        Self { channel, max_claimable, signature }
    }

    pub(in crate::protocol) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        Ok(Self {
            channel: object.required("channelId", |text| text.parse().ok())?,
            max_claimable: object.required("maxClaimableAmount", values::units)?,
            signature: object.required("signature", |text| text.parse().ok())?,
        })
    }
}

impl Serialize for Voucher {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Written {
            channel_id: ChannelId,
            max_claimable_amount: String,
            signature: String,
        }
        let written = Written {
            channel_id: self.channel,
            max_claimable_amount: self.max_claimable.to_string(),
            signature: self.signature.to_string(),
        };
        written.serialize(serializer)
    }
}

impl VoucherClaim {
    /// Claims this total of a voucher of that channel.
    #[must_use]
    pub const fn new(config: ChannelConfig, voucher: Voucher, total_claimed: u128) -> Self {
        Self { config, voucher, total_claimed }
    }
}
