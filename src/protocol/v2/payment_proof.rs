//! `PaymentProof`: a transfer that its payer sent and shows.

use serde::{Serialize, Serializer};

use super::{InvalidMessage, object::Object, values};
use crate::protocol::{PaymentSecret, PaymentSignature, TxHash};

/// The payload of the client-submitted family, method `txid`: the transaction that paid, and the proof of its payer.
///
/// ```
/// use tower_x402::protocol::{TxHash, v2::PaymentProof};
/// let proof = PaymentProof::new(TxHash::new([0xab; 32])).with_secret("AAAAAAAAAAAAAAAA".parse()?);
/// assert_eq!(proof.transaction, TxHash::new([0xab; 32]));
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PaymentProof {
    /// The transaction that paid: `txRef`.
    pub transaction: TxHash,
    /// A signature of the payer over [`redemption_message`](crate::protocol::redemption_message).
    pub signature: Option<PaymentSignature>,
    /// The secret that the transfer is bound to, unless that is the intent.
    pub secret: Option<PaymentSecret>,
}

impl PaymentProof {
    /// The `type` of such a payload.
    pub(crate) const TYPE: &str = "payment-proof";

    /// Creates a proof by this transaction.
    #[must_use]
    pub const fn new(transaction: TxHash) -> Self {
        Self { transaction, signature: None, secret: None }
    }

    /// Adds the payer's signature.
    #[must_use]
    pub fn with_signature(mut self, signature: PaymentSignature) -> Self {
        self.signature = Some(signature);
        self
    }

    /// Adds the secret.
    #[must_use]
    pub fn with_secret(mut self, secret: PaymentSecret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Returns whether a payload's `type` is that of a proof.
    pub(super) fn is(object: &Object<'_>) -> Result<bool, InvalidMessage> {
        let named = object.json::<serde_json::Value>("type")?;
        Ok(named.is_some_and(|named| named == Self::TYPE))
    }

    pub(super) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        Ok(Self {
            transaction: object.required("txRef", values::transaction)?,
            signature: object.parsed("paymentSignature", |text| text.parse().ok())?,
            secret: object.parsed("paymentSecret", |text| text.parse().ok())?,
        })
    }
}

impl Serialize for PaymentProof {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Payload<'a> {
            r#type: &'a str,
            tx_ref: TxHash,
            #[serde(skip_serializing_if = "Option::is_none")]
            payment_signature: Option<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            payment_secret: Option<&'a str>,
        }
        let payment_signature = self.signature.as_ref().map(ToString::to_string);
        let payment_secret = self.secret.as_ref().map(PaymentSecret::as_str);
        let payload = Payload { r#type: Self::TYPE, tx_ref: self.transaction, payment_signature, payment_secret };
        payload.serialize(serializer)
    }
}
