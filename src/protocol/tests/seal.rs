//! Sealing: sealed intents open, and nothing else does.

use std::collections::HashSet;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::{RECIPIENT, cases, keys, seals};
use crate::protocol::{
    Address, Amount, INTENT_ID_MAX, IntentId, IntentTerms, Network, RequestDigest, SealingKeys, Seals,
};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn terms() -> IntentTerms {
    IntentTerms { amount: Amount::from_base_units(490_000), issued: 1_795_279_500, lifetime: 900, digest: None }
}

fn seal(seals: &Seals, terms: &IntentTerms) -> IntentId {
    let mut out = Vec::new();
    seals.seal_into(terms, &mut out);
    IntentId::new(String::from_utf8(out).unwrap()).unwrap()
}

fn opens(seals: &Seals, text: &str) -> bool {
    IntentId::new(text).is_ok_and(|id| seals.open(&id).is_some())
}

/// One of each shape: lengths that leave 0, 2 and 4 unused bits in the last letter, with and without digest.
fn shapes() -> Vec<IntentTerms> {
    let amounts = [Amount::ZERO, Amount::from_base_units(1), Amount::from_base_units(490_000), Amount::MAX];
    let digests = [None, Some(RequestDigest::new([7; 16]))];
    amounts
        .into_iter()
        .flat_map(|amount| digests.map(|digest| IntentTerms { amount, digest, ..terms() }))
        .chain([IntentTerms { issued: u64::MAX, lifetime: u32::MAX, ..terms() }])
        .collect()
}

#[test]
fn what_was_sealed_opens() {
    let seals = seals(&keys(1));
    for terms in shapes() {
        let id = seal(&seals, &terms);
        let (opened, recipient, _, _) = seals.open(&id).unwrap();
        assert_eq!(opened, terms);
        assert_eq!(recipient, RECIPIENT);
    }
}

#[test]
fn an_id_fits_its_limit_and_its_alphabet() {
    let seals = seals(&keys(1));
    let mut remainders = HashSet::new();
    for terms in shapes() {
        let id = seal(&seals, &terms);
        assert!(id.as_str().len() <= INTENT_ID_MAX, "{} characters", id.as_str().len());
        assert!(id.as_str().bytes().all(|byte| ALPHABET.contains(&byte)), "{id}");
        remainders.insert(id.as_str().len() % 4);
    }
    assert_eq!(remainders, HashSet::from([0, 2, 3]), "every kind of last letter is among the shapes");
}

#[test]
fn sealing_appends() {
    let seals = seals(&keys(1));
    let mut out = b"before".to_vec();
    seals.seal_into(&terms(), &mut out);
    let text = std::str::from_utf8(&out).unwrap().strip_prefix("before").unwrap();
    assert!(opens(&seals, text));
}

#[test]
fn two_ids_of_the_same_terms_differ() {
    let seals = seals(&keys(1));
    let (a, b) = (seal(&seals, &terms()), seal(&seals, &terms()));
    assert_ne!(a, b);
    assert_ne!(seals.open(&a).unwrap().2, seals.open(&b).unwrap().2, "and so do the keys a ledger knows them by");
}

#[test]
fn the_ledgers_key_is_the_same_at_every_replica() {
    let id = seal(&seals(&keys(1)), &terms());
    assert_eq!(seals(&keys(1)).open(&id).unwrap().2, seals(&keys(1)).open(&id).unwrap().2);
}

#[test]
fn any_flipped_bit_is_refused() {
    let seals = seals(&keys(1));
    for terms in shapes() {
        let id = seal(&seals, &terms);
        let token = URL_SAFE_NO_PAD.decode(id.as_str()).unwrap();
        for bit in 0..token.len() * 8 {
            let mut forged = token.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!opens(&seals, &URL_SAFE_NO_PAD.encode(&forged)), "bit {bit} of {id}");
        }
    }
}

/// Tries every other letter at every place, including those that differ only in bits which no byte needs.
#[test]
fn any_other_spelling_is_refused() {
    let seals = seals(&keys(1));
    for terms in shapes() {
        let id = seal(&seals, &terms);
        for at in 0..id.as_str().len() {
            for letter in ALPHABET.iter().chain(b"+/= \n\0").filter(|letter| **letter != id.as_str().as_bytes()[at]) {
                let mut forged = id.as_str().to_owned();
                forged.replace_range(at..=at, &char::from(*letter).to_string());
                assert!(!opens(&seals, &forged), "{forged}");
            }
        }
    }
}

