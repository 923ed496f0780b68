//! `Media`: the content type of a body, and the answers that its sender can read.

use http::{HeaderMap, HeaderValue, header};

/// The content types that this crate distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    /// `application/x-www-form-urlencoded`, which some clients send with every body.
    Form,
    /// gRPC, with the content type of its answer.
    Grpc(&'static str),
    Other,
}

impl Media {
    /// Classifies the first `Content-Type` header, without its parameters.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(header::CONTENT_TYPE) else { return Self::Other };
        let essence = essence(value);
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

/// Returns whether a reader may decode the body as something other than UTF-8: because a foreign charset is named, in
/// any way that a reader may look for it, or because there are two content types.
pub(crate) fn has_foreign_charset(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let Some(content_type) = types.next() else { return false };
    let content_type = content_type.as_bytes();
    // Most content types have no parameters.
    let names_foreign = || {
        let mut parameters = content_type.split(|byte| *byte == b';');
        content_type.contains(&b'=') && parameters.any(|parameter| names_charset(parameter) && !is_utf_8(parameter))
    };
    types.next().is_some() || names_foreign()
}

fn names_charset(parameter: &[u8]) -> bool {
    const NAME: &[u8] = b"charset";
    parameter.windows(NAME.len()).any(|window| window.eq_ignore_ascii_case(NAME))
}

/// Compares letters and digits only, as decoders compare charset names.
fn is_utf_8(parameter: &[u8]) -> bool {
    let letters = parameter.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase);
    letters.eq(*b"charsetutf8")
}

/// Returns a content type without its parameters.
pub(super) fn essence(content_type: &HeaderValue) -> &[u8] {
    content_type.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

/// Returns the content type of the answer to a gRPC request. The part after the `+`, which may be `json`, encodes the
/// framed messages, not the body.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_charset_but_utf_8_is_foreign() {
        let types = |lines: &[&[u8]]| -> HeaderMap {
            lines.iter().map(|line| (header::CONTENT_TYPE, HeaderValue::from_bytes(line).unwrap())).collect()
        };
        let own: [&[u8]; 7] = [
            b"application/json",
            b"application/json; charset=utf-8",
            b"application/json;Charset = \"UTF-8\" ; v=1",
            b"text/plain;charset=utf8;",
            b"multipart/form-data; boundary=utf-7",
            "application/json; charset=utf\u{2011}8".as_bytes(),
            b"",
        ];
        for content_type in own {
            assert!(!has_foreign_charset(&types(&[content_type])), "{}", content_type.escape_ascii());
        }
        let foreign: [&[u8]; 12] = [
            b"application/json; charset=utf-7",
            b"application/json;CHARSET=\"utf7\"",
            b"application/json; charset=utf-16",
            b"application/json; charset=utf-8,utf-7",
            b"application/json; charset=utf-8; charset=utf-7",
            b"application/json; x=\"; charset=utf-8\"; charset=utf-7",
            b"application/json; charset*=us-ascii'en'utf-7",
            b"application/json; charset*0=utf-; charset*1=7",
            b"application/json charset=utf-7",
            b"application/json; charset=us-ascii",
            b"application/json; charset=utf-7\xa0",
            b"application/json; charset=",
        ];
        for content_type in foreign {
            assert!(has_foreign_charset(&types(&[content_type])), "{}", content_type.escape_ascii());
        }
        assert!(has_foreign_charset(&types(&[b"application/json", b"application/json"])));
        assert!(!has_foreign_charset(&HeaderMap::new()));
    }

    #[test]
    fn a_content_type_counts_without_its_parameters_and_in_any_case() {
        let cases: [(&[u8], Media); 14] = [
            (b"application/json", Media::Json),
            (b" Application/JSON ; charset=utf-8", Media::Json),
            (b"application/json;note=\xff", Media::Json),
            (b"text/json", Media::Json),
            (b"application/problem+json", Media::Json),
            (b"application/jsonp", Media::Other),
            (b"application/json-seq", Media::Other),
            (b"+json", Media::Other),
            (b"text/plain;type=application/json", Media::Other),
            (b"", Media::Other),
            (b"application/x-www-form-urlencoded", Media::Form),
            (b"application/grpc", Media::Grpc("application/grpc")),
            (b"application/grpc+json", Media::Grpc("application/grpc")),
            (b"application/grpc-web-text+proto", Media::Grpc("application/grpc-web-text+proto")),
        ];
        for (content_type, media) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_bytes(content_type).unwrap());
            assert_eq!(Media::of(&headers), media, "{}", content_type.escape_ascii());
        }
        assert_eq!(Media::of(&HeaderMap::new()), Media::Other);
    }
}
