//! Passes: paid for once, called many times, never more often than was paid for.

mod tickets;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use serde_json::Value;
use tower_x402::{
    Charge, Merchant, Pass, PassIssuer, Price, Receipt, X402, X402Layer,
    ledger::{Ledger as _, MemoryLedger},
    protocol::{
        Amount, ChainTime, Network, SealingKeys,
        headers::PAYMENT_SIGNATURE,
        v2::{PaymentPayload, PaymentRequired},
    },
};

use crate::standard;
use crate::support::{
    Answer, Counter, KEY, NOW, Shop, answering, ask, assert_problem, by_header, echo,
    faults::{Fault, Op, Stage, handler, settle},
    hanging, intent_of, layered, payer, proof, quoted, read, status, with_status,
};

const CALLS: u64 = 3;

pub fn three(merchant: &Merchant) -> Pass {
    merchant.pass("three", "1 USDC").unwrap().calls(CALLS).unwrap().label("Three answers").unwrap().at("/pass").unwrap()
}

/// A request that buys a pass, with a payment or without.
fn at_the_counter() -> http::request::Builder {
    Request::post("/pass")
}

/// Pays for a pass, and returns its answer.
async fn buy_of(shop: &Shop, sells: &X402<PassIssuer>, units: u128) -> (String, Value) {
    let ask = |request| async { tower::ServiceExt::oneshot(sells.clone(), request).await.unwrap() };
    let quote = ask(at_the_counter().body(Body::empty()).unwrap()).await;
    assert_eq!(quote.status(), 402);
    let (intent, tx) = (intent_of(&quote), shop.pay(units));
    let paid = || at_the_counter().header("x402-payment", proof(&intent, tx)).body(Body::empty()).unwrap();
    let answer = ask(paid()).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["cache-control"], "private, no-store");
    let told: Value = json(answer).await;
    let token = told["pass"].as_str().unwrap().to_owned();
    assert!(token.starts_with("x402p_") && token.len() < 100, "{token}");
    // The same payment again: the same pass, and no other.
    let again = ask(paid()).await;
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(json(again).await, told);
    (token, told)
}

