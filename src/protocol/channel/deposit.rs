//! `ChannelDeposit`: a deposit that opens a channel or tops it up.

use serde::{Serialize, Serializer};

use super::{ChannelConfig, ChannelId, ERC3009_COLLECTOR, PERMIT2_COLLECTOR};
use crate::protocol::{
    Address, Amount, ChainTime, PaymentSignature,
    v2::{InvalidMessage, object::Object, values},
};

/// A deposit that its payer signed, and that someone else sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChannelDeposit {
    /// The amount, in base units.
    #[serde(serialize_with = "values::write_text")]
    pub amount: u128,
    /// How the tokens move.
    pub authorization: DepositAuthorization,
}

/// How the tokens of a deposit move: signed by the payer, for one of the standard's collectors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum DepositAuthorization {
    /// By an EIP-3009 `ReceiveWithAuthorization`.
    #[serde(rename = "erc3009Authorization")]
    Erc3009(Erc3009Deposit),
    /// By a Permit2 transfer whose witness is the channel.
    #[serde(rename = "permit2Authorization")]
    Permit2(Permit2Deposit),
}

/// An EIP-3009 authorization for the [collector](ERC3009_COLLECTOR): payer, token, amount and channel are those of the deposit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Erc3009Deposit {
    /// The authorization is valid after this moment.
    #[serde(serialize_with = "values::write_time")]
    pub valid_after: ChainTime,
    /// The authorization is valid before this moment.
    #[serde(serialize_with = "values::write_time")]
    pub valid_before: ChainTime,
    /// The salt that, together with the channel, determines the authorization's nonce: see
    /// [`ChannelId::deposit_nonce`].
    #[serde(serialize_with = "values::write_bytes32")]
    pub salt: [u8; 32],
    /// The payer's signature of [`digest`](Self::digest), or one that the payer's contract accepts.
    #[serde(serialize_with = "values::write_text")]
    pub signature: PaymentSignature,
}

/// A Permit2 transfer for the [collector](PERMIT2_COLLECTOR), as the payer signed it. It deposits only if payer,
/// token, amount and channel match the deposit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permit2Deposit {
    /// The payer.
    pub from: Address,
    /// The token contract.
    pub token: Address,
    /// The amount, in base units.
    pub amount: u128,
    /// The contract that may use it: the collector.
    pub spender: Address,
    /// The payer's permit nonce, used once across all tokens: 32 big-endian bytes.
    pub nonce: [u8; 32],
    /// The permit is valid up to this moment.
    pub deadline: ChainTime,
    /// The channel in the witness.
    pub channel: ChannelId,
    /// The payer's signature of [`digest`](Self::digest), or one that the payer's contract accepts.
    pub signature: PaymentSignature,
}

impl ChannelDeposit {
    /// Creates a deposit of this amount, in base units.
    #[must_use]
    pub fn new(amount: u128, authorization: impl Into<DepositAuthorization>) -> Self {
        Self { amount, authorization: authorization.into() }
    }

    /// Returns the contract that collects the deposit.
    #[must_use]
    pub const fn collector(&self) -> Address {
        match self.authorization {
            DepositAuthorization::Erc3009(_) => ERC3009_COLLECTOR,
            DepositAuthorization::Permit2(_) => PERMIT2_COLLECTOR,
        }
    }

    pub(in crate::protocol) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        const AUTHORIZATION: &str = "authorization";
        let authorization = object.object(AUTHORIZATION, |authorization| {
            let by_erc3009 = authorization.object("erc3009Authorization", Erc3009Deposit::read)?;
            let by_permit2 = authorization.object("permit2Authorization", Permit2Deposit::read)?;
            match (by_erc3009, by_permit2) {
                (Some(deposit), None) => Ok(deposit.into()),
                (None, Some(deposit)) => Ok(deposit.into()),
                (Some(_), Some(_)) | (None, None) => Err(InvalidMessage::member(AUTHORIZATION)),
            }
        })?;
        Ok(Self {
            amount: object.required("amount", values::units)?,
            authorization: authorization.ok_or(InvalidMessage::member(AUTHORIZATION))?,
        })
    }
}

impl From<Erc3009Deposit> for DepositAuthorization {
    fn from(deposit: Erc3009Deposit) -> Self {
        Self::Erc3009(deposit)
    }
}

impl From<Permit2Deposit> for DepositAuthorization {
    fn from(deposit: Permit2Deposit) -> Self {
        Self::Permit2(deposit)
    }
}

impl Erc3009Deposit {
    /// Returns an authorization with this salt, valid after the first moment and before the second.
    #[must_use]
    pub const fn new(salt: [u8; 32], [after, before]: [ChainTime; 2], signature: PaymentSignature) -> Self {
        Self { valid_after: after, valid_before: before, salt, signature }
    }

    fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        Ok(Self {
            valid_after: object.required("validAfter", values::time)?,
            valid_before: object.required("validBefore", values::time)?,
            salt: object.required("salt", values::bytes32)?,
            signature: object.required("signature", |text| text.parse().ok())?,
        })
    }
}

impl Permit2Deposit {
    /// Returns a permit of a channel's payer for the collector, over this amount of the channel's token, in base
    /// units.
    #[must_use]
    pub const fn new(
        channel: &ChannelConfig,
        (id, amount): (ChannelId, u128),
        nonce: [u8; 32],
        deadline: ChainTime,
        signature: PaymentSignature,
    ) -> Self {
        let ChannelConfig { payer, token, .. } = *channel;
        Self { from: payer, token, amount, spender: PERMIT2_COLLECTOR, nonce, deadline, channel: id, signature }
    }

    fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let permitted = |permitted: &Object<'_>| {
            let token = permitted.required("token", values::address)?;
            Ok((token, permitted.required("amount", values::units)?))
        };
        let witness = |witness: &Object<'_>| witness.required("channelId", |text| text.parse().ok());
        let (token, amount) = object.object(PERMITTED, permitted)?.ok_or(InvalidMessage::member(PERMITTED))?;
        Ok(Self {
            from: object.required("from", values::address)?,
            token,
            amount,
            spender: object.required("spender", values::address)?,
            nonce: object.required("nonce", values::word)?,
            deadline: object.required("deadline", values::time)?,
            channel: object.object(WITNESS, witness)?.ok_or(InvalidMessage::member(WITNESS))?,
            signature: object.required("signature", |text| text.parse().ok())?,
        })
    }
}

const PERMITTED: &str = "permitted";
const WITNESS: &str = "witness";

impl Serialize for Permit2Deposit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Permitted {
            token: Address,
            amount: String,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Witness {
            channel_id: ChannelId,
        }
        #[derive(Serialize)]
        struct Written {
            from: Address,
            permitted: Permitted,
            spender: Address,
            nonce: Amount,
            #[serde(serialize_with = "values::write_time")]
            deadline: ChainTime,
            witness: Witness,
            signature: String,
        }
        let written = Written {
            from: self.from,
            permitted: Permitted { token: self.token, amount: self.amount.to_string() },
            spender: self.spender,
            // Serialised like an amount: in decimal digits.
            nonce: Amount::from_be_bytes(self.nonce),
            deadline: self.deadline,
            witness: Witness { channel_id: self.channel },
            signature: self.signature.to_string(),
        };
        written.serialize(serializer)
    }
}
