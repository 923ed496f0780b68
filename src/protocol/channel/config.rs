//! `ChannelConfig`: the immutable definition of a channel.

use serde::Serialize;

#[cfg(feature = "client")]
use crate::protocol::v2::message;
use crate::protocol::{
    Address,
    v2::{InvalidMessage, object::Object, values},
};

/// The parties, the token and the withdrawal delay of a channel. They never change: another config is another
/// channel.
///
/// [`new`](Self::new) names the parties; the rest is set on the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChannelConfig {
    /// The account that deposits, and that gets back what is not claimed.
    pub payer: Address,
    /// The key that signs vouchers. Zero: the payer's own account decides, by EIP-1271 if it has code.
    pub payer_authorizer: Address,
    /// The account that is paid.
    pub receiver: Address,
    /// The key that signs claims and refunds. It is not zero in any channel that holds a deposit.
    pub receiver_authorizer: Address,
    /// The token contract.
    pub token: Address,
    /// How long the payer waits for a withdrawal, in seconds: within [`WITHDRAW_DELAYS`](super::WITHDRAW_DELAYS) in any channel that holds
    /// a deposit.
    pub withdraw_delay: u32,
    /// Distinguishes channels of the same parties.
    #[serde(serialize_with = "values::write_bytes32")]
    pub salt: [u8; 32],
}

impl ChannelConfig {
    /// Returns the first channel (salt zero) of a payer that signs its vouchers itself, and of a receiver that signs its claims itself,
    /// with the shortest delay.
    #[must_use]
    pub const fn new(payer: Address, receiver: Address, token: Address) -> Self {
        Self {
            payer,
            payer_authorizer: payer,
            receiver,
            receiver_authorizer: receiver,
            token,
            withdraw_delay: *super::WITHDRAW_DELAYS.start(),
            salt: [0; 32],
        }
    }

    /// Sets the key that signs vouchers; zero: the payer's own account.
    #[must_use]
    pub const fn with_payer_authorizer(mut self, authorizer: Address) -> Self {
        self.payer_authorizer = authorizer;
        self
    }

    /// Sets the key that signs claims and refunds.
    #[must_use]
    pub const fn with_receiver_authorizer(mut self, authorizer: Address) -> Self {
        self.receiver_authorizer = authorizer;
        self
    }

    /// Sets how long the payer waits for a withdrawal, in seconds.
    #[must_use]
    pub const fn with_withdraw_delay(mut self, seconds: u32) -> Self {
        self.withdraw_delay = seconds;
        self
    }

    /// Sets the salt that distinguishes it from other channels of the same parties.
    #[must_use]
    pub const fn with_salt(mut self, salt: [u8; 32]) -> Self {
        self.salt = salt;
        self
    }

    /// Returns the key that signs vouchers; `None` if the payer's own account decides, which only the chain can tell.
    #[must_use]
    pub fn voucher_key(&self) -> Option<Address> {
        Some(self.payer_authorizer).filter(|key| *key != Address::ZERO)
    }

    /// Reads the JSON of its serialisation.
    #[cfg(feature = "client")]
    pub(crate) fn from_json(json: &str) -> Option<Self> {
        message::from_json(json.as_bytes(), Self::read).ok()
    }

    pub(in crate::protocol) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let delay = object.json("withdrawDelay")?;
        Ok(Self {
            payer: object.required("payer", values::address)?,
            payer_authorizer: object.required("payerAuthorizer", values::address)?,
            receiver: object.required("receiver", values::address)?,
            receiver_authorizer: object.required("receiverAuthorizer", values::address)?,
            token: object.required("token", values::address)?,
            withdraw_delay: delay.ok_or(InvalidMessage::member("withdrawDelay"))?,
            salt: object.required("salt", values::bytes32)?,
        })
    }
}
