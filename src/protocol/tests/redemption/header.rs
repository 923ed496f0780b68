//! Proofs in the header, in every encoding.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use http::{HeaderMap, HeaderValue};

use super::{TX, header, intent, sold, tx};
use crate::protocol::{HEADER_MAX, InvalidRedemption, Network, Proof, Redemption, headers::X402_PAYMENT};

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

/// A header that is present never counts as "no proof".
#[test]
fn headers_that_are_refused() {
    let json = format!(r#"{{"intentId":"ab","txHash":"{TX}"}}"#);
    let padded = STANDARD.encode(&json);
    assert!(padded.ends_with('='), "the table below needs padding");
    let bare = padded.trim_end_matches('=');
    let array = format!("[{json}]");
    let duplicate = format!(r#"{{"intentId":"abc","intentId":"abc","txHash":"{TX}"}}"#);
    let twice = STANDARD.encode(STANDARD.encode(&json));
    // The last letter carries bits that no byte needs: a lenient decoder returns the same bytes for the next letter.
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
fn a_header_may_name_the_network() {
    let named = |member: &str| header(format!(r#"{{"intentId":"abc",{member}"txHash":"{TX}"}}"#).as_bytes());
    let on = |chain| Ok(Some(Proof::Redemption(Redemption::new(intent("abc"), tx()).on(Network::eip155(chain)))));
    for (member, read) in [
        (r#""chainId":8453,"#, on(8453)),
        (r#""chain\u0049d": 84532 ,"#, on(84_532)),
        (r#""chainId":18446744073709551615,"#, on(u64::MAX)),
        // Like the other members.
        (r#""chainId":null,"#, sold("abc")),
        (r#""chainId":"","#, sold("abc")),
        // An unreadable value never counts as the first chain.
        (r#""chainId":"8453","#, Err(InvalidRedemption)),
        (r#""chainId":"0x2105","#, Err(InvalidRedemption)),
        (r#""chainId":-1,"#, Err(InvalidRedemption)),
        (r#""chainId":8453.0,"#, Err(InvalidRedemption)),
        (r#""chainId":18446744073709551616,"#, Err(InvalidRedemption)),
        (r#""chainId":[8453],"#, Err(InvalidRedemption)),
        (r#""chainId":8453,"chainId":8453,"#, Err(InvalidRedemption)),
        (r#""chainId":8453,"chain\u0049d":84532,"#, Err(InvalidRedemption)),
    ] {
        assert_eq!(named(member), read, "{member}");
        assert_eq!(
            header(STANDARD.encode(format!(r#"{{{member}"intentId":"abc","txHash":"{TX}"}}"#)).as_bytes()),
            read
        );
    }
    // In a body, the member belongs to the service.
    let body = format!(r#"{{"intentId":"abc","txHash":"{TX}","chainId":"mine"}}"#);
    assert_eq!(super::body(&body), super::both("abc"));
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

    // The limit applies to the encoded value, not to the decoded one.
    let largest = STANDARD.encode(padded_to(HEADER_MAX / 4 * 3));
    assert_eq!(largest.len(), HEADER_MAX);
    assert_eq!(header(largest.as_bytes()), sold("abc"));
    let larger = URL_SAFE_NO_PAD.encode(padded_to(HEADER_MAX / 4 * 3 + 1));
    assert!(larger.len() > HEADER_MAX);
    assert_eq!(header(larger.as_bytes()), Err(InvalidRedemption));
}
