//! The outcome of a payment, in the header `PAYMENT-RESPONSE`.

use std::fmt::Write as _;

use http::{HeaderMap, header};

use crate::protocol::{
    Amount, Payment, base64_header,
    headers::{PAYMENT_RESPONSE, PRIVATE_NO_STORE, expose, strip_shared_caching},
    v2::SettleResponse,
};

/// Reports to the payer which payment was taken, and the maximum that it allowed, if the handler set the charge.
pub(crate) fn mark_sold(headers: &mut HeaderMap, paid: &Payment, maximum: Option<Amount>) {
    mark_taken(headers, paid, maximum);
    expose(headers);
}

/// Does the same without exposing the header to browsers, for answers whose door reports it elsewhere.
pub(crate) fn mark_taken(headers: &mut HeaderMap, paid: &Payment, maximum: Option<Amount>) {
    let mut taken = String::with_capacity(320);
    let mut numbers = itoa::Buffer::new();
    // Written in pieces: formatting takes three times as long as the encoding.
    taken.push_str(r#"{"success":true,"transaction":""#);
    if let Some(transaction) = paid.transaction() {
        taken.push_str(const_hex::Buffer::<32, true>::new().format(transaction.as_bytes()));
    }
    taken.push_str(r#"","network":"eip155:"#);
    taken.push_str(numbers.format(paid.network().chain_id()));
    taken.push_str(r#"","payer":""#);
    taken.push_str(const_hex::Buffer::<20, true>::new().format(paid.payer().as_bytes()));
    taken.push_str(r#"","amount":""#);
    match paid.amount().to_u128() {
        Some(amount) => taken.push_str(numbers.format(amount)),
        // Writing to a String cannot fail.
        None => _ = write!(taken, "{}", paid.amount()),
    }
    taken.push('"');
    if let Some(maximum) = maximum {
        let _ = write!(taken, r#","extra":{{"maximum":"{maximum}"}}"#);
    }
    taken.push('}');
    headers.insert(PAYMENT_RESPONSE, base64_header(taken.as_bytes()));
    headers.insert(header::CACHE_CONTROL, PRIVATE_NO_STORE);
    strip_shared_caching(headers);
}

/// Reports a payment that is made and has bought nothing yet, unless the answer reports it already.
pub(crate) fn mark_made(headers: &mut HeaderMap, made: &SettleResponse) {
    if !headers.contains_key(PAYMENT_RESPONSE) {
        headers.insert(PAYMENT_RESPONSE, made.to_header());
        expose(headers);
    }
}

/// Returns whether a payment bought this answer. The same header reports payments that were refused, may be made or have bought nothing.
pub(crate) fn tells_of_sale(headers: &HeaderMap) -> bool {
    matches!(SettleResponse::from_headers(headers), Ok(Some(told)) if told.success)
}