#[test]
fn shorter_and_longer_ones_are_refused() {
    let seals = seals(&keys(1));
    for terms in shapes() {
        let id = seal(&seals, &terms);
        let text = id.as_str();
        for cut in 1..text.len() {
            assert!(!opens(&seals, &text[..cut]));
            assert!(!opens(&seals, &text[cut..]));
        }
        for tail in ["A", "AA", "AAA", "AAAA", "=", "==", "===", " ", "\n", ".", "\0"] {
            assert!(!opens(&seals, &format!("{text}{tail}")), "{tail:?} after");
            assert!(!opens(&seals, &format!("{tail}{text}")), "{tail:?} before");
        }
        assert!(!opens(&seals, &format!("{text}{text}")));
        for length in text.len() + 1..=INTENT_ID_MAX {
            assert!(!opens(&seals, &format!("{text}{}", "A".repeat(length - text.len()))));
        }
        let token = URL_SAFE_NO_PAD.decode(text).unwrap();
        for cut in 0..token.len() {
            assert!(!opens(&seals, &URL_SAFE_NO_PAD.encode(&token[..cut])));
        }
    }
}

#[test]
fn texts_that_nobody_sealed_are_refused() {
    let seals = seals(&keys(1));
    for text in ["", "A", "AA", "null", "é", "\0", "0x12", &"A".repeat(127), &"A".repeat(192), &"é".repeat(192)] {
        assert!(!opens(&seals, text), "{text:?}");
    }
    for length in 0..=144 {
        assert!(!opens(&seals, &URL_SAFE_NO_PAD.encode(vec![0; length])), "{length} zeros");
        assert!(!opens(&seals, &URL_SAFE_NO_PAD.encode(vec![1; length])), "{length} ones");
    }
}

#[test]
fn an_id_opens_only_where_it_was_sealed() {
    let keys = keys(1);
    let other = Address::new([0x5b; 20]);
    let variants = [
        Seals::new(&keys, "", Network::BASE, &[RECIPIENT], "demand-insights"),
        Seals::new(&keys, "", Network::BASE, &[RECIPIENT], "demand-insight"),
        Seals::new(&keys, "", Network::BASE, &[RECIPIENT], "Demand-insights"),
        Seals::new(&keys, "", Network::BASE, &[RECIPIENT], ""),
        Seals::new(&keys, "", Network::BASE, &[other], "demand-insights"),
        Seals::new(&keys, "", Network::BASE_SEPOLIA, &[RECIPIENT], "demand-insights"),
        Seals::new(&keys, "shop", Network::BASE, &[RECIPIENT], "demand-insights"),
        Seals::new(&keys, "demand-insights", Network::BASE, &[RECIPIENT], ""),
        Seals::new(&super::keys(2), "", Network::BASE, &[RECIPIENT], "demand-insights"),
    ];
    for (i, sealer) in variants.iter().enumerate() {
        let id = seal(sealer, &terms());
        for (j, opener) in variants.iter().enumerate() {
            assert_eq!(opener.open(&id).is_some(), i == j, "sealed by {i}, opened by {j}");
        }
    }
}

/// The boundary between two fields is sealed too.
#[test]
fn text_cannot_move_between_realm_and_resource() {
    let at = |realm, resource| Seals::new(&keys(1), realm, Network::BASE, &[RECIPIENT], resource);
    let id = seal(&at("ab", "c"), &terms());
    assert!(at("ab", "c").open(&id).is_some());
    for (realm, resource) in [("a", "bc"), ("", "abc"), ("abc", ""), ("c", "ab")] {
        assert!(at(realm, resource).open(&id).is_none(), "{realm}|{resource}");
    }
}

/// The fields between the two have fixed lengths, so only the length prefixes keep these apart.
#[test]
fn text_cannot_pass_for_the_fields_between() {
    let between: Vec<u8> = [&Network::BASE.chain_id().to_be_bytes() as &[u8], RECIPIENT.as_bytes()].concat();
    let between = String::from_utf8(between).unwrap();
    let at = |realm: &str, resource: &str| Seals::new(&keys(1), realm, Network::BASE, &[RECIPIENT], resource);
    let id = seal(&at("", &format!("a{between}b")), &terms());
    assert!(at(&format!("{between}a"), "b").open(&id).is_none());
}

