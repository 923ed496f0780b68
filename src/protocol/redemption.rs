//! `Proof`: an intent and a transaction hash, read strictly from a header or a JSON body.

use std::{borrow::Cow, fmt, str::FromStr};

use http::{HeaderMap, HeaderValue};
use memchr::memmem;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{
    IntentId, Network, PaymentSecret, PaymentSignature, TxHash, ascii_json,
    encoding::decode_base64,
    headers::{HEADER_MAX, PAYMENT_SIGNATURE, X_PAYMENT, X402_PAYMENT},
    json_text::{Text, parse_text},
    mpp, v1,
    v2::PaymentPayload,
};

const INTENT: &str = "intentId";
const TX: &str = "txHash";
/// Read in headers only: in a body it belongs to the service.
const CHAIN: &str = "chainId";
const SECRET: &str = "paymentSecret";
const SIGNATURE: &str = "paymentSignature";

/// How many levels of arrays, and of strings that hold JSON, are searched for a proof.
const WRAPPINGS: u32 = 3;

/// A proof of payment in a request: an intent id, a transaction hash, or both.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use tower_x402::protocol::{Proof, headers::X402_PAYMENT};
///
/// let mut headers = HeaderMap::new();
/// assert_eq!(Proof::from_headers(&headers), Ok(None));
/// headers.insert(X402_PAYMENT, HeaderValue::from_static(r#"{"intentId":"AUbX-9_k"}"#));
/// assert!(matches!(Proof::from_headers(&headers), Ok(Some(Proof::IntentOnly(_)))));
/// headers.insert(X402_PAYMENT, HeaderValue::from_static(r#"{"intentId":"AUbX-9_k","txHash":"0x12"}"#));
/// assert!(Proof::from_headers(&headers).is_err());     // never "no proof"
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// Both members: a redemption.
    Redemption(Redemption),
    /// The intent alone.
    IntentOnly(IntentId),
    /// The transaction alone.
    TransactionOnly(TxHash),
    /// A payment of the standard, from the `PAYMENT-SIGNATURE` header.
    Payment(Box<PaymentPayload>),
    /// A payment of the standard's first version, from the `X-PAYMENT` header.
    PaymentV1(Box<v1::PaymentPayload>),
    /// A payment of MPP, from the `Authorization` header, if the merchant accepts MPP.
    Mpp(Box<mpp::Credential>),
}

/// A request to redeem a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redemption {
    /// The intent of a quote.
    pub intent: IntentId,
    /// The transaction that paid.
    pub transaction: TxHash,
    /// The network of that transaction. `None` if it is not named: the first network of the quote.
    pub network: Option<Network>,
    /// The secret that the transfer is bound to, unless that is the intent.
    pub secret: Option<PaymentSecret>,
    /// A signature of the payer over [`redemption_message`](super::redemption_message).
    pub signature: Option<PaymentSignature>,
}

impl Redemption {
    /// Returns a redemption without a proof of the payer.
    #[must_use]
    pub const fn new(intent: IntentId, transaction: TxHash) -> Self {
        Self { intent, transaction, network: None, secret: None, signature: None }
    }

    /// Names the network of the transaction.
    #[must_use]
    pub fn on(self, network: Network) -> Self {
        Self { network: Some(network), ..self }
    }
}

/// The error returned for a malformed proof. Such a request is refused; it is not answered with a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid redemption: it has `intentId` (a string) and `txHash` (0x and 64 hexadecimal digits), and may have `paymentSecret` (16 to 192 characters) and `paymentSignature` (0x and hexadecimal digits), each once"
)]
#[non_exhaustive]
pub struct InvalidRedemption;

/// The result of scanning a body for a proof.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScanResult {
    /// No member of a proof.
    Nothing,
    Proof(Proof),
    Invalid,
    /// The text is not exactly one JSON value in UTF-8.
    NotJson,
}

