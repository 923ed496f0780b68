//! `TokenSeal`: tokens that a seller issues and recognises later, under its sealing keys.
//!
//! A token is a prefix and, in base64url: version (1 byte), key id (4), payload, tag (16). Its use is part of its
//! key.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::seal::{KeyId, SealingKeys};

const VERSION: u8 = 1;
const TAG: usize = 16;
/// The longest token that is read, in bytes: longer than any that this crate issues.
const LONGEST: usize = 96;

/// The keys for one use of tokens: the first one seals, all of them open.
#[derive(Clone)]
pub(crate) struct TokenSeal {
    prefix: &'static str,
    keys: Vec<(KeyId, [u8; 32])>,
}

impl TokenSeal {
    /// Derives the keys for the use that `fields` name. None of them opens a token of another use.
    pub(crate) fn new(keys: &SealingKeys, prefix: &'static str, fields: &[&[u8]]) -> Self {
        Self { prefix, keys: keys.derived(prefix.as_bytes(), fields) }
    }

    /// Returns the token of this payload under the current key. The same payload always gives the same token.
    pub(crate) fn seal(&self, payload: &[u8]) -> String {
        let Some((id, key)) = self.keys.first() else { return String::new() };
        let mut token = Vec::with_capacity(1 + id.len() + payload.len() + TAG);
        token.push(VERSION);
        token.extend_from_slice(id);
        token.extend_from_slice(payload);
        let tag = tag(key, &token);
        token.extend_from_slice(&tag);
        format!("{}{}", self.prefix, URL_SAFE_NO_PAD.encode(token))
    }

    /// Returns the payload of a token; `None` if it was not sealed for this use.
    pub(crate) fn open<const N: usize>(&self, token: &str) -> Option<[u8; N]> {
        let text = token.strip_prefix(self.prefix)?;
        let mut bytes = [0; LONGEST];
        // A longer text does not fit.
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
        let (sealed, claimed) = bytes.get(..length)?.split_last_chunk::<TAG>()?;
        let (head, payload) = sealed.split_first_chunk::<5>()?;
        let [version, id @ ..] = *head;
        let payload = <[u8; N]>::try_from(payload).ok().filter(|_| version == VERSION)?;
        let (_, key) = self.keys.iter().find(|(known, _)| *known == id)?;
        constant_time_eq::constant_time_eq_16(&tag(key, sealed), claimed).then_some(payload)
    }
}

fn tag(key: &[u8; 32], bytes: &[u8]) -> [u8; TAG] {
    let mut tag = [0; TAG];
    tag.copy_from_slice(&blake3::keyed_hash(key, bytes).as_bytes()[..TAG]);
    tag
}

/// Hides the keys.
impl fmt::Debug for TokenSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSeal").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(keys: &SealingKeys, fields: &[&[u8]]) -> TokenSeal {
        TokenSeal::new(keys, "x402p_", fields)
    }

    #[test]
    fn a_token_opens_under_its_own_key_and_for_its_own_use_alone() {
        let (old, new) = (SealingKeys::new([1; 32]), SealingKeys::new([2; 32]));
        let rotated = new.clone().with_former([1; 32]).unwrap();
        let token = seal(&old, &[b"realm", b"hundred"]).seal(&[7; 16]);
        assert_eq!(token, seal(&old, &[b"realm", b"hundred"]).seal(&[7; 16]), "the same each time");
        assert_eq!(seal(&old, &[b"realm", b"hundred"]).open(&token), Some([7; 16]));
        assert_eq!(seal(&rotated, &[b"realm", b"hundred"]).open(&token), Some([7; 16]), "after the key was replaced");
        for (keys, fields) in [
            (&new, [&b"realm"[..], b"hundred"]),
            (&old, [b"other", b"hundred"]),
            (&old, [b"realm", b"ten"]),
            (&old, [b"realmh", b"undred"]),
        ] {
            assert_eq!(seal(keys, &fields).open::<16>(&token), None);
        }
        let ticket = TokenSeal::new(&old, "x402t_", &[b"realm", b"hundred"]);
        assert_eq!(ticket.open::<16>(&token.replace("x402p_", "x402t_")), None);
        assert_eq!(seal(&old, &[b"realm", b"hundred"]).open::<24>(&token), None);
    }

    #[test]
    fn no_changed_token_opens() {
        let seal = seal(&SealingKeys::new([1; 32]), &[b"", b"hundred"]);
        let token = seal.seal(&[7; 16]);
        for at in 6..token.len() {
            for other in ['A', 'b', '-', '_', '=', ' '] {
                let mut changed: Vec<char> = token.chars().collect();
                changed[at] = other;
                let changed: String = changed.into_iter().collect();
                assert!(changed == token || seal.open::<16>(&changed).is_none(), "{changed}");
            }
        }
        for changed in [
            format!("{token}A"),
            format!(" {token}"),
            token[..token.len() - 1].to_owned(),
            "x402p_".into(),
            String::new(),
        ] {
            assert!(seal.open::<16>(&changed).is_none(), "{changed}");
        }
    }
}
