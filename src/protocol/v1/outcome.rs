//! The outcome of a payment, as version 1 tells it.

use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use super::networks::name_of;
use crate::protocol::{Network, base64_header, decode_base64, headers::PAYMENT_RESPONSE};

/// Returns the value of `X-PAYMENT-RESPONSE` for an answer that tells the outcome by `PAYMENT-RESPONSE`: the same members, and the
/// chain by its name.
pub(crate) fn outcome(headers: &HeaderMap) -> Option<HeaderValue> {
    let told = decode_base64(headers.get(PAYMENT_RESPONSE)?.as_bytes())?;
    let mut told: Value = serde_json::from_slice(&told).ok()?;
    let network = told.get_mut("network")?;
    if let Some(name) = network.as_str().and_then(|text| text.parse::<Network>().ok()).and_then(name_of) {
        *network = name.into();
    }
    Some(base64_header(told.to_string().as_bytes()))
}