impl Proof {
    /// Reads the header `x402-payment`, `PAYMENT-SIGNATURE` or `X-PAYMENT`. Returns `None` if there is none of them.
    ///
    /// # Errors
    /// Returns [`InvalidRedemption`] if more than one of them is sent, or one twice; if `x402-payment` is empty, too
    /// long, or neither a JSON object with a proof nor base64 of one; if `PAYMENT-SIGNATURE` is not a
    /// [`PaymentPayload`]; or if `X-PAYMENT` is not a [`v1::PaymentPayload`].
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, InvalidRedemption> {
        let mut values = headers.get_all(X402_PAYMENT).iter();
        match (values.next(), headers.contains_key(PAYMENT_SIGNATURE), headers.contains_key(X_PAYMENT)) {
            (None, false, false) => Ok(None),
            (None, true, false) => {
                let payment = PaymentPayload::from_headers(headers).map_err(|_| InvalidRedemption)?;
                Ok(payment.map(|payment| Self::Payment(Box::new(payment))))
            }
            (None, false, true) => {
                let payment = v1::PaymentPayload::from_headers(headers).map_err(|_| InvalidRedemption)?;
                Ok(payment.map(|payment| Self::PaymentV1(Box::new(payment))))
            }
            (Some(value), false, false) if values.next().is_none() => Self::from_header(value).map(Some),
            _ => Err(InvalidRedemption),
        }
    }

    fn from_header(value: &HeaderValue) -> Result<Self, InvalidRedemption> {
        let bytes = value.as_bytes();
        if bytes.len() > HEADER_MAX {
            return Err(InvalidRedemption);
        }
        let json = match bytes.first() {
            Some(b'{') => Cow::Borrowed(bytes),
            _ => Cow::Owned(decode_base64(bytes).ok_or(InvalidRedemption)?),
        };
        // serde_json does not check the UTF-8 of skipped values.
        let text = std::str::from_utf8(&json).map_err(|_| InvalidRedemption)?;
        let members: Members<'_> = serde_json::from_str(text).map_err(|_| InvalidRedemption)?;
        match members.proof()? {
            Self::Redemption(redemption) => {
                Ok(Self::Redemption(Redemption { network: members.chain.network()?, ..redemption }))
            }
            proof => Ok(proof),
        }
    }
}

/// Returns whether a member belongs to the payer, not to the service.
pub(crate) fn is_proof_member(name: &str) -> bool {
    [INTENT, TX, SECRET, SIGNATURE].contains(&name)
}

/// Returns whether a member's value counts as missing.
pub(crate) fn is_absent(value: &RawValue) -> bool {
    Member::read(value).is_absent()
}

/// Returns whether the redemption in the header `x402-payment` has the same value for a member: a client may show one
/// proof in both places.
pub(crate) fn is_shown_in_head(name: &str, value: &RawValue, headers: &HeaderMap) -> bool {
    let Ok(Some(Proof::Redemption(shown))) = Proof::from_headers(headers) else { return false };
    let Member::Text(text) = Member::read(value) else { return false };
    match name {
        INTENT => text == shown.intent.as_str(),
        TX => text.parse() == Ok(shown.transaction),
        SECRET => shown.secret.is_some_and(|secret| text.parse() == Ok(secret)),
        SIGNATURE => shown.signature.is_some_and(|signature| text.parse() == Ok(signature)),
        _ => false,
    }
}

/// Returns whether a text that is not parsed as JSON contains the name of a proof's member, in any kind of quotes.
pub(crate) fn names_proof(text: &[u8]) -> bool {
    [INTENT, TX].iter().any(|name| memmem::find(text, name.as_bytes()).is_some())
}

/// Returns whether bytes are JSON in UTF-8.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    // serde_json does not check the UTF-8 of what it skips.
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Returns whether a text is JSON, or the beginning of JSON.
pub(crate) fn begins_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).map_or_else(|error| error.is_eof(), |_| true)
}

/// Returns whether a query has fields with both members' names: one alone may belong to the service.
pub(crate) fn query_names_proof(query: &str) -> bool {
    has_field(query.as_bytes(), INTENT) && has_field(query.as_bytes(), TX)
}

