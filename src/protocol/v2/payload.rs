//! `PaymentPayload`: the standard's payment.

use serde::Serialize;

use super::{
    Extensions, InvalidMessage, JsonObject, PaymentOption, PaymentProof, ResourceInfo, SignedAuthorization,
    flow::TransferMethod,
    message::{Version2, header_message},
    object::Object,
};
use crate::protocol::{
    channel::ChannelPayload,
    permit2::{PermitScheme, SignedPermit},
};

/// The content of `PAYMENT-SIGNATURE`, on a request: the accepted way to pay, and the payment.
///
/// ```
/// use tower_x402::protocol::v2::{PaymentPayload, SchemePayload};
/// let payment = PaymentPayload::from_json(r#"{
///     "x402Version": 2,
///     "accepted": {
///         "scheme": "exact", "network": "eip155:84532", "amount": "10000", "maxTimeoutSeconds": 60,
///         "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "payTo": "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
///         "extra": {"assetTransferMethod": "txid", "paymentFlow": "upfront", "intentId": "AUbX-9_k"}
///     },
///     "payload": {"type": "payment-proof", "txRef": "0xabababababababababababababababababababababababababababababababab"}
/// }"#)?;
/// assert!(matches!(payment.payload, SchemePayload::Proof(_)));
/// # Ok::<(), tower_x402::protocol::v2::InvalidMessage>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PaymentPayload {
    x402_version: Version2,
    /// The resource, as the seller described it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceInfo>,
    /// The way to pay that the payer accepted.
    pub accepted: PaymentOption,
    /// The payment.
    pub payload: SchemePayload,
    /// The extensions.
    #[serde(skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
}

/// A payment of the kind that the accepted way demands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum SchemePayload {
    /// A signed EIP-3009 authorization, by [`TransferMethod::Eip3009`].
    Authorization(SignedAuthorization),
    /// A transaction that the payer sent, by [`TransferMethod::TxId`].
    Proof(PaymentProof),
    /// A signed Permit2 transfer: by [`TransferMethod::Permit2`], and of the scheme `upto`.
    Permit(SignedPermit),
    /// A voucher, alone or with a deposit, or a request for a refund: of the scheme `batch-settlement`.
    Channel(Box<ChannelPayload>),
    /// Anything else: an unknown scheme, chain or method, or a payload that the accepted way does not demand.
    Other(JsonObject),
}

const ACCEPTED: &str = "accepted";
const PAYLOAD: &str = "payload";

impl PaymentPayload {
    /// Creates a payment by this way.
    #[must_use]
    pub fn new(accepted: impl Into<PaymentOption>, payload: impl Into<SchemePayload>) -> Self {
        let (accepted, payload) = (accepted.into(), payload.into());
        Self { x402_version: Version2, resource: None, accepted, payload, extensions: Extensions::new() }
    }

    /// Sets the resource.
    #[must_use]
    pub fn with_resource(mut self, resource: ResourceInfo) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Sets the extensions.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    pub(super) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let x402_version = Version2::read(object)?;
        let accepted = object.object(ACCEPTED, |option| PaymentOption::read(option, ACCEPTED))?;
        let accepted = accepted.ok_or(InvalidMessage::member(ACCEPTED))?;
        let payload = object.object(PAYLOAD, |payload| SchemePayload::read(&accepted, payload))?;
        Ok(Self {
            x402_version,
            resource: object.object("resource", ResourceInfo::read)?,
            payload: payload.ok_or(InvalidMessage::member(PAYLOAD))?,
            accepted,
            extensions: Extensions::of(object)?,
        })
    }
}

impl SchemePayload {
    fn read(accepted: &PaymentOption, object: &Object<'_>) -> Result<Self, InvalidMessage> {
        if accepted.channel().is_some()
            && let Some(payload) = ChannelPayload::read(object)?
        {
            return Ok(payload.into());
        }
        let method = match accepted {
            PaymentOption::Exact(requirements) => requirements.transfer_method(),
            PaymentOption::UpTo(_) => TransferMethod::Permit2,
            PaymentOption::Channel(_) | PaymentOption::Other(_) => TransferMethod::Other,
        };
        let scheme = if accepted.up_to().is_some() { PermitScheme::UpTo } else { PermitScheme::Exact };
        match method {
            TransferMethod::Eip3009 if object.has(SignedAuthorization::MEMBER) => {
                SignedAuthorization::read(object).map(Self::Authorization)
            }
            TransferMethod::TxId if PaymentProof::is(object)? => PaymentProof::read(object).map(Self::Proof),
            TransferMethod::Permit2 if object.has(SignedPermit::MEMBER) => {
                SignedPermit::read(object, scheme).map(Self::Permit)
            }
            _ => JsonObject::read(object).map(Self::Other).ok_or(InvalidMessage::member(PAYLOAD)),
        }
    }
}

impl From<SignedAuthorization> for SchemePayload {
    fn from(authorization: SignedAuthorization) -> Self {
        Self::Authorization(authorization)
    }
}

impl From<PaymentProof> for SchemePayload {
    fn from(proof: PaymentProof) -> Self {
        Self::Proof(proof)
    }
}

impl From<ChannelPayload> for SchemePayload {
    fn from(payload: ChannelPayload) -> Self {
        Self::Channel(Box::new(payload))
    }
}

impl From<SignedPermit> for SchemePayload {
    fn from(permit: SignedPermit) -> Self {
        Self::Permit(permit)
    }
}

header_message!(PaymentPayload, PAYMENT_SIGNATURE);
