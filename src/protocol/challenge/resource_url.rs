//! `ResourceUrl`: the URL of a resource in its quote.

use std::fmt;

use crate::protocol::{ascii_json, is_loopback};

/// The longest URL in a quote, in bytes. A longer one is cut: clients only display it.
pub(super) const URL_MAX: usize = 256;

/// The URL of a resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceUrl<'a> {
    pub(crate) origin: Origin<'a>,
    /// The path, without the query.
    pub(crate) path: &'a str,
}

/// The origin of a service.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin<'a> {
    /// This URL.
    Public(&'a str),
    /// The host that the client named: `https`, or `http` on this machine.
    Host(&'a str),
    /// Unknown: the client named none.
    Unknown,
}

impl<'a> ResourceUrl<'a> {
    fn parts(&self) -> [&'a str; 3] {
        match self.origin {
            Origin::Public(origin) => ["", origin.trim_end_matches('/'), self.path],
            Origin::Host(host) if is_loopback(host_name(host)) => ["http://", host, self.path],
            Origin::Host(host) => ["https://", host, self.path],
            Origin::Unknown => ["", "", self.path],
        }
    }

    /// Returns the URL as a text.
    pub(crate) fn text(&self) -> String {
        let parts = self.parts();
        match parts.iter().map(|part| part.len()).sum::<usize>() <= URL_MAX {
            true => parts.concat(),
            false => self.to_string(),
        }
    }

    /// Appends the URL to a JSON string.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let end = out.len() + URL_MAX;
        for part in self.parts() {
            let room = end.saturating_sub(out.len());
            // The usual characters of URLs need no escape.
            if part.len() <= room && part.bytes().all(is_plain) {
                out.extend_from_slice(part.as_bytes());
            } else {
                escape(part, end, out);
            }
        }
    }
}

/// Returns whether a JSON string contains this byte unescaped.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

/// Appends a text to a JSON string until that has reached the length `end`.
fn escape(text: &str, end: usize, out: &mut Vec<u8>) {
    for c in text.chars() {
        if out.len() >= end {
            break;
        }
        // Removes the surrounding quotes only: the character may be a quote itself.
        let escaped = ascii_json(c.encode_utf8(&mut [0; 4]));
        out.extend_from_slice(escaped.as_bytes().get(1..escaped.len() - 1).unwrap_or_default());
    }
}

impl fmt::Display for ResourceUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut room = URL_MAX;
        for part in self.parts() {
            let cut = || part.char_indices().nth(room).map_or(part, |(end, _)| &part[..end]);
            // A text has at most as many characters as bytes.
            let part = if part.len() <= room { part } else { cut() };
            f.write_str(part)?;
            room -= part.chars().count();
        }
        Ok(())
    }
}

/// Returns the host of `host:port`.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}