/// The tag covers the version, and a foreign version is refused even with a correct tag.
#[test]
fn the_version_is_sealed_and_known() {
    let seals = seals(&keys(1));
    for terms in shapes() {
        let id = seal(&seals, &terms);
        let token = URL_SAFE_NO_PAD.decode(id.as_str()).unwrap();
        let (sealed, tag) = token.split_at(token.len() - 16);
        assert_eq!(seals.current().tag_of(sealed), tag);
        for version in (0..=255).filter(|version| *version != sealed[0]) {
            let other = [&[version], &sealed[1..]].concat();
            let its_own = seals.current().tag_of(&other);
            assert_ne!(its_own, tag, "version {version} under the tag of another");
            let other = URL_SAFE_NO_PAD.encode([other.as_slice(), &its_own].concat());
            assert!(!opens(&seals, &other), "version {version}");
        }
    }
}

#[test]
fn former_recipients_open_and_say_who_they_are() {
    let former = Address::new([0x11; 20]);
    let before = Seals::new(&keys(1), "", Network::BASE, &[former], "r");
    let now = Seals::new(&keys(1), "", Network::BASE, &[RECIPIENT, former], "r");
    let old = seal(&before, &terms());
    assert_eq!(now.open(&old).unwrap().1, former);
    assert_eq!(now.open(&old).unwrap().2, before.open(&old).unwrap().2, "the ledger knows it by the same key");
    let new = seal(&now, &terms());
    assert_eq!(now.open(&new).unwrap().1, RECIPIENT);
    assert!(before.open(&new).is_none());
}

#[test]
fn keys_rotate() {
    let old = seals(&keys(1));
    let both = seals(&keys(2).with_former([1; 32]).unwrap());
    let new = seals(&keys(2));
    let (before, after) = (seal(&old, &terms()), seal(&both, &terms()));
    assert!(both.open(&before).is_some(), "an old key opens");
    assert!(both.open(&after).is_some());
    assert!(new.open(&after).is_some(), "the first key seals");
    assert!(old.open(&after).is_none());
    assert!(new.open(&before).is_none(), "a dropped key opens nothing");
    assert_eq!(both.open(&before).unwrap().2, old.open(&before).unwrap().2);
}

#[test]
fn expiry_does_not_wrap() {
    assert_eq!(terms().expiry(), 1_795_280_400);
    assert_eq!(IntentTerms { issued: u64::MAX, ..terms() }.expiry(), u64::MAX);
}

#[test]
fn keys_as_text() {
    let (one, two) = ("01".repeat(32), "02".repeat(32));
    let id = seal(&seals(&keys(1)), &terms());
    for text in [one.clone(), format!(" {one}\n"), format!("{two},{one}"), format!("{two} , {one}")] {
        assert!(seals(&SealingKeys::parse(&text).unwrap()).open(&id).is_some(), "{text:?}");
    }
    let mixed = SealingKeys::parse(&"aB".repeat(32)).unwrap();
    assert!(seals(&mixed).open(&seal(&seals(&keys(0xab)), &terms())).is_some());
    for text in [
        String::new(),
        " ".to_owned(),
        ",".to_owned(),
        format!("{one},"),
        format!(",{one}"),
        format!("{one},,{two}"),
        format!("{one} {two}"),
        format!("0x{one}"),
        format!("0x{}", &one[2..]),
        format!("{one}0"),
        one[1..].to_owned(),
        "g".repeat(64),
        "é".repeat(32),
        "correct horse battery staple".to_owned(),
    ] {
        let error = SealingKeys::parse(&text).unwrap_err().to_string();
        assert!(error.contains("64 hexadecimal digits"), "{text:?}: {error}");
    }
    let twice = SealingKeys::parse(&format!("{one},{two},{one}")).unwrap_err();
    assert!(twice.to_string().contains("listed twice"), "{twice}");
    assert_eq!(keys(1).with_former([1; 32]).unwrap_err(), twice);
}

#[test]
fn a_missing_variable_is_named() {
    let error = SealingKeys::from_env("X402_NO_SUCH_VARIABLE").unwrap_err();
    assert!(error.to_string().contains("X402_NO_SUCH_VARIABLE"));
}

