//! The digest that ties an intent to one request, where its price was asked for that request.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    RouteSeal,
    redemption::{Text, is_proof_member},
};

/// 128 bits of a keyed hash over method, path, query and body.
#[derive(Clone, Copy)]
pub(crate) struct RequestDigest([u8; 16]);

impl RequestDigest {
    pub(crate) const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// In constant time: a digest stands for a request that only its author should know.
impl PartialEq for RequestDigest {
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq::constant_time_eq_16(&self.0, &other.0)
    }
}

impl Eq for RequestDigest {}

impl std::fmt::Debug for RequestDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RequestDigest")
    }
}

/// Whose the members are that are named like those of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProofMembers {
    /// The payer's: they come and go between quote and redemption.
    Payer,
    /// The service's own, on a route that takes proofs by header only: what it asks may hang on them.
    Service,
}

/// Digests a request: method, path, query, the headers that are named, and the body; of a JSON object its members, the payer's two left out, keys sorted, white space
/// between tokens dropped; of any other body its bytes.
pub(crate) fn digest_request(
    seal: &RouteSeal,
    method: &http::Method,
    uri: &http::Uri,
    headers: &[(http::HeaderName, Vec<http::HeaderValue>)],
    body: &[u8],
    proof_members: ProofMembers,
) -> RequestDigest {
    let mut hasher = seal.digest_hasher();
    let mut field = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    };
    field(method.as_str().as_bytes());
    field(uri.path().as_bytes());
    field(uri.query().map_or(b"-" as &[u8], |_| b"?"));
    field(uri.query().unwrap_or_default().as_bytes());
    for (name, values) in headers {
        field(name.as_str().as_bytes());
        field(&(values.len() as u64).to_be_bytes());
        values.iter().for_each(|value| field(value.as_bytes()));
    }
    match members(body, proof_members) {
        Some(members) => {
            field(b"object");
            for (name, value) in members {
                field(name.as_bytes());
                field(&without_space(value.get()));
            }
        }
        None => {
            field(b"bytes");
            field(body);
        }
    }
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    RequestDigest(digest)
}

/// The members of a JSON object but for the payer's, sorted by name; several of one name stay, in their order.
fn members(body: &[u8], proof_members: ProofMembers) -> Option<Vec<(Cow<'_, str>, &RawValue)>> {
    let Members(mut members) = serde_json::from_slice(body).ok()?;
    members.retain(|(name, _)| proof_members == ProofMembers::Service || !is_proof_member(name));
    members.sort_by(|a, b| a.0.cmp(&b.0));
    Some(members)
}

struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Text(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// Drops white space between tokens; inside strings it means something. What has none, as compact JSON has, is not copied.
fn without_space(json: &str) -> Cow<'_, [u8]> {
    let json = json.as_bytes();
    let mut kept = Vec::new();
    // Up to `from` all is kept or dropped.
    let (mut from, mut at) = (0, 0);
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = string_end(json, at),
            b' ' | b'\t' | b'\r' | b'\n' => {
                kept.extend_from_slice(&json[from..at]);
                at += 1;
                from = at;
            }
            _ => at += 1,
        }
    }
    if from == 0 {
        return Cow::Borrowed(json);
    }
    kept.extend_from_slice(&json[from..]);
    Cow::Owned(kept)
}

/// Where the string ends that begins at `start`.
fn string_end(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        let rest = json.get(at..).unwrap_or_default();
        match memchr::memchr2(b'"', b'\\', rest) {
            Some(quote) if rest[quote] == b'"' => return at + quote + 1,
            // Whatever is escaped, its first byte ends nothing.
            Some(backslash) => at += backslash + 2,
            None => return json.len(),
        }
    }
}
