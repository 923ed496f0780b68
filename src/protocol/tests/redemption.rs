//! Proofs: two members, read strictly, from a body or from the header.

use std::time::{Duration, Instant};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::cases;
use crate::protocol::{
    HEADER_MAX, INTENT_ID_MAX, IntentId, InvalidRedemption, Proof, Redemption, TxHash,
    headers::X402_PAYMENT,
    redemption::{ScanResult, form_names_proof, query_names_proof, scan_body},
};

const TX: &str = "0x9b1d2e3f4a5c60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8fa";

/// `«tx»` stands for a well-formed hash.
fn body(template: &str) -> ScanResult {
    scan_body(template.replace("«tx»", TX).as_bytes())
}

fn intent(text: &str) -> IntentId {
    IntentId::new(text).unwrap()
}

fn tx() -> TxHash {
    TX.parse().unwrap()
}

fn both(text: &str) -> ScanResult {
    ScanResult::Proof(Proof::Redemption(Redemption::new(intent(text), tx())))
}

#[test]
fn bodies_with_a_proof() {
    for template in [
        r#"{"intentId":"abc","txHash":"«tx»"}"#,
        r#"{"txHash":"«tx»","intentId":"abc"}"#,
        r#"{"query":"who?","intentId":"abc","filters":{"intentId":1,"txHash":[2]},"txHash":"«tx»"}"#,
        "\t{\r\n \"intentId\" : \"abc\" ,\"txHash\":\"«tx»\"\n}\n ",
        r#"{"\u0069ntentId":"abc","t\u0078Hash":"«tx»"}"#,
        r#"{"intentId":"\u0061bc","txHash":"\u0030\u0078«digits»"}"#,
        r#"{"intentId":"abc","txHash":"«tx»","IntentId":"x","txhash":1,"intentId ":2,"intent_id":3,"":4}"#,
        r#"{"intentId":"abc","txHash":"«tx»","huge":1e999,"half":"\ud800","twice":1,"twice":2}"#,
    ] {
        assert_eq!(body(&template.replace("«digits»", &TX[2..])), both("abc"), "{template}");
    }
    let upper = format!(r#"{{"intentId":"abc","txHash":"0x{}"}}"#, TX[2..].to_ascii_uppercase());
    assert_eq!(scan_body(upper.as_bytes()), both("abc"));
}

#[test]
fn bodies_with_half_a_proof() {
    for template in [
        r#"{"intentId":"abc"}"#,
        r#"{"intentId":"abc","txHash":null}"#,
        r#"{"txHash":"","intentId":"abc"}"#,
        r#"{"intentId":"abc","tx_hash":"«tx»"}"#,
    ] {
        assert_eq!(body(template), ScanResult::Proof(Proof::IntentOnly(intent("abc"))), "{template}");
    }
    for template in
        [r#"{"txHash":"«tx»"}"#, r#"{"txHash":"«tx»","intentId":null}"#, r#"{"intentId":"","txHash":"«tx»"}"#]
    {
        assert_eq!(body(template), ScanResult::Proof(Proof::TransactionOnly(tx())), "{template}");
    }
}

#[test]
fn bodies_without_a_proof() {
    for template in [
        "{}",
        r#"{"query":"who?"}"#,
        r#"{"intentId":null}"#,
        r#"{"intentId":"","txHash":null}"#,
        r#"{"nested":{"intentId":"abc","txHash":"«tx»"}}"#,
        r#"{"IntentID":"abc","TXHASH":"«tx»"}"#,
        "[]",
        r#"[{"query":"abc"},["intentId"]]"#,
        r#""{\"query\":\"intentId\"}""#,
        r#""intentId txHash""#,
        r#"["intentId",["txHash"]]"#,
        r#"{"paymentSecret":null,"paymentSignature":""}"#,
        r#"{"nested":{"paymentSecret":"AAAAAAAAAAAAAAAA"}}"#,
        "null",
        "true",
        "0",
        "-1",
        "1.5",
        // No Rust number, but JSON.
        "1e999",
        r#""\ud800""#,
        "123456789012345678901234567890",
    ] {
        assert_eq!(body(template), ScanResult::Nothing, "{template}");
    }
}

/// Whoever wraps a proof has paid: that is to be corrected, not billed again.
#[test]
fn a_proof_that_is_wrapped_is_invalid() {
    for template in [
        r#"[{"intentId":"abc","txHash":"«tx»"}]"#,
        r#" [1, {"txHash":"«tx»"}]"#,
        r#"[{"intentId":7}]"#,
        r#"[[{"txHash":"«tx»"}]]"#,
        // Encoded twice, or three times.
        r#""{\"intentId\":\"abc\",\"txHash\":\"«tx»\"}""#,
        r#"  " {\"txHash\" : \"«tx»\"} " "#,
        r#""{\"intentId\":\"abc\"}""#,
        r#""{\"\u0069ntentId\":\"abc\"}""#,
        r#""[{\"txHash\":\"«tx»\"}]""#,
        r#"["{\"txHash\":\"«tx»\"}"]"#,
        r#""\"{\\\"txHash\\\":\\\"«tx»\\\"}\"""#,
        // And broken within.
        r#""{'intentId':'abc','txHash':'«tx»'}""#,
        r#""{\"intentId\":\"abc\",}""#,
    ] {
        assert_eq!(body(template), ScanResult::Invalid, "{template}");
    }
}

/// What shows how a payment is bound shows no payment, and beside one it is read as strictly.
#[test]
fn a_secret_or_a_signature_alone_is_invalid() {
    for template in [
        r#"{"paymentSecret":"AAAAAAAAAAAAAAAA"}"#,
        r#"{"paymentSignature":"0x12","query":"who?"}"#,
        r#"{"paymentSecret":"AAAAAAAAAAAAAAAA","paymentSignature":"0x12","intentId":null,"txHash":""}"#,
        r#"{"paymentSecret":7}"#,
        r#"{"paymentSignature":null,"payment\u0053ignature":null}"#,
        r#"{"intentId":"abc","txHash":"«tx»","paymentSecret":7}"#,
        r#"{"intentId":"abc","txHash":"«tx»","paymentSecret":"a","paymentSecret":"a"}"#,
        r#"{"intentId":"abc","txHash":"«tx»","paymentSignature":["0x12"]}"#,
    ] {
        assert_eq!(body(template), ScanResult::Invalid, "{template}");
    }
}

#[test]
fn a_secret_and_a_signature_stand_beside_a_redemption() {
    let secret = || Some("AAAAAAAAAAAAAAAA".parse().unwrap());
    let signature = || Some("0x12Ab".parse().unwrap());
    let redemption = Redemption::new(intent("abc"), tx());
    for (beside, expected) in [
        (r#""paymentSecret":"AAAAAAAAAAAAAAAA""#, Redemption { secret: secret(), ..redemption.clone() }),
        (r#""paymentSignature":"0x12aB""#, Redemption { signature: signature(), ..redemption.clone() }),
        (
            r#""paymentSignature":"0x\u00312ab","payment\u0053ecret":"AAAAAAAAAAAAAAA\u0041""#,
            Redemption { secret: secret(), signature: signature(), ..redemption.clone() },
        ),
        (r#""paymentSecret":null,"paymentSignature":"""#, redemption.clone()),
    ] {
        let result = body(&format!(r#"{{"intentId":"abc","txHash":"«tx»",{beside}}}"#));
        assert_eq!(result, ScanResult::Proof(Proof::Redemption(expected)), "{beside}");
    }
    for bad in [
        r#""paymentSecret":"AAAAAAAAAAAAAAA""#,
        r#""paymentSecret":" AAAAAAAAAAAAAAAA""#,
        r#""paymentSecret":"AAAAAAAA.AAAAAAAA""#,
        r#""paymentSignature":"12""#,
        r#""paymentSignature":"0x""#,
        r#""paymentSignature":"0x123""#,
        r#""paymentSignature":"0xzz""#,
    ] {
        assert_eq!(body(&format!(r#"{{"intentId":"abc","txHash":"«tx»",{bad}}}"#)), ScanResult::Invalid, "{bad}");
        assert_eq!(body(&format!(r#"{{"txHash":"«tx»",{bad}}}"#)), ScanResult::Invalid, "{bad}");
    }
}

#[test]
fn forms_and_queries_that_name_a_proof() {
    for (pairs, form, query) in [
        ("intentId=abc&txHash=0x12", true, true),
        ("txHash=&intentId=", true, true),
        ("a=1&txHash=0x12&b&intentId", true, true),
        ("%69ntentId=abc&tx%48ash=0x12", true, true),
        ("%69%6E%74%65%6e%74%49%64=abc&txHash=0x12", true, true),
        ("intentId=abc", true, false),
        ("q=1&txHash=0x12", true, false),
        ("", false, false),
        ("query=intentId&which=txHash", false, false),
        ("intentid=abc&txhash=0x12", false, false),
        ("intentId2=abc&xtxHash=0x12", false, false),
        ("%2569ntentId=abc&%zztxHash=1&%", false, false),
        ("a=intentId=x&b=txHash=y", false, false),
    ] {
        assert_eq!((form_names_proof(pairs.as_bytes()), query_names_proof(pairs)), (form, query), "{pairs}");
    }
}

/// Whoever sends one of these has a proof in mind: 400, never a quote.
#[test]
fn bodies_with_an_invalid_proof() {
    for template in [
        // Twice, in every disguise.
        r#"{"intentId":"abc","intentId":"abc","txHash":"«tx»"}"#,
        r#"{"intentId":"abc","txHash":"«tx»","txHash":"«tx»"}"#,
        r#"{"intentId":"abc","txHash":"«tx»","\u0069ntentId":"abc"}"#,
        r#"{"intentId":"abc","txHash":"«tx»","tx\u0048ash":"«tx»"}"#,
        r#"{"intentId":null,"intentId":"abc","txHash":"«tx»"}"#,
        r#"{"intentId":"abc","intentId":null,"txHash":"«tx»"}"#,
        r#"{"intentId":"","intentId":"","txHash":"«tx»"}"#,
        r#"{"intentId":null,"intentId":null}"#,
        r#"{"txHash":null,"txHash":null,"txHash":null}"#,
        // Wrong types.
        r#"{"intentId":1,"txHash":"«tx»"}"#,
        r#"{"intentId":-1}"#,
        r#"{"intentId":1.5}"#,
        r#"{"intentId":true,"txHash":"«tx»"}"#,
        r#"{"intentId":false}"#,
        r#"{"intentId":["abc"],"txHash":"«tx»"}"#,
        r#"{"intentId":{},"txHash":"«tx»"}"#,
        r#"{"intentId":{"intentId":"abc"},"txHash":"«tx»"}"#,
        r#"{"intentId":"abc","txHash":["«tx»"]}"#,
        r#"{"intentId":"abc","txHash":[155,29,46]}"#,
        r#"{"intentId":"abc","txHash":0}"#,
        r#"{"txHash":{}}"#,
        // Values that no Rust type holds are JSON all the same.
        r#"{"intentId":1e999,"txHash":"«tx»"}"#,
        r#"{"intentId":"abc","txHash":123456789012345678901234567890}"#,
        r#"{"intentId":"\ud800","txHash":"«tx»"}"#,
        r#"{"intentId":"abc","txHash":"«tx»","\udc00":1}"#,
        // Not a hash.
        r#"{"intentId":"abc","txHash":"0x"}"#,
        r#"{"intentId":"abc","txHash":"0x12"}"#,
        r#"{"intentId":"abc","txHash":" «tx»"}"#,
        r#"{"intentId":"abc","txHash":"«tx»\n"}"#,
        r#"{"intentId":"abc","txHash":"«tx»0"}"#,
        r#"{"txHash":"not a hash"}"#,
        r#"{"txHash":" "}"#,
        // An empty intent does not excuse a bad hash.
        r#"{"intentId":"","txHash":"0X«digits»"}"#,
    ] {
        assert_eq!(body(&template.replace("«digits»", &TX[2..])), ScanResult::Invalid, "{template}");
    }
}

#[test]
fn an_intent_is_opaque_up_to_its_length() {
    for text in [" ", "not sealed by us", "ünïcödé", "a\\u0000b", &"a".repeat(INTENT_ID_MAX)] {
        let json = format!(r#"{{"intentId":"{text}","txHash":"{TX}"}}"#);
        assert_eq!(scan_body(json.as_bytes()), both(&text.replace("\\u0000", "\0")), "{text:?}");
    }
    let json = format!(r#"{{"intentId":"{}","txHash":"{TX}"}}"#, "a".repeat(INTENT_ID_MAX + 1));
    assert_eq!(scan_body(json.as_bytes()), ScanResult::Invalid);
}

#[test]
fn what_is_not_json() {
    for template in [
        "",
        " ",
        "{",
        "}",
        "{]",
        r#"{"intentId":"abc""#,
        r#"{"intentId":"abc",}"#,
        r#"{"intentId" "abc"}"#,
        r#"{intentId:"abc"}"#,
        r#"{'intentId':'abc'}"#,
        r#"{"intentId":"abc","txHash":"«tx»"} trailing"#,
        r#"{"intentId":"abc","txHash":"«tx»"}{"intentId":"abc","txHash":"«tx»"}"#,
        r#"{"intentId":"abc","txHash":"«tx»"},"#,
        r#"{"intentId":"abc","txHash":"«tx»"} // comment"#,
        r#"{"a":1}{"b":2}"#,
        r#"{"a":01}"#,
        r#"{"a":+1}"#,
        r#"{"a":.5}"#,
        r#"{"a":NaN}"#,
        r#"{"a":"\x41"}"#,
        r#"{"a":"\u12"}"#,
        "{\"a\":\"line\nbreak\"}",
        "[1,2",
        "[1,]",
        "nul",
        "\u{feff}{\"intentId\":\"abc\"}",
        "{\"a\":1}\0",
        "\u{a0}{}",
    ] {
        assert_eq!(body(template), ScanResult::NotJson, "{template:?}");
    }
}

#[test]
fn text_that_is_not_utf8_is_not_json_wherever_it_stands() {
    for json in [
        b"{\"a\":\"\xff\"}".as_slice(),
        b"{\"\xff\":1}",
        b"{\"intentId\":\"\xff\"}",
        b"{\"a\":[{\"b\":\"\xc3\x28\"}],\"intentId\":\"abc\"}",
        // A surrogate, and an overlong slash, in bytes.
        b"{\"a\":\"\xed\xa0\x80\"}",
        b"{\"a\":\"\xc0\xaf\"}",
        b"\xef\xbb\xbf{}",
        // UTF-16.
        b"\xff\xfe{\0}\0",
    ] {
        assert_eq!(scan_body(json), ScanResult::NotJson, "{}", json.escape_ascii());
    }
}

/// On a thread with a small stack: depth must cost neither stack nor time.
#[test]
fn depth_is_harmless() {
    const DEPTH: usize = 100_000;
    let nest = |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(DEPTH), close.repeat(DEPTH));
    let arrays = nest("[", "", "]");
    let objects = nest(r#"{"a":"#, "1", "}");
    let table = [
        (arrays.clone(), ScanResult::Nothing),
        (format!("[{arrays},{}]", serde_json::json!(objects.as_str())), ScanResult::Nothing),
        (
            format!("[{arrays},{}]", serde_json::json!(format!(r#"{{"a":{arrays},"txHash":"{TX}"}}"#))),
            ScanResult::Invalid,
        ),
        (objects.clone(), ScanResult::Nothing),
        (format!(r#"{{"a":{arrays},"b":{objects},"intentId":"abc","txHash":"{TX}"}}"#), both("abc")),
        (format!(r#"{{"intentId":{arrays},"txHash":"{TX}"}}"#), ScanResult::Invalid),
        (format!(r#"{{"txHash":{objects}}}"#), ScanResult::Invalid),
        (r#"{"intentId":"#.repeat(DEPTH), ScanResult::NotJson),
        ("[".repeat(DEPTH), ScanResult::NotJson),
        (nest("[", "", "}"), ScanResult::NotJson),
    ];
    let work = move || {
        for (json, expected) in table {
            let start = Instant::now();
            assert_eq!(scan_body(json.as_bytes()), expected, "{}…", &json[..20]);
            // Quadratic would be minutes; a busy machine is not.
            assert!(start.elapsed() < Duration::from_secs(20), "{}… took {:?}", &json[..20], start.elapsed());
        }
    };
    std::thread::Builder::new().stack_size(128 * 1024).spawn(work).unwrap().join().unwrap();
}

#[test]
fn many_members_are_read_in_one_pass() {
    let json = format!(r#"{{{}"intentId":"abc","txHash":"{TX}"}}"#, r#""a":0,"#.repeat(100_000));
    let start = Instant::now();
    assert_eq!(scan_body(json.as_bytes()), both("abc"));
    assert!(start.elapsed() < Duration::from_secs(2));
}

fn header(value: &[u8]) -> Result<Option<Proof>, InvalidRedemption> {
    let mut headers = HeaderMap::new();
    headers.insert(X402_PAYMENT, HeaderValue::from_bytes(value).unwrap());
    Proof::from_headers(&headers)
}

fn sold(text: &str) -> Result<Option<Proof>, InvalidRedemption> {
    Ok(Some(Proof::Redemption(Redemption::new(intent(text), tx()))))
}

#[test]
fn headers_in_every_encoding() {
    // The tildes and question marks make base64 use the letters in which its alphabets differ.
    for text in ["abc", "a", "ab", "~~~???", "???~~~>>>", "ÿÿÿ"] {
        let json = format!(r#"{{"intentId":"{text}","txHash":"{TX}","unknown":[null]}}"#);
        assert_eq!(header(json.as_bytes()), sold(text), "{json}");
        for (alphabet, name) in
            [(&STANDARD, "padded"), (&STANDARD_NO_PAD, "bare"), (&URL_SAFE, "url-safe"), (&URL_SAFE_NO_PAD, "url bare")]
        {
            assert_eq!(header(alphabet.encode(&json).as_bytes()), sold(text), "{name} {json}");
        }
    }
}

#[test]
fn the_two_alphabets_do_differ_above() {
    let json = format!(r#"{{"intentId":"???~~~>>>","txHash":"{TX}"}}"#);
    assert_ne!(STANDARD.encode(&json), URL_SAFE.encode(&json));
}

#[test]
fn headers_with_half_a_proof() {
    assert_eq!(header(br#"{"intentId":"abc"}"#), Ok(Some(Proof::IntentOnly(intent("abc")))));
    let json = format!(r#"{{"txHash":"{TX}"}}"#);
    assert_eq!(header(json.as_bytes()), Ok(Some(Proof::TransactionOnly(tx()))));
    assert_eq!(header(STANDARD.encode(&json).as_bytes()), Ok(Some(Proof::TransactionOnly(tx()))));
}

#[test]
fn no_header_is_no_proof() {
    assert_eq!(Proof::from_headers(&HeaderMap::new()), Ok(None));
}

/// A header that is there is never "no proof".
#[test]
fn headers_that_are_refused() {
    let json = format!(r#"{{"intentId":"ab","txHash":"{TX}"}}"#);
    let padded = STANDARD.encode(&json);
    assert!(padded.ends_with('='), "the table below needs padding");
    let bare = padded.trim_end_matches('=');
    let array = format!("[{json}]");
    let duplicate = format!(r#"{{"intentId":"abc","intentId":"abc","txHash":"{TX}"}}"#);
    let twice = STANDARD.encode(STANDARD.encode(&json));
    // The last letter carries bits that no byte needs: the next letter decodes to the same bytes, leniently.
    let last = bare.as_bytes()[bare.len() - 1];
    let dirty = format!("{}{}", &bare[..bare.len() - 1], char::from(last + 1));
    for value in [
        String::new(),
        " ".to_owned(),
        "{}".to_owned(),
        STANDARD.encode("{}"),
        "null".to_owned(),
        STANDARD.encode("null"),
        STANDARD.encode(r#""text""#),
        STANDARD.encode(&array),
        array,
        STANDARD.encode(&duplicate),
        duplicate,
        r#"{"intentId":null,"txHash":""}"#.to_owned(),
        format!(r#"{{"intentId":"abc","txHash":"0X{}"}}"#, &TX[2..]),
        format!("{json} {json}"),
        format!("{json},{json}"),
        format!("{json}x"),
        format!(" {json}"),
        format!(" {padded}"),
        format!("{padded} "),
        format!("{}\t{}", &padded[..8], &padded[8..]),
        format!("{bare}==="),
        format!("={bare}"),
        format!("{padded},{padded}"),
        // Both alphabets in one value.
        format!("{}+_{}", &padded[..8], &padded[10..]),
        dirty,
        format!("{bare}A"),
        twice,
        STANDARD.encode(format!("\u{feff}{json}")),
        STANDARD.encode(b"{\"intentId\":\"abc\",\"q\":\"\xff\"}"),
        format!("Bearer {padded}"),
        const_hex::encode(&json),
        "%7B%22intentId%22%3A%22abc%22%7D".to_owned(),
    ] {
        assert_eq!(header(value.as_bytes()), Err(InvalidRedemption), "{value:?}");
    }
    assert_eq!(header(b"{\"intentId\":\"\xff\"}"), Err(InvalidRedemption), "not UTF-8");
}

#[test]
fn a_header_sent_twice_is_refused() {
    let json = format!(r#"{{"intentId":"abc","txHash":"{TX}"}}"#);
    let good = HeaderValue::try_from(&json).unwrap();
    for second in [good.clone(), HeaderValue::from_static("")] {
        let mut headers = HeaderMap::new();
        headers.append(X402_PAYMENT, good.clone());
        headers.append(X402_PAYMENT, second);
        assert_eq!(Proof::from_headers(&headers), Err(InvalidRedemption));
    }
}

#[test]
fn a_header_has_a_limit() {
    let padded_to = |length: usize| {
        let start = format!(r#"{{"intentId":"abc","txHash":"{TX}","pad":""#);
        let fill = length - start.len() - 2;
        format!("{start}{}\"}}", "x".repeat(fill))
    };
    for length in [HEADER_MAX - 1, HEADER_MAX] {
        let json = padded_to(length);
        assert_eq!(json.len(), length);
        assert_eq!(header(json.as_bytes()), sold("abc"));
    }
    assert_eq!(header(padded_to(HEADER_MAX + 1).as_bytes()), Err(InvalidRedemption));

    // The limit is on what is sent, not on what it stands for.
    let largest = STANDARD.encode(padded_to(HEADER_MAX / 4 * 3));
    assert_eq!(largest.len(), HEADER_MAX);
    assert_eq!(header(largest.as_bytes()), sold("abc"));
    let larger = URL_SAFE_NO_PAD.encode(padded_to(HEADER_MAX / 4 * 3 + 1));
    assert!(larger.len() > HEADER_MAX);
    assert_eq!(header(larger.as_bytes()), Err(InvalidRedemption));
}

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

/// Objects of a few members in any order, beside what the contract says of them.
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

/// The contract, said once more: values of the two members as they are written.
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
        // Line breaks in JSON cannot stand in a header.
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
        // Damage in the middle of a good one.
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
