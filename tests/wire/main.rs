//! Every answer of the wire contract, to the byte.
//!
//! Each comes about in the way it does in life. What a seal makes different every time is shown as `<intent>`.
#![cfg(all(
    feature = "axum",
    feature = "devchain",
    feature = "evm",
    feature = "facilitator",
    feature = "metrics",
    feature = "page",
    feature = "postgres",
    feature = "redis",
    feature = "reqwest",
    feature = "sqlite",
    feature = "wallet"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub
)]

#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
use std::{path::Path, time::Duration};

use alloy::signers::{SignerSync as _, local::PrivateKeySigner};
use axum::body::Body;
use http::{HeaderValue, Request, Response, header};
use http_body_util::BodyExt as _;
use tower_x402::{
    Merchant, PaymentIdentifier, Price, Redelivery, Refusal, X402Layer,
    protocol::{
        Address, Amount, Asset, Binding, ChainTime, Network, PaymentSignature, ProblemCode, Transfer, TxHash,
        channel::{ChannelPayload, Voucher},
        headers::PAYMENT_SIGNATURE,
        v2::{Authorization, Extensions, PaymentPayload, PaymentRequired, PaymentRequirements, SignedAuthorization},
    },
    settle::ChannelOnChain,
    testing::ScriptedChannels,
    verify::VerifyError,
};

use crate::{
    support::faults::{Fault, Op},
    support::{
        Answer, Counter, Handler, NOW, PRICE, Shop, answering, ask, by_header, echo, hanging, intent_of, layered,
        payer, post, quoted, recipient, redemption, status, with_status,
    },
};

/// Status, headers by name, body: as they go over the wire.
async fn show(response: Answer) -> String {
    let (parts, body) = response.into_parts();
    let intent = parts.headers.get("x-price-intent").map(|intent| intent.to_str().unwrap().to_owned());
    let mut lines: Vec<String> = parts
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    lines.sort();
    let body = body.collect().await.unwrap().to_bytes();
    let text = format!("{}\n{}\n\n{}", parts.status, lines.join("\n"), String::from_utf8(body.to_vec()).unwrap());
    intent.map_or(text.clone(), |intent| text.replace(&intent, "<intent>"))
}

/// The intent goes by its code, so that none can be forgotten.
macro_rules! assert_answer {
    ($name:expr, $response:expr) => {
        insta::assert_snapshot!($name, show($response).await)
    };
}

async fn paid<S: Handler>(shop: &Shop, layer: X402Layer, inner: S) -> Answer {
    let service = layered(&layer, inner);
    let intent = quoted(&service).await;
    ask(&service, redemption(&intent, shop.pay(490_000))).await
}

