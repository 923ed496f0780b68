//! `Quote`: what a 402 says. Written by the seller from a template, read by the payer from the headers.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use super::{
    Address, Amount, Asset, INTENT_ID_MAX, IntentId, Network, ProblemCode, ascii_json,
    headers::{PAY, X_PAYMENT_CONTRACTS, X_PRICE_INTENT},
};

/// A quote, as a payer reads it from the headers of a 402.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use tower_x402::protocol::{Amount, Network, Quote, headers};
///
/// let mut answer = HeaderMap::new();
/// answer.insert(headers::PAY, HeaderValue::from_static(
///     r#"{"recipient":"0xd1220a0cf47c7b9be7a2e6ba89f429762e7b9adb","chainId":8453,"label":"Demand insights","expiry":1795280400,"amount":"490000","decimals":6,"symbol":"USDC"}"#,
/// ));
/// answer.insert(headers::X_PRICE_INTENT, HeaderValue::from_static("AUbX-9_k"));
/// answer.insert(headers::X_PAYMENT_CONTRACTS, HeaderValue::from_static("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"));
///
/// let quote = Quote::from_headers(&answer)?;
/// assert_eq!(quote.network, Network::BASE);
/// assert_eq!(quote.amount.to_decimal(quote.decimals), "0.49");
/// # Ok::<(), tower_x402::protocol::QuoteError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quote {
    /// What ties the payment to the answer.
    pub intent: IntentId,
    /// Who is to be paid.
    pub recipient: Address,
    /// On which chain.
    pub network: Network,
    /// What for, in the seller's words.
    pub label: String,
    /// The last moment at which a payment counts, in Unix seconds of chain time.
    pub expiry: u64,
    /// The least that is accepted, in base units.
    pub amount: Amount,
    /// The decimals of every accepted token.
    pub decimals: u8,
    /// The first token's short name.
    pub symbol: String,
    /// The accepted token contracts.
    pub contracts: Vec<Address>,
}

/// Why a response is not read as a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuoteError {
    /// A header of a quote is missing or given twice.
    #[error("the response has no single `{0}` header")]
    Header(&'static str),
    /// A header of a quote does not say what it must.
    #[error("the response's `{0}` header cannot be read")]
    Malformed(&'static str),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pay {
    recipient: String,
    chain_id: u64,
    label: String,
    expiry: u64,
    amount: Amount,
    decimals: u8,
    symbol: String,
}

impl Quote {
    /// Reads `Pay`, `X-Price-Intent` and `X-Payment-Contracts`.
    ///
    /// # Errors
    /// [`QuoteError`] where one of them is missing, given twice, or malformed.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, QuoteError> {
        let pay: Pay = serde_json::from_str(single(headers, PAY, "Pay")?).map_err(|_| QuoteError::Malformed("Pay"))?;
        let intent = single(headers, X_PRICE_INTENT, "X-Price-Intent")?;
        let contracts = single(headers, X_PAYMENT_CONTRACTS, "X-Payment-Contracts")?;
        let contracts: Result<Vec<Address>, _> = contracts.split(',').map(|text| text.trim().parse()).collect();
        Ok(Self {
            intent: IntentId::new(intent).ok_or(QuoteError::Malformed("X-Price-Intent"))?,
            recipient: pay.recipient.parse().map_err(|_| QuoteError::Malformed("Pay"))?,
            network: Network::eip155(pay.chain_id),
            label: pay.label,
            expiry: pay.expiry,
            amount: pay.amount,
            decimals: pay.decimals,
            symbol: pay.symbol,
            contracts: contracts.map_err(|_| QuoteError::Malformed("X-Payment-Contracts"))?,
        })
    }
}

fn single<'a>(headers: &'a HeaderMap, name: HeaderName, shown: &'static str) -> Result<&'a str, QuoteError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_| QuoteError::Malformed(shown)),
        _ => Err(QuoteError::Header(shown)),
    }
}

