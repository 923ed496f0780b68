//! The three headers: base64 of either alphabet, sent once, within the limit.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use http::{HeaderMap, HeaderValue};

use super::{payment, quote, with};
use crate::protocol::{
    HEADER_MAX, Network, TxHash,
    headers::{PAYMENT_REQUIRED, PAYMENT_RESPONSE, PAYMENT_SIGNATURE},
    v2::{
        InvalidMessageKind::{self, Member, NotBase64, NotJson, Repeated, TooLong},
        PaymentPayload, PaymentRequired, SettleResponse,
    },
};

fn headers(value: impl AsRef<[u8]>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(PAYMENT_SIGNATURE, HeaderValue::from_bytes(value.as_ref()).unwrap());
    headers
}

fn refused(value: impl AsRef<[u8]>) -> InvalidMessageKind {
    PaymentPayload::from_headers(&headers(value)).unwrap_err().kind()
}

/// A payment whose base64 uses both letters in which the alphabets differ, and padding.
fn with_all_letters() -> String {
    let json = with(&payment(), r#""x402Version":2"#, r#""x402Version":2,"note":"??>>??>>?","more":"~~~~~~~~~~~~""#);
    let base64 = STANDARD.encode(&json);
    assert!(base64.contains('+') && base64.contains('/') && base64.ends_with('='), "{base64}");
    json
}

#[test]
fn either_alphabet_is_read_with_and_without_padding() {
    let json = with_all_letters();
    let payment = PaymentPayload::from_json(&json).unwrap();
    for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
        assert_eq!(PaymentPayload::from_headers(&headers(engine.encode(&json))).as_ref(), Ok(&Some(payment.clone())));
    }
}

#[test]
fn one_form_is_written() {
    let payment = PaymentPayload::from_json(with_all_letters()).unwrap();
    assert_eq!(payment.to_header(), STANDARD.encode(payment.to_json()));
    let settled = SettleResponse::settled(TxHash::new([0xab; 32]), Network::BASE);
    let mut answer = HeaderMap::new();
    answer.insert(PAYMENT_RESPONSE, settled.to_header());
    assert_eq!(SettleResponse::from_headers(&answer), Ok(Some(settled)));
    let required = PaymentRequired::from_json(quote()).unwrap();
    answer.insert(PAYMENT_REQUIRED, required.to_header());
    assert_eq!(PaymentRequired::from_headers(&answer), Ok(Some(required)));
    assert_eq!(PaymentPayload::from_headers(&answer), Ok(None));
}

#[test]
fn anything_else_is_refused() {
    let base64 = STANDARD.encode(payment());
    let half = base64.len() / 2;
    for value in [
        payment(),
        format!("{base64}!"),
        format!("{}\t{}", &base64[..half], &base64[half..]),
        format!("{base64}===="),
        "A".to_owned(),
        "e31=".to_owned(),
        "ab+_".to_owned(),
    ] {
        assert_eq!(refused(&value), NotBase64, "{value}");
    }
    assert_eq!(refused(b"e30\xff"), NotBase64);
    assert_eq!(refused(""), NotJson);
    assert_eq!(refused(STANDARD.encode("[]")), NotJson);
    assert_eq!(refused(STANDARD.encode(b"\xff")), NotJson);
    assert_eq!(refused(STANDARD.encode(STANDARD.encode(payment()))), NotJson);
    assert_eq!(refused("e30="), Member("x402Version"));
}

#[test]
fn a_header_sent_twice_is_refused() {
    let value = HeaderValue::try_from(STANDARD.encode(payment())).unwrap();
    let mut headers = HeaderMap::new();
    headers.append(PAYMENT_SIGNATURE, value.clone());
    headers.append(PAYMENT_SIGNATURE, value);
    assert_eq!(PaymentPayload::from_headers(&headers).unwrap_err().kind(), Repeated);
}

#[test]
fn nothing_is_read_beyond_the_limit() {
    let filled = |length: usize| {
        let json = payment();
        let note = format!(r#""note":"{}","x402Version":2"#, "x".repeat(length - json.len() - 10));
        let json = with(&json, r#""x402Version":2"#, &note);
        assert_eq!(json.len(), length);
        STANDARD.encode(json)
    };
    let whole = HEADER_MAX / 4 * 3;
    assert!(PaymentPayload::from_headers(&headers(filled(whole))).is_ok());
    assert_eq!(refused(filled(whole + 1)), TooLong);
    assert_eq!(refused("!".repeat(HEADER_MAX + 1)), TooLong);

    let vector = headers(STANDARD.encode(payment()));
    let length = vector[PAYMENT_SIGNATURE].len();
    assert!(PaymentPayload::from_headers_up_to(length, &vector).is_ok());
    let error = PaymentPayload::from_headers_up_to(length - 1, &vector).unwrap_err();
    assert_eq!(error.kind(), TooLong);
    assert!(PaymentPayload::from_headers_up_to(usize::MAX, &headers(filled(100_000))).is_ok());
}

/// Nesting cannot overflow the stack: unknown members are skipped, kept ones have a limit.
#[test]
fn nothing_is_too_deep() {
    let deep = format!("{}1{}", "[".repeat(50_000), "]".repeat(50_000));
    let unknown = format!(r#""x402Version":2,"note":{deep}"#);
    assert!(PaymentPayload::from_json(with(&payment(), r#""x402Version":2"#, &unknown)).is_ok());
    let extra = format!(r#""extra":{{"note":{deep},"#);
    let error = PaymentPayload::from_json(with(&payment(), r#""extra":{"#, &extra)).unwrap_err();
    assert_eq!(error.kind(), Member("extra"));
}
