//! Payments by Permit2, as official clients write them: of `exact`, and of `upto`.

use super::{message, read, with};
use crate::protocol::{
    Address, Amount, Asset, ChainTime, Network, PaymentId,
    permit2::{PERMIT2, Permit, PermitScheme, SignedPermit},
    v2::{
        FacilitatorRequest, InvalidMessageKind::Member, PaymentOption, PaymentPayload, PaymentRequired,
        PaymentRequirements, SchemePayload, SettleResponse, TransferMethod, UpToRequirements,
    },
};

const EXACT: &str = r#"{"scheme":"exact","network":"eip155:84532","amount":"10000","asset":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","payTo":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","maxTimeoutSeconds":60,"extra":{"assetTransferMethod":"permit2"}}"#;
const UP_TO: &str = r#"{"scheme":"upto","network":"eip155:84532","amount":"10000","asset":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","payTo":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","maxTimeoutSeconds":60,"extra":{"assetTransferMethod":"permit2","facilitatorAddress":"0x90F79bf6EB2c4f870365E785982E1f101E93b906"}}"#;
const EXACT_PERMIT: &str = r#"{"signature":"0x315b3a9d32a2efb4c42bb8a8353154361d68a42d369a012c74a2d43f28ea41015e0f88cc4d4a0dcce46d426ff1d0d203bbad65e76e81ccdcaf052de1ab88e7261c","permit2Authorization":{"from":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","permitted":{"token":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","amount":"10000"},"spender":"0x402085c248EeA27D92E8b30b2C58ed07f9E20001","nonce":"29969717214364191756688960825778046738493407795812851869036080566753986495042","deadline":"1893456000","witness":{"to":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","validAfter":"0"}}}"#;
const UP_TO_PERMIT: &str = r#"{"signature":"0x75c00ad8a7c2ad93beb8ca5c03c0705a21b35f6e7ec425e586e9fd0f55ea4f5e7dfd30b692d339e511cb165efa4d8fbeea6cea65226f768d9252b42fc94f0b841b","permit2Authorization":{"from":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","permitted":{"token":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","amount":"10000"},"spender":"0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002","nonce":"29969717214364191756688960825778046738493407795812851869036080566753986495042","deadline":"1893456000","witness":{"to":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","facilitator":"0x90F79bf6EB2c4f870365E785982E1f101E93b906","validAfter":"0"}}}"#;

fn facilitator() -> Address {
    "0x90F79bf6EB2c4f870365E785982E1f101E93b906".parse().unwrap()
}

fn permit(scheme: PermitScheme) -> Permit {
    Permit::new(scheme, "0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap(), [0x42; 32])
        .paying(
            "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse().unwrap(),
            Asset::USDC_BASE_SEPOLIA.contract(),
            Amount::from_base_units(10_000),
        )
        .by_facilitator(facilitator())
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(1_893_456_000))
}

fn vectors() -> [(PaymentPayload, String); 2] {
    let pay_to = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse().unwrap();
    let (token, amount) = (Asset::USDC_BASE_SEPOLIA, Amount::from_base_units(10_000));
    let signature = |json: &str| json.split('"').nth(3).unwrap().parse().unwrap();
    let exact = PaymentRequirements::new(&token, amount, pay_to, 60).by_permit2();
    let up_to = UpToRequirements::new(&token, amount, pay_to, 60).with_facilitator(facilitator());
    let [by_exact, by_up_to] = [(PermitScheme::Exact, EXACT_PERMIT), (PermitScheme::UpTo, UP_TO_PERMIT)]
        .map(|(scheme, json)| SignedPermit::new(permit(scheme), signature(json)));
    [
        (PaymentPayload::new(exact, by_exact), message(EXACT, EXACT_PERMIT)),
        (PaymentPayload::new(up_to, by_up_to), message(UP_TO, UP_TO_PERMIT)),
    ]
}

#[test]
fn payments_are_read_and_written() {
    for (payment, json) in vectors() {
        assert_eq!(payment.to_json(), json);
        assert_eq!(read(&json).as_ref(), Ok(&payment));
        let quote = PaymentRequired::new(payment.accepted.clone());
        assert_eq!(PaymentRequired::from_json(quote.to_json()), Ok(quote));
        let request = FacilitatorRequest::new(payment.clone(), payment.accepted);
        assert_eq!(FacilitatorRequest::from_json(request.to_json()), Ok(request));
    }
    let [(exact, _), (up_to, _)] = vectors();
    assert_eq!(exact.accepted.exact().unwrap().transfer_method(), TransferMethod::Permit2);
    assert_eq!(up_to.accepted.up_to().unwrap().facilitator(), Some(facilitator()));
    assert!(exact.accepted.up_to().is_none() && up_to.accepted.exact().is_none());
}

/// The token is not part of a permit's id: Permit2 counts nonces across all tokens.
#[test]
fn a_permit_is_one_payment_of_its_owner_and_nonce() {
    let one = permit(PermitScheme::Exact);
    let id = one.payment_id(Network::BASE);
    assert_eq!(id, Permit { token: Address::new([7; 20]), ..permit(PermitScheme::UpTo) }.payment_id(Network::BASE));
    assert_ne!(id, PaymentId::of_authorization(Network::BASE, one.token, one.from, one.nonce));
    let text = format!("eip155:8453/{PERMIT2:x}/{:x}/0x{}", one.from, "42".repeat(32));
    assert_eq!((id.to_string(), text.parse()), (text.clone(), Ok(id)));
}

