//! Version 1 of the standard: its report of a payment's outcome.

use http::{HeaderMap, HeaderValue};

use crate::protocol::{
    headers::{X_PAYMENT_RESPONSE, expose_line},
    v1,
};

/// Repeats the report in `PAYMENT-RESPONSE` for a client of version 1.
pub(crate) fn tell_outcome(headers: &mut HeaderMap) {
    if let Some(outcome) = v1::outcome(headers) {
        headers.insert(X_PAYMENT_RESPONSE, outcome);
        expose_line(headers, HeaderValue::from_static("X-PAYMENT-RESPONSE"));
    }
}
