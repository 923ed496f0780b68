//! Sealing: an intent id is a token with a keyed MAC, so that quotes need no storage and any replica can open them.
//!
//! The token, before base64url: version (1 byte), key id (4), nonce (12), issue time (8), lifetime in seconds (4),
//! amount (length byte and that many bytes, no leading zero), digest flag (1) and, if set, digest (16), tag (16).
//! Chain, recipient, realm and resource are not in the token: the key that a route seals with is derived from them.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rand::RngCore as _;

use super::{Address, Amount, DigestKey, IntentId, IntentKey, Network, RequestDigest};

const VERSION: u8 = 1;
const TAG: usize = 16;
const TOKEN_MAX: usize = 1 + 4 + 12 + 8 + 4 + 33 + 1 + 16 + TAG;

pub(super) type KeyId = [u8; 4];

/// The keys that seal intents. The first one seals; all of them open.
///
/// Replicas share the same keys. To rotate, put a new key first, and keep the old one listed until every quote
/// that it sealed has expired: quote lifetime + grace + maximum payment age.
///
/// ```
/// use tower_x402::protocol::SealingKeys;
/// let (new, old) = ("1f".repeat(32), "2e".repeat(32));
/// let keys = SealingKeys::parse(&format!("{new},{old}"))?;
/// assert_eq!(format!("{keys:?}"), "SealingKeys { keys: 2, .. }");     // never what they are
/// assert!(SealingKeys::parse("correct horse battery staple").is_err());
/// # Ok::<(), tower_x402::protocol::SealingKeyError>(())
/// ```
#[derive(Clone)]
pub struct SealingKeys(Vec<([u8; 32], KeyId)>);

/// The error returned when sealing keys cannot be used. Its text says how to repair them, and reveals nothing of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct SealingKeyError(#[from] Fault);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("a sealing key is 64 hexadecimal digits (32 bytes); make one with `openssl rand -hex 32`")]
    Malformed,
    #[error("environment variable {0} holds no sealing key: set it to 64 hexadecimal digits")]
    MissingVariable(String),
    #[error("a sealing key is listed twice: name each key once, the sealing one first")]
    Duplicate,
    #[error("the operating system provided no randomness: no key was generated")]
    NoRandomness,
}

impl SealingKeys {
    /// Creates a set of one key: 32 random bytes.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(vec![(key, key_id(&key))])
    }

    /// Adds a former key, which opens intents and no longer seals them.
    ///
    /// # Errors
    /// Returns [`SealingKeyError`] if it is already listed.
    pub fn with_former(mut self, key: [u8; 32]) -> Result<Self, SealingKeyError> {
        let id = key_id(&key);
        if self.0.iter().any(|(_, known)| *known == id) {
            return Err(Fault::Duplicate.into());
        }
        self.0.push((key, id));
        Ok(self)
    }

    /// Derives a key for another use than intents from each sealing key, in their order.
    pub(super) fn derived(&self, usage: &[u8], fields: &[&[u8]]) -> Vec<(KeyId, [u8; 32])> {
        let derive = |(key, id): &([u8; 32], KeyId)| {
            let mut hasher = blake3::Hasher::new_keyed(key);
            for field in std::iter::once(usage).chain(fields.iter().copied()) {
                hasher.update(&(field.len() as u64).to_be_bytes());
                hasher.update(field);
            }
            (*id, *hasher.finalize().as_bytes())
        };
        self.0.iter().map(derive).collect()
    }

    /// Parses keys: 64 hexadecimal digits each, separated by commas or line breaks, the sealing one first.
    ///
    /// # Errors
    /// Returns [`SealingKeyError`] if a key is malformed or listed twice.
    pub fn parse(text: &str) -> Result<Self, SealingKeyError> {
        let mut keys = text.trim_end().split([',', '\n']).map(parse_key);
        let first = keys.next().ok_or(Fault::Malformed)??;
        keys.try_fold(Self::new(first), |all, key| all.with_former(key?))
    }

    /// Reads keys from an environment variable, in the form of [`parse`](Self::parse).
    ///
    /// # Errors
    /// Returns [`SealingKeyError`] if it is unset or empty; otherwise the errors of [`parse`](Self::parse).
    pub fn from_env(name: &str) -> Result<Self, SealingKeyError> {
        match std::env::var(name) {
            Ok(text) if !text.trim().is_empty() => Self::parse(&text),
            _ => Err(Fault::MissingVariable(name.to_owned()).into()),
        }
    }

    /// Generates a key for this process only: its quotes cannot be redeemed after a restart or at another replica.
    ///
    /// # Errors
    /// Returns [`SealingKeyError`] if the operating system provides no randomness.
    pub fn random() -> Result<Self, SealingKeyError> {
        use rand::TryRngCore as _;
        let mut key = [0; 32];
        rand::rngs::OsRng.try_fill_bytes(&mut key).map_err(|_| Fault::NoRandomness)?;
        Ok(Self::new(key))
    }
}

