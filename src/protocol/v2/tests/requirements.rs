//! The `extra` of requirements, and which requirements echo which.

use super::{payment, read, with};
use crate::protocol::{
    Address, Amount, Asset, IntentId,
    v2::{InvalidMessageKind::Member, PaymentFlow, PaymentRequired, PaymentRequirements, TransferMethod},
};

#[test]
fn what_extra_says() {
    let token = Asset::USDC_BASE;
    let bare = PaymentRequirements::new(&token, Amount::MAX, Address::ZERO, 0);
    assert_eq!(bare.intent(), Ok(None));
    assert_eq!(bare.clone().with_extra("intentId", serde_json::Value::Null).intent(), Ok(None));
    let intent = IntentId::new("AUbX-9_k").unwrap();
    assert_eq!(bare.clone().with_intent(&intent).intent(), Ok(Some(intent)));
    for wrong in [serde_json::json!(""), serde_json::json!(5), serde_json::json!("a".repeat(193))] {
        assert!(bare.clone().with_extra("intentId", wrong).intent().is_err(), "never absent");
    }
    let submitted = bare.clone().with_client_submitted_transfer();
    assert_eq!((submitted.transfer_method(), submitted.payment_flow()), (TransferMethod::TxId, PaymentFlow::Upfront));
    for (flow, known) in [
        ("authorization", PaymentFlow::Authorization),
        ("escrow", PaymentFlow::Escrow),
        ("Upfront", PaymentFlow::Other),
    ] {
        assert_eq!(bare.clone().with_extra("paymentFlow", flow).payment_flow(), known);
    }
}

/// Official servers compare the echo with their offer; so does this crate.
#[test]
fn an_echo_is_all_that_was_offered() {
    let offered = read(&payment()).unwrap().accepted.exact().unwrap().clone();
    let echoes = |part: &str, other: &str| {
        read(&with(&payment(), part, other)).unwrap().accepted.exact().unwrap().echoes(&offered)
    };
    for (part, other) in [
        (r#""extra":{"#, r#""extra":{"more":[1],"#),
        ("0x036CbD53842c5426634e7929541eC2318f3dCF7e", "0x036cbd53842c5426634e7929541ec2318f3dcf7e"),
        (r#""scheme":"#, r#""note":1,"scheme":"#),
    ] {
        assert!(echoes(part, other), "{other}");
    }
    for (part, other) in [
        ("eip155:84532", "eip155:8453"),
        (r#""amount":"10000""#, r#""amount":"9999""#),
        ("0x036CbD53", "0x036CbD54"),
        (r#""payTo":"0x3C44"#, r#""payTo":"0x3C45"#),
        (r#""maxTimeoutSeconds":60"#, r#""maxTimeoutSeconds":61"#),
        (r#""name":"USDC""#, r#""name":"USD Coin""#),
        (r#""name":"USDC","#, ""),
        (r#""version":"2""#, r#""version":2"#),
    ] {
        assert!(!echoes(part, other), "{other}");
    }
}

/// The form of CAIP-2, on chains of every kind.
#[test]
fn chains_have_caip_2_names() {
    let read = |network: &str| {
        let option = format!(r#"{{"scheme":"upto","network":"{network}"}}"#);
        let read = PaymentRequired::from_json(format!(r#"{{"x402Version":2,"accepts":[{option}]}}"#));
        read.map(drop).map_err(|error| error.kind())
    };
    let longest = format!("abcdefg8:{}", "Z".repeat(32));
    for name in ["eip155:1", "a-1:b", "cosmos:iov_mainnet-1", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", &longest] {
        assert_eq!(read(name), Ok(()), "{name}");
    }
    let (long, longer) = ("abcdefgh9:1", format!("eip155:{}", "1".repeat(33)));
    for name in
        ["base", "ab:1", long, &longer, "eip155:", ":1", "Eip155:1", "eip_155:1", "eip155:1:2", "eip155: 1", "é55:1"]
    {
        assert_eq!(read(name), Err(Member("network")), "{name}");
    }
}
