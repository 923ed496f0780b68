//! Payments of the scheme `batch-settlement` as official clients write them, and reports about channels.

use super::{message, read, with};
use crate::protocol::{
    Amount, Asset, ChainTime, Network, PaymentSignature, TxHash,
    channel::{
        ChannelConfig, ChannelDeposit, ChannelPayload, ChannelState, ChannelTerms, Erc3009Deposit, PERMIT2_COLLECTOR,
        Permit2Deposit, Voucher, VoucherState,
    },
    v2::{
        ChannelRequirements, FacilitatorRequest, InvalidMessageKind::Member, PaymentOption, PaymentPayload,
        PaymentRequired, SchemePayload, SettleResponse, TransferMethod,
    },
};

const OFFER: &str = r#"{"scheme":"batch-settlement","network":"eip155:84532","amount":"10000","asset":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","payTo":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","maxTimeoutSeconds":60,"extra":{"minDeposit":"100000","name":"USDC","receiverAuthorizer":"0x90F79bf6EB2c4f870365E785982E1f101E93b906","version":"2","withdrawDelay":900}}"#;
const CONFIG: &str = r#""channelConfig":{"payer":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","payerAuthorizer":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","receiver":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","receiverAuthorizer":"0x90F79bf6EB2c4f870365E785982E1f101E93b906","token":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","withdrawDelay":900,"salt":"0x0000000000000000000000000000000000000000000000000000000000000000"}"#;
const VOUCHER: &str = r#""voucher":{"channelId":"0xe94a435ba5c4a651c4c975bc5e2a208275f95d4199785ab0d7fbbf56bc9469ec","maxClaimableAmount":"10000","signature":"0x96ab9f2f2e9956e705fa4ed0238d1a92a28aa1400766685e754c481db780113b0821b72babda6a7005473b5f92863e9e22ce28e0e88fa3156933ac4bd628e56f1c"}"#;
const BY_ERC3009: &str = r#""deposit":{"amount":"100000","authorization":{"erc3009Authorization":{"validAfter":"0","validBefore":"1893456000","salt":"0x0707070707070707070707070707070707070707070707070707070707070707","signature":"0x9b1bd33996c730ae8105ae4c45e07ad20117561a1baa9bc5ebfe4670674bbba615052303b02ecd555142f83f50950bcd842dab8068ce54272181e75f2b43d2ab1c"}}}"#;
const BY_PERMIT2: &str = r#""deposit":{"amount":"100000","authorization":{"permit2Authorization":{"from":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","permitted":{"token":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","amount":"100000"},"spender":"0x4020425FAf3B746C082C2f942b4E5159887B0005","nonce":"29969717214364191756688960825778046738493407795812851869036080566753986495042","deadline":"1893456000","witness":{"channelId":"0xe94a435ba5c4a651c4c975bc5e2a208275f95d4199785ab0d7fbbf56bc9469ec"},"signature":"0x0a34db2717c12cb0dea2c7968eb30a5b41179316d3a363cd242564508eda004930b2ea3c81ec6931397c95ec01b861358f5f59cdd3bc07eb7fecd6c5552065341b"}}}"#;

fn terms() -> ChannelTerms {
    let authorizer = "0x90F79bf6EB2c4f870365E785982E1f101E93b906".parse().unwrap();
    ChannelTerms::new(authorizer, 900).with_min_deposit(Amount::from_base_units(100_000))
}

fn offer() -> ChannelRequirements {
    let pay_to = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse().unwrap();
    ChannelRequirements::new(&Asset::USDC_BASE_SEPOLIA, Amount::from_base_units(10_000), pay_to, 60, &terms())
        .with_token_domain("USDC", "2")
}