#[tokio::test]
async fn a_quote() {
    let shop = Shop::open().await;
    let layer = shop.layer().label("Demand insights").unwrap();
    let quote = ask(&layered(&layer, echo(Counter::default())), post(r#"{"query":"why"}"#)).await;
    let (pay, contracts) = (quote.headers()["pay"].clone(), quote.headers()["x-payment-contracts"].clone());
    let intent = intent_of(&quote);
    assert!(intent.len() <= 192 && intent.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
    assert_answer!("payment_required", quote);

    // The same facts in headers and body.
    let quote = ask(&layered(&layer, echo(Counter::default())), post(r#"{"query":"why"}"#)).await;
    assert_eq!(quote.headers()["pay"], pay);
    let intent = intent_of(&quote);
    let body: serde_json::Value =
        serde_json::from_slice(&quote.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(body["pay"], serde_json::from_slice::<serde_json::Value>(pay.as_bytes()).unwrap());
    assert_eq!(body["intentId"], intent.as_str());
    assert_eq!(body["contracts"][0], contracts.to_str().unwrap());
    assert_eq!(body["pay"]["expiry"], NOW + 15 * 60);
}

#[tokio::test]
async fn no_two_quotes_are_the_same() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    assert_ne!(quoted(&service).await, quoted(&service).await);
}

#[tokio::test]
async fn a_quote_whose_label_is_not_ascii() {
    let shop = Shop::open().await;
    let layer = shop.layer().label("Überblick: \"30 Tage\" 🦀").unwrap();
    let quote = ask(&layered(&layer, echo(Counter::default())), post("{}")).await;
    assert!(quote.headers()["pay"].as_bytes().is_ascii());
    assert_answer!("quote_non_ascii", quote);
}

#[tokio::test]
async fn a_quote_in_two_tokens() {
    let shop = Shop::open_with(|merchant| {
        merchant.asset(Asset::USDC_BASE).asset(Asset::USDBC_BASE).quote_ttl(Duration::from_secs(60))
    })
    .await;
    assert_answer!("quote_two_tokens", ask(&layered(&shop.layer(), echo(Counter::default())), post("{}")).await);
}

/// The headers are those of the quote, its length included.
#[tokio::test]
async fn a_quote_to_head() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let get = ask(&service, Request::get("/answer").body(Body::empty()).unwrap()).await;
    let head = ask(&service, Request::head("/answer").body(Body::empty()).unwrap()).await;
    let names = |answer: &Answer| answer.headers().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&head), names(&get));
    assert_eq!(head.headers()["content-length"], get.headers()["content-length"]);
    assert_answer!("quote_head", head);
}

#[tokio::test]
async fn a_quote_by_closure() {
    let shop = Shop::open().await;
    let layer = shop
        .merchant
        .price_with("answer", |_, body| Price::Charge(Amount::from_base_units(50_000 * body.len() as u128)))
        .unwrap();
    assert_answer!("quote_closure", ask(&layered(&layer, echo(Counter::default())), post("{}")).await);
}

/// There is nothing to be found in it, and it is redeemed by header.
#[tokio::test]
async fn a_quote_for_a_body_over_the_limit() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().body_limit(16).unwrap(), echo(Counter::default()));
    assert_answer!("quote_long_body", ask(&service, post(r#"{"query":"wherefore"}"#)).await);
}

#[tokio::test]
async fn a_quote_to_grpc() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let mut request = post("");
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    assert_answer!("quote_grpc", ask(&service, request).await);
}

#[tokio::test]
async fn a_refusal_to_grpc() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let mut request = by_header("POST", &quoted(&service).await, TxHash::new([1; 32]));
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    assert_answer!("tx_not_confirmed_grpc", ask(&service, request).await);
}

#[tokio::test]
async fn intent_required() {
    let shop = Shop::open().await;
    let request = post(format!(r#"{{"txHash":"{}"}}"#, shop.pay(490_000)));
    assert_answer!("intent_required", ask(&layered(&shop.layer(), echo(Counter::default())), request).await);
}

#[tokio::test]
async fn tx_required() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    assert_answer!("tx_required", ask(&service, post(format!(r#"{{"intentId":"{intent}"}}"#))).await);
}

#[tokio::test]
async fn invalid_redemption() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let request = post(format!(r#"{{"intentId":"{}","txHash":"0x12"}}"#, quoted(&service).await));
    assert_answer!("invalid_redemption", ask(&service, request).await);
}

#[tokio::test]
async fn head_with_a_proof() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    assert_answer!("invalid_redemption_head", ask(&service, by_header("HEAD", &intent, shop.pay(490_000))).await);
}

#[tokio::test]
async fn invalid_body() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    assert_answer!("invalid_body", ask(&service, post("{query}")).await);
}

#[tokio::test]
async fn body_too_large() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().bind_request().body_limit(16).unwrap(), echo(Counter::default()));
    assert_answer!("body_too_large", ask(&service, post(r#"{"query":"wherefore"}"#)).await);
}

#[tokio::test(start_paused = true)]
async fn body_timeout() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let stalled = Body::new(http_body_util::StreamBody::new(futures_util::stream::pending::<
        Result<http_body::Frame<bytes::Bytes>, std::io::Error>,
    >()));
    let request = Request::post("/answer").header(header::CONTENT_TYPE, "application/json").body(stalled).unwrap();
    let began = tokio::time::Instant::now();
    assert_answer!("body_timeout", ask(&service, request).await);
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn unsupported_encoding() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let mut request = post("\u{1f}\u{8b}");
    request.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    assert_answer!("unsupported_encoding", ask(&service, request).await);
}

#[tokio::test]
async fn intent_not_found() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    assert_answer!("intent_not_found", ask(&service, redemption("made-up", shop.pay(490_000))).await);
}

#[tokio::test]
async fn intent_expired() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    shop.clock.advance(Duration::from_secs(3600));
    shop.chain.set_head(ChainTime::from_unix(NOW + 3600));
    let late = shop.pay_at(490_000, NOW + 15 * 60 + 61);
    assert_answer!("intent_expired", ask(&service, redemption(&intent, late)).await);
}

#[tokio::test]
async fn tx_not_confirmed() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    assert_answer!("tx_not_confirmed", ask(&service, redemption(&intent, TxHash::new([1; 32]))).await);
}

#[tokio::test]
async fn transfer_not_found() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    shop.chain.mine(TxHash::new([1; 32]), []);
    assert_answer!("transfer_not_found", ask(&service, redemption(&intent, TxHash::new([1; 32]))).await);
}

#[tokio::test]
async fn insufficient_amount() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    assert_answer!("insufficient_amount", ask(&service, redemption(&intent, shop.pay(489_999))).await);
}

