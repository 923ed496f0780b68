//! `InvalidMessage`: why a header or a JSON text is not a message of the standard.

/// The error returned when a header or a JSON text is not a message of the standard. It repeats nothing of the text.
///
/// ```
/// use tower_x402::protocol::v2::SettleResponse;
/// let error = SettleResponse::from_json(r#"{"success":"yes"}"#).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "invalid x402 message: `success` is missing, given twice, or not of the standard's form; see the x402 specification, version 2"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid x402 message: {kind}")]
pub struct InvalidMessage {
    kind: InvalidMessageKind,
}

/// The kind of a message's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub(crate) enum InvalidMessageKind {
    /// The header is sent more than once.
    #[error("its header is sent more than once; send it once")]
    Repeated,
    /// The header exceeds the limit.
    #[error("its header is too long; send less in it")]
    TooLong,
    /// The header is not base64.
    #[error("its header is not base64; send base64 of a JSON object")]
    NotBase64,
    /// The text is not one JSON object in UTF-8.
    #[error("it is not a JSON object in UTF-8; send one, and nothing after it")]
    NotJson,
    /// The message is of another version of the standard.
    #[error("its `x402Version` is not 2; send version 2")]
    Version,
    /// The member of this name is missing, given twice, or not of the standard's form.
    #[error("`{0}` is missing, given twice, or not of the standard's form; see the x402 specification, version 2")]
    Member(&'static str),
}

impl InvalidMessage {
    #[cfg(test)]
    pub(crate) const fn kind(&self) -> InvalidMessageKind {
        self.kind
    }

    pub(super) const fn new(kind: InvalidMessageKind) -> Self {
        Self { kind }
    }

    /// Returns the error of one member.
    pub(in crate::protocol) const fn member(name: &'static str) -> Self {
        Self::new(InvalidMessageKind::Member(name))
    }
}
