//! `CleanPath`: the one spelling of a path that is priced and that the upstream sees.
//!
//! Services read paths differently. So everything that some of them take for another path is either spelled as the
//! service would read it, or refused. Routes are matched by a folded form in which more paths are equal than in most
//! services: letter case, accents, trailing slashes, and what follows a `;`, `?` or `#` make no difference. If
//! another route matches the path as spelled, without an extension, or up to the first `;`, the more expensive of
//! both routes counts.

use std::borrow::Cow;

use super::fold::fold;

/// A path in its normalised spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CleanPath {
    /// The path that the upstream sees.
    spelled: String,
    whole: Reading,
    /// The reading of a service that ends the path at the first `;`, if it differs.
    cut: Option<Reading>,
}

/// The path as one kind of service reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The decoded segments.
    decoded: Vec<String>,
    /// The same segments, folded so that more paths are equal.
    segments: Vec<String>,
}

/// The reason why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unclear {
    /// It does not begin with a slash.
    NoPath,
    /// A `%` that is not followed by two hexadecimal digits, or an escape that decodes to another escape.
    Escape,
    /// An encoded slash, a backslash or a control character.
    Separator,
    /// It is not UTF-8.
    Encoding,
    /// A segment of dots, spaces and parameters alone, such as `..;` and `;`: services drop it, or step back.
    Dots,
    /// An encoded `?` or `#` before the last segment: for a service that decodes it, the path ends there.
    Query,
}

impl Unclear {
    /// The sentence for the client.
    pub(crate) const fn detail(self) -> &'static str {
        match self {
            Self::NoPath => "The request names no path.",
            Self::Escape => {
                "The path has a percent sign that does not encode one character; encode each character once."
            }
            Self::Separator => "The path has an encoded slash, a backslash or a control character. Leave it out.",
            Self::Encoding => "The path is not UTF-8.",
            Self::Dots => "The path has a segment of nothing but dots, spaces and parameters. Leave it out.",
            Self::Query => {
                "The path has an encoded question mark or number sign before its last segment. Leave it out."
            }
        }
    }
}

impl CleanPath {
    /// Reads the path of a request.
    ///
    /// # Errors
    /// Fails if services may read it as another path.
    pub(crate) fn read(path: &str) -> Result<Self, Unclear> {
        if !path.starts_with('/') {
            return Err(Unclear::NoPath);
        }
        let mut spelled: Vec<String> = Vec::new();
        let mut ends_in_slash = true;
        for raw in path.split('/') {
            let segment = Segment::read(raw)?;
            ends_in_slash = matches!(segment.spelled.as_str(), "" | "." | "..");
            match segment.spelled.as_str() {
                "" | "." => {}
                ".." => drop(spelled.pop()),
                _ if segment.is_dots() => return Err(Unclear::Dots),
                _ => spelled.push(segment.spelled),
            }
        }
        let decoded = spelled.iter().map(|segment| Segment::read(segment).map(|segment| segment.decoded));
        let decoded = decoded.collect::<Result<Vec<_>, _>>()?;
        if let Some((_, before)) = decoded.split_last()
            && before.iter().any(|segment| segment.contains(['?', '#']))
        {
            return Err(Unclear::Query);
        }
        let segments = decoded.iter().map(|segment| key(segment)).collect();
        let end = if ends_in_slash && !spelled.is_empty() { "/" } else { "" };
        let whole = Reading { decoded, segments };
        let cut = whole.up_to_parameters();
        Ok(Self { spelled: format!("/{}{end}", spelled.join("/")), whole, cut })
    }

    /// Returns the path that the upstream sees.
    pub(crate) fn as_str(&self) -> &str {
        &self.spelled
    }

    /// Returns the ways in which services may read it.
    pub(crate) fn readings(&self) -> impl Iterator<Item = &Reading> {
        std::iter::once(&self.whole).chain(&self.cut)
    }

    /// Returns the decoded segments.
    pub(crate) fn decoded(&self) -> &[String] {
        self.whole.decoded()
    }

    /// Returns the segments in the form of [`key`].
    pub(crate) fn segments(&self) -> &[String] {
        self.whole.segments()
    }
}

impl Reading {
    pub(crate) fn decoded(&self) -> &[String] {
        &self.decoded
    }

    pub(crate) fn segments(&self) -> &[String] {
        &self.segments
    }

