//! The ordinary way: quote, payment, answer, once.

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, header, request::Parts};
use tower_x402::{Price, X402Layer, protocol::Amount};

use crate::support::{
    Answer, Counter, Handler, PRICE, Shop, answering, ask, assert_problem, by_header, echo, intent_of, layered, post,
    proof, quoted, read, redemption, with_status,
};

#[tokio::test]
async fn a_quote_a_payment_an_answer_once() {
    let shop = Shop::open().await;
    let counter = Counter::default();
    let service = layered(&shop.merchant.charge("answer", PRICE).unwrap(), echo(counter.clone()));

    let quote = ask(&service, post(r#"{"query":"why"}"#)).await;
    let intent = intent_of(&quote);
    assert_problem(quote, 402, "payment_required").await;
    assert_eq!(counter.runs(), 0);

    let tx = shop.pay(490_000);
    let answer = ask(&service, redemption(&intent, tx)).await;
    assert_eq!(answer.headers()["cache-control"], "private, no-store");
    let taken: serde_json::Value =
        serde_json::from_slice(&STANDARD.decode(&answer.headers()["payment-response"]).unwrap()).unwrap();
    assert_eq!(taken["amount"], "490000");
    assert_eq!(taken["transaction"], tx.to_string());
    assert_eq!(answer.headers()["x-paid"], format!("eip155:8453/{tx}/0").as_str());
    let (status, body) = read(answer).await;
    assert_eq!((status.as_u16(), body["query"].as_str()), (200, Some("why")));

    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    let other = intent_of(&ask(&service, post("{}")).await);
    assert_problem(ask(&service, redemption(&other, tx)).await, 409, "tx_already_used").await;
    assert_eq!(counter.runs(), 1);
}

#[tokio::test]
async fn a_redemption_in_the_header_leaves_the_body_alone() {
    let shop = Shop::open().await;
    let service = layered(&shop.merchant.charge("answer", PRICE).unwrap(), echo(Counter::default()));
    let intent = intent_of(&ask(&service, post("{}")).await);
    let proof = format!(r#"{{"intentId":"{intent}","txHash":"{}"}}"#, shop.pay(490_000));
    let request = Request::post("/answer").header("x402-payment", proof).body(Body::from("not json {")).unwrap();
    let (status, body) = read(ask(&service, request).await).await;
    assert_eq!((status.as_u16(), body.as_str()), (200, Some("not json {")));
}

/// A handler that answers 206 to who asks for a part, and says what it saw.
fn in_parts() -> impl Handler {
    answering(Counter::default(), |request| {
        let seen = |name: HeaderName| request.headers().get(name).cloned();
        let (range, condition) = (seen(header::RANGE), seen(header::IF_RANGE));
        let mut response: Response<Body> = with_status(if range.is_some() { 206 } else { 200 });
        for (name, value) in [("x-range", range), ("x-if-range", condition)] {
            value.map(|value| response.headers_mut().insert(name, value));
        }
        response
    })
}

fn partly(mut request: Request<Body>, range: &'static str) -> Request<Body> {
    request.headers_mut().insert(header::RANGE, HeaderValue::from_static(range));
    request.headers_mut().insert(header::IF_RANGE, HeaderValue::from_static("\"1\""));
    request
}

/// What is sold is the whole answer, whatever part of it was asked for.
#[tokio::test]
async fn a_part_is_not_sold_for_the_whole() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), in_parts());
    let paid = [redemption as fn(&str, _) -> _, |intent, tx| by_header("GET", intent, tx)];
    for request in paid {
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        let answer = ask(&service, partly(request(&intent, tx), "bytes=0-9")).await;
        assert_eq!(answer.status(), 200);
        assert!(!answer.headers().contains_key("x-range") && !answer.headers().contains_key("x-if-range"));
        assert!(answer.headers().contains_key("payment-response"));
    }
}

/// A request that costs nothing is not the layer's, and its part of nothing neither.
#[tokio::test]
async fn a_free_request_keeps_its_range() {
    let shop = Shop::open().await;
    let free = shop.merchant.price_with("free", |_, _| Price::Free).unwrap();
    for layer in [shop.layer().free_when(|_, _, _| true), free] {
        assert_eq!(ask(&layered(&layer, in_parts()), partly(post("{}"), "bytes=0-9")).await.status(), 206);
    }
}

