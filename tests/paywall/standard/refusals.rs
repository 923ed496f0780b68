//! Which payments are refused, in the standard's words: nothing is run, nothing is held, and a new quote is there.

use http::{HeaderValue, header};
use http_body_util::BodyExt as _;
use tower_x402::{
    protocol::{
        Address, Asset, ChainTime, PaymentSignature,
        channel::{ChannelDeposit, ChannelPayload, ChannelTerms, Erc3009Deposit, Voucher},
        headers::PAYMENT_REQUIRED,
        v2::{Authorization, ChannelRequirements, PaymentPayload, PaymentRequirements, Reason},
    },
    settle::{SettleError, Validity},
};

use super::{NONCE, Stall, authorization, intent, offered, paid, pays, requirements, settled, sign, units};
use crate::support::{Counter, NOW, ask, assert_problem, echo, layered, payer, recipient};

type Spoil = fn(&PaymentRequirements, Authorization) -> PaymentPayload;

fn spoilt(offer: &PaymentRequirements, change: impl FnOnce(&mut PaymentRequirements)) -> PaymentPayload {
    let mut changed = offer.clone();
    change(&mut changed);
    sign(&changed, authorization(&changed, NONCE))
}

const TABLE: &[(&str, &str, Spoil)] = &[
    ("another network", "invalid_network", |o, _| {
        spoilt(o, |o| o.network = tower_x402::protocol::Network::BASE_SEPOLIA)
    }),
    ("another token", "invalid_payment_requirements", |o, _| spoilt(o, |o| o.asset = Address::new([1; 20]))),
    ("another recipient", "invalid_payment_requirements", |o, _| spoilt(o, |o| o.pay_to = Address::new([1; 20]))),
    ("less", "invalid_payment_requirements", |o, _| spoilt(o, |o| o.amount = units(489_999))),
    ("more", "invalid_payment_requirements", |o, _| spoilt(o, |o| o.amount = units(490_001))),
    ("an unknown intent", "invalid_payment_requirements", |o, _| {
        spoilt(o, |o| *o = o.clone().with_extra("intentId", "AUbX-9_k"))
    }),
    ("an intent that is none", "invalid_payment_requirements", |o, _| {
        spoilt(o, |o| *o = o.clone().with_extra("intentId", 7))
    }),
    ("a payer that is nobody", "invalid_payload", |o, mut a| {
        a.from = Address::ZERO;
        sign(o, a)
    }),
    ("another domain", "invalid_payment_requirements", |o, _| {
        spoilt(o, |o| *o = o.clone().with_token_domain("USDC", "2"))
    }),
    ("signed for another", "invalid_exact_evm_payload_recipient_mismatch", |o, a| {
        sign(o, a.paying(Address::new([1; 20]), o.amount))
    }),
    ("signed for less", "invalid_exact_evm_payload_authorization_value_mismatch", |o, a| {
        sign(o, a.paying(o.pay_to, units(489_999)))
    }),
    ("signed for more", "invalid_exact_evm_payload_authorization_value_mismatch", |o, a| {
        sign(o, a.paying(o.pay_to, units(490_001)))
    }),
    ("over", "invalid_exact_evm_payload_authorization_valid_before", |o, a| {
        sign(o, a.valid_between(ChainTime::from_unix(0), ChainTime::from_unix(NOW + 5)))
    }),
    ("not yet", "invalid_exact_evm_payload_authorization_valid_after", |o, a| {
        sign(o, a.valid_between(ChainTime::from_unix(NOW + 1), ChainTime::from_unix(NOW + 300)))
    }),
    ("from the seller", "invalid_payload", |o, _| {
        let own = Authorization::new(recipient(), NONCE).paying(o.pay_to, o.amount);
        sign(o, own.valid_between(ChainTime::from_unix(0), ChainTime::from_unix(NOW + 300)))
    }),
];

#[tokio::test]
async fn each_is_refused_in_the_standards_words() {
    for (name, reason, spoil) in TABLE {
        let stall = Stall::open().await;
        let counter = Counter::default();
        let service = layered(&stall.shop.layer(), echo(counter.clone()));
        let offer = offered(&service).await;
        let answer = ask(&service, paid(&spoil(&offer, authorization(&offer, NONCE)))).await;
        let told = settled(&answer);
        assert_eq!((told.success, told.error_reason.clone().unwrap().as_str()), (false, *reason), "{name}");
        assert_eq!(told.transaction, None);
        let fresh = requirements(&answer);
        assert_eq!(super::required(&answer).error.as_deref(), Some(*reason));
        assert_ne!(intent(&fresh), intent(&offer));
        let body = assert_problem(answer, 402, "authorization_refused").await;
        assert_eq!((body["reason"].as_str(), body["status"].as_u64()), (Some(*reason), Some(402)), "{name}");
        assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0), "{name}");
        assert_eq!(stall.shop.ledger.counts().unwrap().held, 0, "{name}");
        // The new quote is good, for the same client.
        assert_eq!(ask(&service, paid(&pays(&fresh))).await.status(), 200, "{name}");
    }
}