/// Returns whether a form has a field with the name of a proof's member. Proofs do not belong in forms, so this is a
/// mistake of the client.
pub(crate) fn form_names_proof(form: &[u8]) -> bool {
    has_field(form, INTENT) || has_field(form, TX)
}

/// Reads the proof in a form that a page sends: the members of a redemption as fields, each once, under the rules of
/// the JSON object.
///
/// Only a complete redemption counts. Any other form that names a proof is a mistake, as in other encodings.
pub(crate) fn scan_form(form: &[u8]) -> ScanResult {
    match form_members(form).map(|members| scan_body(members.as_bytes())) {
        Some(ScanResult::Proof(proof @ Proof::Redemption(_))) => ScanResult::Proof(proof),
        _ if form_names_proof(form) => ScanResult::Invalid,
        _ => ScanResult::Nothing,
    }
}

/// Writes a form's fields that belong to the payer as a JSON object.
fn form_members(form: &[u8]) -> Option<String> {
    let mut members = String::from("{");
    for pair in form.split(|byte| *byte == b'&') {
        let at = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        let name = form_text(&pair[..at])?;
        if is_proof_member(&name) {
            let value = form_text(pair.get(at + 1..).unwrap_or_default())?;
            let comma = if members.len() > 1 { "," } else { "" };
            members.push_str(&format!("{comma}{}:{}", ascii_json(&name), ascii_json(&value)));
        }
    }
    members.push('}');
    Some(members)
}

/// Decodes a name or a value of a form; `None` if it is not UTF-8.
fn form_text(encoded: &[u8]) -> Option<String> {
    let spaced: Vec<u8> = encoded.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    String::from_utf8(percent_decoded(&spaced).collect()).ok()
}

/// Returns whether a form or a query has a field of this name, percent-encoded or not.
fn has_field(pairs: &[u8], name: &str) -> bool {
    pairs.split(|byte| *byte == b'&').any(|pair| {
        let encoded = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        percent_decoded(encoded).eq(name.bytes())
    })
}

fn percent_decoded(mut encoded: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        if let [b'%', high, low, rest @ ..] = encoded
            && let (Some(high), Some(low)) = (char::from(*high).to_digit(16), char::from(*low).to_digit(16))
        {
            encoded = rest;
            return u8::try_from(high * 16 + low).ok();
        }
        let (first, rest) = encoded.split_first()?;
        encoded = rest;
        Some(*first)
    })
}

/// Reads a proof's members from a JSON text in one pass, and skips all others.
pub(crate) fn scan_body(json: &[u8]) -> ScanResult {
    // serde_json does not check the UTF-8 of skipped values.
    let Ok(text) = std::str::from_utf8(json) else { return ScanResult::NotJson };
    match serde_json::from_str::<Members>(text) {
        Ok(members) => members.scan_result(),
        Err(_) if serde_json::from_str::<IgnoredAny>(text).is_err() => ScanResult::NotJson,
        // It is valid JSON nonetheless: an object with a name that is no Unicode may carry a proof.
        Err(_) if text.trim_start().starts_with('{') => ScanResult::Invalid,
        Err(_) if wraps_proof(text, WRAPPINGS) => ScanResult::Invalid,
        Err(_) => ScanResult::Nothing,
    }
}

/// Returns whether an array, or a string that holds JSON, contains a proof: a mistake of the client, not a missing
/// proof.
fn wraps_proof(json: &str, wrappings: u32) -> bool {
    let json = json.trim_start();
    let Some(deeper) = wrappings.checked_sub(1) else { return false };
    match json.as_bytes().first() {
        Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(json)
            .is_ok_and(|elements| elements.iter().any(|element| is_proof(element.get(), deeper))),
        Some(b'"') => serde_json::from_str(json).is_ok_and(|Text(text)| is_proof(&text, deeper)),
        _ => false,
    }
}