/// Where the seller keeps them a part is a sale, and a quote for one is none for another.
#[tokio::test]
async fn a_route_that_keeps_ranges_sells_parts() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().keep_ranges().bind_request(), in_parts());
    let get = |range| partly(Request::get("/answer").body(Body::empty()).unwrap(), range);
    let redeem = |intent: &str, tx, range| partly(by_header("GET", intent, tx), range);
    let (intent, tx) = (intent_of(&ask(&service, get("bytes=0-9")).await), shop.pay(490_000));
    assert_problem(ask(&service, redeem(&intent, tx, "bytes=0-99")).await, 404, "intent_not_found").await;
    assert_problem(ask(&service, by_header("GET", &intent, tx)).await, 404, "intent_not_found").await;
    let part = ask(&service, redeem(&intent, tx, "bytes=0-9")).await;
    assert_eq!((part.status().as_u16(), &part.headers()["x-range"]), (206, &HeaderValue::from_static("bytes=0-9")));
    assert!(part.headers().contains_key("payment-response") && part.headers().contains_key("x-if-range"));
    assert_problem(ask(&service, redeem(&intent, tx, "bytes=0-9")).await, 409, "already_consumed").await;
}

/// A price by the part is a price for the part: whoever binds the header gets the part that was priced, and no more.
#[tokio::test]
async fn a_price_that_hangs_on_a_range_sells_that_range() {
    let shop = Shop::open().await;
    let by_part = |name: HeaderName| {
        let looked_at = name.clone();
        let price = move |parts: &Parts, _: &Bytes| {
            let part = parts.headers.contains_key(&looked_at);
            Price::Charge(Amount::from_base_units(if part { 10_000 } else { 490_000 }))
        };
        shop.merchant.price_with(name.as_str(), price).unwrap().bind_headers([name])
    };
    for name in [header::RANGE, header::IF_RANGE] {
        let service = layered(&by_part(name), in_parts());
        let get = |range| partly(Request::get("/answer").body(Body::empty()).unwrap(), range);
        let redeem = |intent: &str, tx, range| partly(by_header("GET", intent, tx), range);
        let (intent, tx) = (intent_of(&ask(&service, get("bytes=0-9")).await), shop.pay(10_000));
        // The whole, or more of it, for the price of a part.
        assert_problem(ask(&service, by_header("GET", &intent, tx)).await, 404, "intent_not_found").await;
        let part = ask(&service, redeem(&intent, tx, "bytes=0-9")).await;
        assert_eq!((part.status().as_u16(), part.headers().get("x-range").is_some()), (206, true));
        assert!(part.headers().contains_key("payment-response") && part.headers().contains_key("x-if-range"));
    }
}

/// Some shared caches put these before `Cache-Control`, and would sell the answer on for nothing.
#[tokio::test]
async fn what_is_sold_is_kept_by_no_cache_and_what_is_not_stays_the_handlers() {
    const CACHING: [&str; 4] = ["cdn-cache-control", "surrogate-control", "x-accel-expires", "expires"];
    let shop = Shop::open().await;
    for (status, sold) in [(200, true), (422, false)] {
        let handler = answering(Counter::default(), move |_| {
            let mut response = with_status(status);
            for name in CACHING {
                response.headers_mut().insert(name, HeaderValue::from_static("3600"));
            }
            response
        });
        let service = layered(&shop.layer(), handler);
        let answer = ask(&service, redemption(&quoted(&service).await, shop.pay(490_000))).await;
        for name in CACHING {
            assert_eq!(answer.headers().contains_key(name), !sold, "{name}");
        }
    }
}