#[tokio::test]
async fn other_schemes_and_payloads_are_refused_by_name() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let payment = pays(&offered(&service).await).to_json();
    let swaps = [
        (r#""scheme":"exact""#, r#""scheme":"upto""#, "unsupported_scheme"),
        (r#""network":"eip155:8453""#, r#""network":"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp""#, "invalid_network"),
        (r#""authorization""#, r#""permit2Authorization""#, "invalid_payload"),
    ];
    for (from, to, reason) in swaps {
        let payment = PaymentPayload::from_json(payment.replace(from, to)).unwrap();
        let body = assert_problem(ask(&service, paid(&payment)).await, 402, "authorization_refused").await;
        assert_eq!(body["reason"], reason);
    }
    let version = payment.replace(r#""x402Version":2"#, r#""x402Version":1"#);
    let header = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, version);
    let mut request = paid(&pays(&offered(&service).await));
    request.headers_mut().insert("payment-signature", header.parse().unwrap());
    assert_problem(ask(&service, request).await, 400, "invalid_redemption").await;
}

/// No new quote: the voucher may have been sold while there were channels.
#[tokio::test]
async fn no_voucher_is_taken_where_no_channel_is_offered() {
    let signature = || PaymentSignature::new([0x1b; 65]).unwrap();
    for takes_permits in [false, true] {
        let stall = if takes_permits { Stall::open_with_permits().await } else { Stall::open().await };
        let counter = Counter::default();
        let service = layered(&stall.shop.layer(), echo(counter.clone()));
        let offer = offered(&service).await;
        let terms = ChannelTerms::new(offer.pay_to, 900);
        let intent = offer.intent().unwrap().unwrap();
        let accepted =
            ChannelRequirements::new(&Asset::USDC_BASE, offer.amount, offer.pay_to, 60, &terms).with_intent(&intent);
        let channel_config = accepted.channel_of(payer(), [0; 32]).unwrap();
        let voucher = Voucher::new(channel_config.id(offer.network), 490_000, signature());
        let until = ChainTime::from_unix(NOW + 300);
        let authorization = Erc3009Deposit::new([7; 32], [ChainTime::from_unix(0), until], signature());
        let deposit = ChannelDeposit::new(4_900_000, authorization);
        for payload in [
            ChannelPayload::Voucher { channel_config, voucher: voucher.clone() },
            ChannelPayload::Deposit { channel_config, voucher: voucher.clone(), deposit },
            ChannelPayload::Refund { channel_config, voucher, amount: None },
        ] {
            let answer = ask(&service, paid(&PaymentPayload::new(accepted.clone(), payload))).await;
            assert!(!answer.headers().contains_key(PAYMENT_REQUIRED));
            assert_problem(answer, 400, "invalid_redemption").await;
        }
        assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0));
        assert_eq!(stall.shop.ledger.counts().unwrap().held, 0);
    }
}

#[tokio::test]
async fn what_the_settler_refuses_is_refused_before_the_handler_runs() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    stall.settler.answer_verify(Ok(Validity::Refused(Reason::INSUFFICIENT_FUNDS)));
    let body = assert_problem(ask(&service, paid(&payment)).await, 402, "authorization_refused").await;
    assert_eq!(body["reason"], "insufficient_funds");
    // One of the two is behind: nobody is told to sign anew.
    stall.settler.answer_verify(Ok(Validity::Used));
    assert_problem(ask(&service, paid(&payment)).await, 503, "verification_unavailable").await;
    stall.settler.answer_verify(Err(SettleError::unavailable()));
    assert_problem(ask(&service, paid(&payment)).await, 503, "verification_unavailable").await;
    stall.settler.answer_verify(None);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
}

#[tokio::test]
async fn a_nonce_that_was_cancelled_or_used_elsewhere_is_refused() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let offer = offered(&service).await;
    stall.shop.chain.cancel(offer.asset, payer(), NONCE);
    let body = assert_problem(ask(&service, paid(&pays(&offer))).await, 402, "authorization_refused").await;
    assert_eq!(body["reason"], "invalid_exact_evm_nonce_already_used");
    assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0));
}

#[tokio::test]
async fn an_expired_quote_is_renewed() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let offer = offered(&service).await;
    stall.shop.clock.set_unix(NOW + 15 * 60 + 61);
    let late = authorization(&offer, NONCE).valid_between(ChainTime::from_unix(0), ChainTime::from_unix(NOW + 9_999));
    let answer = ask(&service, paid(&sign(&offer, late))).await;
    let fresh = requirements(&answer);
    assert_problem(answer, 402, "authorization_refused").await;
    let again = authorization(&fresh, NONCE).valid_between(ChainTime::from_unix(0), ChainTime::from_unix(NOW + 9_999));
    assert_eq!(ask(&service, paid(&sign(&fresh, again))).await.status(), 200);
}

/// The new quote is in its trailers, as the first one was.
#[tokio::test]
async fn a_grpc_client_is_refused_in_its_own_way() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let called = |payment: &PaymentPayload| {
        let mut request = paid(payment);
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc+proto"));
        request
    };
    let offer = offered(&service).await;
    let unmatched = sign(&offer, authorization(&offer, NONCE).paying(offer.pay_to, units(1)));
    stall.settler.answer_verify(Ok(Validity::Refused(Reason::INSUFFICIENT_FUNDS)));
    for payment in [unmatched, pays(&offer)] {
        let answer = ask(&service, called(&payment)).await;
        assert_eq!(answer.status(), 200);
        let headers = answer.headers();
        for (name, value) in [
            ("content-type", "application/grpc"),
            ("grpc-status", "9"),
            ("grpc-message", "authorization_refused"),
            ("x402-error", "authorization_refused"),
        ] {
            assert_eq!(headers[name], value, "{name}");
        }
        assert!(!settled(&answer).success && requirements(&answer).intent().unwrap().is_some());
        assert!(!headers.contains_key("content-length"));
        assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
    assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0));
}
