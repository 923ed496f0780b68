//! Computes the digest of a request, for intents that are bound to one request.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, header};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    DigestKey, RequestDigest,
    json_text::Text,
    media::essence,
    redemption::{is_absent, is_proof_member, is_shown_in_head},
};

/// Who owns JSON members that have the names of a proof's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProofMembers {
    /// The payer: the body was searched for a proof, whose members are not part of the quoted request.
    Payer,
    /// The service: the proof is in a header. Members that are `null`, empty, or repeat the header's proof are left
    /// out, once per name. A quoted body has no filled ones, because it was searched.
    Filled,
    /// The service, on a route that accepts proofs in headers only: its price may depend on these members.
    Service,
}

impl ProofMembers {
    /// Returns whether a member belongs to the digested request.
    fn keep(self, name: &str, value: &RawValue, headers: &HeaderMap) -> bool {
        match self {
            Self::Service => true,
            _ if !is_proof_member(name) => true,
            Self::Payer => false,
            Self::Filled => !is_absent(value) && !is_shown_in_head(name, value, headers),
        }
    }
}

/// A request's headers, and the names that the route binds besides those that describe the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DigestedHeaders<'a> {
    pub(crate) all: &'a HeaderMap,
    pub(crate) bound: &'a [HeaderName],
}

/// Computes a digest of method, path, query, content type and encoding, the bound headers, and the body.
///
/// For a JSON object, its members are digested, sorted by name, without those that `proof_members` leaves out and
/// without white space between tokens. For any other body, its bytes are. An empty body counts as an object without
/// members.
pub(crate) fn digest_request(
    key: DigestKey<'_>,
    method: &http::Method,
    uri: &http::Uri,
    headers: DigestedHeaders<'_>,
    body: &[u8],
    proof_members: ProofMembers,
) -> RequestDigest {
    let members = if body.is_empty() { Some(Vec::new()) } else { members(body, proof_members, headers.all) };
    let mut fields = Fields::new(key);
    fields.push(method.as_str().as_bytes());
    fields.push(uri.path().as_bytes());
    fields.push(uri.query().map_or(b"-" as &[u8], |_| b"?"));
    fields.push(uri.query().unwrap_or_default().as_bytes());
    match members.as_deref() {
        Some([]) if is_json_or_none(headers.all) => fields.push(b"nothing"),
        _ => fields.header(headers.all, &header::CONTENT_TYPE),
    }
    fields.header(headers.all, &header::CONTENT_ENCODING);
    for name in headers.bound {
        fields.header(headers.all, name);
        // An HTTP/2 request has its host in the target alone. It is digested apart from the header: a price may look
        // at either.
        if *name == header::HOST {
            fields.push(uri.authority().map_or(b"-" as &[u8], |_| b"+"));
            fields.push(uri.authority().map_or("", http::uri::Authority::as_str).as_bytes());
        }
    }
    match members {
        Some(members) => {
            fields.push(b"object");
            for (name, value) in members {
                fields.push(name.as_bytes());
                fields.push(&without_space(value.get()));
            }
        }
        None => {
            fields.push(b"bytes");
            fields.push(body);
        }
    }
    fields.digest()
}

/// Computes the digest of a call inside a request, such as that of a tool, from its canonical text.
#[cfg(feature = "mcp")]
pub(crate) fn digest_call(seal: &super::RouteSeal, call: &[u8]) -> RequestDigest {
    let mut fields = Fields::new(seal.digest_key());
    // Not a method of HTTP.
    fields.push(b"call");
    fields.push(call);
    fields.digest()
}

/// Returns whether a body without members has no content type, or that of a proof in the body. That type arrives with
/// the proof, and a quote for an empty body must be redeemable in the body and in the header.
fn is_json_or_none(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    match (types.next(), types.next()) {
        (None, _) => true,
        (Some(one), None) => essence(one).eq_ignore_ascii_case(b"application/json"),
        (Some(_), Some(_)) => false,
    }
}