/// A service that passes on what another seller says.
fn relay() -> impl Handler {
    answering(Counter::default(), |_| {
        let mut response = with_status(402);
        for (name, value) in
            [("pay", r#"{"recipient":"0x01"}"#), ("x-price-intent", "theirs"), ("payment-required", "x")]
        {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    })
}

fn never_billed(answer: &Answer) {
    for name in ["pay", "x-price-intent", "payment-required"] {
        assert!(!answer.headers().contains_key(name), "{name}");
    }
}

/// Whoever shows a proof is sent no bill, a free request's neither.
#[tokio::test]
async fn a_proof_shown_to_a_free_route_that_bills_is_502() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let now = shop.merchant.price_with("free now", |_, _| Price::Free).unwrap();
    let later = shop.merchant.price_with_async("free later", async |_, _| Price::Free).unwrap();
    let gate = shop.merchant.charge("free by gate", PRICE).unwrap().free_when(|_, _, _| true);
    let word = shop.merchant.charge("free by word", PRICE).unwrap().free_when_async(|_| async { true });
    let halves = [proof(&intent, tx), format!(r#"{{"txHash":"{tx}"}}"#), format!(r#"{{"intentId":"{intent}"}}"#)];
    for (layer, reads_bodies) in [(now, true), (later, true), (gate, false), (word, false)] {
        let free = layered(&layer, relay());
        for half in &halves {
            let mut by_header = post("{}");
            by_header.headers_mut().insert("x402-payment", half.parse().unwrap());
            for request in [Some(by_header), reads_bodies.then(|| post(half.clone()))].into_iter().flatten() {
                let answer = ask(&free, request).await;
                never_billed(&answer);
                assert_problem(answer, 502, "upstream_payment_required").await;
            }
        }
        for other in ["payment-signature", "x-payment"] {
            let mut unreadable = post("{}");
            unreadable.headers_mut().insert(other, "a payment of some kind".parse().unwrap());
            never_billed(&ask(&free, unreadable).await);
        }
        // Without a proof the layer is not there at all.
        let answer = ask(&free, post("{}")).await;
        assert_eq!((answer.status().as_u16(), &answer.headers()["x-price-intent"]), (402, &"theirs".parse().unwrap()));
        assert!(!answer.headers().contains_key("x402-error"));
    }
}

/// A price that hangs on the type of a body, or on how it is packed, is not had by quoting another.
#[tokio::test]
async fn a_cheap_type_buys_no_dear_one() {
    fn by_type(parts: &Parts, _: &Bytes) -> Price {
        let dear = parts.headers.get(header::CONTENT_TYPE).is_some_and(|value| value == "text/csv")
            || parts.headers.contains_key(header::CONTENT_ENCODING);
        Price::Charge(Amount::from_base_units(if dear { 1_000_000 } else { 1_000 }))
    }
    let shop = Shop::open().await;
    let service = layered(&shop.merchant.price_with("typed", by_type).unwrap().header_only(), echo(Counter::default()));
    let send = |content_type: &'static str, encoding: Option<&'static str>| {
        let mut request = post("a,b");
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        encoding.map(|value| request.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(value)));
        request
    };
    let redeem = |mut request: Request<Body>, intent: &str, tx| {
        request.headers_mut().insert("x402-payment", proof(intent, tx).parse().unwrap());
        request
    };
    let (intent, tx) = (intent_of(&ask(&service, send("text/plain", None)).await), shop.pay(1_000));
    for dear in [send("text/csv", None), send("text/plain", Some("gzip"))] {
        assert_problem(ask(&service, redeem(dear, &intent, tx)).await, 404, "intent_not_found").await;
    }
    assert_eq!(ask(&service, redeem(send("text/plain", None), &intent, tx)).await.status(), 200);
}

/// A quote for nothing is redeemed by header or in a body that holds nothing but the proof, risen price or not.
#[tokio::test]
async fn a_quote_for_nothing_is_redeemed_in_the_body_though_the_price_has_risen() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static PRICE: AtomicU64 = AtomicU64::new(0);
    let shop = Shop::open().await;
    let price = |_: &Parts, _: &Bytes| Price::Charge(Amount::from_base_units(PRICE.load(Ordering::SeqCst).into()));
    let moving = shop.merchant.price_with("moving", price).unwrap();
    let bound: X402Layer = shop.merchant.price_with("bound", price).unwrap().bind_request();
    for layer in [moving, bound] {
        let service = layered(&layer, echo(Counter::default()));
        let nothing = || Request::post("/answer").body(Body::empty()).unwrap();
        for quoted in [nothing, || post(""), || post("{}")] {
            for typed in [true, false] {
                PRICE.store(1_000, Ordering::SeqCst);
                let (intent, tx) = (intent_of(&ask(&service, quoted()).await), shop.pay(1_000));
                PRICE.store(2_000, Ordering::SeqCst);
                let mut request = post(proof(&intent, tx));
                if !typed {
                    request.headers_mut().remove(header::CONTENT_TYPE);
                }
                assert_eq!(ask(&service, request).await.status(), 200, "typed: {typed}");
            }
        }
    }
}
