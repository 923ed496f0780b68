//! `Challenge`: a route's `PAYMENT-REQUIRED` header, with all parts encoded that are the same for every request.

mod resource_url;
mod way;

use std::ops::Range;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Method;

use resource_url::URL_MAX;
pub(crate) use resource_url::{Origin, ResourceUrl};
pub(crate) use way::Way;

use super::{Address, Network, ascii_json, channel::Correction, intent::SEALED_MAX, price_text::PriceText, v1::Offers};

/// The standard's quote for one route, without price, intent and URL.
///
/// All constant texts are base64. White space pads them, and the values between them, to multiples of three bytes, so
/// that each can be encoded on its own.
#[derive(Clone, Debug)]
pub(crate) struct Challenge {
    /// One entry for each way to pay.
    entries: Vec<Entry>,
    before_url: Box<str>,
    /// The text after the URL, without the last brace.
    end: Box<str>,
    /// For each method, its extensions and the last brace.
    extensions: Vec<(Method, Box<str>)>,
    /// A JSON member that all extensions have; empty if there is none.
    common: String,
    /// The extensions for all other methods, and the last brace.
    closing: Box<str>,
    /// The demand of version 1 for the body.
    version_1: Option<Offers>,
}

/// One way to pay: the texts before the amount and between amount and intent.
#[derive(Clone, Debug)]
struct Entry {
    before_amount: Box<str>,
    before_intent: Box<str>,
    /// Network and token, if the way is a channel.
    channel: Option<(Network, Address)>,
}

const BEFORE_EXTENSIONS: &str = r#","extensions":"#;
/// The last brace, without extensions.
const CLOSING: &str = "fQ==";

