//! Arbitrary objects, headers and bytes.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::{TX, cases, header};
use crate::protocol::{
    IntentId, InvalidRedemption, Proof, Redemption, TxHash,
    headers::X402_PAYMENT,
    redemption::{ScanResult, form_names_proof, scan_body},
};

#[derive(Debug)]
struct Written {
    json: String,
    expected: ScanResult,
}

/// A member's name with some of its characters escaped.
fn name(plain: &'static str) -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<bool>(), plain.len()).prop_map(move |escaped| {
        plain
            .chars()
            .zip(escaped)
            .map(|(c, escaped)| if escaped { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() })
            .collect()
    })
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9_-]{1,200}".prop_map(|text| format!("\"{text}\"")),
        4 => (any::<[u8; 32]>(), any::<bool>()).prop_map(|(bytes, upper)| {
            let digits = const_hex::encode(bytes);
            format!("\"0x{}\"", if upper { digits.to_uppercase() } else { digits })
        }),
        1 => Just("null".to_owned()),
        1 => Just("\"\"".to_owned()),
        1 => any::<f64>().prop_filter_map("finite", |f| f.is_finite().then(|| f.to_string())),
        1 => Just("[[],{\"intentId\":\"abc\"}]".to_owned()),
        1 => Just("{\"txHash\":1}".to_owned()),
        1 => Just("true".to_owned()),
    ]
}

/// Objects of a few members in any order, with the result that the contract prescribes.
fn object() -> impl Strategy<Value = Written> {
    let member = prop_oneof![
        3 => (Just("intentId"), name("intentId"), value()),
        3 => (Just("txHash"), name("txHash"), value()),
        2 => (Just(""), "[a-zA-Z ]{0,9}".prop_map(|name| format!("{name}.")), value()),
    ];
    (proptest::collection::vec(member, 0..5), "[ \t\r\n]{0,2}").prop_map(|(members, space)| {
        let text: Vec<String> =
            members.iter().map(|(_, name, value)| format!("{space}\"{name}\"{space}:{space}{value}{space}")).collect();
        let values = |wanted: &str| -> Vec<String> {
            members.iter().filter(|(member, ..)| *member == wanted).map(|(.., value)| value.clone()).collect()
        };
        let expected = model(&values("intentId"), &values("txHash"));
        Written { json: format!("{space}{{{}}}{space}", text.join(",")), expected }
    })
}

/// A second implementation of the contract, from the JSON values of both members.
fn model(intents: &[String], hashes: &[String]) -> ScanResult {
    fn one(values: &[String]) -> Result<Option<String>, ()> {
        match values {
            [] => Ok(None),
            [value] => match serde_json::from_str(value).unwrap() {
                serde_json::Value::Null => Ok(None),
                serde_json::Value::String(text) if text.is_empty() => Ok(None),
                serde_json::Value::String(text) => Ok(Some(text)),
                _ => Err(()),
            },
            _ => Err(()),
        }
    }
    let (Ok(intent), Ok(hash)) = (one(intents), one(hashes)) else { return ScanResult::Invalid };
    if intent.as_ref().is_some_and(|text| text.len() > 192) {
        return ScanResult::Invalid;
    }
    let bytes = match &hash {
        None => None,
        Some(text) => {
            let digits = text.strip_prefix("0x").filter(|d| d.len() == 64 && d.bytes().all(|b| b.is_ascii_hexdigit()));
            let Some(digits) = digits else { return ScanResult::Invalid };
            Some(TxHash::new(std::array::from_fn(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())))
        }
    };
    match (intent.map(|text| IntentId::new(text).unwrap()), bytes) {
        (None, None) => ScanResult::Nothing,
        (Some(intent), None) => ScanResult::Proof(Proof::IntentOnly(intent)),
        (None, Some(transaction)) => ScanResult::Proof(Proof::TransactionOnly(transaction)),
        (Some(intent), Some(transaction)) => ScanResult::Proof(Proof::Redemption(Redemption::new(intent, transaction))),
    }
}

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn objects_are_read_as_the_contract_says(written in object()) {
        prop_assert_eq!(scan_body(written.json.as_bytes()), written.expected);
    }

    #[test]
    fn a_header_means_what_its_json_means(written in object(), alphabet in 0..4_usize) {
        // A header cannot contain JSON's line breaks.
        let json = written.json.replace(['\r', '\n'], " ");
        let encoded = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD][alphabet].encode(&json);
        let expected = match written.expected {
            ScanResult::Proof(proof) => Ok(Some(proof)),
            _ => Err(InvalidRedemption),
        };
        prop_assert_eq!(header(encoded.as_bytes()), expected.clone());
        prop_assert_eq!(header(json.trim_start().as_bytes()), expected);
    }

    #[test]
    fn what_another_json_reader_takes_is_json_here(json in r#"[\[\]{}:,"a0-9e.\\u+nulltrefs -]{0,24}"#) {
        let theirs = serde_json::from_str::<serde_json::Value>(&json).is_ok();
        prop_assert!(!theirs || scan_body(json.as_bytes()) != ScanResult::NotJson, "{}", json);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0..120_usize) {
        let _ = (scan_body(&bytes), form_names_proof(&bytes));
        // Damages the middle of a valid proof.
        let mut good = format!(r#"{{"intentId":"abc","txHash":"{TX}","a":[1,"b"]}}"#).into_bytes();
        let end = good.len().min(at + bytes.len().min(3));
        good.splice(at.min(end)..end, bytes.iter().copied());
        let _ = scan_body(&good);
        if let Ok(value) = HeaderValue::from_bytes(&bytes) {
            let mut headers = HeaderMap::new();
            headers.insert(X402_PAYMENT, value);
            prop_assert_ne!(Proof::from_headers(&headers), Ok(None));
        }
    }
}
