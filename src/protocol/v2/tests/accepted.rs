//! What is lenient, as tables: each case changes one part of a message without changing its meaning.

use super::{AUTHORIZATION, PROOF, REQUIREMENTS, message, payment, proof, quote, read, with};
use crate::protocol::{
    PaymentSecret,
    v2::{PaymentOption, PaymentPayload, PaymentRequired, SchemePayload},
};

#[test]
fn spellings_of_a_payment() {
    let vector = read(&payment()).unwrap();
    for (part, other) in [
        // Hexadecimal digits in any case, with or without a valid checksum.
        ("0x036CbD53842c5426634e7929541eC2318f3dCF7e", "0x036cbd53842c5426634e7929541ec2318f3dcf7e"),
        ("0x036CbD53842c5426634e7929541eC2318f3dCF7e", "0x036CBD53842C5426634E7929541EC2318F3DCF7E"),
        ("0x036CbD53842c5426634e7929541eC2318f3dCF7e", "0x036cBD53842c5426634e7929541eC2318f3dCF7e"),
        ("0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"),
        ("0x00a85e97", "0x00A85E97"),
        // Members unknown to the standard, with any content.
        (r#""x402Version":2"#, r#""x402Version":2,"x":{"x":1,"x":1e999},"x":"\ud800""#),
        (r#""scheme":"exact""#, r#""scheme":"exact","note":[]"#),
        (r#""authorization":{"#, r#""authorization":{"chainId":1,"#),
        (r#""signature":"#, r#""type":"eip3009","signature":"#),
        // Absent members, written explicitly.
        (r#""x402Version":2"#, r#""x402Version":2,"resource":null,"extensions":null"#),
        (r#""x402Version":2"#, r#""x402Version":2,"extensions":{}"#),
        // Escapes, order and white space.
        (r#""amount":"10000""#, r#""am\u006funt":"1000\u0030""#),
        (r#""x402Version":2,"#, " \"x402Version\" : 2 ,\n\t"),
        (r#"{"name":"USDC","version":"2"}"#, r#"{"version":"2","name":"USDC"}"#),
    ] {
        assert_eq!(read(&with(&payment(), part, other)).as_ref(), Ok(&vector), "{other}");
    }
    let reversed = format!(r#"{{"payload":{AUTHORIZATION},"accepted":{REQUIREMENTS},"x402Version":2}}"#);
    assert_eq!(read(&reversed), Ok(vector));
}

#[test]
fn no_extra_is_an_empty_one() {
    let extra = r#","extra":{"name":"USDC","version":"2"}"#;
    let bare = read(&with(&payment(), extra, "")).unwrap();
    for other in [r#","extra":null"#, r#","extra":{}"#] {
        assert_eq!(read(&with(&payment(), extra, other)).as_ref(), Ok(&bare), "{other}");
    }
    assert!(!bare.to_json().contains("extra"));
}

#[test]
fn what_describes_a_resource_may_be_missing() {
    let resource = r#""resource":{"url":"https://shop.example/a","description":"A","tags":["x"]}"#;
    let bare = r#""resource":{"url":"https://shop.example/a"}"#;
    let bare = PaymentRequired::from_json(with(&quote(), resource, bare)).unwrap();
    for name in ["description", "mimeType", "serviceName", "iconUrl"] {
        for (absent, tags) in [("null", "null"), (r#""""#, "[]")] {
            let other = format!(r#""resource":{{"url":"https://shop.example/a","{name}":{absent},"tags":{tags}}}"#);
            assert_eq!(PaymentRequired::from_json(with(&quote(), resource, &other)).as_ref(), Ok(&bare), "{other}");
        }
    }
    let none = PaymentRequired::from_json(with(&quote(), resource, r#""resource":null,"error":null"#)).unwrap();
    assert_eq!((none.resource, none.error), (None, None));
}

#[test]
fn ways_to_pay_that_are_not_known_stand_beside_those_that_are() {
    let others = [
        r#"{"scheme":"upto","network":"eip155:84532","amount":5}"#,
        r#"{"scheme":"exact","network":"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp","payTo":"CmGg","extra":null}"#,
        r#"{"scheme":"exact","network":"bip122:000000000019d6689c085ae165831e93","payTo":["a","b"]}"#,
    ];
    let json = with(&quote(), r#""accepts":["#, &format!(r#""accepts":[{},"#, others.join(",")));
    let read = PaymentRequired::from_json(&json).unwrap();
    assert_eq!(read.accepts.iter().filter_map(PaymentOption::exact).count(), 1);
    for (option, json) in read.accepts.iter().zip(others) {
        let PaymentOption::Other(other) = option else { panic!("{option:?}") };
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(value["scheme"], other.scheme());
        assert_eq!(value["network"], other.network());
        assert_eq!(serde_json::to_value(other.json()).unwrap(), value, "kept as it is");
    }
    assert_eq!(PaymentRequired::from_json(read.to_json()), Ok(read));
}

/// The accepted way determines the payload. The seller refuses any other with the standard's reason.
#[test]
fn payloads_that_are_not_known_are_kept_apart() {
    let permit2 = r#""extra":{"assetTransferMethod":"permit2","#;
    let permit2 = with(REQUIREMENTS, r#""extra":{"#, permit2);
    let unnamed = with(REQUIREMENTS, r#""extra":{"#, r#""extra":{"assetTransferMethod":3009,"#);
    let upto = with(REQUIREMENTS, "exact", "upto");
    let txid = with(REQUIREMENTS, r#""extra":{"#, r#""extra":{"assetTransferMethod":"txid","#);
    for (accepted, payload) in [
        (&*permit2, r#"{"signature":"0x00"}"#),
        (&*permit2, AUTHORIZATION),
        (&*unnamed, AUTHORIZATION),
        (&*upto, AUTHORIZATION),
        (&*txid, AUTHORIZATION),
        (&*txid, r#"{"type":"preimage","txRef":5}"#),
        (&*txid, r#"{"type":["payment-proof"]}"#),
        (&*txid, "{}"),
        (REQUIREMENTS, PROOF),
        (REQUIREMENTS, r#"{"signature":"0x00","permit2Authorization":{}}"#),
        (REQUIREMENTS, "{}"),
    ] {
        let read = read(&message(accepted, payload)).unwrap();
        let SchemePayload::Other(other) = &read.payload else { panic!("{payload}: {read:?}") };
        let value: serde_json::Value = serde_json::from_str(payload).unwrap();
        assert_eq!(serde_json::to_value(other).unwrap(), value);
        assert_eq!(PaymentPayload::from_json(read.to_json()), Ok(read));
    }
}

#[test]
fn a_proof_may_show_less() {
    for (part, other) in [
        (r#","paymentSignature":"0x0102""#, ""),
        (r#","paymentSignature":"0x0102""#, r#","paymentSignature":null"#),
        (r#","paymentSignature":"0x0102""#, r#","paymentSignature":"""#),
    ] {
        let read = read(&with(&proof(), part, other)).unwrap();
        let SchemePayload::Proof(proof) = &read.payload else { panic!("{read:?}") };
        assert_eq!(
            (&proof.signature, proof.secret.as_ref().map(PaymentSecret::as_str)),
            (&None, Some("AAAAAAAAAAAAAAAA"))
        );
    }
    assert_eq!(read(&proof()).unwrap().to_json(), proof());
}