/// A transaction of one transfer that is bound so.
fn bound(shop: &Shop, binding: Binding) -> TxHash {
    let transaction = TxHash::new([2; 32]);
    let transfer = Transfer::new(Network::BASE, transaction, 0)
        .with_token(Asset::USDC_BASE.contract())
        .with_payer(payer())
        .with_recipient(recipient())
        .with_amount(Amount::from_base_units(490_000))
        .with_block(NOW / 2, ChainTime::from_unix(NOW))
        .with_binding(binding);
    shop.chain.mine(transaction, [transfer]);
    transaction
}

#[tokio::test]
async fn payment_bound() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    let refused = ask(&service, redemption(&intent, bound(&shop, Binding::none().with_nonce([3; 32])))).await;
    assert_eq!(refused.headers().get("x-price-intent"), None);
    insta::assert_snapshot!("payment_bound", show(refused).await.replace(&intent, "<intent>"));
}

#[tokio::test]
async fn payer_proof_required() {
    let shop = Shop::open_with(tower_x402::MerchantBuilder::require_bound).await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    let refused = ask(&service, redemption(&intent, bound(&shop, Binding::none()))).await;
    insta::assert_snapshot!("payer_proof_required", show(refused).await.replace(&intent, "<intent>"));
}

#[tokio::test]
async fn invalid_signature() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    let tx = bound(&shop, Binding::none());
    let request = post(format!(r#"{{"intentId":"{intent}","txHash":"{tx}","paymentSignature":"0x12"}}"#));
    insta::assert_snapshot!("invalid_signature", show(ask(&service, request).await).await.replace(&intent, "<intent>"));
}

/// Held, until it is anyone's.
#[tokio::test]
async fn an_unbound_payment_of_this_moment() {
    let shop = Shop::open_with(|builder| builder.hold_unbound(Duration::from_secs(5))).await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    assert_answer!("tx_not_confirmed_held", ask(&service, redemption(&intent, bound(&shop, Binding::none()))).await);
}

#[tokio::test]
async fn answer_broken() {
    let shop = Shop::open().await;
    let broken = answering(Counter::default(), |_| {
        let frames = futures_util::stream::iter([Err::<http_body::Frame<bytes::Bytes>, _>("broke")]);
        Response::new(Body::new(http_body_util::StreamBody::new(frames)))
    });
    assert_answer!("answer_broken", paid(&shop, shop.layer().redeliver(Redelivery::default()), broken).await);
}

#[tokio::test]
async fn answer_too_large() {
    let shop = Shop::open().await;
    let layer = shop.layer().consume_when_body(|_, _, _| true).answer_limit(1).unwrap();
    assert_answer!("answer_too_large", paid(&shop, layer, echo(Counter::default())).await);
}

/// The same bytes, and one header more.
#[tokio::test]
async fn an_answer_delivered_again() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().redeliver(Redelivery::default()), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, bound(&shop, Binding::none()));
    let first = show(ask(&service, redemption(&intent, tx)).await).await.replace(&intent, "<intent>");
    let again = show(ask(&service, redemption(&intent, tx)).await).await.replace(&intent, "<intent>");
    assert_eq!(again.replace("idempotent-replayed: true\n", ""), first);
    insta::assert_snapshot!("delivered_again", again);
}

#[tokio::test]
async fn payment_too_old() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    let old = shop.pay_at(490_000, NOW - 24 * 60 * 60 - 1);
    assert_answer!("payment_too_old", ask(&service, redemption(&intent, old)).await);
}

/// Before the ledger's memory begins; with a seller who can be reached.
#[tokio::test]
async fn payment_too_old_with_a_contact() {
    let shop = Shop::open_with(|merchant| merchant.contact("mailto:verkäufe@example.org")).await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    let old = shop.pay_at(490_000, NOW - 3600);
    assert_answer!("payment_too_old_contact", ask(&service, redemption(&intent, old)).await);
}

