//! Transaction hashes: one rule of spelling, then compared as bytes.

use std::collections::HashSet;

use proptest::prelude::*;

use super::cases;
use crate::protocol::TxHash;

const DIGITS: &str = "9b1d2e3f4a5c60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8fa";

/// Every spelling of one hash that some reader accepts.
#[test]
fn fourteen_spellings() {
    let mixed: String =
        DIGITS.chars().enumerate().map(|(i, c)| if i % 2 == 0 { c.to_ascii_uppercase() } else { c }).collect();
    let numbers = TxHash::as_bytes(&format!("0x{DIGITS}").parse().unwrap()).map(|byte| byte.to_string()).join(",");
    let spellings = [
        (format!("0x{DIGITS}"), true),
        (format!("0x{}", DIGITS.to_ascii_uppercase()), true),
        (format!("0x{mixed}"), true),
        (format!("0X{DIGITS}"), false),
        (DIGITS.to_owned(), false),
        (format!(" 0x{DIGITS}"), false),
        (format!("0x{DIGITS} "), false),
        (format!("0x{DIGITS}\n"), false),
        (format!("0x0x{}", &DIGITS[2..]), false),
        (format!("0x{}", &DIGITS[1..]), false),
        (format!("0x0{DIGITS}"), false),
        (format!("0x{}_{}", &DIGITS[..31], &DIGITS[32..]), false),
        (format!("\"0x{DIGITS}\""), false),
        (format!("[{numbers}]"), false),
    ];
    let mut read = HashSet::new();
    for (text, taken) in &spellings {
        let hash = text.parse::<TxHash>();
        assert_eq!(hash.is_ok(), *taken, "{text:?}");
        read.extend(hash);
    }
    assert_eq!(read.len(), 1, "one hash, however it is spelt");
    assert_eq!(read.into_iter().next().unwrap().to_string(), format!("0x{DIGITS}"));
}

#[test]
fn what_only_looks_like_hexadecimal_is_refused() {
    for text in [
        String::new(),
        "0x".to_owned(),
        "0".repeat(66),
        format!("0x{}g", &DIGITS[1..]),
        format!("0x{}é", &DIGITS[2..]),
        format!("0x{}\0", &DIGITS[1..]),
        format!("0x+{}", &DIGITS[1..]),
        format!("0x{}１", &DIGITS[3..]),
        format!("0x{}", DIGITS.repeat(1000)),
    ] {
        assert!(text.parse::<TxHash>().is_err(), "{text:?}");
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn every_hash_survives_its_text(bytes: [u8; 32]) {
        let hash = TxHash::new(bytes);
        let text = hash.to_string();
        prop_assert_eq!(text.parse(), Ok(hash));
        prop_assert_eq!(format!("0x{}", text[2..].to_ascii_uppercase()).parse(), Ok(hash));
        prop_assert_eq!(hash.as_bytes(), &bytes);
    }

    #[test]
    fn any_text_is_refused_or_is_the_hash_it_spells(text in "\\PC{0,70}|(0x)?[0-9a-fA-F]{62,66}") {
        if let Ok(hash) = text.parse::<TxHash>() {
            prop_assert_eq!(hash.to_string(), text.to_ascii_lowercase());
        }
    }
}
