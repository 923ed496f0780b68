//! Facilitators' answers: accepted only if complete, repeated only if they are a reason.

use super::with;
use crate::protocol::{
    Amount, Network, TxHash,
    v2::{
        InvalidMessageKind::{Member, NotJson},
        Reason, SettleResponse, VerifyResponse,
    },
};

const SETTLED: &str = r#"{"success":true,"payer":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","transaction":"0xabababababababababababababababababababababababababababababababab","network":"eip155:8453","amount":"490000"}"#;

fn settled() -> SettleResponse {
    SettleResponse::settled(TxHash::new([0xab; 32]), Network::BASE)
        .with_payer("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap())
        .with_amount(Amount::from_base_units(490_000))
}

#[test]
fn a_settlement_is_read_and_written() {
    assert_eq!(settled().to_json(), SETTLED);
    assert_eq!(SettleResponse::from_json(SETTLED), Ok(settled()));
    for (part, other) in [
        (r#""success":true"#, r#""success":true,"errorReason":null,"errorMessage":"""#),
        (r#""success":true"#, r#""success":true,"errorReason":"","extensions":null,"extra":{}"#),
        (r#""success":true"#, r#""success":true,"blockNumber":5"#),
        ("0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"),
        (r#""0xabab"#, r#""0xABab"#),
    ] {
        assert_eq!(SettleResponse::from_json(with(SETTLED, part, other)), Ok(settled()), "{other}");
    }
}

#[test]
fn a_success_that_is_not_whole_is_none() {
    for (part, other, name) in [
        (r#""success":true"#, r#""success":"true""#, "success"),
        (r#""success":true"#, r#""success":1"#, "success"),
        (r#""success":true"#, r#""success":null"#, "success"),
        (r#""success":true"#, r#""success":false,"success":true"#, "success"),
        (r#""success":true"#, r#""Success":true"#, "success"),
        (r#""success":true"#, r#""success":true,"errorReason":"settlement_pending""#, "errorReason"),
        (r#""transaction":"0xabab"#, r#""transaction":"","was":"0xabab"#, "transaction"),
        (r#""transaction":"0xabab"#, r#""transaction":null,"was":"0xabab"#, "transaction"),
        (r#""transaction":"0xabab"#, r#""was":"0xabab"#, "transaction"),
        (r#""transaction":"0xabab"#, r#""transaction":"abab"#, "transaction"),
        (r#""network":"eip155:8453""#, r#""network":"base""#, "network"),
        (r#""network":"eip155:8453""#, r#""network":"""#, "network"),
        (r#""network":"eip155:8453""#, r#""network":"eip155:8453","network":"eip155:1""#, "network"),
        (r#""amount":"490000""#, r#""amount":490000"#, "amount"),
        (r#""payer":"0x7099"#, r#""payer":"7099"#, "payer"),
    ] {
        let error = SettleResponse::from_json(with(SETTLED, part, other)).unwrap_err();
        assert_eq!(error.kind(), Member(name), "{other}");
    }
    assert_eq!(SettleResponse::from_json("<html>").unwrap_err().kind(), NotJson);
}

#[test]
fn a_failure_may_say_little() {
    let read = |json: &str| SettleResponse::from_json(json).unwrap();
    let failed = SettleResponse::failed(Reason::INSUFFICIENT_FUNDS, Network::BASE);
    let json = r#"{"success":false,"errorReason":"insufficient_funds","transaction":"","network":"eip155:8453"}"#;
    assert_eq!((failed.to_json().as_str(), read(json)), (json, failed));

    let bare = read(r#"{"success":false}"#);
    assert_eq!((bare.success, &bare.error_reason, bare.transaction, bare.network), (false, &None, None, None));
    assert_eq!(bare.to_json(), r#"{"success":false,"transaction":"","network":""}"#);
    assert_eq!(read(r#"{"success":false,"network":"base","payer":""}"#), bare);

    let prose = read(r#"{"success":false,"errorReason":"cannot reach http://10.0.0.7:8545"}"#);
    assert_eq!(prose.error_reason, Some(Reason::UNEXPECTED_SETTLE_ERROR));
}

#[test]
fn what_is_pending_is_neither_settled_nor_refused() {
    let transaction = TxHash::new([0xab; 32]);
    for transaction in [None, Some(transaction)] {
        let pending = SettleResponse::pending(transaction, Network::BASE);
        assert!(pending.is_pending() && !pending.success);
        assert_eq!(SettleResponse::from_json(pending.to_json()), Ok(pending));
    }
    assert!(!settled().is_pending());
    assert!(!SettleResponse::failed(Reason::INVALID_PAYLOAD, Network::BASE).is_pending());
}

#[test]
fn a_verdict() {
    let payer = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap();
    let read = |json: &str| VerifyResponse::from_json(json).map_err(|error| error.kind());
    let valid = VerifyResponse::valid(payer);
    assert_eq!(valid.to_json(), r#"{"isValid":true,"payer":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8"}"#);
    assert_eq!(read(&valid.to_json()), Ok(valid));
    let invalid = VerifyResponse::invalid(Reason::INVALID_NETWORK).with_payer(payer);
    assert_eq!(read(&invalid.to_json()), Ok(invalid));
    let prose = read(r#"{"isValid":false,"invalidReason":"it is not","invalidMessage":"at all"}"#).unwrap();
    assert_eq!(prose.invalid_reason, Some(Reason::UNEXPECTED_VERIFY_ERROR));
    assert_eq!(prose.invalid_message.as_deref(), Some("at all"));
    for (json, name) in [
        ("{}", "isValid"),
        (r#"{"isValid":"true"}"#, "isValid"),
        (r#"{"isValid":null}"#, "isValid"),
        (r#"{"isValid":false,"isValid":true}"#, "isValid"),
        (r#"{"success":true}"#, "isValid"),
        (r#"{"isValid":true,"invalidReason":"insufficient_funds"}"#, "invalidReason"),
        (r#"{"isValid":true,"payer":"someone"}"#, "payer"),
    ] {
        assert_eq!(read(json), Err(Member(name)), "{json}");
    }
}