/// Parses keys as [`parse`](SealingKeys::parse) does.
impl std::str::FromStr for SealingKeys {
    type Err = SealingKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Shows the number of keys, and nothing else.
impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealingKeys").field("keys", &self.0.len()).finish_non_exhaustive()
    }
}

fn parse_key(text: &str) -> Result<[u8; 32], SealingKeyError> {
    let mut bytes = [0; 32];
    let hex = Some(text.trim()).filter(|hex| hex.len() == 64).ok_or(Fault::Malformed)?;
    const_hex::decode_to_slice(hex, &mut bytes).map_err(|_| Fault::Malformed)?;
    Ok(bytes)
}

fn key_id(key: &[u8; 32]) -> KeyId {
    let hash = blake3::derive_key("tower-x402 2026-11 sealing key id", key);
    [hash[0], hash[1], hash[2], hash[3]]
}

/// The terms that a token carries. The route's key binds all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntentTerms {
    pub(crate) amount: Amount,
    pub(crate) issued: u64,
    pub(crate) lifetime: u32,
    pub(crate) digest: Option<RequestDigest>,
}

impl IntentTerms {
    /// Returns the latest time at which a payment for this quote counts, without the grace period.
    pub(crate) const fn expiry(&self) -> u64 {
        self.issued.saturating_add(self.lifetime as u64)
    }
}

/// One route's key for one recipient under one sealing key.
#[derive(Clone)]
pub(crate) struct RouteSeal {
    id: KeyId,
    key: [u8; 32],
    digest_key: [u8; 32],
}

impl RouteSeal {
    fn new(key: &([u8; 32], KeyId), realm: &str, network: Network, recipient: Address, resource: &str) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(&key.0);
        for field in [
            b"intent" as &[u8],
            realm.as_bytes(),
            &network.chain_id().to_be_bytes(),
            recipient.as_bytes(),
            resource.as_bytes(),
        ] {
            hasher.update(&(field.len() as u64).to_be_bytes());
            hasher.update(field);
        }
        let (id, key) = (key.1, *hasher.finalize().as_bytes());
        Self { id, key, digest_key: blake3::derive_key("tower-x402 2026-11 request digest", &key) }
    }

    /// Returns the key of request digests, which is independent of the key for tags.
    pub(crate) const fn digest_key(&self) -> DigestKey<'_> {
        DigestKey::Secret(&self.digest_key)
    }

    /// Appends a fresh intent id to `out`.
    pub(crate) fn seal_into(&self, terms: &IntentTerms, out: &mut Vec<u8>) {
        let mut token = Token::default();
        token.push(&[VERSION]);
        token.push(&self.id);
        let mut nonce = [0; 12];
        rand::rng().fill_bytes(&mut nonce);
        token.push(&nonce);
        token.push(&terms.issued.to_be_bytes());
        token.push(&terms.lifetime.to_be_bytes());
        let amount = terms.amount.to_be_bytes();
        let zeros = amount.len() - terms.amount.byte_len();
        token.push(&[(amount.len() - zeros) as u8]);
        token.push(&amount[zeros..]);
        token.push(&[u8::from(terms.digest.is_some())]);
        if let Some(digest) = &terms.digest {
            token.push(digest.as_bytes());
        }
        let (tag, _) = self.tag(token.bytes());
        token.push(&tag.0);
        let start = out.len();
        out.resize(start + token.bytes().len().div_ceil(3) * 4, 0);
        let written = URL_SAFE_NO_PAD.encode_slice(token.bytes(), &mut out[start..]).unwrap_or(0);
        out.truncate(start + written);
    }

    /// Returns the tag of these bytes, for tests that forge with the right key.
    #[cfg(test)]
    pub(super) fn tag_of(&self, token: &[u8]) -> [u8; TAG] {
        self.tag(token).0.0
    }

    fn tag(&self, token: &[u8]) -> (Tag, IntentKey) {
        let hash = blake3::keyed_hash(&self.key, token);
        let (mut tag, mut key) = ([0; TAG], [0; 16]);
        tag.copy_from_slice(&hash.as_bytes()[..16]);
        key.copy_from_slice(&hash.as_bytes()[16..]);
        (Tag(tag), IntentKey::new(key))
    }
}

