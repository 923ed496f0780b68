//! `Credential`: a payment in `Authorization: Payment`.

use http::{HeaderMap, HeaderName};

use super::auth_schemes::names_payment;
use crate::protocol::{
    Address, HEADER_MAX, IntentId, InvalidRedemption, Network, TxHash, decode_base64,
    headers::PAYMENT_AUTHORIZATION,
    v2::{Authorization, InvalidMessage, SignedAuthorization, object::Object, values},
};

/// A payment by method `evm`, intent `charge`: the paid challenge, and the payment.
///
/// ```
/// use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
/// use tower_x402::protocol::mpp::{Credential, CredentialPayload};
/// # use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
///
/// let json = r#"{"challenge":{"id":"AUbX-9_k","realm":"api.example.com","method":"evm","intent":"charge","request":"e30"},
///     "payload":{"type":"hash","hash":"0xabababababababababababababababababababababababababababababababab"}}"#;
/// let token = format!("Payment {}", URL_SAFE_NO_PAD.encode(json));
/// let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::try_from(token).unwrap())]);
/// let credential = Credential::from_headers(&headers, &AUTHORIZATION)?.expect("it is one");
/// assert!(matches!(credential.payload, CredentialPayload::Hash(_)));
/// # Ok::<(), tower_x402::protocol::InvalidRedemption>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credential {
    /// The challenge, as the client repeats it.
    pub challenge: EchoedChallenge,
    /// The payment.
    pub payload: CredentialPayload,
}

/// The parameters of a challenge, as a client repeats them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EchoedChallenge {
    /// The intent.
    pub id: IntentId,
    /// The protection space.
    pub realm: String,
    /// The request: base64url of JSON.
    pub request: String,
    /// Until when it can be paid, by RFC 3339.
    pub expires: Option<String>,
    /// The header for the credential, if the challenge names one.
    pub header: Option<String>,
    /// Whether it has a further parameter, which this crate never sends.
    pub(crate) has_more: bool,
}

/// How a credential pays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CredentialPayload {
    /// By a signed EIP-3009 authorization.
    Authorization(SignedAuthorization),
    /// By a transfer that the payer sent.
    Hash(TxHash),
}

impl Credential {
    /// Reads the credential from this header. `Authorization` may have values of other schemes. Returns `None` if there is none.
    ///
    /// # Errors
    /// Returns [`InvalidRedemption`] if there are several, if it is too long, or if it is not a credential for a
    /// charge on an EVM chain. Anything else in `Payment-Authorization` is an error too, and so is a value of two
    /// schemes, one of them `Payment`: a proxy has joined two lines.
    pub fn from_headers(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Self>, InvalidRedemption> {
        let is_unread = |value: &[u8]| *name == PAYMENT_AUTHORIZATION || names_payment(value);
        if headers.get_all(name).iter().any(|value| token(value.as_bytes()).is_none() && is_unread(value.as_bytes())) {
            return Err(InvalidRedemption);
        }
        let mut tokens = headers.get_all(name).iter().filter_map(|value| token(value.as_bytes()));
        match (tokens.next(), tokens.next()) {
            (None, _) => Ok(None),
            (Some(token), None) if token.len() <= HEADER_MAX => Self::decode(token).ok_or(InvalidRedemption).map(Some),
            _ => Err(InvalidRedemption),
        }
    }

    fn decode(token: &[u8]) -> Option<Self> {
        let json = decode_base64(token)?;
        Self::from_json(std::str::from_utf8(&json).ok()?)
    }

    pub(crate) fn from_json(json: &str) -> Option<Self> {
        Self::read(&Object::parse(json)?).ok()
    }

    fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let (challenge, payload) = ("challenge", "payload");
        let credential = Self {
            challenge: object.object(challenge, EchoedChallenge::read)?.ok_or(InvalidMessage::member(challenge))?,
            payload: object.object(payload, CredentialPayload::read)?.ok_or(InvalidMessage::member(payload))?,
        };
        match object.parsed("source", account)? {
            Some((_, account)) if credential.payload.payer().is_some_and(|payer| payer != account) => {
                Err(InvalidMessage::member("source"))
            }
            _ => Ok(credential),
        }
    }
}

impl EchoedChallenge {
    fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let text = |name| object.required(name, |text| Some(text.to_owned()));
        object.required("method", |method| (method == "evm").then_some(()))?;
        object.required("intent", |intent| (intent == "charge").then_some(()))?;
        let known = ["id", "realm", "method", "intent", "request", "expires", "header"];
        Ok(Self {
            id: object.required("id", |id| id.parse().ok())?,
            realm: text("realm")?,
            request: text("request")?,
            expires: object.string("expires")?,
            header: object.string("header")?,
            has_more: object.members().any(|(name, _)| !known.contains(&name)),
        })
    }
}

impl CredentialPayload {
    fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let kind = "type";
        match object.text(kind)?.as_deref() {
            Some("authorization") => {
                let signature = object.required("signature", |text| text.parse().ok())?;
                Ok(Self::Authorization(SignedAuthorization::new(Authorization::read(object)?, signature)))
            }
            Some("hash") => object.required("hash", values::transaction).map(Self::Hash),
            _ => Err(InvalidMessage::member(kind)),
        }
    }

    /// Returns the account that signed, if the payload names it.
    const fn payer(&self) -> Option<Address> {
        match self {
            Self::Authorization(signed) => Some(signed.authorization.from),
            Self::Hash(_) => None,
        }
    }
}

/// Returns the text after the scheme `Payment`, which may be in any case.
pub(crate) fn token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Payment ".len())?;
    scheme.eq_ignore_ascii_case(b"Payment ").then(|| token.trim_ascii())
}

/// Reads the account in a decentralised identifier: `did:pkh:eip155:<chain>:<address>`.
fn account(source: &str) -> Option<(Network, Address)> {
    let (chain, address) = source.strip_prefix("did:pkh:")?.rsplit_once(':')?;
    Some((chain.parse().ok()?, values::address(address)?))
}