#[tokio::test]
async fn tx_already_used() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let tx = shop.pay(490_000);
    assert_eq!(ask(&service, redemption(&quoted(&service).await, tx)).await.status(), 200);
    assert_answer!("tx_already_used", ask(&service, redemption(&quoted(&service).await, tx)).await);
}

#[tokio::test]
async fn already_consumed() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    assert_answer!("already_consumed", ask(&service, redemption(&intent, shop.pay(490_000))).await);
}

#[tokio::test]
async fn redemption_in_progress() {
    let shop = Shop::open().await;
    let counter = Counter::default();
    let service = layered(&shop.layer(), hanging(counter.clone()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let (rival, request) = (service.clone(), redemption(&intent, tx));
    let rival = tokio::spawn(async move { ask(&rival, request).await });
    while counter.runs() == 0 {
        tokio::task::yield_now().await;
    }
    assert_answer!("redemption_in_progress", ask(&service, redemption(&intent, tx)).await);
    rival.abort();
}

#[tokio::test]
async fn too_many_attempts() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), status(500));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    for _ in 0..16 {
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 500);
    }
    assert_answer!("too_many_attempts", ask(&service, redemption(&intent, tx)).await);
}

#[tokio::test]
async fn verification_unavailable() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    shop.chain.outage(VerifyError::unavailable());
    assert_answer!("verification_unavailable", ask(&service, redemption(&intent, tx)).await);
}

#[tokio::test]
async fn ledger_unavailable() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    shop.faults.always(Op::Reserve, Fault::Fail);
    assert_answer!("ledger_unavailable", ask(&service, redemption(&intent, tx)).await);
}

#[tokio::test(start_paused = true)]
async fn outcome_unknown() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    shop.faults.always(Op::Commit, Fault::Fail);
    assert_answer!("outcome_unknown", ask(&service, redemption(&intent, tx)).await);
}

#[tokio::test(start_paused = true)]
async fn answer_timeout() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), hanging(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    assert_answer!("answer_timeout", ask(&service, redemption(&intent, tx)).await);
}

#[tokio::test]
async fn upstream_payment_required() {
    let shop = Shop::open().await;
    let response = paid(&shop, shop.layer(), answering(Counter::default(), |_| forger(402))).await;
    assert_answer!("upstream_payment_required", response);
}

/// A handler that speaks in the layer's name, and lets everybody keep what it says.
fn forger(status: u16) -> Response<Body> {
    let mut response = with_status(status);
    for (name, value) in [
        ("pay", r#"{"recipient":"0x0000000000000000000000000000000000000001"}"#),
        ("x-price-intent", "forged"),
        ("x-payment-contracts", "0x0000000000000000000000000000000000000001"),
        ("payment-response", "forged"),
        ("payment-required", "forged"),
        ("x402-error", "already_consumed"),
        ("cache-control", "public, max-age=3600"),
        ("cdn-cache-control", "max-age=3600"),
        ("surrogate-control", "max-age=3600"),
        ("x-accel-expires", "3600"),
        ("expires", "Fri, 01 Jan 2038 00:00:00 GMT"),
        ("x-own", "kept"),
    ] {
        response.headers_mut().append(name, HeaderValue::from_static(value));
    }
    response
}

#[tokio::test]
async fn a_sold_answer() {
    let shop = Shop::open().await;
    let handler = answering(Counter::default(), |_| {
        let mut response = forger(200);
        for line in ["X-Own, ETag", "", "X-Other"] {
            response.headers_mut().append(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(line));
        }
        response
    });
    assert_answer!("sold", paid(&shop, shop.layer(), handler).await);
}

#[tokio::test]
async fn an_answer_that_is_not_sold() {
    let shop = Shop::open().await;
    assert_answer!("not_sold", paid(&shop, shop.layer(), answering(Counter::default(), |_| forger(422))).await);
}

/// The service's own words, but never a bill.
#[tokio::test]
async fn a_refusal() {
    let shop = Shop::open().await;
    let layer = shop.merchant.price_with("answer", |_, _| {
        let (parts, _) = forger(402).into_parts();
        Price::Refuse(Refusal::new(Response::from_parts(parts, "no such filter".into())))
    });
    assert_answer!("refusal", ask(&layered(&layer.unwrap(), echo(Counter::default())), post("{}")).await);
}

#[tokio::test]
async fn a_price_of_nothing() {
    let shop = Shop::open().await;
    let layer = shop.merchant.price_with("answer", |_, _| Price::Charge(Amount::ZERO)).unwrap();
    assert_answer!("mispriced", ask(&layered(&layer, echo(Counter::default())), post("{}")).await);
}

#[tokio::test(start_paused = true)]
async fn a_price_that_does_not_come() {
    let shop = Shop::open().await;
    let layer = shop.merchant.price_with_async("answer", |_, _| std::future::pending()).unwrap();
    let service = layered(&layer, echo(Counter::default()));
    assert_answer!("price_unavailable", ask(&service, post("{}")).await);
}

/// What the standard's clients are told, in base64 headers; the intent in them is different every time.
#[tokio::test]
async fn a_refused_authorization() {
    let shop = Shop::open_on(|builder, chain| {
        builder.settler(tower_x402::testing::ScriptedSettler::new(chain.clone())).public_url("https://shop.example")
    })
    .await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let mut request = post(r#"{"query":"why"}"#);
    let payment = r#"{"x402Version":2,"accepted":{"scheme":"upto","network":"eip155:8453"},"payload":{}}"#;
    let payment = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, payment);
    request.headers_mut().insert("payment-signature", payment.parse().unwrap());
    let mut answer = ask(&service, request).await;
    for name in ["payment-required", "payment-response"] {
        let value = answer.headers()[name].as_bytes().to_vec();
        let json = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, value).unwrap();
        answer.headers_mut().insert(name, HeaderValue::from_bytes(&json).unwrap());
    }
    assert_answer!("authorization_refused", answer);
}