/// Runs in separate processes: setting variables would affect every other test.
#[test]
fn keys_from_the_environment() {
    const KEYS: &str = "X402_TEST_SEALING_KEYS";
    const EXPECTED: &str = "X402_TEST_EXPECTED";
    if let Ok(expected) = std::env::var(EXPECTED) {
        let found = match SealingKeys::from_env(KEYS) {
            Ok(keys) => format!("{keys:?}"),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(&expected), "{found}");
        return;
    }
    let (one, two) = ("01".repeat(32), "02".repeat(32));
    for (value, expected) in [
        (one.clone(), "SealingKeys { keys: 1"),
        (format!(" {one},{two}\n"), "SealingKeys { keys: 2"),
        (String::new(), "holds no sealing key"),
        (" \n".to_owned(), "holds no sealing key"),
        (one[1..].to_owned(), "a sealing key is 64"),
        (format!("{one},{one}"), "listed twice"),
    ] {
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "protocol::tests::seal::keys_from_the_environment"])
            .env(KEYS, &value)
            .env(EXPECTED, expected)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && said.contains("1 passed"), "{value:?}: {said}");
    }
}

#[test]
fn random_keys_differ() {
    let id = seal(&seals(&SealingKeys::random().unwrap()), &terms());
    assert!(seals(&SealingKeys::random().unwrap()).open(&id).is_none());
}

/// The `Debug` output of anything that holds a key shows neither its bytes nor anything derived from them.
#[test]
fn debug_and_errors_say_nothing_of_keys() {
    let canary = "c0ffee00".repeat(8);
    let keys = SealingKeys::parse(&canary).unwrap();
    let error = SealingKeys::parse(&format!("{canary}!")).unwrap_err();
    let seals = seals(&keys);
    let digest = RequestDigest::new([0xc0; 16]);
    let shown = format!("{keys:?} {seals:?} {error} {error:?} {digest:?}").to_lowercase();
    assert_eq!(shown.matches("c0").count(), 0, "{shown}");
    assert_eq!(shown.matches("192").count(), 0, "{shown}");
    assert!(shown.contains("keys: 1") && shown.ends_with(" requestdigest"), "{shown}");
}

fn any_terms() -> impl Strategy<Value = IntentTerms> {
    let amount = (any::<[u8; 32]>(), 0..=32_usize).prop_map(|(mut bytes, zeros)| {
        bytes[..zeros].fill(0);
        Amount::from_be_bytes(bytes)
    });
    (amount, any::<u64>(), any::<u32>(), any::<Option<[u8; 16]>>()).prop_map(|(amount, issued, lifetime, digest)| {
        IntentTerms { amount, issued, lifetime, digest: digest.map(RequestDigest::new) }
    })
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn any_terms_survive_their_seal(terms in any_terms(), realm in "\\PC{0,9}", resource in "\\PC{0,9}", chain: u64) {
        let seals = Seals::new(&keys(3), &realm, Network::eip155(chain), &[RECIPIENT], &resource);
        let id = seal(&seals, &terms);
        prop_assert!(id.as_str().len() <= INTENT_ID_MAX);
        let (opened, recipient, ..) = seals.open(&id).unwrap();
        prop_assert_eq!(opened, terms);
        prop_assert_eq!(recipient, RECIPIENT);
    }

    #[test]
    fn any_change_of_any_bytes_is_refused(
        terms in any_terms(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4),
    ) {
        let seals = seals(&keys(3));
        let token = URL_SAFE_NO_PAD.decode(seal(&seals, &terms).as_str()).unwrap();
        let mut forged = token.clone();
        for (at, change) in changes {
            forged[at.index(token.len())] ^= change;
        }
        prop_assert_eq!(opens(&seals, &URL_SAFE_NO_PAD.encode(&forged)), forged == token);
    }

    #[test]
    fn nothing_that_nobody_sealed_opens(text in "\\PC{0,192}|[A-Za-z0-9_-]{0,192}", bytes: Vec<u8>) {
        let seals = seals(&keys(3));
        prop_assert!(!opens(&seals, &text));
        prop_assert!(!opens(&seals, &URL_SAFE_NO_PAD.encode(bytes)));
    }

    #[test]
    fn no_text_makes_key_parsing_panic(text in "\\PC{0,140}|[0-9a-f, ]{60,140}") {
        let _ = SealingKeys::parse(&text);
    }
}