/// A token's tag. It does not implement `==`, whose duration would tell a forger how many bytes are right.
struct Tag([u8; TAG]);

impl Tag {
    fn is(&self, claimed: &[u8; TAG]) -> bool {
        constant_time_eq::constant_time_eq_16(&self.0, claimed)
    }
}

/// A route's seals, one for each sealing key and each recipient, current or former. The first one seals; all of them open.
#[derive(Clone)]
pub(crate) struct Seals(Vec<(Address, RouteSeal)>);

impl Seals {
    /// Derives the seals. `recipients` lists the current one first.
    pub(crate) fn new(
        keys: &SealingKeys,
        realm: &str,
        network: Network,
        recipients: &[Address],
        resource: &str,
    ) -> Self {
        let pairs = recipients.iter().flat_map(|&recipient| keys.0.iter().map(move |key| (recipient, key)));
        Self(
            pairs
                .map(|(recipient, key)| (recipient, RouteSeal::new(key, realm, network, recipient, resource)))
                .collect(),
        )
    }

    /// Returns the seal for new intents: the current recipient's, under the current key.
    #[expect(clippy::indexing_slicing, reason = "there is always a recipient and a key")]
    pub(crate) fn current(&self) -> &RouteSeal {
        &self.0[0].1
    }

    /// Returns the seal of a current or former recipient, under the current key.
    pub(crate) fn of(&self, recipient: Address) -> &RouteSeal {
        self.0.iter().find(|(known, _)| *known == recipient).map_or(self.current(), |(_, seal)| seal)
    }

    /// Appends a fresh intent id to `out`.
    pub(crate) fn seal_into(&self, terms: &IntentTerms, out: &mut Vec<u8>) {
        self.current().seal_into(terms, out);
    }

    /// Opens an intent id. Returns its terms, the recipient it was sealed for, its key in the ledger, and the seal.
    pub(crate) fn open(&self, id: &IntentId) -> Option<(IntentTerms, Address, IntentKey, &RouteSeal)> {
        let mut buffer = [0; TOKEN_MAX + 2];
        let length = URL_SAFE_NO_PAD.decode_slice(id.as_str(), &mut buffer).ok()?;
        let (token, tag) = buffer.get(..length)?.split_last_chunk::<TAG>()?;
        let key_id: &KeyId = token.get(1..5)?.try_into().ok()?;
        let (recipient, seal, key) =
            self.0.iter().filter(|(_, seal)| seal.id == *key_id).find_map(|(recipient, seal)| {
                let (expected, key) = seal.tag(token);
                expected.is(tag).then_some((*recipient, seal, key))
            })?;
        Some((parse_token(token)?, recipient, key, seal))
    }
}

/// Shows nothing: every field is derived from a key.
impl fmt::Debug for Seals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seals").finish_non_exhaustive()
    }
}

fn parse_token(token: &[u8]) -> Option<IntentTerms> {
    let (head, rest) = token.split_first_chunk::<17>()?;
    (head[0] == VERSION).then_some(())?;
    let (issued, rest) = rest.split_first_chunk::<8>()?;
    let (lifetime, rest) = rest.split_first_chunk::<4>()?;
    let (&length, rest) = rest.split_first()?;
    let (minimal, rest) = rest.split_at_checked(usize::from(length))?;
    let mut amount = [0; 32];
    amount.get_mut(32_usize.checked_sub(minimal.len())?..)?.copy_from_slice(minimal);
    let digest = match rest {
        [0] => None,
        [1, digest @ ..] => Some(RequestDigest::new(digest.try_into().ok()?)),
        _ => return None,
    };
    Some(IntentTerms {
        amount: Amount::from_be_bytes(amount),
        issued: u64::from_be_bytes(*issued),
        lifetime: u32::from_be_bytes(*lifetime),
        digest,
    })
}

/// A token being written, on the stack.
struct Token {
    bytes: [u8; TOKEN_MAX],
    length: usize,
}

impl Default for Token {
    fn default() -> Self {
        Self { bytes: [0; TOKEN_MAX], length: 0 }
    }
}

impl Token {
    /// Appends a field. Every field is bounded, and `TOKEN_MAX` is the sum of the bounds.
    fn push(&mut self, field: &[u8]) {
        let end = self.length + field.len();
        self.bytes[self.length..end].copy_from_slice(field);
        self.length = end;
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
