//! Clients of the standard's first version.

use std::convert::Infallible;

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, Request, header::CONTENT_LENGTH};
use serde_json::{Value, json};
use tower_x402::{
    Receipt, RequestBody,
    protocol::{
        Address, Asset, Network,
        headers::{PAYMENT_RESPONSE, X_PAYMENT, X_PAYMENT_RESPONSE, X402_PAYMENT},
        v1,
        v2::{PaymentRequirements, SchemePayload},
    },
    testing::{Settling, scripted_signature},
};

use super::{Stall, offered, paid, pays, settled};
use crate::support::{Answer, Counter, Shop, ask, assert_problem, echo, faults::ok, layered, payer, post, read};

const QUESTION: &str = r#"{"query":"why"}"#;

/// What a client of version 1 sends for an offer.
fn payment(offer: &PaymentRequirements) -> v1::PaymentPayload {
    let SchemePayload::Authorization(signed) = pays(offer).payload else { panic!("signed") };
    v1::PaymentPayload::new(offer.network, signed)
}

fn shown(payment: &v1::PaymentPayload) -> Request<Body> {
    let mut request = post(QUESTION);
    request.headers_mut().insert(X_PAYMENT, payment.to_header());
    request
}

/// What `X-PAYMENT-RESPONSE` says.
fn told(answer: &Answer) -> Value {
    serde_json::from_slice(&STANDARD.decode(answer.headers()[X_PAYMENT_RESPONSE].as_bytes()).unwrap()).unwrap()
}

#[tokio::test]
async fn a_quote_asks_for_a_signature_in_its_body_as_well() {
    let stall = Stall::open().await;
    let layer = stall.shop.merchant.charge("answer", "0.49 USDC").unwrap().label("A \"good\" é").unwrap();
    let service = layered(&layer, echo(Counter::default()));
    let mut request = post(QUESTION);
    request.headers_mut().insert("host", "shop.example".parse().unwrap());
    let answer = ask(&service, request).await;
    let length = answer.headers()[CONTENT_LENGTH].to_str().unwrap().parse::<usize>().unwrap();
    let headers = answer.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
    assert!(length < 4096 && headers < 2900, "{length} {headers}");
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    assert_eq!(body.len(), length);
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&body["x402Version"], &body["error"]), (&json!(1), &json!("payment_required")));
    let offer = offered(&service).await;
    let expected = json!([{
        "scheme": "exact", "network": "base", "maxAmountRequired": "490000", "resource": "https://shop.example/answer",
        "description": "A \"good\" é", "mimeType": "", "payTo": offer.pay_to, "maxTimeoutSeconds": offer.max_timeout_seconds,
        "asset": Asset::USDC_BASE.contract(), "extra": { "name": "USD Coin", "version": "2" },
    }]);
    assert_eq!(body["accepts"], expected);
    // What it says in its own words is as before.
    assert_eq!((&body["pay"]["amount"], body["contracts"].as_array().unwrap().len()), (&json!("490000"), 1));
}

#[tokio::test]
async fn a_payment_buys_one_answer() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let offer = offered(&service).await;
    let answer = ask(&service, shown(&payment(&offer))).await;
    let (v2, outcome) = (settled(&answer), told(&answer));
    assert_eq!(answer.status(), 200);
    assert_eq!((&outcome["success"], &outcome["network"]), (&json!(true), &json!("base")));
    assert_eq!(
        (&outcome["transaction"], &outcome["payer"]),
        (&json!(v2.transaction), &json!(format!("{:x}", payer())))
    );
    let exposed = answer.headers()["access-control-expose-headers"].to_str().unwrap();
    assert!(exposed.contains("X-PAYMENT-RESPONSE"));
    // Not again, in either version.
    assert_problem(ask(&service, shown(&payment(&offer))).await, 409, "already_consumed").await;
    assert_problem(ask(&service, paid(&pays(&offer))).await, 409, "tx_already_used").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
}

/// The header is a proof, which no log and no table of header compression should have.
#[tokio::test]
async fn the_payment_is_marked_as_a_secret() {
    let stall = Stall::open().await;
    let service = tower::service_fn(async |request: Request<RequestBody<Body>>| {
        let receipt = request.extensions().get::<Receipt>().expect("paid");
        assert_eq!((receipt.payer(), request.headers()[X_PAYMENT].is_sensitive()), (payer(), true));
        Ok::<_, Infallible>(ok())
    });
    let service = layered(&stall.shop.layer(), service);
    let offer = offered(&service).await;
    assert_eq!(ask(&service, shown(&payment(&offer))).await.status(), 200);
}

