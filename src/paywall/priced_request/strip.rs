//! The proof in a request that goes on to the handler: marks it as a secret, or removes it.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};

use crate::{
    paywall::seller::mpp::Mpp,
    protocol::{
        headers::{PAYMENT_SIGNATURE, X_PAYMENT, X402_PAYMENT},
        mpp, without_proof_members,
    },
};

const PROOFS: [HeaderName; 3] = [X402_PAYMENT, PAYMENT_SIGNATURE, X_PAYMENT];

/// Digests of the body that a sender may add (RFC 9530 and before).
const BODY_DIGESTS: [&str; 4] = ["content-digest", "repr-digest", "digest", "content-md5"];

/// Marks the headers with a proof, so that neither `Debug` nor the header compression of HTTP/2 spreads their values.
pub(crate) fn mark_sensitive(headers: &mut HeaderMap, mpp: Option<&Mpp>) {
    for name in PROOFS {
        if let Some(value) = headers.get_mut(name) {
            HeaderValue::set_sensitive(value, true);
        }
    }
    if let Some(mpp) = mpp {
        mark_credential(headers, &mpp.header());
    }
}

/// Removes the headers with a proof, and the credential of MPP, if the merchant reads it. Returns whether there were any.
pub(crate) fn strip_headers(headers: &mut HeaderMap, mpp: Option<&Mpp>) -> bool {
    // Goes through the names that are present: most requests have at most one of these.
    let mut ours = false;
    while let Some(name) = headers.keys().find_map(|name| PROOFS.into_iter().find(|proof| proof == name)) {
        headers.remove(name);
        ours = true;
    }
    mpp.is_some_and(|mpp| strip_credential(headers, &mpp.header())) | ours
}

/// Returns whether a request's headers show a payment, readable or not.
pub(crate) fn shows_payment(headers: &HeaderMap, mpp: Option<&Mpp>) -> bool {
    // Goes through the names that are present: each lookup would have to hash a name.
    headers.keys().any(|name| PROOFS.contains(name))
        || mpp.is_some_and(|mpp| headers.get_all(mpp.header()).iter().any(is_credential))
}

/// Marks the credential of MPP in this header.
fn mark_credential(headers: &mut HeaderMap, name: &HeaderName) {
    if let header::Entry::Occupied(mut values) = headers.entry(name) {
        values.iter_mut().filter(|value| is_credential(value)).for_each(|value| value.set_sensitive(true));
    }
}

/// Removes the credential of MPP from this header, and leaves the service's own values. Returns whether there was one.
fn strip_credential(headers: &mut HeaderMap, name: &HeaderName) -> bool {
    let header::Entry::Occupied(values) = headers.entry(name) else { return false };
    let own: Vec<HeaderValue> = values.iter().filter(|value| !is_credential(value)).cloned().collect();
    let there = own.len() < values.iter().count();
    values.remove_entry_mult();
    own.into_iter().for_each(|value| _ = headers.append(name, value));
    there
}

fn is_credential(value: &HeaderValue) -> bool {
    mpp::token(value.as_bytes()).is_some()
}

/// Removes the members of a proof from a body, and what the head says about the original bytes.
pub(crate) fn strip_members(parts: &mut Parts, body: Bytes) -> Bytes {
    let Some(stripped) = without_proof_members(&body) else { return body };
    for name in BODY_DIGESTS {
        parts.headers.remove(name);
    }
    if let Some(length) = parts.headers.get_mut(header::CONTENT_LENGTH) {
        *length = HeaderValue::from(stripped.len());
    }
    stripped.into()
}
