//! `QuoteTemplate`: a route's quote with everything written that is the same for every request.

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

/// Each marks the place of a header that hangs on the request. No other header of a quote says this.
const LENGTH: &[u8] = b"0";
const INTENT: &[u8] = b"1";
const PAYMENT: &[u8] = b"2";
const STANDARD: &[u8] = b"3";

/// A quote's body and headers, but for price, intent and expiry.
#[derive(Clone, Debug)]
pub(crate) struct QuoteTemplate {
    /// The body, cut where these go, in this order; the price once as a decimal and once in base units.
    before_decimal: Box<str>,
    /// By [`RedeemBy`].
    before_intent: [Box<str>; 2],
    before_expiry: Box<str>,
    before_units: Box<str>,
    after_units: Box<str>,
    /// Where the `Pay` object begins in `before_expiry`, and ends in `after_units`.
    pay: (usize, usize),
    /// All eight; what hangs on the request has its place marked.
    headers: HeaderMap,
    /// The same, and the standard's.
    headers_of_both: HeaderMap,
}

/// Where a quote says that its payment is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedeemBy {
    /// In the body or in the header.
    Any,
    /// In the header: the body is not looked at, or too long to be.
    Header,
}

/// A quote on the wire: those of its headers that hang on the request are slices of what its body stands in.
#[derive(Debug)]
pub(crate) struct RenderedQuote {
    pub(crate) body: Bytes,
    pub(crate) headers: HeaderMap,
    /// Where the intent stands in the body.
    intent: Range<usize>,
    /// How long the demand of version 1 is, before the body's last brace.
    version_1: usize,
}

impl RenderedQuote {
    /// Takes back what asks for a transfer: the header `PAYMENT-REQUIRED` says how to pay.
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

    /// Says why a payment was refused: what stands before the intent is replaced.
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

    /// Says why the pass that was shown buys nothing, before all other members.
    pub(crate) fn note_pass(&mut self, state: &str) {
        self.lead_with("pass", state);
    }

    /// Adds the member `type`, before all others.
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

    /// The intent id.
    pub(crate) fn intent(&self) -> &[u8] {
        self.body.get(self.intent.clone()).unwrap_or_default()
    }
}

/// A JSON object with the member `type`, before all others. The address needs no escapes.
pub(crate) fn with_type(object: &[u8], uri: &str) -> Bytes {
    with_first(object, "type", uri)
}

/// The same with any member. Neither name nor value needs escapes.
fn with_first(object: &[u8], name: &str, value: &str) -> Bytes {
    let members = object.get(1..).unwrap_or_default();
    [format!(r#"{{"{name}":"{value}","#).as_bytes(), members].concat().into()
}

impl QuoteTemplate {
    /// `assets`: at least one, all of the same decimals; `label` was checked. `bound`: no unbound payment is accepted.
    pub(crate) fn new(recipient: Address, network: Network, label: &str, assets: &[Asset], bound: bool) -> Self {
        let (decimals, symbol) = assets.first().map_or((0, ""), |asset| (asset.decimals(), asset.symbol()));
        let contracts: Vec<String> = assets.iter().map(|asset| asset.contract().to_string()).collect();
        let problem = ProblemCode::PaymentRequired;
        // Said before anything is paid: some wallets can do neither.
        let condition = match bound {
            true => {
                " The payment must carry this intent's tag, or be signed for by its payer: an ordinary transfer alone is refused."
            }
            false => "",
        };
        // The detail goes on behind the price.
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

    /// Adds a member to the body, behind all others. Everything in it is ASCII then.
    pub(crate) fn with_member(mut self, name: &str, value: &serde_json::Value) -> Self {
        let before = self.after_units.strip_suffix('}').unwrap_or(&self.after_units);
        self.after_units = format!(r#"{before},"{name}":{}}}"#, ascii_text(value)).into();
        self
    }

    /// Writes one quote, in the standard's words as well where there are any; `seal` appends its intent id.
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
        // Behind the body its length, and the standard's header: they need no memory of their own.
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
        // Found by what stands in it: each name would have to be hashed.
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

    /// How long the header `PAYMENT-REQUIRED` may be, so that all headers of the answer stay below what platforms pass on.
    pub(crate) fn room_for_challenge(&self) -> usize {
        const ALL: usize = 2_900;
        let constant = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
        let pay = self.before_expiry.len() + self.before_units.len() + self.after_units.len() + 2 * 20;
        ALL.saturating_sub(constant + pay + SEALED_MAX + PAYMENT_REQUIRED.as_str().len() + 4)
    }

    /// How long the demand of version 1 may be, so that the body stays small.
    pub(crate) fn room_for_version_1(&self) -> usize {
        const ALL: usize = 4_000;
        let own = [&*self.before_decimal, &self.before_intent[RedeemBy::Header as usize], &self.before_expiry];
        let own = own.iter().map(|part| part.len()).sum::<usize>() + self.before_units.len() + self.after_units.len();
        ALL.saturating_sub(own + SEALED_MAX + 4 * 20)
    }

    /// At least as long as any quote at this price, its length behind it.
    fn longest(&self, price: &PriceText, before_intent: &str) -> usize {
        let constant =
            [&*self.before_decimal, before_intent, &self.before_expiry, &self.before_units, &self.after_units];
        let numbers = price.decimal.len() + price.units.len() + 2 * 20;
        constant.map(|part| part.len()).iter().sum::<usize>() + INTENT_ID_MAX + numbers
    }
}

fn headers(contracts: &str) -> HeaderMap {
    // Addresses and commas are a header value; the fall-back cannot be reached.
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

/// The header that is replaced in each quote.
fn mark(place: &[u8]) -> HeaderValue {
    // A digit is a header value; the fall-back cannot be reached.
    HeaderValue::from_bytes(place).unwrap_or(HeaderValue::from_static(""))
}

/// Digits, base64, base64url and `ascii_json` leave nothing that a header refuses; the fall-back cannot be reached.
fn header_slice(written: &Bytes, range: Range<usize>) -> HeaderValue {
    HeaderValue::from_maybe_shared(written.slice(range)).unwrap_or(HeaderValue::from_static(""))
}
