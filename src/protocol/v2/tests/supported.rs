//! A facilitator's list of what it can settle.

use super::with;
use crate::protocol::{
    Address, Network,
    v2::{InvalidMessageKind::Member, JsonObject, Supported, SupportedKind},
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

/// Any account of a facilitator may settle: the one that it names for the scheme comes first, and none occurs twice.
#[test]
fn who_settles_what_is_charged() {
    let [first, second] = [Address::new([0xf1; 20]), Address::new([0xf2; 20])];
    let supported = Supported::default().with(SupportedKind::up_to(Network::BASE, second));
    assert!(supported.settles_up_to(Network::BASE) && !supported.settles_exact(Network::BASE));
    assert_eq!(supported.facilitators(Network::BASE), [second]);
    assert!(
        !supported.settles_up_to(Network::BASE_SEPOLIA) && supported.facilitators(Network::BASE_SEPOLIA).is_empty()
    );
    let signers =
        |chain: &str| JsonObject::new().with(chain, vec![first.to_string(), second.to_string(), "f3".to_owned()]);
    for (chain, all) in [("eip155:*", &[second, first][..]), ("eip155:8453", &[second, first]), ("eip155:1", &[second])]
    {
        let supported = Supported { signers: signers(chain), ..supported.clone() };
        assert_eq!(supported.facilitators(Network::BASE), all, "{chain}");
        assert_eq!(Supported::from_json(supported.to_json()), Ok(supported));
    }
}
