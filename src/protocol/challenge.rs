//! `Challenge`: a route's `PAYMENT-REQUIRED` header with everything encoded that is the same for every request.

use std::{fmt, ops::Range};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Method;

use super::{
    Address, Network, TokenDomain, ascii_json,
    channel::{ChannelTerms, Correction},
    intent::SEALED_MAX,
    is_loopback,
    permit2::PermitScheme,
    price_text::PriceText,
    v1::Offers,
};

/// The longest URL in a quote, in bytes. A longer one is cut: clients only display it.
const URL_MAX: usize = 256;

/// One way to pay a route: network, token, and what hangs on the way.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    scheme: &'static str,
    network: Network,
    token: Address,
    timeout: u64,
    /// The members of `extra` in JSON, but for the intent.
    extra: String,
    /// The token's domain, where the payer signs for it.
    signed: Option<TokenDomain>,
    by_permit: bool,
    by_channel: bool,
}

impl Way {
    /// By a method of that name, which needs nothing else.
    #[cfg(all(test, feature = "test-util"))]
    pub(crate) fn by_method(network: Network, token: Address, timeout: u64, method: &str) -> Self {
        Self {
            scheme: EXACT,
            network,
            token,
            timeout,
            extra: format!(r#""assetTransferMethod":{}"#, ascii_json(method)),
            signed: None,
            by_permit: false,
            by_channel: false,
        }
    }

    /// By an authorization, which is settled for the payer. `timeout`: how long clients are asked to make it valid, in seconds.
    pub(crate) fn authorization(network: Network, token: &TokenDomain, timeout: u64) -> Self {
        let (name, version) = (ascii_json(&token.name), ascii_json(&token.version));
        let extra = format!(r#""name":{name},"version":{version}"#);
        Self {
            scheme: EXACT,
            network,
            token: token.token,
            timeout,
            extra,
            signed: Some(token.clone()),
            by_permit: false,
            by_channel: false,
        }
    }

    /// Whether it is a permit.
    pub(crate) const fn is_by_permit(&self) -> bool {
        self.by_permit
    }

    /// Whether it is an authorization of this token.
    pub(crate) fn is_signed_for(&self, network: Network, token: Address) -> bool {
        (self.network, self.token) == (network, token) && self.signed.is_some()
    }

    /// By a transfer that the payer sends and shows. It counts for `max_age` seconds.
    pub(crate) fn submitted_transfer(network: Network, token: Address, quote_life: u64, max_age: u64) -> Self {
        let extra = format!(
            r#""assetTransferMethod":"txid","paymentFlow":"upfront","binding":["tag","nonce","signature"],"maxProofAge":{max_age}"#
        );
        Self {
            scheme: EXACT,
            network,
            token,
            timeout: quote_life,
            extra,
            signed: None,
            by_permit: false,
            by_channel: false,
        }
    }

    /// By a voucher for a channel of these terms, whose deposits are EIP-3009 authorizations of this token.
    pub(crate) fn channel(network: Network, token: &TokenDomain, timeout: u64, terms: &ChannelTerms) -> Self {
        let ChannelTerms { receiver_authorizer, withdraw_delay, min_deposit } = terms;
        let (name, version) = (ascii_json(&token.name), ascii_json(&token.version));
        let least = min_deposit.map(|least| format!(r#","minDeposit":"{least}""#)).unwrap_or_default();
        let extra = format!(
            r#""receiverAuthorizer":"{receiver_authorizer}","withdrawDelay":{withdraw_delay}{least},"name":{name},"version":{version}"#
        );
        let (scheme, token) = (BATCH_SETTLEMENT, token.token);
        Self { scheme, network, token, timeout, extra, signed: None, by_permit: false, by_channel: true }
    }

    /// By a permit of the whole amount, which is settled for the payer. `domain`: name and version of the token's, where it has one.
    pub(crate) fn permit(network: Network, token: Address, timeout: u64, domain: Option<(&str, &str)>) -> Self {
        let (scheme, extra) = (PermitScheme::Exact.name(), by_permit2(domain));
        Self { scheme, network, token, timeout, extra, signed: None, by_permit: true, by_channel: false }
    }

    /// The same of a permit up to the amount, which this account settles.
    pub(crate) fn up_to(
        network: Network,
        token: Address,
        timeout: u64,
        facilitator: Address,
        domain: Option<(&str, &str)>,
    ) -> Self {
        let extra = format!(r#"{},"facilitatorAddress":"{facilitator}""#, by_permit2(domain));
        let scheme = PermitScheme::UpTo.name();
        Self { scheme, network, token, timeout, extra, signed: None, by_permit: true, by_channel: false }
    }
}

/// The scheme of channels.
const BATCH_SETTLEMENT: &str = "batch-settlement";

/// The scheme of most ways.
const EXACT: &str = PermitScheme::Exact.name();

/// The members of `extra` for a permit. Clients sign an allowance by the domain.
fn by_permit2(domain: Option<(&str, &str)>) -> String {
    let method = r#""assetTransferMethod":"permit2""#;
    match domain {
        Some((name, version)) => {
            format!(r#"{method},"name":{},"version":{}"#, ascii_json(name), ascii_json(version))
        }
        None => method.to_owned(),
    }
}

/// The standard's quote of one route, but for price, intent and URL.
///
/// All constant texts are base64. White space fills them, and what goes between them, up to multiples of three bytes, so that each is
/// encoded without the others.
#[derive(Clone, Debug)]
pub(crate) struct Challenge {
    /// For each way to pay.
    entries: Vec<Entry>,
    before_url: Box<str>,
    /// Behind the URL, but for the last brace.
    end: Box<str>,
    /// The extensions and the last brace, by what chooses one of them.
    extensions: Vec<(Method, Box<str>)>,
    /// A member of all extensions, in JSON; empty where there is none.
    common: String,
    /// The extensions of other requests, and the last brace.
    closing: Box<str>,
    /// The same demand in the words of version 1, which stands in the body.
    version_1: Option<Offers>,
}

/// One way to pay: the texts before the amount, and behind it before the intent.
#[derive(Clone, Debug)]
struct Entry {
    before_amount: Box<str>,
    before_intent: Box<str>,
    /// Network and token of a channel.
    channel: Option<(Network, Address)>,
}

const BEFORE_EXTENSIONS: &str = r#","extensions":"#;
/// The last brace, where there are no extensions.
const CLOSING: &str = "fQ==";

impl Challenge {
    /// `ways`: those that clients are to prefer first.
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

    /// The same with the demand of version 1 in the body, which has so much room for it.
    pub(crate) fn with_version_1(mut self, recipient: Address, ways: &[Way], description: &str, room: usize) -> Self {
        let signed = ways.iter().filter_map(|way| Some((way.network, way.signed.as_ref()?, way.timeout)));
        self.version_1 = Offers::new(recipient, description, signed, room, URL_MAX);
        self
    }

    /// The same with this member of the extensions, in JSON, for requests of every method.
    pub(crate) fn declaring(mut self, member: &str) -> Self {
        self.closing = STANDARD.encode(format!("{BEFORE_EXTENSIONS}{{{member}}}}}")).into();
        self.common = member.to_owned();
        self
    }

    /// The same where a header of that length has room for it.
    pub(crate) fn declaring_within(self, room: usize, member: &str) -> Self {
        let declared = self.clone().declaring(member);
        if declared.longest_header() <= room { declared } else { self }
    }

    /// The same with extensions for requests of this method, as far as a header of that length has room for one of these, which is
    /// written in JSON.
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

    /// The same as far as a header of that length has room for it: without the description, if that is enough, or else with fewer
    /// ways to pay as well, the first of them in any case.
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

    /// At a price of at most 20 digits, and without extensions.
    pub(crate) fn longest_header(&self) -> usize {
        self.longest(20, SEALED_MAX) + self.closing.len()
    }

    /// At least the length of the text for a price and an intent of these lengths, up to its extensions, unless its URL
    /// has characters that must be escaped.
    fn longest(&self, price: usize, intent: usize) -> usize {
        let entry = |entry: &Entry| entry.before_amount.len() + entry.before_intent.len();
        let holes = self.entries.len() * (hole_length(price) + hole_length(intent)) + hole_length(URL_MAX);
        self.entries.iter().map(entry).sum::<usize>() + self.before_url.len() + self.end.len() + holes
    }

    /// The extensions for a request of this method, and the end: HEAD gets those of GET.
    fn closing(&self, method: &Method) -> &str {
        let known = |asked: &Method| self.extensions.iter().find(|(method, _)| method == asked);
        let get = || if *method == Method::HEAD { known(&Method::GET) } else { None };
        known(method).or_else(get).map_or(&self.closing, |(_, text)| text)
    }
}

/// Both texts in base64, with as much white space between them that their length is a multiple of three.
fn encoded(begin: &str, rest: &str) -> Box<str> {
    let fill = (3 - (begin.len() + rest.len()) % 3) % 3;
    STANDARD.encode(format!("{begin}{}{rest}", &"  "[..fill])).into()
}

/// How long a text is in base64, with a quote behind it, and white space up to a multiple of three.
const fn hole_length(text: usize) -> usize {
    (text + 1).div_ceil(3) * 4
}

/// The standard's quote for one request.
#[derive(Debug)]
pub(crate) struct Challenged<'a> {
    pub(crate) challenge: &'a Challenge,
    pub(crate) method: &'a Method,
    pub(crate) url: ResourceUrl<'a>,
    /// Why a payment was refused, where one was.
    pub(crate) error: Option<&'a str>,
    /// What the payer of a channel is to know, where it lost count.
    pub(crate) correction: Option<&'a Correction>,
}

impl Challenged<'_> {
    /// At least as long as the text.
    pub(super) fn longest(&self, price: &PriceText) -> usize {
        // Reasons are short, and rare.
        let error = self.error.map_or(0, |error| 2 * error.len() + 16);
        let correction = self.correction.map_or(0, |correction| 2 * correction.len() + 16);
        let version_1 =
            self.challenge.version_1.as_ref().map_or(0, |offers| offers.longest(price.units().len(), URL_MAX));
        let header =
            self.challenge.longest(price.units().len(), SEALED_MAX) + self.challenge.closing(self.method).len();
        header + version_1 + error + correction
    }

    /// The URL as both demands have it, inside a JSON string, and room for what else goes between constant texts.
    pub(super) fn url(&self) -> Vec<u8> {
        let mut url = Vec::with_capacity(URL_MAX + SEALED_MAX + 16);
        self.url.write(&mut url);
        url
    }

    /// Adds the demand of version 1 to a body, before its last brace; returns how long it is.
    pub(super) fn write_version_1(&self, price: &PriceText, url: &[u8], body: &mut Vec<u8>) -> usize {
        let Some(offers) = &self.challenge.version_1 else { return 0 };
        let before = body.len();
        body.pop();
        offers.write(price.units(), url, body);
        body.push(b'}');
        body.len() - before
    }

    /// Appends the header's value. `intent`: where the intent id stands before it.
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

/// Appends a text from there on in base64, with a quote behind it, and white space up to a multiple of three. It is taken.
fn fill(text: &mut Vec<u8>, from: usize, out: &mut Vec<u8>) {
    text.push(b'"');
    let length = (text.len() - from).next_multiple_of(3);
    text.resize(from + length, b' ');
    let start = out.len();
    out.resize(start + length / 3 * 4, 0);
    // Cannot fail: there is room for all of it.
    let _ = STANDARD.encode_slice(&text[from..], &mut out[start..]);
    text.truncate(from);
}

/// The resource of this URL.
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

    /// Returns it as a text.
    pub(crate) fn text(&self) -> String {
        let parts = self.parts();
        match parts.iter().map(|part| part.len()).sum::<usize>() <= URL_MAX {
            true => parts.concat(),
            false => self.to_string(),
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
        let mut room = URL_MAX;
        for part in self.parts() {
            let cut = || part.char_indices().nth(room).map_or(part, |(end, _)| &part[..end]);
            // A text has no more characters than bytes.
            let part = if part.len() <= room { part } else { cut() };
            f.write_str(part)?;
            room -= part.chars().count();
        }
        Ok(())
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
    use super::*;
    use crate::protocol::{
        Amount, Asset, IntentId, PaymentSignature,
        channel::{ChannelId, ChannelState, Voucher, VoucherState},
        headers::PAYMENT_REQUIRED,
        template::{QuoteTemplate, RedeemBy},
        v2::{ChannelRequirements, PaymentOption, PaymentRequired, PaymentRequirements, ResourceInfo},
    };

    const SELLER: Address = Address::new([0x5a; 20]);

    fn domains() -> Vec<TokenDomain> {
        let usdc = TokenDomain::usdc_of(Network::BASE).unwrap();
        vec![usdc, TokenDomain::new(Address::new([7; 20]), "Another \"coin\" é", "1")]
    }

    /// How long a proof counts.
    const MAX_AGE: u64 = 86_400;

    fn ways(tokens: &[TokenDomain], submitted: &[TokenDomain]) -> Vec<Way> {
        let signed = tokens.iter().map(|token| Way::authorization(Network::BASE, token, 720));
        signed
            .chain(submitted.iter().map(|token| Way::submitted_transfer(Network::BASE, token.token, 900, MAX_AGE)))
            .collect()
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
        PaymentRequirements::new(&asset, Amount::from_base_units(amount), SELLER, 720)
            .with_token_domain(&token.name, &token.version)
            .with_intent(&IntentId::new(intent).unwrap())
    }

    fn challenge(ways: &[Way]) -> Challenge {
        Challenge::new(SELLER, ways, "Demand \"insights\" für heute")
    }

    fn rendered(challenge: &Challenge, amount: u128, intent: &str, url: ResourceUrl<'_>) -> PaymentRequired {
        let template = QuoteTemplate::new(SELLER, Network::BASE, "l", &[Asset::USDC_BASE], false);
        let price = PriceText::new(Amount::from_base_units(amount), 6);
        let standard = Challenged { challenge, method: &Method::POST, url, error: None, correction: None };
        let seal = |out: &mut Vec<u8>| out.extend_from_slice(intent.as_bytes());
        let headers = template.render(&price, 0, RedeemBy::Any, Some(&standard), seal).headers;
        let length = headers[PAYMENT_REQUIRED].len();
        assert_eq!(length % 4, 0, "padded");
        assert!(amount > u64::MAX.into() || length <= challenge.longest_header(), "{length}");
        PaymentRequired::from_headers(&headers).unwrap().unwrap()
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
                for intent in ["a", "ab", "abc", "abcd", &"x".repeat(SEALED_MAX)] {
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

    fn channel_terms() -> ChannelTerms {
        ChannelTerms::new(Address::new([9; 20]), 900)
    }

    fn by_channel(token: &TokenDomain, terms: &ChannelTerms) -> ChannelRequirements {
        let asset = Asset::new(Network::BASE, token.token, 6, "USDC");
        ChannelRequirements::new(&asset, Amount::from_base_units(12), SELLER, 60, terms)
            .with_token_domain(&token.name, &token.version)
            .with_intent(&IntentId::new("i").unwrap())
    }

    #[test]
    fn a_channel_is_offered_by_its_terms() {
        let url = ResourceUrl { origin: Origin::Unknown, path: "/a" };
        for terms in [channel_terms(), channel_terms().with_min_deposit(Amount::from_base_units(120))] {
            for token in domains() {
                let challenge = challenge(&[Way::channel(Network::BASE, &token, 60, &terms)]);
                let accepts = rendered(&challenge, 12, "i", url).accepts;
                assert_eq!(accepts, [PaymentOption::Channel(by_channel(&token, &terms))]);
            }
        }
    }

    /// No other way to pay has them: neither another token's channel, nor the same token by an authorization.
    #[test]
    fn a_correction_stands_in_its_channels_way_alone() {
        let tokens = domains();
        let channel = |token| Way::channel(Network::BASE, token, 60, &channel_terms());
        let authorization = Way::authorization(Network::BASE, &tokens[0], 720);
        let challenge = challenge(&[channel(&tokens[1]), authorization, channel(&tokens[0])]);
        let state = ChannelState::new(ChannelId::new([7; 32]), Amount::from_base_units(120), Amount::ZERO);
        let signature = PaymentSignature::new([5; 65]).unwrap();
        for charged in [1, 10, 100] {
            let state = state.clone().with_charged(Amount::from_base_units(charged));
            let voucher = VoucherState::from(&Voucher::new(state.channel_id, charged, signature.clone()));
            for voucher in [None, Some(voucher)] {
                let correction = Correction::new(Network::BASE, tokens[0].token, &state, voucher.as_ref());
                let url = ResourceUrl { origin: Origin::Unknown, path: "/a" };
                let (method, error) = (&Method::GET, Some("of_a_channel"));
                let standard = Challenged { challenge: &challenge, method, url, error, correction: Some(&correction) };
                let template = QuoteTemplate::new(SELLER, Network::BASE, "l", &[Asset::USDC_BASE], false);
                let price = PriceText::new(Amount::from_base_units(12), 6);
                let seal = |out: &mut Vec<u8>| out.push(b'i');
                let headers = template.render(&price, 0, RedeemBy::Any, Some(&standard), seal).headers;
                assert!(headers[PAYMENT_REQUIRED].len() <= standard.longest(&price));
                let read = PaymentRequired::from_headers(&headers).unwrap().unwrap();
                let [other, PaymentOption::Exact(exact), PaymentOption::Channel(corrected)] = &read.accepts[..] else {
                    panic!("{read:?}")
                };
                assert_eq!(*other, PaymentOption::Channel(by_channel(&tokens[1], &channel_terms())));
                assert_eq!(*exact, offered(&tokens[0], 12, "i"));
                assert!(corrected.echoes(&by_channel(&tokens[0], &channel_terms())));
                assert_eq!((corrected.channel_state(), corrected.voucher_state()), (Some(state.clone()), voucher));
                assert_eq!(read.error.as_deref(), error);
            }
        }
    }

    /// Optional members are dropped first; the first way to pay always stays.
    #[test]
    fn what_has_no_room_goes_from_the_end() {
        let whole = challenge(&ways(&domains(), &domains()[..1]));
        let url = ResourceUrl { origin: Origin::Unknown, path: &"p".repeat(300) };
        let intent = "i".repeat(SEALED_MAX);
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