impl Challenge {
    /// Creates the challenge. `ways` are in the order in which clients should prefer them.
    pub(crate) fn new(recipient: Address, ways: &[Way], description: &str) -> Self {
        let entries = ways.iter().enumerate().map(|(index, way)| {
            let begin = if index == 0 { r#"{"x402Version":2,"accepts":["# } else { "}}," };
            let before_amount = format!(
                r#"{{"scheme":"{}","network":"{}","asset":"{}","payTo":"{recipient}","maxTimeoutSeconds":{},"amount":""#,
                way.scheme, way.network, way.token, way.timeout,
            );
            let before_intent = format!(r#""extra":{{{},"intentId":""#, way.extra);
            Entry {
                before_amount: encoded(begin, &before_amount),
                before_intent: encoded(",", &before_intent),
                channel: way.by_channel.then_some((way.network, way.token)),
            }
        });
        let end = format!(r#","description":{}}}"#, ascii_json(description));
        Self {
            entries: entries.collect(),
            before_url: encoded("}}],", r#""resource":{"url":""#),
            end: encoded(&end, ""),
            extensions: Vec::new(),
            common: String::new(),
            closing: CLOSING.into(),
            version_1: None,
        }
    }

    /// Adds the demand of version 1 to the body, within `room` bytes.
    pub(crate) fn with_version_1(mut self, recipient: Address, ways: &[Way], description: &str, room: usize) -> Self {
        let signed = ways.iter().filter_map(|way| Some((way.network, way.signed.as_ref()?, way.timeout)));
        self.version_1 = Offers::new(recipient, description, signed, room, URL_MAX);
        self
    }

    /// Adds a JSON member to the extensions for every method.
    pub(crate) fn declaring(mut self, member: &str) -> Self {
        self.closing = STANDARD.encode(format!("{BEFORE_EXTENSIONS}{{{member}}}}}")).into();
        self.common = member.to_owned();
        self
    }

    /// Adds the member if a header of `room` bytes can hold it.
    pub(crate) fn declaring_within(self, room: usize, member: &str) -> Self {
        let declared = self.clone().declaring(member);
        if declared.longest_header() <= room { declared } else { self }
    }

    /// Adds extensions for one method. `fitting` gets the room that a header of `room` bytes leaves, and returns JSON
    /// that fits.
    pub(crate) fn extended<'a>(
        mut self,
        room: usize,
        method: &Method,
        fitting: impl FnOnce(usize) -> Option<&'a str>,
    ) -> Self {
        let left = (room.saturating_sub(self.longest_header()) / 4 * 3).saturating_sub(BEFORE_EXTENSIONS.len());
        if let Some(extensions) = fitting(left) {
            let common = if self.common.is_empty() { "" } else { "," };
            let others = extensions.strip_suffix('}').unwrap_or(extensions);
            let text = format!("{BEFORE_EXTENSIONS}{others}{common}{}}}}}", self.common);
            self.extensions.push((method.clone(), STANDARD.encode(text).into()));
        }
        self
    }

    /// Shortens the challenge to a header of `room` bytes: first without the description, then with fewer ways to
    /// pay. The first way always stays.
    pub(crate) fn fitting(mut self, room: usize) -> Self {
        if self.longest_header() > room {
            self.end = encoded("}", "");
        }
        while self.longest_header() > room && self.entries.len() > 1 {
            tracing::warn!("more ways to pay than a quote's headers have room for: the last is not offered");
            self.entries.pop();
        }
        self
    }

    /// Returns the longest header without extensions, at a price of at most 20 digits.
    pub(crate) fn longest_header(&self) -> usize {
        self.longest(20, SEALED_MAX) + self.closing.len()
    }

    /// Returns an upper bound of the text's length up to its extensions, for a price and an intent of these lengths.
    /// It ignores characters of the URL that must be escaped.
    fn longest(&self, price: usize, intent: usize) -> usize {
        let entry = |entry: &Entry| entry.before_amount.len() + entry.before_intent.len();
        let holes = self.entries.len() * (hole_length(price) + hole_length(intent)) + hole_length(URL_MAX);
        self.entries.iter().map(entry).sum::<usize>() + self.before_url.len() + self.end.len() + holes
    }

    /// Returns the extensions and the end for a method. HEAD gets those of GET.
    fn closing(&self, method: &Method) -> &str {
        let known = |asked: &Method| self.extensions.iter().find(|(method, _)| method == asked);
        let get = || if *method == Method::HEAD { known(&Method::GET) } else { None };
        known(method).or_else(get).map_or(&self.closing, |(_, text)| text)
    }
}

/// Encodes both texts as base64, with white space between them to make the length a multiple of three.
fn encoded(begin: &str, rest: &str) -> Box<str> {
    let fill = (3 - (begin.len() + rest.len()) % 3) % 3;
    STANDARD.encode(format!("{begin}{}{rest}", &"  "[..fill])).into()
}

/// Returns the length in base64 of a text, its closing quote and the padding to a multiple of three.
const fn hole_length(text: usize) -> usize {
    (text + 1).div_ceil(3) * 4
}

/// The standard's quote for one request.
#[derive(Debug)]
pub(crate) struct Challenged<'a> {
    pub(crate) challenge: &'a Challenge,
    pub(crate) method: &'a Method,
    pub(crate) url: ResourceUrl<'a>,
    /// Why the payment was refused, if one was.
    pub(crate) error: Option<&'a str>,
    /// The state of the channel, for a payer that lost count.
    pub(crate) correction: Option<&'a Correction>,
}

impl Challenged<'_> {
    /// Returns an upper bound of the text's length.
    pub(super) fn longest(&self, price: &PriceText) -> usize {
        // Refusals are rare and their reasons short.
        let error = self.error.map_or(0, |error| 2 * error.len() + 16);
        let correction = self.correction.map_or(0, |correction| 2 * correction.len() + 16);
        let version_1 =
            self.challenge.version_1.as_ref().map_or(0, |offers| offers.longest(price.units().len(), URL_MAX));
        let header =
            self.challenge.longest(price.units().len(), SEALED_MAX) + self.challenge.closing(self.method).len();
        header + version_1 + error + correction
    }

    /// Returns the URL escaped for a JSON string, as both demands contain it, with spare room for the other variable
    /// texts.
    pub(super) fn url(&self) -> Vec<u8> {
        let mut url = Vec::with_capacity(URL_MAX + SEALED_MAX + 16);
        self.url.write(&mut url);
        url
    }

    /// Inserts the demand of version 1 before the body's last brace, and returns its length.
    pub(super) fn write_version_1(&self, price: &PriceText, url: &[u8], body: &mut Vec<u8>) -> usize {
        let Some(offers) = &self.challenge.version_1 else { return 0 };
        let before = body.len();
        body.pop();
        offers.write(price.units(), url, body);
        body.push(b'}');
        body.len() - before
    }

    /// Appends the header's value. `intent` is the range of `out` that holds the intent id.
    pub(super) fn write(&self, price: &PriceText, mut url: Vec<u8>, intent: Range<usize>, out: &mut Vec<u8>) {
        let end = url.len();
        for Entry { before_amount, before_intent, channel } in &self.challenge.entries {
            out.extend_from_slice(before_amount.as_bytes());
            url.extend_from_slice(price.units().as_bytes());
            fill(&mut url, end, out);
            out.extend_from_slice(before_intent.as_bytes());
            url.extend_from_slice(out.get(intent.clone()).unwrap_or_default());
            fill(&mut url, end, out);
            let corrected = self.correction.zip(*channel);
            let corrected = corrected.and_then(|(correction, (network, token))| correction.members_for(network, token));
            out.extend(corrected.iter().flat_map(|members| encoded(members, "").into_string().into_bytes()));
        }
        out.extend_from_slice(self.challenge.before_url.as_bytes());
        fill(&mut url, 0, out);
        out.extend_from_slice(self.challenge.end.as_bytes());
        if let Some(error) = self.error {
            let error = format!(r#","error":{}"#, ascii_json(error));
            out.extend_from_slice(encoded(&error, "").as_bytes());
        }
        out.extend_from_slice(self.challenge.closing(self.method).as_bytes());
    }
}

/// Appends `text[from..]` as base64, with a closing quote and padding to a multiple of three, and truncates `text` to
/// `from`.
fn fill(text: &mut Vec<u8>, from: usize, out: &mut Vec<u8>) {
    text.push(b'"');
    let length = (text.len() - from).next_multiple_of(3);
    text.resize(from + length, b' ');
    let start = out.len();
    out.resize(start + length / 3 * 4, 0);
    // Cannot fail: the buffer has room for all of it.
    let _ = STANDARD.encode_slice(&text[from..], &mut out[start..]);
    text.truncate(from);
}

#[cfg(test)]
mod tests;
