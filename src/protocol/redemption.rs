//! `Proof`: an intent and a transaction hash, read strictly from a header or a JSON body.

use std::{borrow::Cow, fmt};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use http::{HeaderMap, HeaderValue};
use memchr::memmem;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{IntentId, TxHash, headers::X402_PAYMENT};

/// The longest `x402-payment` header, in bytes.
pub const HEADER_MAX: usize = 8 * 1024;

const INTENT: &str = "intentId";
const TX: &str = "txHash";
const SECRET: &str = "paymentSecret";
const SIGNATURE: &str = "paymentSignature";

/// How deep a proof is looked for that is wrapped: in an array, or in a string that holds JSON again.
const WRAPPINGS: u32 = 3;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// What a request shows of a payment: an intent id, a transaction hash, or both.
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
    /// Both: a redemption.
    Redemption {
        /// The intent of a quote.
        intent: IntentId,
        /// The payment.
        transaction: TxHash,
    },
    /// Only the intent.
    IntentOnly(IntentId),
    /// Only the transaction.
    TransactionOnly(TxHash),
}

/// A proof was presented in a shape that is not read: never a reason for a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a redemption has `intentId` (a string) and `txHash` (0x and 64 hexadecimal digits), each once")]
#[non_exhaustive]
pub struct InvalidRedemption;

/// What a JSON text shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScanResult {
    /// No member of a proof.
    Nothing,
    Proof(Proof),
    Invalid,
    /// Not one JSON value in UTF-8.
    NotJson,
}

impl Proof {
    /// Reads the `x402-payment` header: `None` where there is none.
    ///
    /// # Errors
    /// [`InvalidRedemption`] for a header that is sent twice, is empty, too long, or is neither a JSON object
    /// with a proof nor base64 of one.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, InvalidRedemption> {
        let mut values = headers.get_all(X402_PAYMENT).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => Self::from_header(value).map(Some),
            (Some(_), Some(_)) => Err(InvalidRedemption),
        }
    }

    fn from_header(value: &HeaderValue) -> Result<Self, InvalidRedemption> {
        let bytes = value.as_bytes();
        if bytes.len() > HEADER_MAX {
            return Err(InvalidRedemption);
        }
        let json = match bytes.first() {
            Some(b'{') => Cow::Borrowed(bytes),
            _ => Cow::Owned(STANDARD.decode(bytes).or_else(|_| URL_SAFE.decode(bytes)).map_err(|_| InvalidRedemption)?),
        };
        match scan_body(&json) {
            ScanResult::Proof(proof) => Ok(proof),
            ScanResult::Nothing | ScanResult::Invalid | ScanResult::NotJson => Err(InvalidRedemption),
        }
    }
}

/// Whether a member belongs to the payer, and not to the service.
pub(crate) fn is_proof_member(name: &str) -> bool {
    [INTENT, TX, SECRET, SIGNATURE].contains(&name)
}

/// Whether a text that is not read as JSON names a member of a proof all the same, however it is quoted.
pub(crate) fn names_proof(text: &[u8]) -> bool {
    [INTENT, TX].iter().any(|name| memmem::find(text, name.as_bytes()).is_some())
}

/// Whether a text is JSON, or the beginning of it.
pub(crate) fn begins_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).map_or_else(|error| error.is_eof(), |_| true)
}

/// Whether a query names both members: one alone may well be the service's own.
pub(crate) fn query_names_proof(query: &str) -> bool {
    has_field(query.as_bytes(), INTENT) && has_field(query.as_bytes(), TX)
}

/// Whether a form has a field named like a member of a proof: no place for one, and so a slip of the pen.
pub(crate) fn form_names_proof(form: &[u8]) -> bool {
    has_field(form, INTENT) || has_field(form, TX)
}

/// Whether a form or a query has a field of this name, percent-encoded or not.
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

/// Reads a proof's members from a JSON text. One pass; whatever else stands in it is skipped, however deep.
pub(crate) fn scan_body(json: &[u8]) -> ScanResult {
    // serde_json does not check the UTF-8 of what it skips.
    let Ok(text) = std::str::from_utf8(json) else { return ScanResult::NotJson };
    match serde_json::from_str::<Members>(text) {
        Ok(members) => members.scan_result(),
        Err(_) if serde_json::from_str::<IgnoredAny>(text).is_err() => ScanResult::NotJson,
        // JSON all the same: an object with a name that is no Unicode may carry a proof.
        Err(_) if text.trim_start().starts_with('{') => ScanResult::Invalid,
        Err(_) if wraps_proof(text, WRAPPINGS) => ScanResult::Invalid,
        Err(_) => ScanResult::Nothing,
    }
}

/// A proof in an array, or in a string that holds JSON, is a slip of the pen, not the absence of a proof.
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

/// Whether a text within another is a proof, good or bad.
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

fn proof(intent: Member<'_>, tx: Member<'_>) -> Option<Proof> {
    let intent = match intent {
        Member::Absent => None,
        Member::Text(text) => Some(IntentId::new(text)?),
        Member::Invalid => return None,
    };
    let tx = match tx {
        Member::Absent => None,
        Member::Text(text) => Some(text.parse().ok()?),
        Member::Invalid => return None,
    };
    match (intent, tx) {
        (Some(intent), Some(transaction)) => Some(Proof::Redemption { intent, transaction }),
        (Some(intent), None) => Some(Proof::IntentOnly(intent)),
        (None, Some(transaction)) => Some(Proof::TransactionOnly(transaction)),
        (None, None) => None,
    }
}

#[derive(Default)]
enum Member<'a> {
    /// Not there, `null` or empty.
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Invalid,
}

impl<'a> Member<'a> {
    const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Takes the value as it is written: what no Rust type holds (`1e999`, half a surrogate pair) is an invalid
    /// proof, not a text that is no JSON.
    fn read(value: &'a RawValue) -> Self {
        match value.get() {
            "null" => Self::Absent,
            written => match serde_json::from_str(written) {
                Ok(Text(text)) if text.is_empty() => Self::Absent,
                Ok(Text(text)) => Self::Text(text),
                Err(_) => Self::Invalid,
            },
        }
    }
}

/// What stands in an object under the four names that are the payer's.
struct Members<'a> {
    intent: Member<'a>,
    tx: Member<'a>,
    secret: Member<'a>,
    signature: Member<'a>,
}

impl Members<'_> {
    fn scan_result(self) -> ScanResult {
        let beside = [self.secret, self.signature];
        match (self.intent, self.tx) {
            // What shows how a payment is bound shows no payment.
            (Member::Absent, Member::Absent) if beside.iter().all(Member::is_absent) => ScanResult::Nothing,
            _ if beside.iter().any(|member| matches!(member, Member::Invalid)) => ScanResult::Invalid,
            (intent, tx) => proof(intent, tx).map_or(ScanResult::Invalid, ScanResult::Proof),
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
        while let Some(Text(name)) = map.next_key()? {
            let slot = match &*name {
                INTENT => &mut intent,
                TX => &mut tx,
                SECRET => &mut secret,
                SIGNATURE => &mut signature,
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
        })
    }
}

/// A JSON string, unescaped, borrowed where it can be.
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}