/// Whoever paid for less, elsewhere, or to someone else gets a new quote, and nothing is settled.
#[tokio::test]
async fn a_payment_of_other_terms_is_refused_unsettled() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let offer = offered(&service).await;
    let other = |change: fn(&mut PaymentRequirements)| {
        let mut offer = offer.clone();
        change(&mut offer);
        payment(&offer)
    };
    for refused in [
        other(|offer| offer.amount = super::units(489_999)),
        other(|offer| offer.amount = super::units(490_001)),
        other(|offer| offer.pay_to = Address::new([9; 20])),
        other(|offer| offer.network = Network::BASE_SEPOLIA),
    ] {
        let answer = ask(&service, shown(&refused)).await;
        let outcome = told(&answer);
        assert_eq!((&outcome["success"], settled(&answer).success), (&json!(false), false), "{refused:?}");
        let (_, body) = read(answer).await;
        assert_eq!((&body["error"], &body["x402Version"]), (&json!("authorization_refused"), &json!(1)), "{refused:?}");
    }
    assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0));
}

/// Never 402 where the payment may still be used.
#[tokio::test(start_paused = true)]
async fn a_payment_that_may_be_settled_is_not_billed_anew() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let offer = offered(&service).await;
    stall.settler.script([Settling::Held]);
    let answer = ask(&service, shown(&payment(&offer))).await;
    assert_problem(answer, 503, "outcome_unknown").await;
    stall.settler.release();
    stall.lease_runs_out();
    // Its signature stands on the chain by now: whoever shows it is asked for another one, by its payer's key. All that is to be shown
    // then stands in the refusal.
    let refused = assert_problem(ask(&service, shown(&payment(&offer))).await, 403, "payment_bound").await;
    let (message, intent) = (refused["message"].as_str().unwrap(), refused["intentId"].as_str().unwrap());
    let transaction = message.lines().flat_map(|line| line.split(' ')).find(|word| word.len() == 66).unwrap();
    let redemption = |signature| {
        let mut request = post(QUESTION);
        let proof = json!({ "intentId": intent, "txHash": transaction, "paymentSignature": signature });
        request.headers_mut().insert(X402_PAYMENT, proof.to_string().parse().unwrap());
        request
    };
    let stranger = scripted_signature(Address::new([9; 20]), message).to_string();
    assert_problem(ask(&service, redemption(stranger)).await, 403, "invalid_signature").await;
    let own = scripted_signature(payer(), message).to_string();
    assert_eq!(ask(&service, redemption(own)).await.status(), 200);
    assert_problem(ask(&service, shown(&payment(&offer))).await, 409, "tx_already_used").await;
    assert_eq!(stall.settler.settlements(), 1);
}

#[tokio::test]
async fn what_is_no_payment_and_what_is_one_too_many_is_invalid() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let good = payment(&offered(&service).await);
    let json = good.to_json();
    let mut asked = Vec::new();
    for (of, to) in [
        (r#""x402Version":1"#, r#""x402Version":2"#),
        (r#""x402Version":1,"#, ""),
        (r#""scheme":"exact""#, r#""scheme":"upto""#),
        (r#""network":"base""#, r#""network":"solana""#),
        (r#""network":"base""#, r#""network":"eip155:8453""#),
        (r#""value":"490000""#, r#""value":490000"#),
        (r#""signature""#, r#""signatur""#),
    ] {
        let changed = json.replace(of, to);
        assert_ne!(changed, json, "{of}");
        let mut request = post(QUESTION);
        request.headers_mut().insert(X_PAYMENT, STANDARD.encode(changed).parse().unwrap());
        asked.push(request);
    }
    let with = |add: &dyn Fn(&mut HeaderMap)| {
        let mut request = shown(&good);
        add(request.headers_mut());
        request
    };
    asked.push(with(&|headers| {
        headers.append(X_PAYMENT, good.to_header());
    }));
    asked.push(with(&|headers| {
        headers.insert(X402_PAYMENT, r#"{"intentId":"AUbX-9_k"}"#.parse().unwrap());
    }));
    let offer = offered(&service).await;
    asked.push(with(&|headers| {
        headers.insert(tower_x402::protocol::headers::PAYMENT_SIGNATURE, pays(&offer).to_header());
    }));
    for request in asked {
        let answer = ask(&service, request).await;
        assert!(!answer.headers().contains_key(PAYMENT_RESPONSE));
        assert_problem(answer, 400, "invalid_redemption").await;
    }
    assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0));
}

#[tokio::test]
async fn a_merchant_may_leave_it_out_of_quotes_and_one_without_a_settler_does() {
    let quiet = Stall::open_with(|builder| builder.x402_v1(false)).await;
    let service = layered(&quiet.shop.layer(), echo(Counter::default()));
    let (_, body) = read(ask(&service, post(QUESTION)).await).await;
    assert_eq!((body.get("x402Version"), body.get("accepts")), (None, None));
    assert_eq!(ask(&service, shown(&payment(&offered(&service).await))).await.status(), 200);

    let transfers = Shop::open().await;
    let offer = offered(&service).await;
    let service = layered(&transfers.layer(), echo(Counter::default()));
    let (_, body) = read(ask(&service, post(QUESTION)).await).await;
    assert_eq!((body.get("x402Version"), body.get("accepts")), (None, None));
    assert_problem(ask(&service, shown(&payment(&offer))).await, 400, "invalid_redemption").await;
}