#[test]
fn nonces_are_read_in_both_spellings() {
    let decimal = r#""nonce":"29969717214364191756688960825778046738493407795812851869036080566753986495042""#;
    for (payment, json) in vectors() {
        for digits in ["42".repeat(32), "42".repeat(32).to_uppercase()] {
            assert_eq!(read(&with(&json, decimal, &format!(r#""nonce":"0x{digits}""#))).as_ref(), Ok(&payment));
        }
        let short = read(&with(&json, decimal, r#""nonce":"0xF""#)).unwrap();
        assert_eq!(short, read(&with(&json, decimal, r#""nonce":"15""#)).unwrap());
        let long = format!("0x1{}", "0".repeat(64));
        for other in ["", "0x", "0X42", "042", "-1", "0x0x42", "4e1", "0x4g", &long, &"9".repeat(78)] {
            let other = format!(r#""nonce":"{other}""#);
            assert_eq!(read(&with(&json, decimal, &other)), Err(Member("nonce")), "{other}");
        }
        assert_eq!(read(&with(&json, decimal, r#""nonce":5"#)), Err(Member("nonce")));
    }
}

#[test]
fn what_a_permit_must_have() {
    for (_, json) in vectors() {
        for (part, other, name) in [
            (r#""permitted":{"#, r#""permitted":null,"was":{"#, "permitted"),
            (r#""permitted":{"#, r#""permitted":{},"permitted":{"#, "permitted"),
            (r#""permitted":{"token":"0x"#, r#""permitted":{"token":"0X"#, "token"),
            (r#""amount":"10000"},"spender""#, r#""amount":10000},"spender""#, "amount"),
            (r#""amount":"10000"},"spender""#, r#""amount":"0x2710"},"spender""#, "amount"),
            (r#""spender":"0x"#, r#""spender":"","was":"0x"#, "spender"),
            (r#""spender":"0x"#, r#""spender":"0x01","spender":"0x"#, "spender"),
            (r#""deadline":"1893456000""#, r#""deadline":1893456000"#, "deadline"),
            (r#""deadline":"1893456000""#, r#""deadline":"18446744073709551616""#, "deadline"),
            (r#""witness":{"#, r#""witness":[],"was":{"#, "witness"),
            (r#""witness":{"to""#, r#""witness":{"receiver""#, "to"),
            (r#""validAfter":"0""#, r#""validAfter":0"#, "validAfter"),
            (r#"{"from":"0x"#, r#"{"from":"0x0","from":"0x"#, "from"),
            (r#""permit2Authorization":{"#, r#""permit2Authorization":null,"was":{"#, "permit2Authorization"),
            (
                r#""permit2Authorization":{"#,
                r#""permit2Authorization":{},"permit2Authorization":{"#,
                "permit2Authorization",
            ),
            (r#"{"signature":"0x"#, r#"{"signature":"0x0"#, "signature"),
        ] {
            assert_eq!(read(&with(&json, part, other)), Err(Member(name)), "{other}");
        }
    }
    let [_, (_, up_to)] = vectors();
    let part = r#""facilitator":"0x90F79bf6EB2c4f870365E785982E1f101E93b906","#;
    assert_eq!(read(&with(&up_to, part, "")), Err(Member("facilitator")));
}

/// A witness of `exact` has no facilitator: a written one was not signed.
#[test]
fn an_exact_permit_names_no_facilitator() {
    let [(exact, json), _] = vectors();
    let more = r#""witness":{"facilitator":"0x90F79bf6EB2c4f870365E785982E1f101E93b906","#;
    assert_eq!(read(&with(&json, r#""witness":{"#, more)), Ok(exact));
}

#[test]
fn upto_is_known_by_permit2_alone() {
    for (part, other) in [
        (r#""assetTransferMethod":"permit2""#, r#""assetTransferMethod":"eip3009""#),
        (r#""assetTransferMethod":"permit2""#, r#""assetTransferMethod":null"#),
        (r#""network":"eip155:84532""#, r#""network":"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp""#),
    ] {
        let payment = read(&message(&with(UP_TO, part, other), UP_TO_PERMIT)).unwrap();
        assert!(matches!(payment.accepted, PaymentOption::Other(_)), "{other}");
        assert!(matches!(payment.payload, SchemePayload::Other(_)), "{other}");
    }
    for (part, other, name) in [
        (r#""amount":"10000""#, r#""amount":10000"#, "amount"),
        (r#""maxTimeoutSeconds":60"#, r#""maxTimeoutSeconds":"60""#, "maxTimeoutSeconds"),
        (r#""payTo":"0x"#, r#""payTo":"","was":"0x"#, "payTo"),
    ] {
        assert_eq!(read(&message(&with(UP_TO, part, other), UP_TO_PERMIT)), Err(Member(name)), "{other}");
    }
}

/// For `upto`, charging nothing is a success, and the only one without a transaction.
#[test]
fn a_charge_of_nothing_has_no_transaction() {
    let json = r#"{"success":true,"transaction":"","network":"eip155:8453","amount":"0"}"#;
    let nothing = SettleResponse::charged_nothing(Network::BASE);
    assert_eq!((nothing.to_json().as_str(), SettleResponse::from_json(json)), (json, Ok(nothing)));
    for (part, other) in [(r#","amount":"0""#, ""), (r#""amount":"0""#, r#""amount":"1""#)] {
        let error = SettleResponse::from_json(with(json, part, other)).unwrap_err();
        assert_eq!(error.kind(), Member("transaction"), "{other}");
    }
}
