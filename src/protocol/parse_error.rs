//! `ParseError`: a text has an unexpected form.

/// The error returned when a text, or the bytes behind it, is not a value of the type it was parsed as.
///
/// Its text names the expected form, and repeats nothing of the input, which may be secret.
///
/// ```
/// use tower_x402::protocol::Network;
///
/// let error = "base".parse::<Network>().unwrap_err();
/// assert_eq!(error.to_string(), "a network is `eip155:` and a chain id, such as `eip155:8453`");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(&'static str);

impl ParseError {
    pub(crate) const fn new(expected: &'static str) -> Self {
        Self(expected)
    }
}
