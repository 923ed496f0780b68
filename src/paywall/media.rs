//! `Media`: what a request's content type says about its body, and about the answers that its sender can read.

use http::{HeaderMap, header};

/// The content types that make a difference here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    /// `application/x-www-form-urlencoded`, which some clients send whatever the body is.
    Form,
    /// gRPC, with the content type that its answer has.
    Grpc(&'static str),
    Other,
}

impl Media {
    /// Decides by the bytes before the first `;`: parameters, text or not, change nothing.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(header::CONTENT_TYPE) else { return Self::Other };
        let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let is = |known: &str| essence.eq_ignore_ascii_case(known.as_bytes());
        if is("application/json") {
            Self::Json
        } else if let Some(answer) = grpc(essence) {
            Self::Grpc(answer)
        } else if is("text/json") || ends_with(essence, b"+json") {
            Self::Json
        } else if is("application/x-www-form-urlencoded") {
            Self::Form
        } else {
            Self::Other
        }
    }
}

/// The content type of the answer to a gRPC request. The part behind the `+`, which may be `json`, is the encoding of framed
/// messages, and not of the body.
fn grpc(essence: &[u8]) -> Option<&'static str> {
    let base = essence.split(|byte| *byte == b'+').next().unwrap_or_default();
    let known = [
        ("application/grpc", "application/grpc"),
        ("application/grpc-web", "application/grpc-web+proto"),
        ("application/grpc-web-text", "application/grpc-web-text+proto"),
    ];
    known.into_iter().find(|(name, _)| base.eq_ignore_ascii_case(name.as_bytes())).map(|(_, answer)| answer)
}

fn ends_with(essence: &[u8], suffix: &[u8]) -> bool {
    let end = essence.len().saturating_sub(suffix.len());
    end > 0 && essence[end..].eq_ignore_ascii_case(suffix)
}