/// Hashes fields, each prefixed by its length, so that no two lists of fields give the same input.
struct Fields<'k> {
    key: DigestKey<'k>,
    /// Set once there is more than fits into `collected`.
    hasher: Option<Box<blake3::Hasher>>,
    /// Short fields that are not hashed yet: hashing each alone costs more than collecting them.
    collected: Vec<u8>,
}

/// The length of the longest collected field, and of the collection before it is hashed.
const SHORT: usize = 512;

impl<'k> Fields<'k> {
    fn new(key: DigestKey<'k>) -> Self {
        Self { key, hasher: None, collected: Vec::with_capacity(2 * SHORT) }
    }

    fn push(&mut self, field: &[u8]) {
        self.collected.extend_from_slice(&(field.len() as u64).to_be_bytes());
        if field.len() <= SHORT {
            self.collected.extend_from_slice(field);
        }
        if field.len() > SHORT || self.collected.len() > SHORT {
            let hasher = self.hasher.get_or_insert_with(|| Box::new(self.key.hasher()));
            hasher.update(&self.collected);
            self.collected.clear();
            if field.len() > SHORT {
                hasher.update(field);
            }
        }
    }

    /// Adds a header: its name, the number of its values, and the values.
    fn header(&mut self, headers: &HeaderMap, name: &HeaderName) {
        let values = headers.get_all(name);
        self.push(name.as_str().as_bytes());
        self.push(&(values.iter().count() as u64).to_be_bytes());
        values.iter().for_each(|value| self.push(value.as_bytes()));
    }

    fn digest(self) -> RequestDigest {
        let hash = match self.hasher {
            Some(mut hasher) => *hasher.update(&self.collected).finalize().as_bytes(),
            None => self.key.hash(&self.collected),
        };
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash[..16]);
        RequestDigest::new(digest)
    }
}

/// Returns the members of a JSON object that belong to the request, sorted by name; duplicates are kept in their order.
fn members<'b>(
    body: &'b [u8],
    proof_members: ProofMembers,
    headers: &HeaderMap,
) -> Option<Vec<(Cow<'b, str>, &'b RawValue)>> {
    let Members(mut members) = serde_json::from_slice(body).ok()?;
    let mut left_out = Vec::new();
    members.retain(|(name, value)| {
        // A quoted body has no such member twice.
        let is_first = proof_members == ProofMembers::Payer || !left_out.contains(name);
        let keep = !is_first || proof_members.keep(name, value, headers);
        if !keep {
            left_out.push(name.clone());
        }
        keep
    });
    members.sort_by(|a, b| a.0.cmp(&b.0));
    Some(members)
}

/// Returns a JSON object without the members of a proof; `None` if it has none or is no object.
///
/// The other members keep their order and their exact bytes.
pub(crate) fn without_proof_members(body: &[u8]) -> Option<Vec<u8>> {
    let Members(members) = serde_json::from_slice(body).ok()?;
    let mut kept = members.iter().filter(|(name, _)| !is_proof_member(name)).peekable();
    if kept.clone().count() == members.len() {
        return None;
    }
    let mut object = Vec::with_capacity(body.len());
    object.push(b'{');
    while let Some((name, value)) = kept.next() {
        serde_json::to_writer(&mut object, name).ok()?;
        object.push(b':');
        object.extend_from_slice(value.get().as_bytes());
        if kept.peek().is_some() {
            object.push(b',');
        }
    }
    object.push(b'}');
    Some(object)
}

/// The members of a JSON object in their order, each as written.
pub(crate) struct Members<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

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

/// Removes white space between tokens, not inside strings. Compact JSON is not copied.
fn without_space(json: &str) -> Cow<'_, [u8]> {
    let json = json.as_bytes();
    let mut kept = Vec::new();
    // Everything before `from` is kept or dropped already.
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

/// Returns the end of the string that begins at `start`.
fn string_end(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        let rest = json.get(at..).unwrap_or_default();
        match memchr::memchr2(b'"', b'\\', rest) {
            Some(quote) if rest[quote] == b'"' => return at + quote + 1,
            // The first byte of an escape sequence never ends a string.
            Some(backslash) => at += backslash + 2,
            None => return json.len(),
        }
    }
}
