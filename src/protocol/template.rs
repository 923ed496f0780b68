//! `QuoteTemplate`: a route's quote with everything written that is the same for every request.

use std::{fmt::Write as _, ops::Range};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};

use super::{
    Address, Amount, Asset, INTENT_ID_MAX, Network, ProblemCode, ascii_json,
    headers::{
        EXPOSED_LINE, NO_STORE, PAY, PAYMENT_REQUIRED, PROBLEM_JSON, X_PAYMENT_CONTRACTS, X_PRICE_INTENT, X402_ERROR,
    },
};

/// The longest intent id that is sealed here; others may be [`INTENT_ID_MAX`] long.
pub(super) const INTENT_MAX: usize = 128;

/// Each marks the place of a header that hangs on the request. No other header of a quote says this.
const LENGTH: &str = "0";
const INTENT: &str = "1";
const PAYMENT: &str = "2";

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
    decimals: u8,
    /// All eight; what hangs on the request has its place marked.
    headers: HeaderMap,
}

/// Where a quote says that its payment is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedeemBy {
    /// In the body or in the header.
    Any,
    /// In the header: the body is not looked at, or too long to be.
    Header,
}

/// A price as a quote writes it.
#[derive(Clone, Debug)]
pub(crate) struct PriceText {
    decimal: String,
    units: String,
}

impl PriceText {
    /// In base units.
    pub(super) fn units(&self) -> &str {
        &self.units
    }
}

/// A quote on the wire: three of its headers are slices of what its body stands in.
#[derive(Debug)]
pub(crate) struct RenderedQuote {
    pub(crate) body: Bytes,
    pub(crate) headers: HeaderMap,
    /// Where the intent stands in the body.
    intent: Range<usize>,
}

impl RenderedQuote {
    /// The intent id.
    pub(crate) fn intent(&self) -> &[u8] {
        self.body.get(self.intent.clone()).unwrap_or_default()
    }
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
        let _ = write!(after_units, r#","contracts":["{}"]}}"#, contracts.join(r#"",""#));
        Self {
            before_decimal: before_decimal.into(),
            before_intent,
            before_expiry: before_expiry.into(),
            before_units: r#","amount":""#.into(),
            after_units: after_units.into(),
            pay: (start, end),
            decimals,
            headers: headers(&contracts.join(", ")),
        }
    }

    /// How this price is written.
    pub(crate) fn price(&self, amount: Amount) -> PriceText {
        PriceText { decimal: amount.to_decimal(self.decimals), units: amount.to_string() }
    }

    /// Writes one quote; `seal` appends its intent id.
    pub(crate) fn render(
        &self,
        price: &PriceText,
        expiry: u64,
        redeem_by: RedeemBy,
        seal: impl FnOnce(&mut Vec<u8>),
    ) -> RenderedQuote {
        let before_intent = &self.before_intent[redeem_by as usize];
        let mut numbers = itoa::Buffer::new();
        let mut body = Vec::with_capacity(self.longest(price, before_intent));
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
        // Behind the body its length: one more header that needs no memory of its own.
        let length = body.len();
        body.extend_from_slice(numbers.format(length).as_bytes());
        let mut written = Bytes::from(body);
        let mut headers = self.headers.clone();
        // Found by what stands in it: each name would have to be hashed.
        for value in headers.values_mut() {
            let range = match &*value {
                value if *value == *LENGTH => length..written.len(),
                value if *value == *INTENT => intent.clone(),
                value if *value == *PAYMENT => pay.clone(),
                _ => continue,
            };
            *value = header_slice(&written, range);
        }
        written.truncate(length);
        RenderedQuote { body: written, headers, intent }
    }

    /// How long the header `PAYMENT-REQUIRED` may be, so that all headers of the answer stay below what platforms pass on.
    pub(crate) fn room_for_challenge(&self) -> usize {
        const ALL: usize = 2_900;
        let constant = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
        let pay = self.before_expiry.len() + self.before_units.len() + self.after_units.len() + 2 * 20;
        ALL.saturating_sub(constant + pay + INTENT_MAX + PAYMENT_REQUIRED.as_str().len() + 4)
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
        (header::CONTENT_LENGTH, HeaderValue::from_static(LENGTH)),
        (header::CACHE_CONTROL, NO_STORE),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_LINE),
        (PAY, HeaderValue::from_static(PAYMENT)),
        (X_PRICE_INTENT, HeaderValue::from_static(INTENT)),
        (X_PAYMENT_CONTRACTS, contracts),
        (X402_ERROR, HeaderValue::from_static(ProblemCode::PaymentRequired.as_str())),
    ])
}

/// Digits, base64url and `ascii_json` leave nothing that a header refuses; the fall-back cannot be reached.
fn header_slice(written: &Bytes, range: Range<usize>) -> HeaderValue {
    HeaderValue::from_maybe_shared(written.slice(range)).unwrap_or(HeaderValue::from_static(""))
}