fn config() -> ChannelConfig {
    offer().channel_of("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap(), [0; 32]).unwrap()
}

fn signature(json: &str) -> PaymentSignature {
    json.rsplit('"').find(|text| text.starts_with("0x")).unwrap().parse().unwrap()
}

fn voucher() -> Voucher {
    Voucher::new(config().id(Network::BASE_SEPOLIA), 10_000, signature(VOUCHER))
}

fn vectors() -> [(ChannelPayload, String); 5] {
    let [never, end] = [0, 1_893_456_000].map(ChainTime::from_unix);
    let (channel_config, voucher) = (config(), voucher());
    let by_erc3009 = Erc3009Deposit::new([7; 32], [never, end], signature(BY_ERC3009));
    let by_permit2 = Permit2Deposit {
        from: channel_config.payer,
        token: channel_config.token,
        amount: 100_000,
        spender: PERMIT2_COLLECTOR,
        nonce: [0x42; 32],
        deadline: end,
        channel: voucher.channel,
        signature: signature(BY_PERMIT2),
    };
    let deposits = [ChannelDeposit::new(100_000, by_erc3009), ChannelDeposit::new(100_000, by_permit2)];
    let [by_erc3009, by_permit2] =
        deposits.map(|deposit| ChannelPayload::Deposit { channel_config, voucher: voucher.clone(), deposit });
    let refund = |amount| ChannelPayload::Refund { channel_config, voucher: voucher.clone(), amount };
    [
        (by_erc3009, format!(r#"{{"type":"deposit",{CONFIG},{VOUCHER},{BY_ERC3009}}}"#)),
        (by_permit2, format!(r#"{{"type":"deposit",{CONFIG},{VOUCHER},{BY_PERMIT2}}}"#)),
        (refund(None), format!(r#"{{"type":"refund",{CONFIG},{VOUCHER}}}"#)),
        (refund(Some(5)), format!(r#"{{"type":"refund",{CONFIG},{VOUCHER},"amount":"5"}}"#)),
        (ChannelPayload::Voucher { channel_config, voucher }, format!(r#"{{"type":"voucher",{CONFIG},{VOUCHER}}}"#)),
    ]
}

#[test]
fn payments_are_read_and_written() {
    for (payload, json) in vectors() {
        let (payment, json) = (PaymentPayload::new(offer(), payload.clone()), message(OFFER, &json));
        assert_eq!(payment.to_json(), json);
        assert_eq!(read(&json).as_ref(), Ok(&payment));
        let request = FacilitatorRequest::new(payment.clone(), payment.accepted);
        assert_eq!(FacilitatorRequest::from_json(request.to_json()), Ok(request));
        assert_eq!((payload.config(), payload.voucher()), (&config(), &voucher()));
    }
    let quote = PaymentRequired::new(offer());
    assert_eq!(PaymentRequired::from_json(quote.to_json()).as_ref(), Ok(&quote));
    let read = quote.accepts[0].channel().unwrap();
    assert_eq!((read.terms(), read.transfer_method()), (Some(terms()), TransferMethod::Eip3009));
    assert_eq!(read.clone().by_permit2().transfer_method(), TransferMethod::Permit2);
    assert!(quote.accepts[0].exact().is_none() && quote.accepts[0].up_to().is_none());
}

#[test]
fn what_a_payment_must_have() {
    let [(_, by_erc3009), (_, by_permit2), _, (_, refund), (_, voucher)] = vectors();
    let both =
        BY_PERMIT2.trim_start_matches(r#""deposit":{"amount":"100000","authorization":{"#).trim_end_matches("}}");
    let both = format!(r#""authorization":{{{both},"erc3009"#);
    for (payload, part, other, name) in [
        (&voucher, r#""channelConfig":{"#, r#""channelConfig":null,"was":{"#, "channelConfig"),
        (&voucher, r#""channelConfig":{"#, r#""channelConfig":{},"channelConfig":{"#, "channelConfig"),
        (&voucher, r#""payer":"0x"#, r#""payer":"","was":"0x"#, "payer"),
        (&voucher, r#""payerAuthorizer":"0x"#, r#""was":"0x"#, "payerAuthorizer"),
        (&voucher, r#""receiverAuthorizer":"0x9"#, r#""receiverAuthorizer":"0X9"#, "receiverAuthorizer"),
        (&voucher, r#""withdrawDelay":900,"salt""#, r#""withdrawDelay":"900","salt""#, "withdrawDelay"),
        (&voucher, r#""withdrawDelay":900,"salt""#, r#""withdrawDelay":-1,"salt""#, "withdrawDelay"),
        (&voucher, r#""withdrawDelay":900,"salt""#, r#""withdrawDelay":4294967296,"salt""#, "withdrawDelay"),
        (&voucher, r#""salt":"0x"#, r#""salt":"0x00"#, "salt"),
        (&voucher, r#""voucher":{"#, r#""voucher":[],"was":{"#, "voucher"),
        (&voucher, r#""channelId":"0x"#, r#""channelId":"0x0"#, "channelId"),
        (&voucher, r#""maxClaimableAmount":"10000""#, r#""maxClaimableAmount":10000"#, "maxClaimableAmount"),
        (&voucher, r#""maxClaimableAmount":"10000""#, r#""maxClaimableAmount":"010000""#, "maxClaimableAmount"),
        (
            &voucher,
            r#""maxClaimableAmount":"10000""#,
            r#""maxClaimableAmount":"340282366920938463463374607431768211456""#,
            "maxClaimableAmount",
        ),
        (&voucher, r#""signature":"0x"#, r#""signature":"0x0"#, "signature"),
        (&refund, r#""amount":"5""#, r#""amount":5"#, "amount"),
        (&refund, r#""amount":"5""#, r#""amount":"-5""#, "amount"),
        (&by_erc3009, r#""deposit":{"#, r#""was":{"#, "deposit"),
        (&by_erc3009, r#""deposit":{"amount":"100000""#, r#""deposit":{"amount":"1e5""#, "amount"),
        (&by_erc3009, r#""authorization":{"#, r#""authorization":{},"was":{"#, "authorization"),
        (&by_erc3009, r#""authorization":{"erc3009"#, &both, "authorization"),
        (&by_erc3009, r#""erc3009Authorization""#, r#""other""#, "authorization"),
        (&by_erc3009, r#""validBefore":"1893456000""#, r#""validBefore":1893456000"#, "validBefore"),
        (&by_erc3009, r#""salt":"0x07"#, r#""salt":"0x"#, "salt"),
        (&by_permit2, r#""permitted":{"#, r#""was":{"#, "permitted"),
        (&by_permit2, r#""witness":{"#, r#""was":{"#, "witness"),
        (&by_permit2, r#""deadline":"1893456000""#, r#""deadline":"0x70""#, "deadline"),
        (&by_permit2, r#""spender":"0x"#, r#""was":"0x"#, "spender"),
    ] {
        let payload = with(payload, part, other);
        assert_eq!(read(&message(OFFER, &payload)), Err(Member(name)), "{other}");
    }
}

/// The seller that accepts channels refuses it with the reason for an unknown type.
#[test]
fn a_payload_of_another_type_is_kept_as_it_is() {
    for json in [r#"{"type":"claim","claims":[]}"#, r#"{"type":5}"#, "{}", r#"{"txRef":"0x00"}"#] {
        let payment = read(&message(OFFER, json)).unwrap();
        assert!(payment.accepted.channel().is_some());
        assert!(matches!(payment.payload, SchemePayload::Other(_)), "{json}");
    }
}

#[test]
fn the_scheme_is_known_on_evm_chains_by_two_methods() {
    let [.., (_, voucher)] = vectors();
    for (part, other) in [
        (r#""network":"eip155:84532""#, r#""network":"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp""#),
        (r#""extra":{"#, r#""extra":{"assetTransferMethod":"txid","#),
        (r#""extra":{"#, r#""extra":{"assetTransferMethod":5,"#),
        (r#""scheme":"batch-settlement""#, r#""scheme":"batch-settlement-2""#),
    ] {
        let payment = read(&message(&with(OFFER, part, other), &voucher)).unwrap();
        assert!(matches!(payment.accepted, PaymentOption::Other(_)), "{other}");
        assert!(matches!(payment.payload, SchemePayload::Other(_)), "{other}");
    }
    let eip3009 = with(OFFER, r#""extra":{"#, r#""extra":{"assetTransferMethod":"eip3009","#);
    assert!(matches!(read(&message(&eip3009, &voucher)).unwrap().payload, SchemePayload::Channel(_)));
    // A payload of the scheme under another scheme is not one.
    let exact = with(OFFER, "batch-settlement", "exact");
    assert!(matches!(read(&message(&exact, &voucher)).unwrap().payload, SchemePayload::Other(_)));
}

#[test]
fn terms_are_whole_or_none() {
    for (name, value) in [
        ("receiverAuthorizer", serde_json::Value::Null),
        ("receiverAuthorizer", "0x0000000000000000000000000000000000000000".into()),
        ("receiverAuthorizer", "0x01".into()),
        ("withdrawDelay", "900".into()),
        ("withdrawDelay", 4_294_967_296_u64.into()),
        ("withdrawDelay", (-900).into()),
        ("minDeposit", 100_000.into()),
    ] {
        let changed = offer().with_extra(name, value.clone());
        assert_eq!((changed.terms(), changed.channel_of(config().payer, [0; 32])), (None, None), "{name} {value}");
    }
}

fn state() -> ChannelState {
    ChannelState::new(voucher().channel, Amount::from_base_units(100_000), Amount::from_base_units(7_000))
        .with_charged(Amount::from_base_units(10_000))
        .with_withdrawal(ChainTime::from_unix(1_795_280_400))
        .with_refund_nonce(3)
}

const STATE: &str = r#"{"channelId":"0xe94a435ba5c4a651c4c975bc5e2a208275f95d4199785ab0d7fbbf56bc9469ec","balance":"100000","totalClaimed":"7000","withdrawRequestedAt":1795280400,"refundNonce":"3","chargedCumulativeAmount":"10000"}"#;

#[test]
fn a_charge_by_voucher_is_a_success_without_a_transaction() {
    let charged = SettleResponse::charged_to_channel(Amount::from_base_units(1_858), &state(), Network::BASE_SEPOLIA);
    let json: serde_json::Value = serde_json::from_str(&charged.to_json()).unwrap();
    assert_eq!(json["extra"]["channelState"], serde_json::from_str::<serde_json::Value>(STATE).unwrap());
    assert_eq!((&json["success"], &json["transaction"], json.get("amount")), (&true.into(), &"".into(), None));
    let read = SettleResponse::from_json(charged.to_json()).unwrap();
    assert_eq!((read.channel_state(), read.charged_amount()), (Some(state()), Some(Amount::from_base_units(1_858))));
    assert_eq!(read, charged);
    // As the official server writes it.
    let official = with(&charged.to_json(), r#""transaction":"""#, r#""transaction":"","amount":"""#);
    assert_eq!(SettleResponse::from_json(official), Ok(charged.clone()));
    for (part, other) in [
        (r#""chargedAmount":"1858""#, r#""chargedAmount":1858"#),
        (r#""channelState":{"#, r#""was":{"#),
        (r#""balance":"100000""#, r#""balance":-1"#),
        (r#""transaction":"""#, r#""transaction":"","amount":"1858""#),
    ] {
        let error = SettleResponse::from_json(with(&charged.to_json(), part, other)).unwrap_err();
        assert_eq!(error.kind(), Member("transaction"), "{other}");
    }
    let deposited = SettleResponse::settled(TxHash::new([0xab; 32]), Network::BASE_SEPOLIA)
        .with_amount(Amount::from_base_units(100_000))
        .with_charge(Amount::ZERO)
        .with_channel_state(&state());
    assert_eq!(SettleResponse::from_json(deposited.to_json()), Ok(deposited));
}

#[test]
fn a_correction_shows_the_channel_and_its_last_voucher() {
    let json = format!(r#"{{"signedMaxClaimable":"10000","signature":"{}"}}"#, signature(VOUCHER));
    let extra = format!(r#""extra":{{"channelState":{STATE},"voucherState":{json},"#);
    let quote = format!(r#"{{"x402Version":2,"accepts":[{}]}}"#, with(OFFER, r#""extra":{"#, &extra));
    let quote = PaymentRequired::from_json(quote).unwrap();
    let corrected = quote.accepts[0].channel().unwrap();
    assert_eq!(corrected.channel_state(), Some(state()));
    assert_eq!(corrected.voucher_state(), Some(VoucherState::from(&voucher())));
    assert!(corrected.echoes(&offer()));
    assert_eq!((offer().channel_state(), offer().voucher_state()), (None, None));
    // Some sellers write numbers as strings, or strings as numbers.
    let spelled = with(STATE, r#":1795280400"#, r#":"1795280400""#);
    let spelled = with(&spelled, r#""refundNonce":"3""#, r#""refundNonce":3"#);
    let value: serde_json::Value = serde_json::from_str(&spelled).unwrap();
    assert_eq!(offer().with_extra("channelState", value).channel_state(), Some(state()));
    for (name, value) in
        [("balance", "0x1"), ("withdrawRequestedAt", "soon"), ("refundNonce", ""), ("channelId", "0x1")]
    {
        let mut broken: serde_json::Value = serde_json::from_str(STATE).unwrap();
        broken[name] = value.into();
        assert_eq!(offer().with_extra("channelState", broken).channel_state(), None, "{name}");
    }
}
