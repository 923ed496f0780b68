//! `PaymentPayload`: a signed payment in the form of version 1.

use serde::{Serialize, Serializer, ser::SerializeStruct as _};

use super::networks::{name_of, named};
use crate::protocol::{
    Network,
    v2::{InvalidMessage, SignedAuthorization, message::header_message, object::Object},
};

/// The content of `X-PAYMENT`, on a request: a signed authorization of the scheme `exact`, and the chain's name.
///
/// It names neither the token nor the paid quote: the signature identifies the token, and the amount is the price.
///
/// ```
/// use tower_x402::protocol::{Network, v1::PaymentPayload};
/// let payment = PaymentPayload::from_json(r#"{"x402Version":1,"scheme":"exact","network":"base","payload":{"signature":"0xabcd",
///     "authorization":{"from":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","to":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
///         "value":"10000","validAfter":"0","validBefore":"1893456000",
///         "nonce":"0x4242424242424242424242424242424242424242424242424242424242424242"}}}"#)?;
/// assert_eq!(payment.network, Network::BASE);
/// # Ok::<(), tower_x402::protocol::v2::InvalidMessage>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PaymentPayload {
    /// The chain. It has a name in version 1.
    pub network: Network,
    /// The payment.
    pub payload: SignedAuthorization,
}

impl PaymentPayload {
    /// Creates a payment on this chain.
    #[must_use]
    pub const fn new(network: Network, payload: SignedAuthorization) -> Self {
        Self { network, payload }
    }

    fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let payload = "payload";
        // The errors name these members; this type allows one value for each.
        object
            .json("x402Version")?
            .filter(|version: &u64| *version == 1)
            .ok_or(InvalidMessage::member("x402Version"))?;
        object.required("scheme", |scheme| (scheme == "exact").then_some(()))?;
        Ok(Self {
            network: object.required("network", named)?,
            payload: object.object(payload, SignedAuthorization::read)?.ok_or(InvalidMessage::member(payload))?,
        })
    }
}

impl Serialize for PaymentPayload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut message = serializer.serialize_struct("PaymentPayload", 4)?;
        message.serialize_field("x402Version", &1)?;
        message.serialize_field("scheme", "exact")?;
        match name_of(self.network) {
            Some(name) => message.serialize_field("network", name)?,
            // A chain without a name: no seller of version 1 accepts it.
            None => message.serialize_field("network", &self.network)?,
        }
        message.serialize_field("payload", &self.payload)?;
        message.end()
    }
}

header_message!(PaymentPayload, X_PAYMENT);
