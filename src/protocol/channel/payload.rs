//! `ChannelPayload`: the three payments of the scheme.

use serde::Serialize;

use super::{ChannelConfig, ChannelDeposit, Voucher};
#[cfg(feature = "client")]
use crate::protocol::v2::message;
use crate::protocol::v2::{InvalidMessage, object::Object, values};

/// A payment of the scheme `batch-settlement`: a voucher, and what to do with its channel.
///
/// Reading checks nothing: neither that the voucher belongs to this channel, nor that anybody signed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
#[non_exhaustive]
pub enum ChannelPayload {
    /// Opens the channel or tops it up, and pays by its voucher.
    #[serde(rename_all = "camelCase")]
    Deposit {
        /// The channel.
        channel_config: ChannelConfig,
        /// The voucher that pays.
        voucher: Voucher,
        /// The deposit.
        deposit: ChannelDeposit,
    },
    /// Pays by a voucher.
    #[serde(rename_all = "camelCase")]
    Voucher {
        /// The channel.
        channel_config: ChannelConfig,
        /// The voucher that pays.
        voucher: Voucher,
    },
    /// Asks for the channel's remaining balance, and buys nothing.
    #[serde(rename_all = "camelCase")]
    Refund {
        /// The channel.
        channel_config: ChannelConfig,
        /// A voucher over the total charged so far.
        voucher: Voucher,
        /// The amount asked for, in base units; `None` for the whole remainder.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "values::write_some_text")]
        amount: Option<u128>,
    },
}

impl ChannelPayload {
    /// Returns the channel.
    #[must_use]
    pub const fn config(&self) -> &ChannelConfig {
        let (Self::Deposit { channel_config, .. }
        | Self::Voucher { channel_config, .. }
        | Self::Refund { channel_config, .. }) = self;
        channel_config
    }

    /// Returns the voucher.
    #[must_use]
    pub const fn voucher(&self) -> &Voucher {
        let (Self::Deposit { voucher, .. } | Self::Voucher { voucher, .. } | Self::Refund { voucher, .. }) = self;
        voucher
    }

    /// Reads the JSON of its serialisation.
    #[cfg(feature = "client")]
    pub(crate) fn from_json(json: &str) -> Option<Self> {
        message::from_json(json.as_bytes(), Self::read).ok()?
    }

    /// Reads a payload; `None` if it has none of the three types.
    pub(in crate::protocol) fn read(object: &Object<'_>) -> Result<Option<Self>, InvalidMessage> {
        const CONFIG: &str = "channelConfig";
        const VOUCHER: &str = "voucher";
        const DEPOSIT: &str = "deposit";
        let named = object.json::<serde_json::Value>("type")?;
        let Some(kind @ ("deposit" | "voucher" | "refund")) = named.as_ref().and_then(serde_json::Value::as_str) else {
            return Ok(None);
        };
        let config = object.object(CONFIG, ChannelConfig::read)?;
        let channel_config = config.ok_or(InvalidMessage::member(CONFIG))?;
        let voucher = object.object(VOUCHER, Voucher::read)?.ok_or(InvalidMessage::member(VOUCHER))?;
        Ok(Some(match kind {
            DEPOSIT => {
                let deposit = object.object(DEPOSIT, ChannelDeposit::read)?;
                Self::Deposit { channel_config, voucher, deposit: deposit.ok_or(InvalidMessage::member(DEPOSIT))? }
            }
            "refund" => Self::Refund { channel_config, voucher, amount: object.parsed("amount", values::units)? },
            _ => Self::Voucher { channel_config, voucher },
        }))
    }
}
