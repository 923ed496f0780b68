//! `Permit`: a transfer that its payer signed for Permit2 and someone else sends.

use std::fmt;

use serde::{Serialize, Serializer};

use super::PermitScheme;
use crate::protocol::{
    Address, Amount, ChainTime, Network, PaymentId, PaymentSignature,
    v2::{InvalidMessage, object::Object, values},
};

/// A Permit2 transfer with the standard's witness: a payment that has not happened yet.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permit {
    /// The payer.
    pub from: Address,
    /// The token contract.
    pub token: Address,
    /// The amount, in base units: exact for `exact`, the maximum for `upto`.
    pub amount: Amount,
    /// The payer's permit nonce, used once across all tokens: 32 big-endian bytes.
    pub nonce: [u8; 32],
    /// The permit is valid up to this moment.
    pub deadline: ChainTime,
    /// The account that is paid, from the witness.
    pub to: Address,
    /// The permit is valid from this moment on, from the witness.
    pub valid_after: ChainTime,
    /// The only account that may send it, from the witness: for `upto` only.
    pub facilitator: Option<Address>,
    /// The contract that may use it.
    pub spender: Address,
}

/// A [`Permit`] and its payer's signature: the payload of the method Permit2.
///
/// The Permit2 contract decides whether the signature is the payer's. `Debug` does not show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignedPermit {
    /// The payer's signature of the EIP-712 message, or one that the payer's contract accepts.
    pub signature: PaymentSignature,
    /// The signed fields.
    pub permit: Permit,
}

impl Permit {
    /// Returns a permit of this payer and nonce for the scheme's proxy. It pays nothing yet and is never valid. One
    /// of `upto` names the zero address as its facilitator.
    #[must_use]
    pub const fn new(scheme: PermitScheme, from: Address, nonce: [u8; 32]) -> Self {
        let never = ChainTime::from_unix(0);
        let facilitator = match scheme {
            PermitScheme::Exact => None,
            PermitScheme::UpTo => Some(Address::ZERO),
        };
        Self {
            from,
            token: Address::ZERO,
            amount: Amount::ZERO,
            nonce,
            deadline: never,
            to: Address::ZERO,
            valid_after: never,
            facilitator,
            spender: scheme.proxy(),
        }
    }

    /// Sets recipient, token and amount.
    #[must_use]
    pub const fn paying(mut self, to: Address, token: Address, amount: Amount) -> Self {
        (self.to, self.token, self.amount) = (to, token, amount);
        self
    }

    /// Sets the only account that may send a permit of `upto`. A permit of `exact`, which anyone may send, stays
    /// unchanged.
    #[must_use]
    pub const fn by_facilitator(mut self, facilitator: Address) -> Self {
        if self.facilitator.is_some() {
            self.facilitator = Some(facilitator);
        }
        self
    }

    /// Sets the moments from which and up to which it is valid.
    #[must_use]
    pub const fn valid_between(mut self, after: ChainTime, deadline: ChainTime) -> Self {
        (self.valid_after, self.deadline) = (after, deadline);
        self
    }

    /// Returns the scheme of its witness.
    #[must_use]
    pub const fn scheme(&self) -> PermitScheme {
        match self.facilitator {
            Some(_) => PermitScheme::UpTo,
            None => PermitScheme::Exact,
        }
    }

    /// Returns the id of the payment that is made from this permit.
    #[must_use]
    pub const fn payment_id(&self, network: Network) -> PaymentId {
        PaymentId::of_permit(network, self.from, self.nonce)
    }

    fn read(object: &Object<'_>, scheme: PermitScheme) -> Result<Self, InvalidMessage> {
        let permitted = |permitted: &Object<'_>| {
            let token = permitted.required("token", values::address)?;
            Ok((token, permitted.required("amount", values::amount)?))
        };
        let witness = |witness: &Object<'_>| {
            let facilitator = match scheme {
                PermitScheme::Exact => None,
                PermitScheme::UpTo => Some(witness.required("facilitator", values::address)?),
            };
            let to = witness.required("to", values::address)?;
            Ok((to, facilitator, witness.required("validAfter", values::time)?))
        };
        let (token, amount) = object.object(PERMITTED, permitted)?.ok_or(InvalidMessage::member(PERMITTED))?;
        let (to, facilitator, valid_after) = object.object(WITNESS, witness)?.ok_or(InvalidMessage::member(WITNESS))?;
        Ok(Self {
            from: object.required("from", values::address)?,
            token,
            amount,
            nonce: object.required("nonce", values::word)?,
            deadline: object.required("deadline", values::time)?,
            to,
            valid_after,
            facilitator,
            spender: object.required("spender", values::address)?,
        })
    }
}

const PERMITTED: &str = "permitted";
const WITNESS: &str = "witness";

impl Serialize for Permit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Permitted {
            token: Address,
            amount: Amount,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Witness {
            to: Address,
            #[serde(skip_serializing_if = "Option::is_none")]
            facilitator: Option<Address>,
            #[serde(serialize_with = "values::write_time")]
            valid_after: ChainTime,
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
        }
        let written = Written {
            from: self.from,
            permitted: Permitted { token: self.token, amount: self.amount },
            spender: self.spender,
            // Serialised like an amount: in decimal digits.
            nonce: Amount::from_be_bytes(self.nonce),
            deadline: self.deadline,
            witness: Witness { to: self.to, facilitator: self.facilitator, valid_after: self.valid_after },
        };
        written.serialize(serializer)
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("from", &self.from)
            .field("token", &self.token)
            .field("amount", &self.amount)
            .field("nonce", &const_hex::encode_prefixed(self.nonce))
            .field("deadline", &self.deadline)
            .field("to", &self.to)
            .field("valid_after", &self.valid_after)
            .field("facilitator", &self.facilitator)
            .field("spender", &self.spender)
            .finish()
    }
}

impl SignedPermit {
    pub(in crate::protocol) const MEMBER: &str = "permit2Authorization";

    /// Combines a permit and its signature.
    #[must_use]
    pub const fn new(permit: Permit, signature: PaymentSignature) -> Self {
        Self { signature, permit }
    }

    /// Reads a payload of this scheme.
    pub(in crate::protocol) fn read(object: &Object<'_>, scheme: PermitScheme) -> Result<Self, InvalidMessage> {
        let permit = object.object(Self::MEMBER, |permit| Permit::read(permit, scheme))?;
        Ok(Self {
            signature: object.required("signature", |text| text.parse().ok())?,
            permit: permit.ok_or(InvalidMessage::member(Self::MEMBER))?,
        })
    }
}

impl Serialize for SignedPermit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Payload<'a> {
            signature: String,
            permit2_authorization: &'a Permit,
        }
        Payload { signature: self.signature.to_string(), permit2_authorization: &self.permit }.serialize(serializer)
    }
}