/// Returns whether a nested text is a proof, valid or not.
fn is_proof(text: &str, wrappings: u32) -> bool {
    if !text.trim_start().starts_with('{') {
        return wraps_proof(text, wrappings);
    }
    match scan_body(text.as_bytes()) {
        ScanResult::Nothing => false,
        ScanResult::Proof(_) | ScanResult::Invalid => true,
        ScanResult::NotJson => names_proof(text.as_bytes()),
    }
}

#[derive(Default)]
enum Member<'a> {
    /// Missing, `null` or empty.
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Invalid,
}

impl<'a> Member<'a> {
    const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Parses the value, if there is one.
    fn parse<T: FromStr>(&self) -> Result<Option<T>, InvalidRedemption> {
        match self {
            Self::Absent => Ok(None),
            Self::Text(text) => text.parse().map(Some).map_err(|_| InvalidRedemption),
            Self::Invalid => Err(InvalidRedemption),
        }
    }

    /// Reads the value from its JSON. A value that no Rust type can hold (`1e999`, half a surrogate pair) is an
    /// invalid proof, not malformed JSON.
    fn read(value: &'a RawValue) -> Self {
        match value.get() {
            "null" => Self::Absent,
            written => match parse_text(written) {
                Some(text) if text.is_empty() => Self::Absent,
                Some(text) => Self::Text(text),
                None => Self::Invalid,
            },
        }
    }
}

/// The values of an object's four members that belong to the payer, and of `chainId`, which does so in a header only.
struct Members<'a> {
    intent: Member<'a>,
    tx: Member<'a>,
    secret: Member<'a>,
    signature: Member<'a>,
    chain: Chain<'a>,
}

/// The value of `chainId`.
#[derive(Default)]
enum Chain<'a> {
    #[default]
    Absent,
    Once(&'a RawValue),
    Repeated,
}

impl Chain<'_> {
    /// Returns the network of that chain. `null` and an empty text count as absent.
    fn network(&self) -> Result<Option<Network>, InvalidRedemption> {
        match self {
            Self::Absent => Ok(None),
            Self::Once(value) if value.get() == r#""""# => Ok(None),
            Self::Once(value) => {
                let id: Option<u64> = serde_json::from_str(value.get()).map_err(|_| InvalidRedemption)?;
                Ok(id.map(Network::eip155))
            }
            Self::Repeated => Err(InvalidRedemption),
        }
    }
}

impl Members<'_> {
    fn scan_result(&self) -> ScanResult {
        if [&self.intent, &self.tx, &self.secret, &self.signature].into_iter().all(Member::is_absent) {
            return ScanResult::Nothing;
        }
        self.proof().map_or(ScanResult::Invalid, ScanResult::Proof)
    }

    fn proof(&self) -> Result<Proof, InvalidRedemption> {
        let (secret, signature) = (self.secret.parse()?, self.signature.parse()?);
        match (self.intent.parse()?, self.tx.parse()?) {
            (Some(intent), Some(transaction)) => {
                Ok(Proof::Redemption(Redemption { intent, transaction, network: None, secret, signature }))
            }
            (Some(intent), None) => Ok(Proof::IntentOnly(intent)),
            (None, Some(transaction)) => Ok(Proof::TransactionOnly(transaction)),
            // A proof of the payer alone proves no payment.
            (None, None) => Err(InvalidRedemption),
        }
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut intent, mut tx, mut secret, mut signature) = (None, None, None, None);
        let mut chain = Chain::Absent;
        while let Some(Text(name)) = map.next_key()? {
            let slot = match &*name {
                INTENT => &mut intent,
                TX => &mut tx,
                SECRET => &mut secret,
                SIGNATURE => &mut signature,
                CHAIN => {
                    chain = match chain {
                        Chain::Absent => Chain::Once(map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            Chain::Repeated
                        }
                    };
                    continue;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let value = map.next_value()?;
            *slot = Some(match slot {
                None => Member::read(value),
                Some(_) => Member::Invalid,
            });
        }
        Ok(Members {
            intent: intent.unwrap_or_default(),
            tx: tx.unwrap_or_default(),
            secret: secret.unwrap_or_default(),
            signature: signature.unwrap_or_default(),
            chain,
        })
    }
}