/// A quote's body with what is constant already written: only intent and expiry are put in between.
#[derive(Clone, Debug)]
pub(crate) struct QuoteTemplate {
    before_intent: Box<str>,
    before_expiry: Box<str>,
    after_expiry: Box<str>,
    /// Where the `Pay` object begins in `before_expiry`, and ends in `after_expiry`.
    pay: (usize, usize),
    contracts: HeaderValue,
}

/// A quote on the wire: two of its headers are slices of its body.
#[derive(Debug)]
pub(crate) struct RenderedQuote {
    pub(crate) body: Bytes,
    pub(crate) pay: HeaderValue,
    pub(crate) intent: HeaderValue,
    pub(crate) contracts: HeaderValue,
}

impl QuoteTemplate {
    /// `assets`: at least one, all of the same decimals; `label` was checked.
    pub(crate) fn new(
        recipient: Address,
        network: Network,
        label: &str,
        amount: Amount,
        assets: &[Asset],
        header_only: bool,
    ) -> Self {
        let (decimals, symbol) = assets.first().map_or((0, ""), |asset| (asset.decimals(), asset.symbol()));
        let contracts: Vec<String> = assets.iter().map(|asset| asset.contract().to_string()).collect();
        let problem = ProblemCode::PaymentRequired;
        let detail = ascii_json(&format!(
            "Send at least {} {symbol} on {network} to {recipient} before the expiry, then send this request again with intentId and txHash{}.",
            amount.to_decimal(decimals),
            if header_only { " in the x402-payment header" } else { "" },
        ));
        let before_intent = format!(
            r#"{{"title":"{}","status":402,"detail":{detail},"error":"{problem}","intentId":""#,
            problem.title()
        );
        let mut before_expiry = String::from(r#"","pay":"#);
        let start = before_expiry.len();
        // Writing to a String cannot fail.
        let _ = write!(
            before_expiry,
            r#"{{"recipient":"{recipient}","chainId":{},"label":{},"expiry":"#,
            network.chain_id(),
            ascii_json(label)
        );
        let mut after_expiry =
            format!(r#","amount":"{amount}","decimals":{decimals},"symbol":{}}}"#, ascii_json(symbol));
        let end = after_expiry.len();
        let _ = write!(after_expiry, r#","contracts":["{}"]}}"#, contracts.join(r#"",""#));
        Self {
            before_intent: before_intent.into(),
            before_expiry: before_expiry.into(),
            after_expiry: after_expiry.into(),
            pay: (start, end),
            // Addresses and commas are a header value; the fall-back cannot be reached.
            contracts: HeaderValue::try_from(contracts.join(", ")).unwrap_or(HeaderValue::from_static("")),
        }
    }

    /// Writes one quote; `seal` appends its intent id.
    pub(crate) fn render(&self, expiry: u64, seal: impl FnOnce(&mut Vec<u8>)) -> RenderedQuote {
        let constant = self.before_intent.len() + self.before_expiry.len() + self.after_expiry.len();
        let mut body = Vec::with_capacity(constant + INTENT_ID_MAX + 20);
        body.extend_from_slice(self.before_intent.as_bytes());
        let intent = body.len();
        seal(&mut body);
        let intent = intent..body.len();
        let pay = body.len() + self.pay.0;
        body.extend_from_slice(self.before_expiry.as_bytes());
        body.extend_from_slice(itoa::Buffer::new().format(expiry).as_bytes());
        let pay = pay..body.len() + self.pay.1;
        body.extend_from_slice(self.after_expiry.as_bytes());
        let body = Bytes::from(body);
        RenderedQuote {
            pay: header_slice(&body, pay),
            intent: header_slice(&body, intent),
            contracts: self.contracts.clone(),
            body,
        }
    }
}

/// Base64url and `ascii_json` leave nothing that a header refuses; the fall-back cannot be reached.
fn header_slice(body: &Bytes, range: std::ops::Range<usize>) -> HeaderValue {
    HeaderValue::from_maybe_shared(body.slice(range)).unwrap_or(HeaderValue::from_static(""))
}
