//! `VerifyResponse`: whether a payment can be settled.

use serde::Serialize;

use super::{InvalidMessage, Reason, message::json_message, object::Object, values};
use crate::protocol::Address;

/// A facilitator's answer to `POST /verify`: whether a payment can be settled.
///
/// ```
/// use tower_x402::protocol::v2::{Reason, VerifyResponse};
/// let refused = VerifyResponse::from_json(r#"{"isValid":false,"invalidReason":"insufficient_funds","payer":null}"#)?;
/// assert_eq!(refused, VerifyResponse::invalid(Reason::INSUFFICIENT_FUNDS));
/// # Ok::<(), tower_x402::protocol::v2::InvalidMessage>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct VerifyResponse {
    /// Whether the payment can be settled.
    pub is_valid: bool,
    /// Why the payment cannot be settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_reason: Option<Reason>,
    /// The reason in prose. It is untrusted: do not pass it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_message: Option<String>,
    /// The payer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payer: Option<Address>,
}

impl VerifyResponse {
    /// Reports that the payment of this payer can be settled.
    #[must_use]
    pub const fn valid(payer: Address) -> Self {
        Self { is_valid: true, invalid_reason: None, invalid_message: None, payer: Some(payer) }
    }

    /// Reports that the payment cannot be settled, and why.
    #[must_use]
    pub const fn invalid(reason: Reason) -> Self {
        Self { is_valid: false, invalid_reason: Some(reason), invalid_message: None, payer: None }
    }

    /// Sets the payer.
    #[must_use]
    pub const fn with_payer(mut self, payer: Address) -> Self {
        self.payer = Some(payer);
        self
    }

    fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let response = Self {
            is_valid: object.json("isValid")?.ok_or(InvalidMessage::member("isValid"))?,
            invalid_reason: object.parsed("invalidReason", Reason::or(Reason::UNEXPECTED_VERIFY_ERROR))?,
            invalid_message: object.string("invalidMessage")?,
            payer: object.parsed("payer", values::address)?,
        };
        match response {
            Self { is_valid: true, invalid_reason: Some(_), .. } => Err(InvalidMessage::member("invalidReason")),
            _ => Ok(response),
        }
    }
}

json_message!(VerifyResponse);
