//! Required parts: missing, of the wrong kind, or given twice; and the error for each.

use super::{AUTHORIZATION, REQUIREMENTS, message, payment, proof, quote, read, with};
use crate::protocol::v2::{
    InvalidMessageKind::{self, Member},
    PaymentPayload, PaymentRequired, SchemePayload,
};

#[test]
fn what_a_payment_must_have() {
    for (part, other, kind) in [
        (r#""accepted":{"#, r#""accept":{"#, Member("accepted")),
        (r#""accepted":{"#, r#""accepted":[],"was":{"#, Member("accepted")),
        (r#""accepted":{"#, r#""accepted":null,"was":{"#, Member("accepted")),
        (r#""accepted":{"#, r#""accepted":{},"accepted":{"#, Member("accepted")),
        (r#""payload":{"#, r#""payload":null,"was":{"#, Member("payload")),
        (r#""payload":{"#, r#""payload":{},"payload":{"#, Member("payload")),
        (r#""authorization":{"#, r#""authorization":null,"was":{"#, Member("authorization")),
        (r#""authorization":{"#, r#""authorization":"","was":{"#, Member("authorization")),
        (r#""authorization":{"#, r#""authorization":{},"authorization":{"#, Member("authorization")),
        (r#""x402Version":2"#, r#""x402Version":2,"resource":{}"#, Member("url")),
        (r#""x402Version":2"#, r#""x402Version":2,"resource":"https://a""#, Member("resource")),
        (r#""x402Version":2"#, r#""x402Version":2,"resource":{"url":"a","tags":[1]}"#, Member("tags")),
        (r#""x402Version":2"#, r#""x402Version":2,"extensions":[]"#, Member("extensions")),
    ] {
        assert_eq!(read(&with(&payment(), part, other)), Err(kind), "{other}");
    }
}

#[test]
fn members_of_a_proof() {
    assert!(matches!(read(&proof()).unwrap().payload, SchemePayload::Proof(_)));
    for (part, other, name) in [
        (r#""txRef":"0xab"#, r#""txRef":"0Xab"#, "txRef"),
        (r#""txRef":"0xab"#, r#""txRef":"0xa"#, "txRef"),
        (r#""txRef":"0xab"#, r#""txRef":"","txRef":"0xab"#, "txRef"),
        (r#""txRef":"0xab"#, r#""tx":"0xab"#, "txRef"),
        (r#""type":"payment-proof""#, r#""type":"payment-proof","type":"payment-proof""#, "type"),
        (r#""paymentSignature":"0x0102""#, r#""paymentSignature":"0x""#, "paymentSignature"),
        (r#""paymentSignature":"0x0102""#, r#""paymentSignature":5"#, "paymentSignature"),
        (r#""paymentSecret":"AAAAAAAAAAAAAAAA""#, r#""paymentSecret":"AAAAAAAA""#, "paymentSecret"),
        (r#""paymentSecret":"A"#, r#""paymentSecret":"AAAAAAAAAAAAAAAA","paymentSecret":"A"#, "paymentSecret"),
    ] {
        assert_eq!(read(&with(&proof(), part, other)), Err(Member(name)), "{other}");
    }
}

#[test]
fn quotes_without_a_way_to_pay() {
    let refused = |part: &str, other: &str| -> InvalidMessageKind {
        PaymentRequired::from_json(with(&quote(), part, other)).unwrap_err().kind()
    };
    let accepts = r#""accepts":["#;
    for other in [r#""accept":["#, r#""accepts":[],"was":["#, r#""accepts":null,"was":["#, r#""accepts":{},"was":["#] {
        assert_eq!(refused(accepts, other), Member("accepts"), "{other}");
    }
    assert_eq!(refused(accepts, r#""accepts":[5,"#), Member("accepts"));
    // An invalid entry of a known kind invalidates the quote.
    assert_eq!(refused(r#""amount":"10000""#, r#""amount":10000"#), Member("amount"));
    assert_eq!(refused(r#""network":"eip155:84532""#, r#""network":"eip155:x""#), Member("network"));
    let other = r#""accepts":[{"scheme":"upto","network":"base"},"#;
    assert_eq!(refused(accepts, other), Member("network"));
    let other = r#""accepts":[{"scheme":"upto","network":"a-b:c","a":1,"a":2},"#;
    assert_eq!(refused(accepts, other), Member("accepts"));
}

/// Errors go to senders and into logs, so they repeat nothing that was read.
#[test]
fn errors_repeat_nothing() {
    let json = with(&payment(), r#""amount":"10000""#, r#""amount":"s3cret""#);
    let error = PaymentPayload::from_json(json).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("s3cret"));
    let text = "invalid x402 message: `amount` is missing, given twice, or not of the standard's form; see the x402 specification, version 2";
    assert_eq!(error.to_string(), text);
    assert!(std::error::Error::source(&error).is_none());
    let payment = read(&payment()).unwrap();
    assert!(!format!("{payment:?}").contains("00a85e97"), "nor is a signature shown");
    let other = read(&message(&with(REQUIREMENTS, "exact", "upto"), AUTHORIZATION)).unwrap();
    assert!(!format!("{other:?}").contains("00a85e97"), "nor one that is not known");
    let proof = read(&proof()).unwrap();
    assert!(!format!("{proof:?}").contains("AAAA"), "nor a secret");
}