async fn json<B>(answer: Response<B>) -> Value
where
    B: http_body::Body<Data = bytes::Bytes, Error: std::fmt::Debug>,
{
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

pub async fn buy(shop: &Shop, pass: &Pass) -> String {
    buy_of(shop, &pass.service().unwrap(), 1_000_000).await.0
}

pub fn with(token: &str) -> Request<Body> {
    Request::post("/answer").header("x402-pass", token).body(Body::empty()).unwrap()
}

fn left<B>(answer: &Response<B>) -> &str {
    answer.headers()["x402-pass-remaining"].to_str().unwrap()
}

#[tokio::test]
async fn three_calls_are_three_answers() {
    let shop = Shop::open().await;
    let pass = three(&shop.merchant);
    let (token, told) = buy_of(&shop, &pass.service().unwrap(), 1_000_000).await;
    assert_eq!((&told["calls"], &told["expires"]), (&Value::from(3), &Value::Null));
    let seen: Arc<Mutex<Vec<Receipt>>> = Arc::default();
    let receipts = Arc::clone(&seen);
    let answers = answering(Counter::default(), move |request| {
        assert!(!request.headers().contains_key("x402-pass"), "the handler sees no pass");
        receipts.lock().unwrap().push(request.extensions().get::<Receipt>().unwrap().clone());
        let mut response = Response::new(Body::from("answer"));
        for (name, value) in [("x402-pass-remaining", "99"), ("accept-ranges", "bytes"), ("expires", "0")] {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    });
    let service = layered(&shop.layer().accept_pass(&pass).unwrap(), answers);
    for remaining in ["2", "1", "0"] {
        let answer = ask(&service, with(&token)).await;
        assert_eq!((answer.status(), left(&answer)), (StatusCode::OK, remaining));
        assert_eq!(answer.headers()["cache-control"], "private, no-store");
        for gone in ["payment-response", "accept-ranges", "expires"] {
            assert!(!answer.headers().contains_key(gone), "{gone}");
        }
    }
    let quote = ask(&service, with(&token)).await;
    assert!(quote.headers().contains_key("pay") && quote.headers().contains_key("x-price-intent"));
    let body = assert_problem(quote, 402, "payment_required").await;
    assert_eq!((&body["pass"], &body["pay"]["amount"]), (&"used_up".into(), &"490000".into()));
    // One sale, and three calls.
    assert_eq!(shop.ledger.counts().unwrap().consumed, 1);
    assert_eq!(pass.account(&token).await.unwrap().unwrap().drawn, 3);
    let seen = seen.lock().unwrap();
    let numbers: Vec<_> = seen.iter().map(|receipt| receipt.pass().unwrap().number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    for receipt in &*seen {
        assert_eq!((receipt.payer(), receipt.resource()), (payer(), "answer"));
        assert_eq!(receipt.payment_id(), seen[0].payment_id());
        assert_eq!((receipt.amount(), &*receipt.pass().unwrap().name), (Amount::from_base_units(1_000_000), "three"));
        assert!(receipt.transaction().is_some());
    }
}

/// Its sale is not forgotten before, whatever the age of payments that count.
#[tokio::test]
async fn the_same_payment_is_answered_with_its_pass_for_thirty_days() {
    const DAY: u64 = 86_400;
    let standard::Stall { shop, .. } = standard::Stall::open().await;
    let sells = three(&shop.merchant).service().unwrap();
    let ask = |request| async { tower::ServiceExt::oneshot(sells.clone(), request).await.unwrap() };
    let quote = || async { ask(at_the_counter().body(Body::empty()).unwrap()).await };
    let (intent, transaction) = (intent_of(&quote().await), shop.pay(1_000_000));
    let offer = PaymentRequired::from_headers(quote().await.headers()).unwrap().unwrap();
    let signed: PaymentPayload = standard::pays(offer.accepts[0].exact().unwrap());
    let by_transfer = || at_the_counter().header("x402-payment", proof(&intent, transaction));
    let by_signature = || at_the_counter().header(PAYMENT_SIGNATURE, signed.to_header());
    let shown = |payment: http::request::Builder| ask(payment.body(Body::empty()).unwrap());
    let mut passes = Vec::new();
    for payment in [by_transfer(), by_signature()] {
        let answer = shown(payment).await;
        assert_eq!(answer.status(), 200);
        passes.push(json(answer).await["pass"].clone());
    }
    assert_ne!(passes[0], passes[1]);
    let days_later = async |days: u64| {
        let now = NOW + days * DAY;
        shop.clock.set_unix(now);
        shop.chain.set_head(ChainTime::from_unix(now));
        shop.ledger.sweep(Network::BASE, ChainTime::from_unix(now)).await.unwrap()
    };
    for days in [1, 3, 29] {
        assert_eq!(days_later(days).await, 0, "{days}");
        for (payment, pass) in [by_transfer(), by_signature()].into_iter().zip(&passes) {
            let again = shown(payment).await;
            assert_eq!(again.status(), 200, "{days}");
            assert_eq!(again.headers()["idempotent-replayed"], "true");
            assert_eq!(json(again).await["pass"], *pass);
        }
    }
    // Nothing is kept for good.
    assert_eq!(days_later(33).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_twenty_calls_at_once_on_three_that_are_left_three_are_answered() {
    let shop = Shop::open().await;
    let pass = three(&shop.merchant);
    let layer = shop.layer().accept_pass(&pass).unwrap();
    for _ in 0..20 {
        let token = buy(&shop, &pass).await;
        let counter = Counter::default();
        let service = layered(&layer, echo(counter.clone()));
        let calls: Vec<_> = (0..20)
            .map(|_| {
                let (service, token) = (service.clone(), token.clone());
                tokio::spawn(async move { ask(&service, with(&token)).await.status().as_u16() })
            })
            .collect();
        let mut statuses = Vec::new();
        for call in calls {
            statuses.push(call.await.unwrap());
        }
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 3, "{statuses:?}");
        assert!(statuses.iter().all(|status| [200, 402, 409].contains(status)), "{statuses:?}");
        assert_eq!(counter.runs(), 3);
        assert_problem(ask(&service, with(&token)).await, 402, "payment_required").await;
    }
}

#[tokio::test]
async fn a_failed_call_costs_nothing() {
    let shop = Shop::open().await;
    let pass = three(&shop.merchant);
    let token = buy(&shop, &pass).await;
    let layer = shop.layer().accept_pass(&pass).unwrap();
    for failing in [500, 503, 404, 400, 304] {
        let answer = ask(&layered(&layer, status(failing)), with(&token)).await;
        assert_eq!(answer.status().as_u16(), failing);
        assert!(!answer.headers().contains_key("x402-pass-remaining"));
    }
    // Its own bill is never handed on.
    assert_problem(ask(&layered(&layer, status(402)), with(&token)).await, 502, "upstream_payment_required").await;
    let by_body = layer.clone().consume_when_body(|_, _, body| body != "the handler's words");
    assert_eq!(
        ask(&layered(&by_body, answering(Counter::default(), |_| with_status(200))), with(&token)).await.status(),
        200
    );
    let account = pass.account(&token).await.unwrap().unwrap();
    assert!(account.spent.is_zero() && account.held.is_zero());
    assert_eq!(left(&ask(&layered(&layer, echo(Counter::default())), with(&token)).await), "2");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_or_panics_and_a_client_that_leaves_cost_nothing() {
    let stage = Stage::open_with(|builder| builder.max_hold(Duration::from_secs(300))).await;
    let pass = three(&stage.shop.merchant);
    let token = buy(&stage.shop, &pass).await;
    let layer = stage.layer().accept_pass(&pass).unwrap();
    let (counter, spent) = (Counter::default(), async || pass.account(&token).await.unwrap().unwrap());

    // It hangs: the lease is renewed, and ended after the longest hold.
    let hangs = layered(&layer, hanging(counter.clone()));
    assert_problem(ask(&hangs, with(&token)).await, 504, "answer_timeout").await;
    assert!(stage.ledger.asked(Op::RenewDraw) >= 10, "{}", stage.ledger.asked(Op::RenewDraw));
    assert!(spent().await.spent.is_zero() && spent().await.held.is_zero());

    // The client leaves.
    let call = tokio::spawn({
        let (hangs, token) = (hangs.clone(), token.clone());
        async move { ask(&hangs, with(&token)).await }
    });
    settle().await;
    assert_eq!(spent().await.held, Amount::from_base_units(1));
    call.abort();
    settle().await;
    assert!(spent().await.spent.is_zero() && spent().await.held.is_zero());

    // It panics.
    let panics = layered(&layer, handler(|_| async { panic!("in the handler") }));
    let told = tokio::spawn({
        let token = token.clone();
        async move { ask(&panics, with(&token)).await }
    });
    assert!(told.await.unwrap_err().is_panic());
    settle().await;
    assert!(spent().await.spent.is_zero() && spent().await.held.is_zero());

    // An hour at work, and then an answer.
    let slow = stage.shop.merchant.charge("slow", "0.49 USDC").unwrap().accept_pass(&pass).unwrap();
    let works = layered(
        &slow,
        handler(|_| async {
            tokio::time::sleep(Duration::from_secs(290)).await;
            with_status(200)
        }),
    );
    assert_eq!(left(&ask(&works, with(&token)).await), "2");
}

/// It is decided at the head of the answer: what streams holds nothing, and is not given back.
#[tokio::test(start_paused = true)]
async fn an_answer_that_streams_for_an_hour_is_one_call_from_its_head_on() {
    let stage = Stage::open().await;
    let pass = three(&stage.shop.merchant);
    let token = buy(&stage.shop, &pass).await;
    let streams = answering(Counter::default(), |_| {
        let (sender, receiver) = tokio::sync::mpsc::channel::<Result<bytes::Bytes, std::io::Error>>(1);
        tokio::spawn(async move {
            for _ in 0..60 {
                tokio::time::sleep(Duration::from_secs(60)).await;
                if sender.send(Ok(bytes::Bytes::from_static(b"minute"))).await.is_err() {
                    return;
                }
            }
        });
        let mut receiver = receiver;
        Response::new(Body::from_stream(futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx))))
    });
    let service = layered(&stage.layer().accept_pass(&pass).unwrap(), streams);
    let state = async || pass.account(&token).await.unwrap().unwrap();
    let answer = ask(&service, with(&token)).await;
    assert_eq!(left(&answer), "2");
    assert!(state().await.held.is_zero());
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    assert_eq!(body.len(), 60 * "minute".len());
    // One that its client leaves was sold as well.
    let answer = ask(&service, with(&token)).await;
    assert_eq!(left(&answer), "1");
    drop(answer);
    settle().await;
    assert_eq!((state().await.spent, state().await.held), (Amount::from_base_units(2), Amount::ZERO));
    assert_eq!(stage.ledger.asked(Op::RenewDraw), 0);
}

#[tokio::test]
async fn what_is_left_only_if_calls_fail_is_busy() {
    let shop = Shop::open().await;
    let pass = shop.merchant.pass("one", "1 USDC").unwrap();
    let token = buy(&shop, &pass).await;
    let layer = shop.layer().accept_pass(&pass).unwrap();
    let (hangs, works) = (layered(&layer, hanging(Counter::default())), layered(&layer, echo(Counter::default())));
    let call = tokio::spawn({
        let token = token.clone();
        async move { ask(&hangs, with(&token)).await }
    });
    settle().await;
    let busy = ask(&works, with(&token)).await;
    assert!(busy.headers().contains_key("retry-after"));
    assert_problem(busy, 409, "pass_busy").await;
    call.abort();
    settle().await;
    assert_eq!(left(&ask(&works, with(&token)).await), "0");
}

#[tokio::test]
async fn beside_a_payment_the_pass_stays_as_it_is() {
    let shop = Shop::open().await;
    let pass = three(&shop.merchant);
    let token = buy(&shop, &pass).await;
    let service = layered(&shop.layer().accept_pass(&pass).unwrap(), echo(Counter::default()));
    let intent = quoted(&service).await;
    let mut paid = by_header("POST", &intent, shop.pay(490_000));
    paid.headers_mut().insert("x402-pass", token.parse().unwrap());
    let answer = ask(&service, paid).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.headers().contains_key("payment-response") && !answer.headers().contains_key("x402-pass-remaining"));
    // In the body, too; and a broken payment is no call.
    let mut broken = Request::post("/answer").header("content-type", "application/json").header("x402-pass", &token);
    broken = broken.header("x402-pass", &token);
    let broken = broken.body(Body::from(format!(r#"{{"intentId":"{intent}"}}"#))).unwrap();
    assert_problem(ask(&service, broken).await, 400, "tx_required").await;
    assert!(pass.account(&token).await.unwrap().unwrap().spent.is_zero());
}

#[tokio::test]
async fn a_foreign_pass_is_none() {
    let shop = Shop::open().await;
    let pass = three(&shop.merchant);
    let other = shop.merchant.pass("other", "1 USDC").unwrap();
    let (token, of_other) = (buy(&shop, &pass).await, buy(&shop, &other).await);
    let service = layered(&shop.layer().accept_pass(&pass).unwrap(), echo(Counter::default()));
    let refused = async |request: Request<Body>| {
        let answer = ask(&service, request).await;
        assert_problem(answer, 401, "invalid_pass").await;
    };
    refused(with(&of_other)).await;
    for broken in
        ["", "x402p_", "x402p_AAAA", "x402t_AAAA", &token[..token.len() - 1], &format!("{token}A"), &"a".repeat(9_000)]
    {
        refused(with(broken)).await;
    }
    let mut twice = with(&token);
    twice.headers_mut().append("x402-pass", token.parse().unwrap());
    refused(twice).await;
    let mut bytes = with(&token);
    bytes.headers_mut().insert("x402-pass", HeaderValue::from_bytes(b"x402p_\xff").unwrap());
    refused(bytes).await;
    // On a route that takes none, a pass buys nothing, and no bill is sent for it.
    let without = layered(&shop.merchant.charge("without", "0.49 USDC").unwrap(), echo(Counter::default()));
    assert_problem(ask(&without, with(&token)).await, 401, "invalid_pass").await;
    // Of the same name, by other keys, or of another realm.
    for set in [
        |builder: tower_x402::MerchantBuilder| builder.sealing_keys(SealingKeys::new([9; 32])),
        |builder: tower_x402::MerchantBuilder| builder.realm("elsewhere"),
    ] {
        let merchant = shop.sibling(set).await;
        let (twin, layer) = (three(&merchant), merchant.charge("answer", "0.49 USDC").unwrap());
        assert!(layer.clone().accept_pass(&pass).is_err(), "the pass of another merchant");
        let service = layered(&layer.accept_pass(&twin).unwrap(), echo(Counter::default()));
        assert_problem(ask(&service, with(&token)).await, 401, "invalid_pass").await;
        assert_eq!(twin.account(&token).await, Ok(None));
    }
    // By another key beside the old one it is good, and the account is the same.
    let keys = SealingKeys::new([9; 32]).with_former(KEY).unwrap();
    let merchant = shop.sibling(|builder| builder.sealing_keys(keys)).await;
    let layer = merchant.charge("answer", "0.49 USDC").unwrap().accept_pass(&three(&merchant)).unwrap();
    assert_eq!(left(&ask(&layered(&layer, echo(Counter::default())), with(&token)).await), "2");
    assert_eq!(left(&ask(&service, with(&token)).await), "1");
    // A ledger that does not know its account.
    let merchant = shop.sibling(|builder| builder.ledger(MemoryLedger::with_clock(shop.clock.clone()))).await;
    let layer = merchant.charge("answer", "0.49 USDC").unwrap().accept_pass(&three(&merchant)).unwrap();
    assert_problem(ask(&layered(&layer, echo(Counter::default())), with(&token)).await, 401, "invalid_pass").await;
}

#[tokio::test]
async fn a_pass_ends_with_its_time() {
    let shop = Shop::open().await;
    let day = Duration::from_secs(86_400);
    let pass = shop.merchant.pass("day", "1 USDC").unwrap().lasting(day).unwrap();
    let (token, told) = buy_of(&shop, &pass.service().unwrap(), 1_000_000).await;
    assert_eq!((&told["calls"], &told["expires"]), (&Value::Null, &Value::from(crate::support::NOW + 86_400)));
    let service = layered(&shop.layer().accept_pass(&pass).unwrap(), echo(Counter::default()));
    for _ in 0..200 {
        let answer = ask(&service, with(&token)).await;
        assert_eq!(answer.status(), 200);
        assert!(!answer.headers().contains_key("x402-pass-remaining"), "nothing is counted down");
    }
    shop.clock.advance(day);
    let body = assert_problem(ask(&service, with(&token)).await, 402, "payment_required").await;
    assert_eq!(body["pass"], "expired");
    // The clock is set back: it lasts longer, and holds what it held.
    shop.clock.set_unix(crate::support::NOW);
    assert_eq!(ask(&service, with(&token)).await.status(), 200);
}

#[tokio::test]
async fn prices_draw_down_a_purse() {
    let shop = Shop::open().await;
    let pass = shop.merchant.pass("purse", "1 USDC").unwrap().worth("1 USDC").unwrap();
    let (token, told) = buy_of(&shop, &pass.service().unwrap(), 1_000_000).await;
    assert_eq!((&told["calls"], &told["worth"]), (&Value::Null, &"1".into()));
    let by_length = |_: &http::request::Parts, body: &bytes::Bytes| match body.len() {
        0 => Price::Free,
        9 => Price::Refuse(with_bytes(418).into()),
        length => Price::Charge(Amount::from_base_units(length as u128 * 100_000)),
    };
    let layer = shop.merchant.price_with("by-length", by_length).unwrap().accept_pass(&pass).unwrap();
    let service = layered(&layer, echo(Counter::default()));
    let asks = |length: usize| {
        let request = Request::post("/answer").header("x402-pass", &token).header("content-type", "text/plain");
        ask(&service, request.body(Body::from("a".repeat(length))).unwrap())
    };
    assert_eq!(left(&asks(4).await), "0.6");
    assert_eq!(asks(0).await.status(), 200);
    assert_eq!(asks(9).await.status(), 418);
    let body = assert_problem(asks(7).await, 402, "payment_required").await;
    assert_eq!((&body["pass"], &body["pay"]["amount"]), (&"used_up".into(), &"700000".into()));
    assert_eq!(left(&asks(6).await), "0");
    assert_eq!(pass.account(&token).await.unwrap().unwrap().drawn, 2);
}

fn with_bytes(status: u16) -> Response<bytes::Bytes> {
    Response::builder().status(status).body(bytes::Bytes::from_static(b"no")).unwrap()
}

#[tokio::test]
async fn quotes_name_the_passes_that_count() {
    let shop = Shop::open().await;
    let pass = three(&shop.merchant);
    let purse = shop.merchant.pass("purse", "4.50 USDC").unwrap().worth("5 USDC").unwrap();
    let purse = purse.lasting(Duration::from_secs(3_600)).unwrap();
    let layer = shop.layer().accept_pass(&pass).unwrap().accept_pass(&purse).unwrap();
    let service = layered(&layer, echo(Counter::default()));
    let quote = ask(&service, crate::support::post("{}")).await;
    let length: usize = quote.headers()["content-length"].to_str().unwrap().parse().unwrap();
    let bytes = http_body_util::BodyExt::collect(quote.into_body()).await.unwrap().to_bytes();
    assert_eq!(bytes.len(), length);
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        body["passes"],
        serde_json::json!([
            { "name": "three", "label": "Three answers", "price": "1", "calls": 3, "seconds": null, "url": "/pass" },
            { "name": "purse", "label": "purse", "price": "4.5", "calls": null, "seconds": 3600, "url": null, "worth": "5" },
        ])
    );
    let without = layered(&shop.merchant.charge("without", "0.49 USDC").unwrap(), echo(Counter::default()));
    let (_, body) = read(ask(&without, crate::support::post("{}")).await).await;
    assert_eq!(body.get("passes"), None);
}

#[tokio::test]
async fn what_cannot_be_sold_is_no_pass() {
    let shop = Shop::open().await;
    let pass = three(&shop.merchant);
    assert!(shop.merchant.pass("three", "1 USDC").unwrap().calls(0).is_err());
    assert!(shop.merchant.pass("three", "2 USDC").is_err(), "one name, one price");
    let _ = pass.service().unwrap();
    let four = shop.merchant.pass("three", "1 USDC").unwrap().calls(4).unwrap();
    assert!(four.service().is_err() && shop.layer().accept_pass(&four).is_err(), "one name, one pass");
    assert!(shop.merchant.pass("brief", "1 USDC").unwrap().lasting(Duration::ZERO).is_err());
    assert!(shop.layer().ticket(Duration::ZERO).is_err());
}

#[tokio::test]
async fn head_and_free_requests_use_no_call() {
    let shop = Shop::open().await;
    let pass = three(&shop.merchant);
    let token = buy(&shop, &pass).await;
    let layer = shop.layer().accept_pass(&pass).unwrap().free_when(|method, _, _| method == http::Method::GET);
    let saw_pass = answering(Counter::default(), |request| {
        with_status(if request.headers().contains_key("x402-pass") { 500 } else { 200 })
    });
    let service = layered(&layer, saw_pass);
    let asks = |method: &str| {
        ask(
            &service,
            Request::builder().method(method).uri("/answer").header("x402-pass", &token).body(Body::empty()).unwrap(),
        )
    };
    assert_eq!(asks("GET").await.status(), 200);
    let head = asks("HEAD").await;
    assert_eq!((head.status().as_u16(), head.headers().contains_key("pay")), (402, true));
    assert_eq!(pass.account(&token).await.unwrap().unwrap().drawn, 0);
}

#[tokio::test]
async fn a_body_that_is_too_long_to_look_at_is_refused_with_a_pass() {
    let shop = Shop::open().await;
    let pass = three(&shop.merchant);
    let token = buy(&shop, &pass).await;
    let layer = shop.layer().accept_pass(&pass).unwrap().body_limit(1_024).unwrap();
    let counter = Counter::default();
    let long = |layer: &X402Layer, kind: &str, begin: &str| {
        let request = Request::post("/answer").header("content-type", kind).header("x402-pass", &token);
        let service = layered(layer, echo(counter.clone()));
        let request = request.body(Body::from(format!(r#"{begin}"query":"{}"}}"#, "a".repeat(4_000)))).unwrap();
        async move { ask(&service, request).await }
    };
    for (kind, begin) in [("application/json", "{"), ("text/plain", "{"), ("text/plain", "["), ("text/plain", "x")] {
        assert_problem(long(&layer, kind, begin).await, 413, "body_too_large").await;
    }
    assert_eq!((counter.runs(), pass.account(&token).await.unwrap().unwrap().drawn), (0, 0));
    // Where no body is looked at, it streams.
    let answer = long(&layer.header_only(), "application/json", "{").await;
    assert_eq!(left(&answer), "2");
    assert_eq!(http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes().len(), 4_012);
}

/// Nothing in such a body can be a proof, and all of it is what the call is about.
#[tokio::test]
async fn a_call_by_pass_has_its_whole_body_whatever_that_is_like() {
    let shop = Shop::open().await;
    let pass = shop.merchant.pass("many", "1 USDC").unwrap().calls(20).unwrap().at("/pass").unwrap();
    let token = buy(&shop, &pass).await;
    let service = layered(&shop.layer().accept_pass(&pass).unwrap(), echo(Counter::default()));
    for (kind, body) in [
        ("text/plain", &b"what is it about?"[..]),
        ("image/png", b"\x89PNG\r\n\x1a\n and more"),
        ("application/octet-stream", b"\x1f\x8b[]{}"),
        ("application/grpc", b"\0\0\0\0\x02{}"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\n1\r\n--x--"),
        ("text/plain", b"[sic] no JSON"),
        ("text/plain", br#"{"query":"why"}"#),
        ("application/json", br#"{"query":"why"}"#),
        ("text/plain", b" "),
        ("text/plain", b""),
        ("", b"of no type"),
    ] {
        let pieces: Vec<_> = body.chunks(5).map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece))).collect();
        let request = Request::post("/answer").header("x402-pass", &token).header("content-length", body.len());
        let mut request = request.body(Body::from_stream(futures_util::stream::iter(pieces))).unwrap();
        if !kind.is_empty() {
            request.headers_mut().insert("content-type", HeaderValue::from_static(kind));
        }
        let answer = ask(&service, request).await;
        assert!(answer.headers().contains_key("x402-pass-remaining"), "{kind}");
        let heard = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        assert_eq!(heard, body, "{kind}");
    }
}

#[tokio::test]
async fn a_pass_that_was_not_sold_is_never_handed_out() {
    let stage = Stage::open().await;
    let pass = three(&stage.shop.merchant);
    let sells = pass.service().unwrap();
    let ask = |request| async { tower::ServiceExt::oneshot(sells.clone(), request).await.unwrap() };
    let quote = ask(at_the_counter().body(Body::empty()).unwrap()).await;
    let (intent, tx) = (intent_of(&quote), stage.shop.pay(1_000_000));
    let paid = || at_the_counter().header("x402-payment", proof(&intent, tx)).body(Body::empty()).unwrap();
    // No account, no pass.
    stage.ledger.next(Op::OpenAccount, [Fault::Fail]);
    let failed = ask(paid()).await;
    assert_eq!((failed.status().as_u16(), stage.counts().consumed), (503, 0));
    // No record of the sale, no pass.
    stage.ledger.always(Op::Commit, Fault::Fail);
    let unknown = ask(paid()).await;
    assert_eq!(unknown.status(), 503);
    assert!(json(unknown).await.get("pass").is_none());
    stage.ledger.heal();
    let answer = ask(paid()).await;
    assert_eq!((answer.status().as_u16(), stage.counts().consumed), (200, 1));
    let token = json(answer).await["pass"].as_str().unwrap().to_owned();
    let account = pass.account(&token).await.unwrap().unwrap();
    assert_eq!((account.limit, account.drawn), (Amount::from_base_units(3), 0), "one account for all these runs");
    // Another payment is another pass.
    assert_ne!(buy(&stage.shop, &pass).await, token);
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_fails_answers_no_call_that_it_did_not_count() {
    let stage = Stage::open().await;
    let pass = three(&stage.shop.merchant);
    let token = buy(&stage.shop, &pass).await;
    let counter = Counter::default();
    let service = layered(&stage.layer().accept_pass(&pass).unwrap(), echo(counter.clone()));
    let spent = async || pass.account(&token).await.unwrap().unwrap().spent;
    for fault in [Fault::Fail, Fault::Hang, Fault::AnswerLost] {
        stage.ledger.next(Op::Draw, [fault]);
        assert_problem(ask(&service, with(&token)).await, 503, "ledger_unavailable").await;
    }
    assert_eq!(counter.runs(), 0);
    // A grant whose answer was lost holds one call until its lease runs out.
    tokio::time::sleep(Duration::from_secs(61)).await;
    // What is not heard of is asked again, and spent once.
    for fault in [Fault::Fail, Fault::AnswerLost, Fault::AnswerHangs] {
        let before = spent().await;
        stage.ledger.next(Op::Charge, [fault]);
        let status = ask(&service, with(&token)).await.status().as_u16();
        assert_eq!(
            (status, spent().await),
            (200, before.checked_add(Amount::from_base_units(1)).unwrap()),
            "{fault:?}"
        );
    }
    let token = buy(&stage.shop, &pass).await;
    stage.ledger.always(Op::Charge, Fault::Fail);
    assert_problem(ask(&service, with(&token)).await, 503, "outcome_unknown").await;
    stage.ledger.heal();
    assert!(pass.account(&token).await.unwrap().unwrap().spent.is_zero(), "it was given back");
}

/// One draw, which need not outlive its holder, and one charge, which is the only write that waits for the disk.
#[tokio::test]
async fn a_call_asks_the_ledger_twice_and_the_chain_never() {
    let stage = Stage::open().await;
    let pass = three(&stage.shop.merchant);
    let token = buy(&stage.shop, &pass).await;
    let service = layered(&stage.layer().accept_pass(&pass).unwrap(), echo(Counter::default()));
    stage.ledger.take_asked();
    let looked = stage.shop.chain.calls();
    assert_eq!(ask(&service, with(&token)).await.status(), 200);
    assert_eq!(stage.ledger.take_asked(), [Op::Draw, Op::Charge]);
    assert_eq!(stage.shop.chain.calls(), looked);
    // A call that fails writes nothing that must last.
    let fails = layered(&stage.layer().accept_pass(&pass).unwrap(), status(500));
    assert_eq!(ask(&fails, with(&token)).await.status(), 500);
    assert_eq!(stage.ledger.take_asked(), [Op::Draw, Op::ReleaseDraw]);
}

#[tokio::test]
async fn a_closed_pass_buys_nothing_and_what_is_left_is_told() {
    let shop = Shop::open().await;
    let pass = three(&shop.merchant);
    let token = buy(&shop, &pass).await;
    let service = layered(&shop.layer().accept_pass(&pass).unwrap(), echo(Counter::default()));
    assert_eq!(left(&ask(&service, with(&token)).await), "2");
    let closed = pass.close(&token).await.unwrap().unwrap();
    assert_eq!(closed.left, Amount::from_base_units(2));
    let body = assert_problem(ask(&service, with(&token)).await, 401, "invalid_pass").await;
    assert!(body["detail"].as_str().unwrap().contains("closed this pass"), "{body}");
    assert_eq!(pass.close("x402p_none").await, Ok(None));
    let answer: Answer = ask(&service, with(&buy(&shop, &pass).await)).await;
    assert_eq!(left(&answer), "2", "another pass is as it was");
}

/// Calls never become money, nor money calls, where a name is sold with other terms later.
#[tokio::test]
async fn a_pass_of_other_terms_under_the_same_name_is_another_pass() {
    let shop = Shop::open().await;
    let sold = async |kind: usize, size: u64| {
        let merchant = shop.sibling(|builder| builder).await;
        let pass = merchant.pass("changing", "1 USDC").unwrap();
        let pass = match kind {
            0 => pass.calls(size).unwrap(),
            1 => pass.worth(format!("{size} USDC").as_str()).unwrap(),
            _ => pass.lasting(Duration::from_secs(60 * size)).unwrap(),
        };
        (merchant, pass)
    };
    for index in 0..3 {
        let token = buy(&shop, &sold(index, 1).await.1).await;
        for other in 0..3 {
            let (merchant, new) = sold(other, 2).await;
            let layer = merchant.charge("answer", "0.49 USDC").unwrap().accept_pass(&new).unwrap();
            let service = layered(&layer, echo(Counter::default()));
            let answer = ask(&service, with(&token)).await;
            match index == other {
                true => assert_eq!(answer.status(), 200),
                false => _ = assert_problem(answer, 401, "invalid_pass").await,
            }
        }
    }
}

/// A purchase that goes on under other terms opens another account: what the first one holds is no money.
#[tokio::test]
async fn a_purchase_that_goes_on_under_other_terms_holds_what_these_say() {
    let stage = Stage::open().await;
    let shop = &stage.shop;
    let old = shop.merchant.pass("changing", "1 USDC").unwrap().lasting(Duration::from_secs(3_600)).unwrap();
    let merchant = shop.sibling(|builder| builder.ledger(stage.ledger.clone())).await;
    let new = merchant.pass("changing", "1 USDC").unwrap().worth("1 USDC").unwrap();
    let ask =
        |sells: X402<PassIssuer>, request| async move { tower::ServiceExt::oneshot(sells, request).await.unwrap() };
    let quote = ask(old.service().unwrap(), at_the_counter().body(Body::empty()).unwrap()).await;
    let (intent, tx) = (intent_of(&quote), shop.pay(1_000_000));
    let paid = || at_the_counter().header("x402-payment", proof(&intent, tx)).body(Body::empty()).unwrap();
    stage.ledger.next(Op::OpenAccount, [Fault::AnswerLost]);
    assert_ne!(ask(old.service().unwrap(), paid()).await.status(), 200);
    let told = json(ask(new.service().unwrap(), paid()).await).await;
    let account = new.account(told["pass"].as_str().unwrap()).await.unwrap().unwrap();
    assert_eq!((account.limit, account.drawn), (Amount::from_base_units(1_000_000), 0));
}

/// The handler's word counts for whoever holds an amount, however it was paid for.
#[tokio::test]
async fn a_metered_answer_draws_what_the_handler_charges() {
    let shop = Shop::open().await;
    let settler = tower_x402::testing::ScriptedSettler::new(shop.chain.clone());
    let merchant = shop.sibling(|builder| builder.permit_settler(settler)).await;
    let (purse, ten) = (
        merchant.pass("purse", "1 USDC").unwrap().worth("1 USDC").unwrap(),
        merchant.pass("ten", "1 USDC").unwrap().calls(10).unwrap(),
    );
    let metered = merchant.charge_up_to("complete", "0.10 USDC").unwrap();
    let metered = metered.accept_pass(&purse).unwrap().accept_pass(&ten).unwrap();
    let metered = metered.ticket(Duration::from_secs(60)).unwrap();
    let maximum: Arc<Mutex<Option<Amount>>> = Arc::default();
    let says = |units: u128| {
        let maximum = Arc::clone(&maximum);
        layered(
            &metered,
            answering(Counter::default(), move |request| {
                *maximum.lock().unwrap() = request.extensions().get::<Receipt>().unwrap().maximum();
                let mut answer = Response::new(Body::from("words"));
                answer.extensions_mut().insert(Charge(Amount::from_base_units(units)));
                answer
            }),
        )
    };
    let (purse, ten) = (buy(&shop, &purse).await, buy(&shop, &ten).await);
    for (token, units, remaining) in
        [(&purse, 1_000, "0.999"), (&purse, 0, "0.999"), (&purse, 100_000, "0.899"), (&ten, 1_000, "9"), (&ten, 0, "8")]
    {
        let answer = ask(&says(units), with(token)).await;
        assert_eq!((answer.status(), left(&answer)), (StatusCode::OK, remaining));
        let is_charged = *token == purse;
        assert_eq!(*maximum.lock().unwrap(), is_charged.then_some(Amount::from_base_units(100_000)));
        // What cost nothing now may be dear when it is asked for again.
        assert_eq!(answer.headers().contains_key("x402-ticket"), !(is_charged && units == 0));
    }
    // More than the maximum is the service's error, and costs nothing.
    for (token, remaining) in [(&purse, "0.799"), (&ten, "7")] {
        assert_eq!(ask(&says(100_001), with(token)).await.status(), 500);
        assert_eq!(left(&ask(&says(100_000), with(token)).await), remaining);
    }
}