    /// Returns the path as a service reads it that ends paths at the first `;`, such as Fastify up to version 4.
    /// `None` unless a segment follows the `;`: in the last segment, no route considers what comes after it.
    fn up_to_parameters(&self) -> Option<Self> {
        let (_, before) = self.decoded.split_last()?;
        let last = before.iter().position(|segment| has_parameters(segment))?;
        let mut decoded = self.decoded.get(..=last)?.to_vec();
        if let Some(segment) = decoded.last_mut() {
            segment.truncate(segment.find(';').unwrap_or(segment.len()));
        }
        Some(Self { decoded, segments: self.segments.get(..=last)?.to_vec() })
    }
}

/// The text between two slashes.
struct Segment {
    spelled: String,
    decoded: String,
}

impl Segment {
    fn read(raw: &str) -> Result<Self, Unclear> {
        let (mut spelled, mut decoded) = (String::with_capacity(raw.len()), Vec::with_capacity(raw.len()));
        let mut bytes = raw.bytes();
        while let Some(byte) = bytes.next() {
            let (byte, was_encoded) = match byte {
                b'%' => (escaped(bytes.next(), bytes.next()).ok_or(Unclear::Escape)?, true),
                _ => (byte, false),
            };
            if matches!(byte, b'/' | b'\\' | 0x7f) || byte < 0x20 {
                return Err(Unclear::Separator);
            }
            decoded.push(byte);
            if is_unreserved(byte) || !was_encoded && is_plain(byte) {
                spelled.push(char::from(byte));
            } else {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                spelled.push('%');
                spelled.push(char::from(DIGITS[usize::from(byte >> 4)]));
                spelled.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
        let encoded_twice = decoded
            .windows(3)
            .any(|three| three[0] == b'%' && three[1].is_ascii_hexdigit() && three[2].is_ascii_hexdigit());
        if encoded_twice {
            return Err(Unclear::Escape);
        }
        let decoded = String::from_utf8(decoded).map_err(|_| Unclear::Encoding)?;
        Ok(Self { spelled, decoded })
    }

    /// Returns whether a service that drops parameters, a query, trailing dots or spaces sees a dot segment or an
    /// empty one.
    fn is_dots(&self) -> bool {
        let folded: Cow<'_, str> = match self.decoded.is_ascii() {
            true => (&*self.decoded).into(),
            false => fold(&self.decoded).into(),
        };
        plain_part(&folded).trim_matches(['.', ' ']).is_empty()
    }
}

fn has_parameters(decoded: &str) -> bool {
    decoded.contains(';') || !decoded.is_ascii() && fold(decoded).contains(';')
}

/// Returns what precedes the parameters, and what a service that decodes too early takes for a query.
fn plain_part(decoded: &str) -> &str {
    decoded.split([';', '?', '#']).next().unwrap_or(decoded)
}

/// Returns a decoded segment in the form that routes match: [folded](fold), then without parameters and without
/// trailing dots and spaces. Folding comes first because it can produce the characters that start parameters.
fn key(decoded: &str) -> String {
    let mut folded = fold(decoded);
    folded.truncate(plain_part(&folded).trim_end_matches(['.', ' ']).len());
    folded
}

fn escaped(high: Option<u8>, low: Option<u8>) -> Option<u8> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Returns whether a character means the same encoded and plain.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Returns whether a segment may contain this character unencoded.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_end_at_a_semicolon() {
        let none: Option<[&[&str]; 2]> = None;
        for (path, cut) in [
            ("/reports/1;/preview", Some([&["reports", "1"] as &[_], &["reports", "1"]])),
            ("/Reports;v=1/1", Some([&["Reports"], &["reports"]])),
            ("/a%3bv/1;w/2", Some([&["a"], &["a"]])),
            ("/a\u{ff1b}v/1", Some([&["a\u{ff1b}v"], &["a"]])),
            ("/reports/1;v=1", none),
            ("/reports/1;v=1/", none),
            ("/reports/1", none),
            ("/", none),
        ] {
            let read = CleanPath::read(path).unwrap();
            let read = read.cut.map(|cut| [cut.decoded, cut.segments]);
            assert_eq!(
                read,
                cut.map(|cut| cut.map(|names| names.iter().map(|name| (*name).to_owned()).collect())),
                "{path}"
            );
        }
    }

