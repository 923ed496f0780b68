//! Proofs in a body, among any other members.

use std::time::{Duration, Instant};

use super::{TX, body, both, intent, tx};
use crate::protocol::{
    INTENT_ID_MAX, Proof, Redemption,
    redemption::{ScanResult, form_names_proof, query_names_proof, scan_body},
};

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
        // Valid JSON that no Rust number or string holds.
        "1e999",
        r#""\ud800""#,
        "123456789012345678901234567890",
    ] {
        assert_eq!(body(template), ScanResult::Nothing, "{template}");
    }
}

/// The sender of a wrapped proof has paid: the reply asks for a correction, without another bill.
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
        // Malformed inside the string.
        r#""{'intentId':'abc','txHash':'«tx»'}""#,
        r#""{\"intentId\":\"abc\",}""#,
    ] {
        assert_eq!(body(template), ScanResult::Invalid, "{template}");
    }
}

/// A proof of the payer alone proves no payment; beside a proof of payment, it is read as strictly.
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

/// The sender of one of these intends a proof: the answer is 400, never a quote.
#[test]
fn bodies_with_an_invalid_proof() {
    for template in [
        // Given twice, in every disguise.
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
        // Values that no Rust type holds are still JSON.
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

/// On a thread with a small stack: nesting must cost neither stack nor quadratic time.
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
            // Quadratic time would be minutes, even compared with a busy machine.
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
