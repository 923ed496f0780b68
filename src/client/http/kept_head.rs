//! `KeptHead`: a request's head, kept until the first answer arrives.

use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, request::Parts, uri::PathAndQuery,
};

/// How many bytes of text are kept inline, without an allocation: enough for most requests.
const ROOM: usize = 512;

/// The head of a sent request. Most answers are free, so it allocates nothing unless the head is long.
pub(super) struct KeptHead {
    pub(super) method: Method,
    /// `None` if the address is only a path, which is then the first text.
    uri: Option<Uri>,
    version: Version,
    extensions: Extensions,
    headers: Kept,
}

#[expect(clippy::large_enum_variant, reason = "a box would be the allocation that this saves")]
enum Kept {
    /// The path, then name, sensitivity and value of each header.
    Texts(Texts),
    Map(HeaderMap),
}

impl KeptHead {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let texts = Texts::of(request.uri(), request.headers());
        let is_path = texts.is_some() && is_path(request.uri());
        Self {
            method: request.method().clone(),
            uri: (!is_path).then(|| request.uri().clone()),
            version: request.version(),
            extensions: request.extensions().clone(),
            headers: texts.map_or_else(|| Kept::Map(request.headers().clone()), Kept::Texts),
        }
    }

    pub(super) fn into_parts(self) -> Parts {
        let (mut parts, ()) = Request::new(()).into_parts();
        match self.headers {
            Kept::Map(headers) => parts.headers = headers,
            Kept::Texts(texts) => {
                let mut texts = texts.iter();
                // They were a path, names and values before, so the fallbacks cannot be reached.
                parts.uri = texts
                    .next()
                    .and_then(|path| PathAndQuery::try_from(path).ok())
                    .map_or_else(Uri::default, Uri::from);
                while let (Some(name), Some(sensitive), Some(value)) = (texts.next(), texts.next(), texts.next()) {
                    let (Ok(name), Ok(mut value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
                    else {
                        continue;
                    };
                    value.set_sensitive(sensitive == SENSITIVE);
                    parts.headers.append(name, value);
                }
            }
        }
        if let Some(uri) = self.uri {
            parts.uri = uri;
        }
        parts.method = self.method;
        parts.version = self.version;
        parts.extensions = self.extensions;
        parts
    }
}

fn is_path(uri: &Uri) -> bool {
    uri.scheme().is_none() && uri.authority().is_none()
}

const SENSITIVE: &[u8] = b"1";

/// A sequence of texts, each preceded by its length.
struct Texts {
    bytes: [u8; ROOM],
    end: usize,
}

impl Texts {
    /// Returns `None` if the texts do not fit.
    fn of(uri: &Uri, headers: &HeaderMap) -> Option<Self> {
        let mut texts = Self { bytes: [0; ROOM], end: 0 };
        let path = uri.path_and_query().filter(|_| is_path(uri)).map_or("/", PathAndQuery::as_str);
        texts.push(path.as_bytes())?;
        for (name, value) in headers {
            texts.push(name.as_str().as_bytes())?;
            texts.push(if value.is_sensitive() { SENSITIVE } else { b"" })?;
            texts.push(value.as_bytes())?;
        }
        Some(texts)
    }

    fn push(&mut self, text: &[u8]) -> Option<()> {
        let (length, room) = self.bytes.get_mut(self.end..)?.split_first_chunk_mut()?;
        room.get_mut(..text.len())?.copy_from_slice(text);
        *length = u16::try_from(text.len()).ok()?.to_be_bytes();
        self.end += length.len() + text.len();
        Some(())
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.get(..self.end).unwrap_or_default();
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first_chunk()?;
            let (text, behind) = behind.split_at_checked(u16::from_be_bytes(*length).into())?;
            rest = behind;
            Some(text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::post(uri).version(Version::HTTP_2).extension(7_u8);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn what_is_kept_is_what_was_sent() {
        let long = "x".repeat(ROOM);
        // The longest value that fits, and one a byte longer.
        let [fits, too_long] = [ROOM - 12, ROOM - 11].map(|length| "y".repeat(length));
        for (uri, headers, allocates) in [
            ("/", &[][..], false),
            ("/a%20b?q=%2F&r", &[("host", "a.example"), ("x-two", "1"), ("x-one", ""), ("x-two", "2")], false),
            ("https://a.example:8443/x?y", &[("accept", "*/*")], false),
            ("https://a.example", &[], false),
            ("*", &[("x-utf-8", "é")], false),
            ("a.example:443", &[], false),
            ("/", &[("x", &long)], true),
            ("/", &[("abc", &fits)], false),
            ("/", &[("abc", &too_long)], true),
        ] {
            let mut sent = request(uri, headers);
            if let Some(value) = sent.headers_mut().get_mut("x-one") {
                value.set_sensitive(true);
            }
            let kept = KeptHead::of(&sent);
            assert_eq!(matches!(kept.headers, Kept::Map(_)), allocates, "{uri}");
            let parts = kept.into_parts();
            let (sent, ()) = sent.into_parts();
            assert_eq!((&parts.method, &parts.uri, parts.version), (&sent.method, &sent.uri, sent.version));
            assert_eq!(parts.extensions.get::<u8>(), Some(&7));
            let in_order = |headers: &HeaderMap| {
                headers
                    .iter()
                    .map(|(name, value)| (name.clone(), value.clone(), value.is_sensitive()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(in_order(&parts.headers), in_order(&sent.headers), "{uri}");
        }
    }
}
