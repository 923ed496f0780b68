//! `Demand`: any seller's challenge, as read by a payer.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, header};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::{auth_params::AuthParams, challenge::Asked, nonce::challenge_hashes};
use crate::protocol::{
    Address, ChainTime,
    headers::PAYMENT_AUTHORIZATION,
    rfc3339::parse_rfc3339,
    v2::{SignedAuthorization, object::Object, values},
};

/// The longest challenge that is read: the draft limits them to 8 KB. A credential repeats all of it in one header.
const CHALLENGE_MAX: usize = 8 * 1024;
/// The total length of all headers that are read.
const HEADERS_MAX: usize = 64 * 1024;
/// The parameters that a credential repeats.
const REPEATED: [&str; 10] =
    ["id", "realm", "method", "intent", "request", "expires", "digest", "description", "opaque", "header"];

/// The name of the purchase: the only member of a paying message that is not part of its credential.
const NAME: &str = "idempotencyKey";

/// A charge on an EVM chain that an authorization can pay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) asked: Asked,
    pub(crate) recipient: Address,
    /// No payment is submitted after this time.
    pub(crate) expires: ChainTime,
    pub(crate) id: String,
    realm: String,
    /// The seller's description of the offer.
    pub(crate) description: String,
    /// Whether the credential must come in `Payment-Authorization` instead of `Authorization`.
    pub(crate) has_own_header: bool,
    /// The parameters of the challenge that a credential repeats.
    repeated: Map<String, Value>,
}

/// A challenge that violates the standard's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Demand {
    /// Reads the known challenges in all lines. Other schemes, methods and intents are skipped, and so are charges
    /// that no authorization can pay. The flag tells whether a challenge of the known kind is malformed.
    pub(crate) fn of_headers(headers: &HeaderMap) -> (Vec<Self>, bool) {
        let (mut found, mut is_malformed, mut room) = (Vec::new(), false, HEADERS_MAX);
        for line in headers.get_all(header::WWW_AUTHENTICATE) {
            let Some(left) = room.checked_sub(line.len()) else {
                return (found, true);
            };
            room = left;
            for params in AuthParams::read_all(line.as_bytes()) {
                match params.ok_or(Malformed).and_then(|params| Self::read(&params)) {
                    Ok(demand) => found.extend(demand),
                    Err(Malformed) => is_malformed = true,
                }
            }
        }
        (found, is_malformed)
    }

    fn read(params: &AuthParams) -> Result<Option<Self>, Malformed> {
        let required = |name| params.get(name).filter(|value| !value.is_empty()).ok_or(Malformed);
        if (required("method")?, required("intent")?) != ("evm", "charge") {
            return Ok(None);
        }
        let (id, realm, request) = (required("id")?, required("realm")?, required("request")?);
        let is_plain = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if params.len() > CHALLENGE_MAX || !is_plain(id) || !is_plain(realm) {
            return Err(Malformed);
        }
        let has_own_header = match params.get("header") {
            None => false,
            Some(name) if name.eq_ignore_ascii_case(header::AUTHORIZATION.as_str()) => false,
            Some(name) if name.eq_ignore_ascii_case(PAYMENT_AUTHORIZATION.as_str()) => true,
            Some(_) => return Ok(None),
        };
        let expires = parse_rfc3339(required("expires")?).ok_or(Malformed)?;
        let json = URL_SAFE_NO_PAD.decode(request.trim_end_matches('=')).map_err(|_| Malformed)?;
        let object = std::str::from_utf8(&json).ok().and_then(Object::parse).ok_or(Malformed)?;
        if !takes_authorizations(&object)? {
            return Ok(None);
        }
        let repeated = REPEATED.iter().filter_map(|name| Some(((*name).to_owned(), json!(params.get(name)?))));
        let described = object.string("description").ok().flatten();
        Ok(Some(Self {
            asked: Asked::read(request).ok_or(Malformed)?,
            recipient: object.required("recipient", values::address).map_err(|_| Malformed)?,
            expires: ChainTime::from_unix(expires),
            id: id.to_owned(),
            realm: realm.to_owned(),
            description: params.get("description").map(str::to_owned).or(described).unwrap_or_default(),
            has_own_header,
            repeated: repeated.collect(),
        }))
    }

    /// Returns the nonce of the authorization that pays it: the draft's form of the hash.
    pub(crate) fn nonce(&self) -> [u8; 32] {
        let [draft, _] = challenge_hashes(&self.id, &self.realm);
        draft
    }

    /// Returns the paying message as JSON: the credential, and the name of the purchase, if there is one.
    /// [`Shown::of`] turns it into headers.
    pub(crate) fn message(&self, signed: &SignedAuthorization, purchase: Option<&str>) -> String {
        let mut payload = json!(signed.authorization);
        payload["type"] = json!("authorization");
        payload["signature"] = json!(signed.signature.to_string());
        let source = format!("did:pkh:{}:{}", self.asked.network, signed.authorization.from);
        let mut message = json!({"challenge": self.repeated, "payload": payload, "source": source});
        if let Some(purchase) = purchase {
            message[NAME] = json!(purchase);
        }
        message.to_string()
    }
}

