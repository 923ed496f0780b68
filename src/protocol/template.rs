//! `QuoteTemplate`: a route's quote, with everything written that is the same for every request.

use std::{fmt::Write as _, ops::Range};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};

use super::{
    Address, Asset, INTENT_ID_MAX, Network, ProblemCode, ascii_json, ascii_text,
    challenge::Challenged,
    headers::{
        EXPOSED_LINE, NO_STORE, PAY, PAYMENT_REQUIRED, PROBLEM_JSON, X_PAYMENT_CONTRACTS, X_PRICE_INTENT, X402_ERROR,
    },
    intent::SEALED_MAX,
    price_text::PriceText,
    v2::Reason,
};

/// Placeholders for the headers that depend on the request. No other header of a quote has such a value.
const LENGTH: &[u8] = b"0";
const INTENT: &[u8] = b"1";
const PAYMENT: &[u8] = b"2";
const STANDARD: &[u8] = b"3";

/// A quote's body and headers, without price, intent and expiry.
#[derive(Clone, Debug)]
pub(crate) struct QuoteTemplate {
    /// The body, split at the variable parts in this order. The price occurs as a decimal and in base units.
    before_decimal: Box<str>,
    /// Indexed by [`RedeemBy`].
    before_intent: [Box<str>; 2],
    before_expiry: Box<str>,
    before_units: Box<str>,
    after_units: Box<str>,
    /// The offset in `before_expiry` where the `Pay` object begins, and the one in `after_units` where it ends.
    pay: (usize, usize),
    /// All eight headers; those that depend on the request hold placeholders.
    headers: HeaderMap,
    /// The same headers, and the standard's.
    headers_of_both: HeaderMap,
}

/// Where the quote asks clients to show the payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedeemBy {
    /// In the body or in the header.
    Any,
    /// In the header: the body is not read, or too long to be read.
    Header,
}

/// A quote on the wire. Its headers that depend on the request are slices of the buffer of the body.
#[derive(Debug)]
pub(crate) struct RenderedQuote {
    pub(crate) body: Bytes,
    pub(crate) headers: HeaderMap,
    /// The range of the intent in the body.
    intent: Range<usize>,
    /// The length of version 1's demand, which precedes the body's last brace.
    version_1: usize,
}

impl RenderedQuote {
    /// Rewrites the body to ask for a signature instead of a transfer: the header `PAYMENT-REQUIRED` says how to pay.
    pub(crate) fn ask_for_signature(&mut self) {
        let problem = ProblemCode::PaymentRequired;
        let detail =
            "Sign an authorization as PAYMENT-REQUIRED says, and send this request again with it in PAYMENT-SIGNATURE.";
        let before = format!(
            r#"{{"title":"{}","status":402,"detail":"{detail}","error":"{problem}","intentId":""#,
            problem.title()
        );
        let version_1 = self.body.len().saturating_sub(self.version_1 + 1);
        let version_1 = self.body.get(version_1..).unwrap_or_default();
        let intent = before.len()..before.len() + self.intent.len();
        self.body = [before.as_bytes(), self.intent(), br#"""#, version_1].concat().into();
        self.intent = intent;
        self.headers.remove(PAY);
        self.headers.remove(X_PAYMENT_CONTRACTS);
        self.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(self.body.len()));
    }

    /// States why a payment was refused: replaces the body's text before the intent.
    pub(crate) fn explain(&mut self, code: ProblemCode, reason: &Reason) {
        let (title, detail, status) = (code.title(), code.detail(), code.status().as_u16());
        let reason = ascii_json(reason.as_str());
        let before = format!(
            r#"{{"title":"{title}","status":{status},"detail":"{detail}","error":"{code}","reason":{reason},"intentId":""#
        );
        let behind = self.body.get(self.intent.start..).unwrap_or_default();
        self.body = [before.as_bytes(), behind].concat().into();
        self.intent = before.len()..before.len() + self.intent.len();
        self.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(self.body.len()));
    }

    /// States as the body's first member why the shown pass buys nothing.
    pub(crate) fn note_pass(&mut self, state: &str) {
        self.lead_with("pass", state);
    }

    /// Adds `type` as the body's first member.
    pub(crate) fn set_type(&mut self, uri: &str) {
        self.lead_with("type", uri);
    }

    fn lead_with(&mut self, name: &str, value: &str) {
        let before = self.body.len();
        self.body = with_first(&self.body, name, value);
        let longer = self.body.len() - before;
        self.intent = self.intent.start + longer..self.intent.end + longer;
        self.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(self.body.len()));
    }

    /// Returns the intent id.
    pub(crate) fn intent(&self) -> &[u8] {
        self.body.get(self.intent.clone()).unwrap_or_default()
    }
}

