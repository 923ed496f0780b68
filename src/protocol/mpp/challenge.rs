//! `Challenge`: one token's `WWW-Authenticate: Payment`, with everything written that is the same for every request.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderValue, header};

use crate::protocol::{
    Address, Amount, Network, ascii_json, decode_base64,
    intent::SEALED_MAX,
    rfc3339,
    v2::{object::Object, values},
};

/// How a client may pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialType {
    /// By a signed authorization, which the seller settles.
    Authorization,
    /// By the hash of its own transfer.
    Hash,
}

impl CredentialType {
    const fn name(self) -> &'static str {
        match self {
            Self::Authorization => "authorization",
            Self::Hash => "hash",
        }
    }
}

const BEFORE_ID: &str = r#"Payment id=""#;

/// A challenge for one token, without id, price and expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// The text between the id and the request.
    before_request: String,
    before_expiry: &'static str,
    /// The request after the amount, in JSON.
    behind_amount: String,
}

impl Challenge {
    /// Creates a challenge. `realm` is printable ASCII without quotes and backslashes. `types` has at least one
    /// element, the preferred ones first. `own_header`: whether the credential must come in `Payment-Authorization`.
    pub(crate) fn new(
        realm: &str,
        own_header: bool,
        (network, token, decimals): (Network, Address, u8),
        recipient: Address,
        types: &[CredentialType],
    ) -> Self {
        let types: Vec<String> = types.iter().map(|form| ascii_json(form.name())).collect();
        Self {
            before_request: format!(r#"", realm="{realm}", method="evm", intent="charge", request=""#),
            before_expiry: match own_header {
                true => r#"", header="Payment-Authorization", expires=""#,
                false => r#"", expires=""#,
            },
            // In the order of RFC 8785.
            behind_amount: format!(
                r#"","currency":"{token}","methodDetails":{{"chainId":{},"credentialTypes":[{}],"decimals":{decimals}}},"recipient":"{recipient}"}}"#,
                network.chain_id(),
                types.join(","),
            ),
        }
    }

    /// Returns the parameter `request` for this price in base units.
    pub(crate) fn request(&self, price: &str) -> String {
        URL_SAFE_NO_PAD.encode(format!(r#"{{"amount":"{price}{}"#, self.behind_amount))
    }

    /// Returns the parameter `expires`.
    pub(crate) fn expires(expiry: u64) -> String {
        rfc3339(expiry)
    }

    /// Returns the header's value.
    pub(crate) fn value(&self, id: &str, price: Amount, expiry: u64) -> HeaderValue {
        let (request, expires) = (self.request(&price.to_string()), Self::expires(expiry));
        let value = [BEFORE_ID, id, &self.before_request, &request, self.before_expiry, &expires, "\""].concat();
        // Printable ASCII is a valid value, so the fall-back is unreachable.
        HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static(""))
    }

    /// Returns the challenge as JSON for MCP, where the request is an object and no header is named.
    #[cfg(feature = "mcp")]
    pub(crate) fn to_json(&self, id: &str, price: Amount, expiry: u64) -> String {
        let realm = self.before_request.split('"').nth(2).unwrap_or_default();
        let (expires, request) = (Self::expires(expiry), &self.behind_amount);
        format!(
            r#"{{"id":"{id}","realm":"{realm}","method":"evm","intent":"charge","request":{{"amount":"{price}{request},"expires":"{expires}"}}"#
        )
    }

    /// Returns the maximum length of the header's line, at a price of at most 20 digits.
    pub(crate) fn longest(&self) -> usize {
        let constant = BEFORE_ID.len() + self.before_request.len() + self.before_expiry.len();
        let request = (r#"{"amount":""#.len() + 20 + self.behind_amount.len()).div_ceil(3) * 4;
        header::WWW_AUTHENTICATE.as_str().len() + 4 + constant + SEALED_MAX + request + "2030-01-01T00:00:00Z\"".len()
    }
}

/// The request of a challenge: its parameter `request`, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) amount: Amount,
    pub(crate) token: Address,
    pub(crate) network: Network,
}

impl Asked {
    /// Reads the parameter. Its other members are not judged here.
    pub(crate) fn read(request: &str) -> Option<Self> {
        let json = decode_base64(request.as_bytes())?;
        let object = Object::parse(std::str::from_utf8(&json).ok()?)?;
        let chain = |details: &Object<'_>| details.json::<u64>("chainId");
        Some(Self {
            amount: object.required("amount", values::amount).ok()?,
            token: object.required("currency", values::address).ok()?,
            network: Network::eip155(object.object("methodDetails", chain).ok()???),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured with `mppx` 0.11.0.
    #[test]
    fn it_is_what_the_official_seller_writes() {
        let usdc = "0x036CbD53842c5426634e7929541eC2318f3dCF7e".parse().unwrap();
        let recipient = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse().unwrap();
        let token = (Network::BASE_SEPOLIA, usdc, 6);
        let challenge = Challenge::new("api.example.com", false, token, recipient, &[CredentialType::Authorization]);
        let (id, price) = ("3n_xVE4G0MJ6qb4Vy1JjIPTU-8EEQBGAtB4LYZLufhE", Amount::from_base_units(10_000));
        let request = "eyJhbW91bnQiOiIxMDAwMCIsImN1cnJlbmN5IjoiMHgwMzZDYkQ1Mzg0MmM1NDI2NjM0ZTc5Mjk1NDFlQzIzMThmM2RDRjdlIiwibWV0aG9kRGV0YWlscyI6eyJjaGFpbklkIjo4NDUzMiwiY3JlZGVudGlhbFR5cGVzIjpbImF1dGhvcml6YXRpb24iXSwiZGVjaW1hbHMiOjZ9LCJyZWNpcGllbnQiOiIweDNDNDRDZERkQjZhOTAwZmEyYjU4NWRkMjk5ZTAzZDEyRkE0MjkzQkMifQ";
        assert_eq!(challenge.request("10000"), request);
        let value = challenge.value(id, price, 1_893_456_000);
        assert_eq!(
            value,
            format!(
                r#"Payment id="{id}", realm="api.example.com", method="evm", intent="charge", request="{request}", expires="2030-01-01T00:00:00Z""#
            )
        );
        assert!(header::WWW_AUTHENTICATE.as_str().len() + 4 + value.len() <= challenge.longest());
    }
}