/// Returns whether a request accepts authorizations, and pays a single account.
fn takes_authorizations(request: &Object<'_>) -> Result<bool, Malformed> {
    let read = |details: &Object<'_>| {
        let types: Vec<String> = details.json("credentialTypes")?.unwrap_or_default();
        let splits: Vec<IgnoredAny> = details.json("splits")?.unwrap_or_default();
        Ok(types.iter().any(|known| known == "authorization") && splits.is_empty())
    };
    request.object("methodDetails", read).map_err(|_| Malformed)?.ok_or(Malformed)
}

/// A paying message in the form of headers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The header for the credential, according to its challenge.
    pub(crate) header: HeaderName,
    pub(crate) credential: String,
    /// The name of the purchase, for `Idempotency-Key`.
    pub(crate) purchase: Option<String>,
}

impl Shown {
    pub(crate) fn of(message: &str) -> Self {
        let mut credential: Value = serde_json::from_str(message).unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let header = credential.pointer("/challenge/header").and_then(text);
        let is_own = header.is_some_and(|name| name.eq_ignore_ascii_case(PAYMENT_AUTHORIZATION.as_str()));
        let purchase = credential.as_object_mut().and_then(|members| text(&members.remove(NAME)?));
        Self {
            header: if is_own { PAYMENT_AUTHORIZATION } else { header::AUTHORIZATION },
            credential: format!("Payment {}", URL_SAFE_NO_PAD.encode(credential.to_string())),
            purchase,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::protocol::{
        Amount, Network,
        mpp::{Credential, CredentialPayload},
        v2::Authorization,
    };

    /// Measured with `mppx` 0.11.0.
    const ID: &str = "3n_xVE4G0MJ6qb4Vy1JjIPTU-8EEQBGAtB4LYZLufhE";
    const REQUEST: &str = "eyJhbW91bnQiOiIxMDAwMCIsImN1cnJlbmN5IjoiMHgwMzZDYkQ1Mzg0MmM1NDI2NjM0ZTc5Mjk1NDFlQzIzMThmM2RDRjdlIiwibWV0aG9kRGV0YWlscyI6eyJjaGFpbklkIjo4NDUzMiwiY3JlZGVudGlhbFR5cGVzIjpbImF1dGhvcml6YXRpb24iXSwiZGVjaW1hbHMiOjZ9LCJyZWNpcGllbnQiOiIweDNDNDRDZERkQjZhOTAwZmEyYjU4NWRkMjk5ZTAzZDEyRkE0MjkzQkMifQ";
    const SIGNATURE: &str = "0xeee2ce5149a19acb800702a5e079b3d739d3462f6b6601f0a2a72a7f719c1abb65c612ffa47949180b809d22c3acbe879a9e182dbdf4b97dc0cd731a9544431a1c";

    fn measured() -> String {
        format!(
            r#"Payment id="{ID}", realm="api.example.com", method="evm", intent="charge", request="{REQUEST}", expires="2030-01-01T00:00:00Z""#
        )
    }

    fn read(lines: &[&str]) -> (Vec<Demand>, bool) {
        let lines =
            lines.iter().map(|line| (header::WWW_AUTHENTICATE, HeaderValue::from_bytes(line.as_bytes()).unwrap()));
        Demand::of_headers(&lines.collect())
    }

    fn request(json: &str) -> String {
        measured().replace(REQUEST, &URL_SAFE_NO_PAD.encode(json))
    }

    #[test]
    fn a_challenge_of_the_official_seller_is_paid_as_the_official_client_pays_it() {
        let (demands, is_malformed) = read(&[&measured()]);
        let [demand] = &demands[..] else { panic!("{demands:?}") };
        assert!(!is_malformed && !demand.has_own_header);
        assert_eq!(
            (demand.asked.amount, demand.asked.network, demand.expires.unix()),
            (Amount::from_base_units(10_000), Network::BASE_SEPOLIA, 1_893_456_000)
        );
        assert_eq!(
            const_hex::encode(demand.nonce()),
            "608e2a682196d33771f276376aa11f012bf9f69b78d4b2402273af150c27d7ea"
        );
        let payer = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap();
        let authorization = Authorization::new(payer, demand.nonce())
            .paying(demand.recipient, demand.asked.amount)
            .valid_between(ChainTime::from_unix(0), demand.expires);
        let signed = SignedAuthorization::new(authorization, SIGNATURE.parse().unwrap());
        let message = demand.message(&signed, None);
        let json: Value = serde_json::from_str(&message).unwrap();
        assert_eq!(
            json,
            json!({
                "challenge": {
                    "id": ID, "realm": "api.example.com", "method": "evm", "intent": "charge", "request": REQUEST,
                    "expires": "2030-01-01T00:00:00Z",
                },
                "payload": {
                    "type": "authorization", "from": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                    "to": "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC", "value": "10000", "validAfter": "0",
                    "validBefore": "1893456000", "signature": SIGNATURE,
                    "nonce": "0x608e2a682196d33771f276376aa11f012bf9f69b78d4b2402273af150c27d7ea",
                },
                "source": "did:pkh:eip155:84532:0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
            })
        );
        let shown = Shown::of(&message);
        assert_eq!((&shown.header, &shown.purchase), (&header::AUTHORIZATION, &None));
        let headers =
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::try_from(&shown.credential).unwrap())]);
        let read = Credential::from_headers(&headers, &header::AUTHORIZATION).unwrap().unwrap();
        assert_eq!(read.payload, CredentialPayload::Authorization(signed.clone()));
        // The name travels outside the credential, which stays the same.
        let named = Shown::of(&demand.message(&signed, Some("pay_1")));
        assert_eq!(named, Shown { purchase: Some("pay_1".to_owned()), ..shown });
    }

    #[test]
    fn what_a_seller_adds_is_repeated_to_the_letter_or_passed_over() {
        let more = r#", digest="sha-256=:YWJj:", opaque="eyJhIjoiYiJ9", description="a \"thing\" \u20ac", header="payment-authorization", later="x""#;
        let (demands, is_malformed) = read(&[&(measured() + more)]);
        assert!(!is_malformed && demands[0].has_own_header);
        let repeated = &demands[0].repeated;
        assert_eq!((&repeated["digest"], &repeated["opaque"]), (&json!("sha-256=:YWJj:"), &json!("eyJhIjoiYiJ9")));
        assert_eq!(
            (&repeated["description"], &repeated["header"]),
            (&json!("a \"thing\" €"), &json!("payment-authorization"))
        );
        assert!(!repeated.contains_key("later") && demands[0].description == "a \"thing\" €");
    }

    #[test]
    fn challenges_of_all_lines_are_read() {
        let two = format!(r#"Bearer realm="x", {0}, {0}"#, measured());
        let (demands, is_malformed) = read(&[r#"Basic realm="y""#, &two, &measured()]);
        assert_eq!((demands.len(), is_malformed), (3, false));
    }

    #[test]
    fn what_no_authorization_can_pay_is_passed_over() {
        let paid = r#"{"amount":"1","currency":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","methodDetails":{"chainId":84532,"credentialTypes":["permit2","authorization"],"splits":[]},"recipient":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"}"#;
        assert_eq!(read(&[&request(paid)]).0.len(), 1);
        for line in [
            measured().replace("\"evm\"", "\"tempo\""),
            measured().replace("\"charge\"", "\"session\""),
            measured() + r#", header="X-Other""#,
            request(&paid.replace("\"authorization\"", "\"hash\"")),
            request(&paid.replace(r#""credentialTypes":["permit2","authorization"],"#, "")),
            request(&paid.replace("[]", r#"[{"recipient":"0x","amount":"1"}]"#)),
        ] {
            assert_eq!(read(&[&line]), (Vec::new(), false), "{line}");
        }
    }

    #[test]
    fn a_malformed_challenge_is_said_to_be_so_and_spoils_no_other() {
        let whole = r#"{"amount":"1","currency":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","methodDetails":{"chainId":84532,"credentialTypes":["authorization"]},"recipient":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"}"#;
        for line in [
            measured() + r#", id="again""#,
            measured().replace("id=", "other="),
            measured().replace(ID, ""),
            measured().replace(ID, "\\u20ac"),
            measured().replace("realm=", "other="),
            measured().replace("2030-01-01T00:00:00Z", "tomorrow"),
            measured().replace("expires=", "other="),
            measured().replace(REQUEST, "e30"),
            measured().replace(REQUEST, "!"),
            measured().replace(ID, &"x".repeat(CHALLENGE_MAX)),
            request(&whole.replace("\"1\"", "\"-1\"")),
            request(&whole.replace("\"1\"", "\"1.5\"")),
            request(&whole.replace("\"1\"", "1")),
            request(&whole.replace("84532", "\"84532\"")),
            request(&whole.replace("0x036C", "036C")),
            request(&whole.replace("0x3C44", "0x3C4")),
            request(&whole.replace("\"amount\"", "\"amount\":\"2\",\"amount\"")),
        ] {
            assert_eq!(read(&[&line]), (Vec::new(), true), "{line}");
            let (demands, is_malformed) = read(&[&line, &measured()]);
            assert_eq!((demands.len(), is_malformed), (1, true), "{line}");
        }
        // These exceed the limit of all headers together.
        let many: Vec<String> = (0..200).map(|_| measured()).collect();
        let (demands, is_malformed) = read(&many.iter().map(|line| &**line).collect::<Vec<_>>());
        assert!(is_malformed && (100..200).contains(&demands.len()));
    }
}
