//! The page's permissions: its Content-Security-Policy, with the hashes of its script and its style.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use sha2::{Digest as _, Sha256};

/// Returns the headers that guard a page with this script and style, and the readers that it may load.
pub(super) fn headers(script: &str, readers: Option<&str>, style: &str) -> HeaderMap {
    let readers = readers.map(|readers| format!(" '{}'", source(readers))).unwrap_or_default();
    // Images: the shop's own icon, and logo and wallets' icons as data. Answers are shown without their pictures.
    let policy = format!(
        "default-src 'none'; script-src '{}'{readers}; style-src '{}'; connect-src 'self'; img-src 'self' blob: data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        source(script),
        source(style)
    );
    HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        // Hashes and these words are a valid value, so the fall-back is unreachable; it would forbid everything.
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'")),
        ),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        // The address bar may contain a private question.
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // Some wallets open a window and talk with it.
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin-allow-popups")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    ])
}

/// The hash of an inline text, as a source of the policy.
fn source(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example from the standard.
    #[test]
    fn the_hash_is_that_of_the_standard() {
        assert_eq!(source("alert('Hello, world.');"), "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
    }
}
