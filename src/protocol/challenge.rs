//! `Challenge`: a route's `PAYMENT-REQUIRED` header with everything encoded that is the same for every request.

use std::fmt::{self, Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Method};

use super::{Address, Network, PriceText, TokenDomain, ascii_json, is_loopback, template::INTENT_MAX};

/// How long clients are asked to make an authorization valid at most, in seconds.
pub(crate) const MAX_TIMEOUT: u64 = 300;
/// The longest URL that is written, in bytes. What is longer is cut: clients show it, and decide nothing by it.
const URL_MAX: usize = 256;

/// One way to pay a route: the token, and what hangs on the way.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    token: Address,
    timeout: u64,
    /// The members of `extra` in JSON, but for the intent.
    extra: String,
}

impl Way {
    /// By an authorization, which is settled for the payer. `quote_life`: how long a quote can be paid, in seconds.
    pub(crate) fn authorization(token: &TokenDomain, quote_life: u64) -> Self {
        let (name, version) = (ascii_json(&token.name), ascii_json(&token.version));
        let extra = format!(r#""name":{name},"version":{version}"#);
        Self { token: token.token, timeout: quote_life.min(MAX_TIMEOUT), extra }
    }

    /// By a transfer that the payer sends and shows. It counts for `max_age` seconds.
    pub(crate) fn submitted_transfer(token: Address, quote_life: u64, max_age: u64) -> Self {
        let extra = format!(
            r#""assetTransferMethod":"txid","paymentFlow":"upfront","binding":["tag","nonce","signature"],"maxProofAge":{max_age}"#
        );
        Self { token, timeout: quote_life, extra }
    }
}

/// The standard's quote of one route, but for price, intent and URL.
///
/// The constant texts are cut to multiples of three bytes, and so are base64 already; white space fills them up.
#[derive(Clone, Debug)]
pub(crate) struct Challenge {
    /// For each way to pay.
    entries: Vec<Entry>,
    /// Behind the URL, but for the last brace.
    end: Box<str>,
    /// The extensions in JSON, by what chooses one of them.
    extensions: Vec<(Method, Box<str>)>,
}

/// One way to pay: the texts before the amount, and behind it before the intent.
#[derive(Clone, Debug)]
struct Entry {
    /// Base64.
    before_amount: Box<str>,
    before_intent: Box<str>,
}

/// Behind the URL, where nothing else is said.
const END: &str = r#""}"#;
const BEFORE_EXTENSIONS: &str = r#","extensions":"#;
const BEFORE_URL: &str = r#""}}],"resource":{"url":""#;

impl Challenge {
    /// `ways`: those that clients are to prefer first.
    pub(crate) fn new(network: Network, recipient: Address, ways: &[Way], description: &str) -> Self {
        let entries = ways.iter().enumerate().map(|(index, way)| {
            let begin = if index == 0 { r#"{"x402Version":2,"accepts":["# } else { r#""}},"# };
            let before_amount = format!(
                r#"{{"scheme":"exact","network":"{network}","asset":"{}","payTo":"{recipient}","maxTimeoutSeconds":{},"amount":""#,
                way.token, way.timeout,
            );
            let before_intent = format!(r#"","extra":{{{},"intentId":""#, way.extra);
            // The first text is encoded beforehand; the others follow what differs in length.
            let before_amount = match index {
                0 => STANDARD.encode(padded(begin, &before_amount)),
                _ => format!("{begin}{before_amount}"),
            };
            Entry { before_amount: before_amount.into(), before_intent: before_intent.into() }
        });
        let end = format!(r#"","description":{}}}"#, ascii_json(description));
        Self { entries: entries.collect(), end: end.into(), extensions: Vec::new() }
    }

    /// The same with extensions for requests of this method, as far as a header of that length has room for one of these, which is
    /// written in JSON.
    pub(crate) fn extended<'a>(
        mut self,
        room: usize,
        method: &Method,
        fitting: impl FnOnce(usize) -> Option<&'a str>,
    ) -> Self {
        let taken = self.longest_header() + 4;
        let left = (room.saturating_sub(taken) / 4 * 3).saturating_sub(BEFORE_EXTENSIONS.len());
        if let Some(extensions) = fitting(left) {
            self.extensions.push((method.clone(), extensions.into()));
        }
        self
    }

    /// The same as far as a header of that length has room for it: without the description, if that is enough, or else with fewer
    /// ways to pay as well, the first of them in any case.
    pub(crate) fn fitting(mut self, room: usize) -> Self {
        if self.longest_header() > room {
            self.end = END.into();
        }
        while self.longest_header() > room && self.entries.len() > 1 {
            tracing::warn!("more ways to pay than a quote's headers have room for: the last is not offered");
            self.entries.pop();
        }
        self
    }

    /// At a price of at most 20 digits, and without extensions.
    fn longest_header(&self) -> usize {
        let first = self.entries.first().map_or(0, |entry| entry.before_amount.len());
        let rest = self.entries.iter().skip(1).map(|entry| entry.before_amount.len()).sum::<usize>()
            + self.entries.iter().map(|entry| entry.before_intent.len() + 20 + INTENT_MAX).sum::<usize>();
        first + (rest + BEFORE_URL.len() + URL_MAX + self.end.len() + 1).div_ceil(3) * 4
    }

    /// What is said beside to a request of this method: HEAD asks what GET asks.
    fn extensions(&self, method: &Method) -> &str {
        let known = |asked: &Method| self.extensions.iter().find(|(method, _)| method == asked);
        let get = || if *method == Method::HEAD { known(&Method::GET) } else { None };
        known(method).or_else(get).map_or("", |(_, text)| text)
    }

    /// Writes the header of one quote.
    pub(crate) fn render(
        &self,
        price: &PriceText,
        intent: &[u8],
        method: &Method,
        url: ResourceUrl<'_>,
    ) -> HeaderValue {
        let extensions = self.extensions(method);
        let mut rest = Vec::with_capacity(self.longest(price, intent) + extensions.len());
        for (index, entry) in self.entries.iter().enumerate() {
            if index > 0 {
                rest.extend_from_slice(entry.before_amount.as_bytes());
            }
            for part in [price.units().as_bytes(), entry.before_intent.as_bytes(), intent] {
                rest.extend_from_slice(part);
            }
        }
        rest.extend_from_slice(BEFORE_URL.as_bytes());
        url.write(&mut rest);
        rest.extend_from_slice(self.end.as_bytes());
        if !extensions.is_empty() {
            rest.extend_from_slice(BEFORE_EXTENSIONS.as_bytes());
            rest.extend_from_slice(extensions.as_bytes());
        }
        rest.push(b'}');
        let first = self.entries.first().map_or("", |entry| &entry.before_amount);
        let mut header = String::with_capacity(first.len() + rest.len().div_ceil(3) * 4);
        header.push_str(first);
        STANDARD.encode_string(&rest, &mut header);
        // Base64 is a header's value; the fall-back cannot be reached.
        HeaderValue::try_from(header).unwrap_or(HeaderValue::from_static(""))
    }

    /// At least as long as what is encoded for one quote, unless its URL has characters that must be escaped.
    fn longest(&self, price: &PriceText, intent: &[u8]) -> usize {
        let entry =
            |entry: &Entry| entry.before_amount.len() + entry.before_intent.len() + price.units().len() + intent.len();
        self.entries.iter().map(entry).sum::<usize>()
            + BEFORE_URL.len()
            + URL_MAX
            + self.end.len()
            + 1
            + BEFORE_EXTENSIONS.len()
    }
}

/// Both texts, with as much white space between them that their length is a multiple of three.
fn padded(begin: &str, rest: &str) -> String {
    let fill = (3 - (begin.len() + rest.len()) % 3) % 3;
    format!("{begin}{}{rest}", &"  "[..fill])
}

/// What is sold, as its URL says it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceUrl<'a> {
    pub(crate) origin: Origin<'a>,
    /// Without its query.
    pub(crate) path: &'a str,
}

/// Where a service is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin<'a> {
    /// At this URL.
    Public(&'a str),
    /// At the host that the client named: by `https`, or by `http` on this machine.
    Host(&'a str),
    /// The client named none.
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

    /// Appends it to a JSON string.
    fn write(&self, out: &mut Vec<u8>) {
        let end = out.len() + URL_MAX;
        for part in self.parts() {
            let room = end.saturating_sub(out.len());
            // What a URL may have needs no escape.
            if part.len() <= room && part.bytes().all(is_plain) {
                out.extend_from_slice(part.as_bytes());
            } else {
                escape(part, end, out);
            }
        }
    }
}

/// Whether a JSON string has this byte as it is.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

/// Appends a text to a JSON string, until that has this length.
fn escape(text: &str, end: usize, out: &mut Vec<u8>) {
    for c in text.chars() {
        if out.len() >= end {
            break;
        }
        // Without the quotes around it, and only those: it may be one itself.
        let escaped = ascii_json(c.encode_utf8(&mut [0; 4]));
        out.extend_from_slice(escaped.as_bytes().get(1..escaped.len() - 1).unwrap_or_default());
    }
}

impl fmt::Display for ResourceUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().into_iter().flat_map(str::chars).take(URL_MAX).try_for_each(|c| f.write_char(c))
    }
}

/// The host of `host:port`.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::protocol::{
        Amount, Asset, IntentId,
        headers::PAYMENT_REQUIRED,
        template::QuoteTemplate,
        v2::{PaymentRequired, PaymentRequirements, ResourceInfo},
    };

    const SELLER: Address = Address::new([0x5a; 20]);

    fn domains() -> Vec<TokenDomain> {
        let usdc = TokenDomain::usdc_of(Network::BASE).unwrap();
        vec![usdc, TokenDomain::new(Address::new([7; 20]), "Another \"coin\" é", "1")]
    }

    /// How long a proof counts.
    const MAX_AGE: u64 = 86_400;

    fn ways(tokens: &[TokenDomain], submitted: &[TokenDomain]) -> Vec<Way> {
        let signed = tokens.iter().map(|token| Way::authorization(token, 900));
        signed.chain(submitted.iter().map(|token| Way::submitted_transfer(token.token, 900, MAX_AGE))).collect()
    }

    fn submitted(token: &TokenDomain, amount: u128, intent: &str) -> PaymentRequirements {
        let asset = Asset::new(Network::BASE, token.token, 6, "USDC");
        PaymentRequirements::new(&asset, Amount::from_base_units(amount), SELLER, 900)
            .with_client_submitted_transfer()
            .with_extra("maxProofAge", MAX_AGE)
            .with_intent(&IntentId::new(intent).unwrap())
    }

    fn offered(token: &TokenDomain, amount: u128, intent: &str) -> PaymentRequirements {
        let asset = Asset::new(Network::BASE, token.token, 6, "USDC");
        PaymentRequirements::new(&asset, Amount::from_base_units(amount), SELLER, MAX_TIMEOUT)
            .with_token_domain(&token.name, &token.version)
            .with_intent(&IntentId::new(intent).unwrap())
    }

    fn challenge(ways: &[Way]) -> Challenge {
        Challenge::new(Network::BASE, SELLER, ways, "Demand \"insights\" für heute")
    }

    fn rendered(challenge: &Challenge, amount: u128, intent: &str, url: ResourceUrl<'_>) -> PaymentRequired {
        let template = QuoteTemplate::new(SELLER, Network::BASE, "l", &[Asset::USDC_BASE], false);
        let price = template.price(Amount::from_base_units(amount));
        let header = challenge.render(&price, intent.as_bytes(), &Method::POST, url);
        assert_eq!(header.len() % 4, 0, "padded");
        PaymentRequired::from_headers(&HeaderMap::from_iter([(PAYMENT_REQUIRED, header)])).unwrap().unwrap()
    }

    #[test]
    fn it_is_the_message_whatever_the_lengths() {
        let url = ResourceUrl { origin: Origin::Host("shop.example"), path: "/demand-insights" };
        let (all, none) = (&domains()[..], &[][..]);
        for (signed, shown) in [
            (&all[..1], none),
            (&all[1..], none),
            (all, none),
            (none, &all[..1]),
            (none, all),
            (&all[..1], &all[..1]),
            (&all[1..], all),
        ] {
            for amount in [1, 12, 490_000, u128::MAX] {
                for intent in ["a", "ab", "abc", "abcd", &"x".repeat(192)] {
                    let resource = ResourceInfo::new("https://shop.example/demand-insights")
                        .with_description("Demand \"insights\" für heute");
                    let mut entries = signed.iter().map(|token| offered(token, amount, intent)).collect::<Vec<_>>();
                    entries.extend(shown.iter().map(|token| submitted(token, amount, intent)));
                    let mut entries = entries.into_iter();
                    let first = PaymentRequired::new(entries.next().unwrap()).with_resource(resource);
                    let expected = entries.fold(first, PaymentRequired::or);
                    let challenge = challenge(&ways(signed, shown));
                    assert_eq!(rendered(&challenge, amount, intent, url), expected);
                }
            }
        }
    }

    /// What goes first is what clients can do without, and the first way to pay stays whatever the room.
    #[test]
    fn what_has_no_room_goes_from_the_end() {
        let whole = challenge(&ways(&domains(), &domains()[..1]));
        let url = ResourceUrl { origin: Origin::Unknown, path: &"p".repeat(300) };
        let intent = "i".repeat(INTENT_MAX);
        let mut seen = Vec::new();
        for room in (0..=whole.longest_header()).rev() {
            let required = rendered(&whole.clone().fitting(room), u64::MAX.into(), &intent, url);
            let methods: Vec<_> =
                required.accepts.iter().map(|option| option.exact().unwrap().transfer_method()).collect();
            assert!(required.to_header().len() <= room || methods.len() == 1, "{room}");
            let described = required.resource.unwrap().description.is_some();
            if seen.last() != Some(&(methods.clone(), described)) {
                seen.push((methods, described));
            }
        }
        use crate::protocol::v2::TransferMethod::{Eip3009, TxId};
        let expected = [
            (vec![Eip3009, Eip3009, TxId], true),
            (vec![Eip3009, Eip3009, TxId], false),
            (vec![Eip3009, Eip3009], false),
            (vec![Eip3009], false),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_url_is_where_the_client_asked_and_never_long() {
        let challenge = challenge(&ways(&domains()[..1], &[]));
        let url = |origin, path: &str| rendered(&challenge, 1, "i", ResourceUrl { origin, path }).resource.unwrap().url;
        for (host, expected) in [
            ("shop.example", "https://shop.example/a"),
            ("shop.example:8443", "https://shop.example:8443/a"),
            ("127.0.0.1:8402", "http://127.0.0.1:8402/a"),
            ("[::1]:8402", "http://[::1]:8402/a"),
            ("localhost", "http://localhost/a"),
            ("127.0.0.1.example", "https://127.0.0.1.example/a"),
        ] {
            assert_eq!(url(Origin::Host(host), "/a"), expected);
        }
        assert_eq!(url(Origin::Public("https://shop.example/api/"), "/a"), "https://shop.example/api/a");
        assert_eq!(url(Origin::Unknown, "/\"é\\"), "/\"é\\");
        let long = url(Origin::Unknown, &"/é".repeat(500));
        assert!(long.starts_with("/é/é") && (60..=256).contains(&long.len()), "{}", long.len());
    }
}