/// A payment whose client names no purchase, and one for a purchase that another payment has bought.
#[tokio::test]
async fn a_purchase_without_name_and_one_that_is_bought() {
    let shop = Shop::open_on(|builder, chain| {
        let settler = tower_x402::testing::ScriptedSettler::new(chain.clone());
        builder.settler(settler).public_url("https://shop.example").payment_identifier(PaymentIdentifier::Required)
    })
    .await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let quote = ask(&service, post(r#"{"query":"why"}"#)).await;
    let offer = PaymentRequired::from_headers(quote.headers()).unwrap().unwrap().accepts[0].exact().unwrap().clone();
    let paid = |nonce: u8, info: serde_json::Value| {
        let authorization = Authorization::new(payer(), [nonce; 32])
            .paying(offer.pay_to, offer.amount)
            .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(NOW + 300));
        let signed = SignedAuthorization::new(authorization, format!("0x{}", "11".repeat(65)).parse().unwrap());
        let extensions = Extensions::new().with("payment-identifier", info, None);
        (signed, extensions)
    };
    let shown = |offer: &PaymentRequirements, (signed, extensions): (SignedAuthorization, Extensions)| {
        let payment = PaymentPayload::new(offer.clone(), signed).with_extensions(extensions);
        let mut request = post(r#"{"query":"why"}"#);
        request.headers_mut().insert("payment-signature", payment.to_header());
        request
    };
    let unnamed = paid(1, serde_json::json!({ "required": true }));
    assert_answer!("payment_id_required", ask(&service, shown(&offer, unnamed)).await);
    let name = serde_json::json!({ "required": true, "id": "pay_7d5d747be160e280" });
    assert_eq!(ask(&service, shown(&offer, paid(2, name.clone()))).await.status(), 200);
    let quote = ask(&service, post(r#"{"query":"why"}"#)).await;
    let next = PaymentRequired::from_headers(quote.headers()).unwrap().unwrap().accepts[0].exact().unwrap().clone();
    assert_answer!("payment_id_conflict", ask(&service, shown(&next, paid(3, name))).await);
}

/// Buys a pass of one call.
async fn pass_of_one_call(shop: &Shop) -> (X402Layer, String) {
    let pass = shop.merchant.pass("one", "1 USDC").unwrap();
    let sells = pass.service().unwrap();
    let ask = |request: Request<Body>| async { tower::ServiceExt::oneshot(sells.clone(), request).await.unwrap() };
    let intent = intent_of(&ask(Request::post("/pass").body(Body::empty()).unwrap()).await);
    let answer = ask(by_header("POST", &intent, shop.pay(1_000_000))).await;
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let told: serde_json::Value = serde_json::from_slice(&body).unwrap();
    (shop.layer().accept_pass(&pass).unwrap(), told["pass"].as_str().unwrap().to_owned())
}

fn by_pass(token: &str) -> Request<Body> {
    Request::post("/answer").header("x402-pass", token).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn invalid_pass() {
    let shop = Shop::open().await;
    let (layer, _) = pass_of_one_call(&shop).await;
    let service = layered(&layer, echo(Counter::default()));
    assert_answer!("invalid_pass", ask(&service, by_pass("x402p_none")).await);
}

#[tokio::test]
async fn pass_busy() {
    let shop = Shop::open().await;
    let (layer, token) = pass_of_one_call(&shop).await;
    let counter = Counter::default();
    let service = layered(&layer, hanging(counter.clone()));
    let (rival, request) = (service.clone(), by_pass(&token));
    let rival = tokio::spawn(async move { ask(&rival, request).await });
    while counter.runs() == 0 {
        tokio::task::yield_now().await;
    }
    assert_answer!("pass_busy", ask(&service, by_pass(&token)).await);
    rival.abort();
}

#[tokio::test]
async fn channel_busy() {
    let authorizer = Address::new([0xfa; 20]);
    let channels = ScriptedChannels::new(authorizer);
    let shop = Shop::open_with(|builder| builder.channel_settler(channels.clone())).await;
    let counter = Counter::default();
    let service = layered(&shop.layer(), hanging(counter.clone()));
    let key = PrivateKeySigner::from_slice(&[5; 32]).unwrap();
    let voucher = async || {
        let quote = ask(&service, Request::post("/answer").body(Body::empty()).unwrap()).await;
        let required = PaymentRequired::from_headers(quote.headers()).unwrap().unwrap();
        let offer = required.accepts.iter().find_map(|option| option.channel()).unwrap().clone();
        let channel_config = offer.channel_of(Address::new(key.address().into_array()), [0; 32]).unwrap();
        let id = channel_config.id(offer.network);
        channels.set_state(id, ChannelOnChain::new(Amount::from_base_units(900_000), Amount::ZERO));
        let digest = id.voucher_digest(490_000, offer.network);
        let signature = key.sign_hash_sync(&digest.into()).unwrap().as_bytes();
        let voucher = Voucher::new(id, 490_000, PaymentSignature::new(signature).unwrap());
        let payment = PaymentPayload::new(offer, ChannelPayload::Voucher { channel_config, voucher });
        Request::post("/answer").header(PAYMENT_SIGNATURE, payment.to_header()).body(Body::empty()).unwrap()
    };
    let (rival, request) = (service.clone(), voucher().await);
    let rival = tokio::spawn(async move { ask(&rival, request).await });
    while counter.runs() == 0 {
        tokio::task::yield_now().await;
    }
    assert_answer!("channel_busy", ask(&service, voucher().await).await);
    rival.abort();
}

/// Every code has an answer here, under its own name and status.
#[test]
fn no_code_is_forgotten() {
    for code in ProblemCode::ALL {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/wire/snapshots/wire__{code}.snap"));
        let snapshot = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{code} has no snapshot"));
        assert!(snapshot.contains(&format!("\n{}\n", code.status())), "{code}");
        assert!(snapshot.contains(&format!(r#""error":"{code}""#)), "{code}");
        assert!(snapshot.contains("\ncache-control: no-store\n"), "{code}");
        assert!(snapshot.contains(&format!("\nx402-error: {code}\n")), "{code}");
        let quotes = [ProblemCode::PaymentRequired, ProblemCode::AuthorizationRefused].contains(code);
        assert_eq!(snapshot.contains("\npay: "), quotes, "{code}");
    }
}

/// What an outer layer can log.
#[tokio::test]
async fn a_refusal_says_its_code_to_outer_layers() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let refused = ask(&service, post("{query}")).await;
    assert_eq!(refused.extensions().get::<ProblemCode>(), Some(&ProblemCode::InvalidBody));
}

/// A quote is read back by the payer's parser.
#[tokio::test]
async fn a_payer_reads_the_quote() {
    let shop = Shop::open().await;
    let merchant: &Merchant = &shop.merchant;
    let layer = merchant.charge("answer", PRICE).unwrap().label("Überblick").unwrap();
    let quote = ask(&layered(&layer, echo(Counter::default())), post("{}")).await;
    let quote = tower_x402::protocol::Quote::from_headers(quote.headers()).unwrap();
    assert_eq!((quote.recipient, quote.network), (merchant.recipient(), merchant.network()));
    assert_eq!((quote.label.as_str(), quote.expiry.unix()), ("Überblick", NOW + 900));
    assert_eq!((quote.amount, quote.decimals), (Amount::from_base_units(490_000), 6));
    assert_eq!(quote.contracts, [Asset::USDC_BASE.contract()]);
}
