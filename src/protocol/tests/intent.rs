//! Intent ids and their keys in a ledger.

use crate::protocol::{INTENT_ID_MAX, IntentId, IntentKey};

#[test]
fn length_is_counted_in_characters() {
    assert!(IntentId::new("").is_err());
    assert!(IntentId::new("a").is_ok());
    assert!(IntentId::new("a".repeat(INTENT_ID_MAX)).is_ok());
    assert!(IntentId::new("a".repeat(INTENT_ID_MAX + 1)).is_err());
    assert!(IntentId::new("é".repeat(INTENT_ID_MAX)).is_ok());
    assert!(IntentId::new("é".repeat(INTENT_ID_MAX + 1)).is_err());
}

#[test]
fn case_matters() {
    assert_ne!(IntentId::new("aB"), IntentId::new("AB"));
}

#[test]
fn debug_shows_nothing_of_an_intent() {
    let id = IntentId::new("a\r\nlevel=error\u{1b}[2J").unwrap();
    assert_eq!(format!("{id:?}"), "IntentId(..)");
}

#[test]
fn a_key_is_shown_by_its_first_four_bytes() {
    let key = IntentKey::new(std::array::from_fn(|i| i as u8 + 0xa8));
    assert_eq!(key.to_string(), "a8a9aaab");
    assert_eq!(format!("{key:?}"), "a8a9aaab");
}