/// Returns a JSON object with `type` added as its first member. `uri` needs no escapes.
pub(crate) fn with_type(object: &[u8], uri: &str) -> Bytes {
    with_first(object, "type", uri)
}

/// Returns a JSON object with this member added first. Neither name nor value needs escapes.
fn with_first(object: &[u8], name: &str, value: &str) -> Bytes {
    let members = object.get(1..).unwrap_or_default();
    [format!(r#"{{"{name}":"{value}","#).as_bytes(), members].concat().into()
}

impl QuoteTemplate {
    /// Creates the template. `assets` has at least one element, all with the same decimals; `label` is checked
    /// already. `bound`: unbound payments are refused.
    pub(crate) fn new(recipient: Address, network: Network, label: &str, assets: &[Asset], bound: bool) -> Self {
        let (decimals, symbol) = assets.first().map_or((0, ""), |asset| (asset.decimals(), asset.symbol()));
        let contracts: Vec<String> = assets.iter().map(|asset| asset.contract().to_string()).collect();
        let problem = ProblemCode::PaymentRequired;
        // Stated before anything is paid, because some wallets can do neither.
        let condition = match bound {
            true => {
                " The payment must carry this intent's tag, or be signed for by its payer: an ordinary transfer alone is refused."
            }
            false => "",
        };
        // The detail continues after the price.
        let before_intent = ["", " in the x402-payment header"].map(|place| {
            let how = ascii_json(&format!(
                " {symbol} on {network} to {recipient} before the expiry, then send this request again with intentId and txHash{place}.{condition}",
            ));
            format!(r#"{},"error":"{problem}","intentId":""#, how.trim_start_matches('"')).into()
        });
        let before_decimal = format!(r#"{{"title":"{}","status":402,"detail":"Send at least "#, problem.title());
        let mut before_expiry = String::from(r#"","pay":"#);
        let start = before_expiry.len();
        // Writing to a String cannot fail.
        let _ = write!(
            before_expiry,
            r#"{{"recipient":"{recipient}","chainId":{},"label":{},"expiry":"#,
            network.chain_id(),
            ascii_json(label)
        );
        let mut after_units = format!(
            r#"","decimals":{decimals},"symbol":{},"binding":["tag","nonce","signature"]{}}}"#,
            ascii_json(symbol),
            if bound { r#","bindingRequired":true"# } else { "" },
        );
        let end = after_units.len();
        let headers = headers(&contracts.join(", "));
        let mut headers_of_both = headers.clone();
        headers_of_both.insert(PAYMENT_REQUIRED, mark(STANDARD));
        let _ = write!(after_units, r#","contracts":["{}"]}}"#, contracts.join(r#"",""#));
        Self {
            before_decimal: before_decimal.into(),
            before_intent,
            before_expiry: before_expiry.into(),
            before_units: r#","amount":""#.into(),
            after_units: after_units.into(),
            pay: (start, end),
            headers,
            headers_of_both,
        }
    }

    /// Adds a member at the end of the body, in ASCII.
    pub(crate) fn with_member(mut self, name: &str, value: &serde_json::Value) -> Self {
        let before = self.after_units.strip_suffix('}').unwrap_or(&self.after_units);
        self.after_units = format!(r#"{before},"{name}":{}}}"#, ascii_text(value)).into();
        self
    }

    /// Writes one quote, including the standard's form if there is one. `seal` appends its intent id.
    pub(crate) fn render(
        &self,
        price: &PriceText,
        expiry: u64,
        redeem_by: RedeemBy,
        standard: Option<&Challenged<'_>>,
        seal: impl FnOnce(&mut Vec<u8>),
    ) -> RenderedQuote {
        let before_intent = &self.before_intent[redeem_by as usize];
        let mut numbers = itoa::Buffer::new();
        let behind = standard.map_or(0, |standard| standard.longest(price));
        let mut body = Vec::with_capacity(self.longest(price, before_intent) + behind);
        body.extend_from_slice(self.before_decimal.as_bytes());
        body.extend_from_slice(price.decimal.as_bytes());
        body.extend_from_slice(before_intent.as_bytes());
        let intent = body.len();
        seal(&mut body);
        let intent = intent..body.len();
        let pay = body.len() + self.pay.0;
        body.extend_from_slice(self.before_expiry.as_bytes());
        body.extend_from_slice(numbers.format(expiry).as_bytes());
        body.extend_from_slice(self.before_units.as_bytes());
        body.extend_from_slice(price.units.as_bytes());
        let pay = pay..body.len() + self.pay.1;
        body.extend_from_slice(self.after_units.as_bytes());
        let url = standard.map(Challenged::url).unwrap_or_default();
        let version_1 = standard.map_or(0, |standard| standard.write_version_1(price, &url, &mut body));
        // The body's length and the standard's header follow the body in its buffer, so they need no memory of their
        // own.
        let length = body.len();
        body.extend_from_slice(numbers.format(length).as_bytes());
        let end = body.len();
        let mut headers = match standard {
            Some(standard) => {
                standard.write(price, url, intent.clone(), &mut body);
                self.headers_of_both.clone()
            }
            None => self.headers.clone(),
        };
        let mut written = Bytes::from(body);
        // Finds the headers by their placeholders: a lookup would have to hash each name.
        for value in headers.values_mut() {
            let range = match value.as_bytes() {
                LENGTH => length..end,
                INTENT => intent.clone(),
                PAYMENT => pay.clone(),
                STANDARD => end..written.len(),
                _ => continue,
            };
            *value = header_slice(&written, range);
        }
        written.truncate(length);
        RenderedQuote { body: written, headers, intent, version_1 }
    }

    /// Returns how long the header `PAYMENT-REQUIRED` may be, so that all headers of the answer stay below what
    /// platforms accept.
    pub(crate) fn room_for_challenge(&self) -> usize {
        const ALL: usize = 2_900;
        let constant = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
        let pay = self.before_expiry.len() + self.before_units.len() + self.after_units.len() + 2 * 20;
        ALL.saturating_sub(constant + pay + SEALED_MAX + PAYMENT_REQUIRED.as_str().len() + 4)
    }

    /// Returns how long version 1's demand may be, so that the body stays small.
    pub(crate) fn room_for_version_1(&self) -> usize {
        const ALL: usize = 4_000;
        let own = [&*self.before_decimal, &self.before_intent[RedeemBy::Header as usize], &self.before_expiry];
        let own = own.iter().map(|part| part.len()).sum::<usize>() + self.before_units.len() + self.after_units.len();
        ALL.saturating_sub(own + SEALED_MAX + 4 * 20)
    }

    /// Returns an upper bound of the length of any quote at this price, including the digits of its length.
    fn longest(&self, price: &PriceText, before_intent: &str) -> usize {
        let constant =
            [&*self.before_decimal, before_intent, &self.before_expiry, &self.before_units, &self.after_units];
        let numbers = price.decimal.len() + price.units.len() + 2 * 20;
        constant.map(|part| part.len()).iter().sum::<usize>() + INTENT_ID_MAX + numbers
    }
}

fn headers(contracts: &str) -> HeaderMap {
    // Addresses and commas are a valid header value, so the fall-back is unreachable.
    let contracts = HeaderValue::try_from(contracts).unwrap_or(HeaderValue::from_static(""));
    HeaderMap::from_iter([
        (header::CONTENT_TYPE, PROBLEM_JSON),
        (header::CONTENT_LENGTH, mark(LENGTH)),
        (header::CACHE_CONTROL, NO_STORE),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_LINE),
        (PAY, mark(PAYMENT)),
        (X_PRICE_INTENT, mark(INTENT)),
        (X_PAYMENT_CONTRACTS, contracts),
        (X402_ERROR, HeaderValue::from_static(ProblemCode::PaymentRequired.as_str())),
    ])
}

/// Returns a placeholder, which each quote replaces.
fn mark(place: &[u8]) -> HeaderValue {
    // A digit is a valid header value, so the fall-back is unreachable.
    HeaderValue::from_bytes(place).unwrap_or(HeaderValue::from_static(""))
}

/// Returns a range of the buffer as a header. Digits, base64, base64url and `ascii_json` are valid values, so the
/// fall-back is unreachable.
fn header_slice(written: &Bytes, range: Range<usize>) -> HeaderValue {
    HeaderValue::from_maybe_shared(written.slice(range)).unwrap_or(HeaderValue::from_static(""))
}