    #[test]
    fn every_spelling_of_a_path_becomes_one() {
        for (path, spelled) in [
            ("/", "/"),
            ("/reports/1", "/reports/1"),
            ("/%72eports/1", "/reports/1"),
            ("/%72%65%70orts/%31", "/reports/1"),
            ("//reports/1", "/reports/1"),
            ("/reports//1", "/reports/1"),
            ("///reports///1", "/reports/1"),
            ("/x/../reports/1", "/reports/1"),
            ("/x/%2e%2E/reports/1", "/reports/1"),
            ("/x/.%2e/reports/1", "/reports/1"),
            ("/./reports/./1", "/reports/1"),
            ("/../../reports/1", "/reports/1"),
            ("/x//../reports/1", "/reports/1"),
            ("/reports/1/", "/reports/1/"),
            ("/reports/1//", "/reports/1/"),
            ("/reports/1/.", "/reports/1/"),
            ("/reports/1/x/..", "/reports/1/"),
            ("/reports/1/%2e", "/reports/1/"),
            ("/..", "/"),
            ("/reports/a%20b", "/reports/a%20b"),
            ("/reports/%c3%a9", "/reports/%C3%A9"),
            ("/reports/%7e%5f", "/reports/~_"),
            ("/reports/a|b", "/reports/a%7Cb"),
            ("/reports/1;v=2", "/reports/1;v=2"),
            ("/reports/1%3bv", "/reports/1%3Bv"),
            ("/reports/100%25", "/reports/100%25"),
            ("/reports/why%3f", "/reports/why%3F"),
            ("/reports/c%23/", "/reports/c%23/"),
            ("/x%3F/../reports/1", "/reports/1"),
        ] {
            assert_eq!(CleanPath::read(path).map(|clean| clean.spelled).as_deref(), Ok(spelled), "{path}");
        }
    }

    #[test]
    fn a_spelling_is_its_own_spelling() {
        for path in ["/%72eports/%20a/../b;c=1/", "//x%3F%23é", "/%25/100%25x"] {
            let once = CleanPath::read(path).unwrap();
            assert_eq!(CleanPath::read(once.as_str()).unwrap(), once, "{path}");
        }
    }

    #[test]
    fn what_services_may_read_as_another_path_is_refused() {
        for (path, why) in [
            ("", Unclear::NoPath),
            ("*", Unclear::NoPath),
            ("reports/1", Unclear::NoPath),
            ("/reports%2f1", Unclear::Separator),
            ("/reports%2F1", Unclear::Separator),
            ("/x/..%2freports/1", Unclear::Separator),
            ("/reports\\1", Unclear::Separator),
            ("/reports%5c1", Unclear::Separator),
            ("/x\\..\\reports/1", Unclear::Separator),
            ("/reports/1%00", Unclear::Separator),
            ("/reports/1%0a", Unclear::Separator),
            ("/reports/1%7f", Unclear::Separator),
            ("/reports/%", Unclear::Escape),
            ("/reports/%7", Unclear::Escape),
            ("/reports/%zz", Unclear::Escape),
            ("/reports/%+1", Unclear::Escape),
            ("/%2572eports/1", Unclear::Escape),
            ("/%25%37%32eports/1", Unclear::Escape),
            ("/reports%252f1", Unclear::Escape),
            ("/reports/%ff", Unclear::Encoding),
            ("/reports%c0%af1", Unclear::Encoding),
            ("/x/..;/reports/1", Unclear::Dots),
            ("/x/..;a=b/reports/1", Unclear::Dots),
            ("/x/%2e%2e%3b/reports/1", Unclear::Dots),
            ("/.;/reports/1", Unclear::Dots),
            ("/x/..%20/reports/1", Unclear::Dots),
            ("/x/.../reports/1", Unclear::Dots),
            ("/;/reports/1", Unclear::Dots),
            ("/;a=b/reports/1", Unclear::Dots),
            ("/%3b/reports/1", Unclear::Dots),
            ("/%20/reports/1", Unclear::Dots),
            ("/reports/;/1", Unclear::Dots),
            ("/reports/;", Unclear::Dots),
            ("/reports/%3F", Unclear::Dots),
            ("/%23x/reports", Unclear::Dots),
            ("/reports/annual%3F/x", Unclear::Query),
            ("/reports/annual%23x/x", Unclear::Query),
        ] {
            assert_eq!(CleanPath::read(path).map(|clean| clean.spelled), Err(why), "{path}");
        }
    }
}
