//! What a facilitator says that it can settle.

use super::with;
use crate::protocol::{
    Network,
    v2::{InvalidMessageKind::Member, Supported, SupportedKind},
};

#[test]
fn what_a_facilitator_supports() {
    let json = r#"{"kinds":[{"x402Version":2,"scheme":"exact","network":"eip155:8453"}],"extensions":["bazaar"],"signers":{"eip155:*":["0x70997970C51812dc3A010C7d01b50e0d17dc79C8"]}}"#;
    let supported = Supported::from_json(json).unwrap();
    assert_eq!(supported.to_json(), json);
    assert_eq!(supported.kinds, [SupportedKind::exact(Network::BASE)]);
    for (part, other, settles) in [
        (r#""scheme":"exact""#, r#""scheme":"exact","extra":null"#, true),
        (r#""extensions":["bazaar"]"#, r#""extensions":null"#, true),
        (r#""x402Version":2"#, r#""x402Version":1"#, false),
        (r#""scheme":"exact""#, r#""scheme":"upto""#, false),
        ("eip155:8453", "eip155:84532", false),
        ("eip155:8453", "base", false),
        (r#""kinds":["#, r#""kinds":[],"were":["#, false),
    ] {
        let supported = Supported::from_json(with(json, part, other)).unwrap();
        assert_eq!(supported.settles_exact(Network::BASE), settles, "{other}");
    }
    for (json, name) in [
        ("{}", "kinds"),
        (r#"{"kinds":{}}"#, "kinds"),
        (r#"{"kinds":[{"scheme":"exact","network":"a"}]}"#, "x402Version"),
        (r#"{"kinds":[{"x402Version":2,"network":"a"}]}"#, "scheme"),
        (r#"{"kinds":[{"x402Version":2,"scheme":"exact"}]}"#, "network"),
        (r#"{"kinds":[],"extensions":{}}"#, "extensions"),
        (r#"{"kinds":[],"signers":[]}"#, "signers"),
    ] {
        assert_eq!(Supported::from_json(json).unwrap_err().kind(), Member(name), "{json}");
    }
}
