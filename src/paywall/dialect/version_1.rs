//! Version 1 of the standard: what it says of a payment's outcome.

use http::{HeaderMap, HeaderValue};

use crate::protocol::{
    headers::{X_PAYMENT_RESPONSE, expose_line},
    v1,
};

/// Tells a client of version 1 what the answer tells by `PAYMENT-RESPONSE`.
pub(crate) fn tell_outcome(headers: &mut HeaderMap) {
    if let Some(outcome) = v1::outcome(headers) {
        headers.insert(X_PAYMENT_RESPONSE, outcome);
        expose_line(headers, HeaderValue::from_static("X-PAYMENT-RESPONSE"));
    }
}
