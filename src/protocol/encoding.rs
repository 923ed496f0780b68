//! Base64 in headers: read leniently, written in one form.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose},
};
use bytes::Bytes;
use http::HeaderValue;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Decodes base64 of the standard or the URL-safe alphabet, padded or not.
pub(crate) fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()
}

/// Encodes a header's value in the standard alphabet, padded.
pub(crate) fn base64_header(text: &[u8]) -> HeaderValue {
    let mut encoded = vec![0; text.len().div_ceil(3) * 4];
    // Cannot fail: the buffer has room for all of it.
    let _ = general_purpose::STANDARD.encode_slice(text, &mut encoded);
    // Base64 is a valid header value, so the fall-back is unreachable.
    HeaderValue::from_maybe_shared(Bytes::from(encoded)).unwrap_or(HeaderValue::from_static(""))
}
