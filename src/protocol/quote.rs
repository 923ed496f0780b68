//! `Quote`: the quote in the headers of a 402, as read by a payer.

use http::{HeaderMap, HeaderName};
use serde::Deserialize;

use super::{
    Address, Amount, ChainTime, IntentId, Network,
    headers::{PAY, X_PAYMENT_CONTRACTS, X_PRICE_INTENT},
};

/// The quote in the headers of a 402, as read by a payer.
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
    /// The intent, which links the payment to the answer.
    pub intent: IntentId,
    /// The account to pay.
    pub recipient: Address,
    /// The chain to pay on.
    pub network: Network,
    /// The seller's description of the offer.
    pub label: String,
    /// The latest block time at which a payment counts.
    pub expiry: ChainTime,
    /// The minimum amount, in base units.
    pub amount: Amount,
    /// The decimals of every accepted token.
    pub decimals: u8,
    /// The symbol of the first accepted token.
    pub symbol: String,
    /// The accepted token contracts.
    pub contracts: Vec<Address>,
}

/// The error returned when a response is not a quote. Its text names the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct QuoteError(Fault);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("the response has no single `{0}` header")]
    Header(&'static str),
    #[error("the response's `{0}` cannot be read")]
    Malformed(&'static str),
}

impl QuoteError {
    pub(crate) const fn malformed(part: &'static str) -> Self {
        Self(Fault::Malformed(part))
    }
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
    /// Reads a quote from the headers `Pay`, `X-Price-Intent` and `X-Payment-Contracts`.
    ///
    /// # Errors
    /// Returns [`QuoteError`] if one of them is missing, given twice, or malformed.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, QuoteError> {
        let pay: Pay = serde_json::from_str(single(headers, PAY, "Pay")?).map_err(|_| QuoteError::malformed("Pay"))?;
        let intent = single(headers, X_PRICE_INTENT, "X-Price-Intent")?;
        let contracts = single(headers, X_PAYMENT_CONTRACTS, "X-Payment-Contracts")?;
        let contracts: Result<Vec<Address>, _> = contracts.split(',').map(|text| text.trim().parse()).collect();
        Ok(Self {
            intent: IntentId::new(intent).map_err(|_| QuoteError::malformed("X-Price-Intent"))?,
            recipient: pay.recipient.parse().map_err(|_| QuoteError::malformed("Pay"))?,
            network: Network::eip155(pay.chain_id),
            label: pay.label,
            expiry: ChainTime::from_unix(pay.expiry),
            amount: pay.amount,
            decimals: pay.decimals,
            symbol: pay.symbol,
            contracts: contracts.map_err(|_| QuoteError::malformed("X-Payment-Contracts"))?,
        })
    }
}

fn single<'a>(headers: &'a HeaderMap, name: HeaderName, shown: &'static str) -> Result<&'a str, QuoteError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_| QuoteError::malformed(shown)),
        _ => Err(QuoteError(Fault::Header(shown))),
    }
}
