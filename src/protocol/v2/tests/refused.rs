//! What is strict, as tables: each case changes one part of a message, and expects an error that names this part.

use super::{payment, quote, read, with};
use crate::protocol::v2::{
    InvalidMessageKind::{Member, NotJson, Version},
    PaymentPayload, PaymentRequired,
};

#[test]
fn other_versions() {
    assert!(read(&payment()).is_ok());
    let version = r#""x402Version":2"#;
    for (other, kind) in [
        (r#""x402Version":1"#, Version),
        (r#""x402Version":3"#, Version),
        (r#""x402Version":0"#, Version),
        (r#""x402Version":"2""#, Member("x402Version")),
        (r#""x402Version":2.0"#, Member("x402Version")),
        (r#""x402Version":-2"#, Member("x402Version")),
        (r#""x402Version":null"#, Member("x402Version")),
        (r#""x402version":2"#, Member("x402Version")),
        (r#""x402Version":2,"x402Version":2"#, Member("x402Version")),
    ] {
        assert_eq!(read(&with(&payment(), version, other)), Err(kind), "{other}");
        let quote = PaymentRequired::from_json(with(&quote(), version, other));
        assert_eq!(quote.map_err(|error| error.kind()), Err(kind), "{other}");
    }
    // A message of version 1 gets this error although its other members are elsewhere.
    assert_eq!(read(r#"{"x402Version":1,"scheme":"exact","network":"base","payload":{}}"#), Err(Version));
}

#[test]
fn what_is_not_one_object() {
    for json in
        ["", "null", "2", "[]", "\"{}\"", "{", "{}{}", "{} x", "\u{feff}{}", "{\"a\":}", "{'a':1}", "{\"\\ud800\":1}"]
    {
        assert_eq!(read(json), Err(NotJson), "{json}");
    }
    let error = PaymentPayload::from_json(b"{\"a\":\"\xff\"}").unwrap_err();
    assert_eq!(error.kind(), NotJson, "also where it would be skipped");
}

/// Every part of the vector, and what may not replace it.
#[test]
fn members_of_a_payment() {
    let tables: [(&str, &str, &[&str]); 14] = [
        (r#""scheme":"exact""#, "scheme", &[r#""scheme":5"#, r#""scheme":"""#, r#""scheme":null"#]),
        (
            r#""network":"eip155:84532""#,
            "network",
            &[
                r#""network":"base""#,
                r#""network":"eip155:0""#,
                r#""network":"eip155:084532""#,
                r#""network":"eip155:""#,
                r#""network":"EIP155:84532""#,
                r#""network":84532"#,
            ],
        ),
        (r#""amount":"10000""#, "amount", DECIMALS),
        (r#""asset":"0x036CbD53842c5426634e7929541eC2318f3dCF7e""#, "asset", ADDRESSES),
        (r#""payTo":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC""#, "payTo", ADDRESSES),
        (
            r#""maxTimeoutSeconds":60"#,
            "maxTimeoutSeconds",
            &[r#""?":"60""#, r#""?":-1"#, r#""?":6e1"#, r#""?":60.5"#, r#""?":null"#, r#""!":60"#, r#""?":60,"?":60"#],
        ),
        (
            r#""extra":{"name":"USDC","version":"2"}"#,
            "extra",
            &[r#""?":[]"#, r#""?":"USDC""#, r#""?":{"name":"a","name":"b"}"#, r#""?":{},"?":{}"#, r#""?":{"n":1e999}"#],
        ),
        (
            r#""signature":"0x00a8"#,
            "signature",
            &[r#""?":"00a8"#, r#""?":"0X00a8"#, r#""?":"0x0a8"#, r#""?":" 0x00a8"#, r#""?":"0x","?":"0x00a8"#],
        ),
        (r#""from":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8""#, "from", ADDRESSES),
        (r#""to":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC""#, "to", ADDRESSES),
        (r#""value":"10000""#, "value", DECIMALS),
        (r#""validAfter":"0""#, "validAfter", TIMES),
        (r#""validBefore":"1893456000""#, "validBefore", TIMES),
        (
            r#""nonce":"0x42"#,
            "nonce",
            &[r#""?":"42"#, r#""?":"0X42"#, r#""?":"0x4"#, r#""?":"0x424242"#, r#""?":"0x4g"#, r#""?":null,"!":"0x42"#],
        ),
    ];
    for (part, name, others) in tables {
        for other in others {
            let other = other.replace('?', name);
            assert_eq!(read(&with(&payment(), part, &other)), Err(Member(name)), "{other}");
        }
        let escaped = format!("\\u{:04x}{}", name.as_bytes()[0], &name[1..]);
        let twice = format!(r#""{escaped}":null,{part}"#);
        assert_eq!(read(&with(&payment(), part, &twice)), Err(Member(name)), "{twice}");
    }
}

const ADDRESSES: &[&str] = &[
    r#""?":"""#,
    r#""?":null"#,
    r#""?":5"#,
    r#""?":"0X036cbd53842c5426634e7929541ec2318f3dcf7e""#,
    r#""?":"036cbd53842c5426634e7929541ec2318f3dcf7e""#,
    r#""?":"0x036cbd53842c5426634e7929541ec2318f3dcf7""#,
    r#""?":"0x036cbd53842c5426634e7929541ec2318f3dcf7e0""#,
    r#""?":"0x036cbd53842c5426634e7929541ec2318f3dcf7g""#,
    r#""?":" 0x036cbd53842c5426634e7929541ec2318f3dcf7e""#,
];

const DECIMALS: &[&str] = &[
    r#""?":10000"#,
    r#""?":"""#,
    r#""?":null"#,
    r#""?":"010000""#,
    r#""?":"+10000""#,
    r#""?":"-1""#,
    r#""?":"1e4""#,
    r#""?":"10000.0""#,
    r#""?":"0x2710""#,
    r#""?":" 10000""#,
    r#""?":"１""#,
    r#""?":"115792089237316195423570985008687907853269984665640564039457584007913129639936""#,
    r#""?":"10000","?":"10000""#,
];

const TIMES: &[&str] =
    &[r#""?":0"#, r#""?":"""#, r#""?":null"#, r#""?":"00""#, r#""?":"+1""#, r#""?":"18446744073709551616""#];
