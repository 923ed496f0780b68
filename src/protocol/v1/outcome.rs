//! The outcome of a payment in the form of version 1.

use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use super::networks::name_of;
use crate::protocol::{Network, base64_header, decode_base64, headers::PAYMENT_RESPONSE};

/// Returns the value of `X-PAYMENT-RESPONSE` for an answer with `PAYMENT-RESPONSE`: the same members, with the
/// chain's name.
pub(crate) fn outcome(headers: &HeaderMap) -> Option<HeaderValue> {
    let told = decode_base64(headers.get(PAYMENT_RESPONSE)?.as_bytes())?;
    let mut told: Value = serde_json::from_slice(&told).ok()?;
    let network = told.get_mut("network")?;
    if let Some(name) = network.as_str().and_then(|text| text.parse::<Network>().ok()).and_then(name_of) {
        *network = name.into();
    }
    Some(base64_header(told.to_string().as_bytes()))
}
