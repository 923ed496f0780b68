//! `Authorization`: a transfer that its payer signed and someone else sends.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{InvalidMessage, object::Object, values};
use crate::protocol::{Address, Amount, ChainTime, Network, PaymentId, PaymentSignature};

/// An EIP-3009 `TransferWithAuthorization`: a payment that has not happened yet.
///
/// ```
/// use tower_x402::protocol::{Address, Amount, ChainTime, v2::Authorization};
/// let authorization = Authorization::new(Address::new([0x11; 20]), [0x42; 32])
///     .paying(Address::new([0x5a; 20]), Amount::from_base_units(10_000))
///     .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(1_893_456_000));
/// assert_eq!(authorization.nonce, [0x42; 32]);
/// ```
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Authorization {
    /// The payer.
    pub from: Address,
    /// The account that is paid.
    pub to: Address,
    /// The amount, in base units.
    pub value: Amount,
    /// The authorization is valid after this moment.
    #[serde(serialize_with = "values::write_time")]
    pub valid_after: ChainTime,
    /// The authorization is valid before this moment.
    #[serde(serialize_with = "values::write_time")]
    pub valid_before: ChainTime,
    /// The payer's nonce of this authorization, used once for each token.
    #[serde(serialize_with = "values::write_bytes32")]
    pub nonce: [u8; 32],
}

/// An [`Authorization`] and its payer's signature: the payload of the method EIP-3009.
///
/// The token decides whether the signature is the payer's. `Debug` does not show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignedAuthorization {
    /// The payer's signature of the EIP-712 message, or one that the payer's contract accepts.
    pub signature: PaymentSignature,
    /// The signed fields.
    pub authorization: Authorization,
}

impl Authorization {
    /// Returns an authorization of this payer and nonce, which pays nothing yet and is never valid.
    #[must_use]
    pub const fn new(from: Address, nonce: [u8; 32]) -> Self {
        let never = ChainTime::from_unix(0);
        Self { from, to: Address::ZERO, value: Amount::ZERO, valid_after: never, valid_before: never, nonce }
    }

    /// Sets recipient and amount.
    #[must_use]
    pub const fn paying(mut self, to: Address, value: Amount) -> Self {
        (self.to, self.value) = (to, value);
        self
    }

    /// Sets the moments after which and before which it is valid.
    #[must_use]
    pub const fn valid_between(mut self, after: ChainTime, before: ChainTime) -> Self {
        (self.valid_after, self.valid_before) = (after, before);
        self
    }

    /// Returns the id of the payment that is made from this authorization.
    #[must_use]
    pub const fn payment_id(&self, network: Network, token: Address) -> PaymentId {
        PaymentId::of_authorization(network, token, self.from, self.nonce)
    }

    pub(in crate::protocol) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        Ok(Self {
            from: object.required("from", values::address)?,
            to: object.required("to", values::address)?,
            value: object.required("value", values::amount)?,
            valid_after: object.required("validAfter", values::time)?,
            valid_before: object.required("validBefore", values::time)?,
            nonce: object.required("nonce", values::bytes32)?,
        })
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization")
            .field("from", &self.from)
            .field("to", &self.to)
            .field("value", &self.value)
            .field("valid_after", &self.valid_after)
            .field("valid_before", &self.valid_before)
            .field("nonce", &const_hex::encode_prefixed(self.nonce))
            .finish()
    }
}

impl SignedAuthorization {
    pub(super) const MEMBER: &str = "authorization";

    /// Combines an authorization and its signature.
    #[must_use]
    pub const fn new(authorization: Authorization, signature: PaymentSignature) -> Self {
        Self { signature, authorization }
    }

    pub(in crate::protocol) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let authorization = object.object(Self::MEMBER, Authorization::read)?;
        Ok(Self {
            signature: object.required("signature", |text| text.parse().ok())?,
            authorization: authorization.ok_or(InvalidMessage::member(Self::MEMBER))?,
        })
    }
}

impl Serialize for SignedAuthorization {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Payload<'a> {
            signature: String,
            authorization: &'a Authorization,
        }
        Payload { signature: self.signature.to_string(), authorization: &self.authorization }.serialize(serializer)
    }
}
