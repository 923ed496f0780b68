//! What a request costs, for whom an old price counts, and how long; and that whoever paid gets there.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, header, request::Parts};
use http_body_util::BodyExt as _;
use tower_x402::{
    BuildError, Price, Pricing, Receipt, Refusal, X402, X402Layer,
    protocol::{Address, Amount, Asset, ChainTime, Network, SealingKeys, Transfer, TxHash},
    testing::ScriptedSettler,
    verify::Verdict,
};

use crate::support::faults::Stage;
use crate::support::{
    Answer, Counter, Handler, KEY, NOW, PRICE, Shop, answering, ask, assert_problem, echo, fresh_intent, intent_of,
    layered, payer, post, proof, quoted, read, recipient, redemption, with_status,
};

const HOUR: u64 = 60 * 60;

/// A price that is moved while the shop is open.
#[derive(Clone, Default)]
struct Dial(Arc<AtomicU64>);

impl Dial {
    fn set(&self, units: u64) {
        self.0.store(units, Ordering::SeqCst);
    }

    fn price(&self) -> Price {
        Price::Charge(Amount::from_base_units(self.0.load(Ordering::SeqCst).into()))
    }
}

/// A hundred base units for each byte of `query`; a query of `no` is refused, one of `free` is free.
fn by_length(parts: &Parts, body: &Bytes) -> Price {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    match body["query"].as_str().unwrap_or_else(|| parts.uri.query().unwrap_or("")) {
        "no" => Price::Refuse(Refusal::new(
            Response::builder().status(422).header("x-own", "1").body(Bytes::from("no")).unwrap(),
        )),
        "free" => Price::Free,
        query => Price::Charge(Amount::from_base_units(100 * query.len() as u128)),
    }
}

struct ByLength;

impl Pricing for ByLength {
    async fn price(&self, parts: &Parts, body: &Bytes) -> Price {
        tokio::task::yield_now().await;
        by_length(parts, body)
    }
}

/// The same price in each of the ways that it can be set.
fn ways(shop: &Shop) -> [X402Layer; 3] {
    let merchant = &shop.merchant;
    [
        merchant.price_with("closure", by_length).unwrap(),
        merchant
            .price_with_async("async", async |parts, body| {
                tokio::time::sleep(Duration::from_millis(1)).await;
                by_length(&parts, &body)
            })
            .unwrap(),
        merchant.price_by("trait", ByLength).unwrap(),
    ]
}

fn query(query: &str) -> Request<Body> {
    post(format!(r#"{{"query":"{query}"}}"#))
}

fn redeem(query: &str, intent: &str, tx: TxHash) -> Request<Body> {
    post(format!(r#"{{"query":"{query}","txHash":"{tx}","intentId":"{intent}"}}"#))
}

async fn quote_for<S: Handler>(service: &X402<S>, request: Request<Body>, units: u64) -> String {
    let quote = ask(service, request).await;
    let intent = intent_of(&quote);
    let body = assert_problem(quote, 402, "payment_required").await;
    assert_eq!(body["pay"]["amount"], units.to_string());
    intent
}

#[tokio::test]
async fn a_cheap_quote_buys_no_dear_answer() {
    let shop = Shop::open().await;
    for layer in ways(&shop) {
        let counter = Counter::default();
        let service = layered(&layer, echo(counter.clone()));
        let intent = quote_for(&service, query("why"), 300).await;
        let tx = shop.pay(300);
        for dear in ["why?", "wherefore"] {
            let answer = ask(&service, redeem(dear, &intent, tx)).await;
            let fresh = fresh_intent(answer, 404, "intent_not_found").await;
            let body = assert_problem(ask(&service, redeem(dear, &fresh, tx)).await, 422, "insufficient_amount").await;
            assert_eq!((&body["paid"], &body["required"]), (&"300".into(), &format!("{}", 100 * dear.len()).into()));
        }
        assert_eq!((counter.runs(), shop.ledger.counts().unwrap().held), (0, 0));
        assert_eq!(ask(&service, redeem("why", &intent, tx)).await.status(), 200);
        assert_eq!(counter.runs(), 1);
    }
}

/// What costs no more than was paid may be corrected under the same intent.
#[tokio::test]
async fn another_request_that_costs_no_more_is_bought_by_the_same_quote() {
    let shop = Shop::open().await;
    for layer in ways(&shop) {
        let service = layered(&layer, echo(Counter::default()));
        for other in ["who", "me"] {
            let intent = quote_for(&service, query("why"), 300).await;
            assert_eq!(ask(&service, redeem(other, &intent, shop.pay(300))).await.status(), 200);
        }
    }
}

/// The route bound nothing when it was quoted, so a quote tells nothing of the request.
#[tokio::test]
async fn a_quote_of_a_fixed_price_is_good_for_its_transfer_once_the_route_is_metered() {
    let shop = Shop::open().await;
    let fixed = layered(&shop.merchant.charge("answer", "0.05 USDC").unwrap(), echo(Counter::default()));
    let settler = ScriptedSettler::new(shop.chain.clone());
    // Each is another configuration of the same shop.
    let reopened = || shop.sibling(|builder| builder.permit_settler(settler.clone()));
    let metered = async |most: &str| reopened().await.charge_up_to("answer", most).unwrap();
    let counter = Counter::default();

    let intent = quote_for(&fixed, query("why"), 50_000).await;
    let tx = shop.pay(50_000);
    // Where the seller has each quote bound, or asks another price for each request, it buys nothing.
    let of_length = |_: &Parts, body: &Bytes| Price::Charge(Amount::from_base_units(100_000 + body.len() as u128));
    let of_length = reopened().await.price_with("answer", of_length).unwrap();
    for layer in [metered("0.10 USDC").await.bind_request(), of_length] {
        let service = layered(&layer, echo(counter.clone()));
        assert_problem(ask(&service, redeem("why", &intent, tx)).await, 404, "intent_not_found").await;
    }
    let service = layered(&metered("0.10 USDC").await, echo(counter.clone()));
    assert_eq!(ask(&service, redeem("why", &intent, tx)).await.status(), 200);
    assert_problem(ask(&service, redeem("why", &intent, tx)).await, 409, "already_consumed").await;
    assert_eq!(counter.runs(), 1);

    // A transfer of less than the quote says does not.
    let intent = quote_for(&fixed, query("why"), 50_000).await;
    let little = redeem("why", &intent, shop.pay(49_999));
    assert_problem(ask(&service, little).await, 422, "insufficient_amount").await;
    // A quote of a metered route is for its request, as before.
    let cheap = layered(&metered("0.05 USDC").await.or_fixed(), echo(Counter::default()));
    let intent = intent_of(&ask(&cheap, query("why")).await);
    let tx = shop.pay(50_000);
    assert_problem(ask(&service, redeem("who", &intent, tx)).await, 404, "intent_not_found").await;
    assert_eq!(ask(&service, redeem("why", &intent, tx)).await.status(), 200);
    assert_eq!(counter.runs(), 2);
}

#[tokio::test]
async fn the_sealed_price_counts_for_the_request_that_was_quoted() {
    let shop = Shop::open().await;
    let dial = Dial::default();
    let layer = shop
        .merchant
        .price_with("dial", {
            let dial = dial.clone();
            move |_, _| dial.price()
        })
        .unwrap();
    let service = layered(&layer, echo(Counter::default()));
    dial.set(300);
    let intent = quote_for(&service, query("why"), 300).await;
    let tx = shop.pay(300);
    dial.set(900);
    // Only for that one.
    assert_problem(ask(&service, redeem("who", &intent, tx)).await, 404, "intent_not_found").await;
    let mut elsewhere = redeem("why", &intent, tx);
    *elsewhere.uri_mut() = "/answer?deeper".parse().unwrap();
    assert_problem(ask(&service, elsewhere).await, 404, "intent_not_found").await;
    let mut otherwise = redeem("why", &intent, tx);
    *otherwise.method_mut() = http::Method::PUT;
    assert_problem(ask(&service, otherwise).await, 404, "intent_not_found").await;
    // In any order of members, with other white space, by body or by header.
    let spaced = format!("{{ \"txHash\":\"{tx}\",\n \"query\" : \"why\", \"intentId\":\"{intent}\" }}");
    assert_eq!(ask(&service, post(spaced)).await.status(), 200);

    dial.set(300);
    let intent = quote_for(&service, query("why"), 300).await;
    dial.set(301);
    let mut by_header = query("why");
    by_header.headers_mut().insert("x402-payment", proof(&intent, shop.pay(300)).parse().unwrap());
    assert_eq!(ask(&service, by_header).await.status(), 200);

    // Cheaper now: the sealed price is still what a payment for this quote must reach; a fresh quote costs less.
    let intent = quote_for(&service, query("why"), 301).await;
    dial.set(100);
    let tx = shop.pay(100);
    assert_problem(ask(&service, redeem("why", &intent, tx)).await, 422, "insufficient_amount").await;
    let intent = quote_for(&service, query("why"), 100).await;
    assert_eq!(ask(&service, redeem("why", &intent, tx)).await.status(), 200);
}

#[tokio::test]
async fn a_fixed_price_that_rises_leaves_open_quotes_alone() {
    let shop = Shop::open().await;
    let before = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&before).await, shop.pay(490_000));
    let dearer = shop.sibling(|merchant| merchant).await;
    let after = layered(&dearer.charge("answer", "0.50 USDC").unwrap(), echo(Counter::default()));
    assert_eq!(ask(&after, post(redeem_text("anything at all", &intent, tx))).await.status(), 200);
}

fn redeem_text(query: &str, intent: &str, tx: TxHash) -> String {
    format!(r#"{{"query":"{query}","txHash":"{tx}","intentId":"{intent}"}}"#)
}

#[tokio::test]
async fn what_is_refused_is_neither_quoted_nor_reserved() {
    let shop = Shop::open().await;
    for layer in ways(&shop) {
        let counter = Counter::default();
        let service = layered(&layer, echo(counter.clone()));
        let assert_refused = async |answer: Answer| {
            assert_eq!(answer.headers()["x-own"], "1");
            assert!(!answer.headers().contains_key("x-price-intent") && !answer.headers().contains_key("pay"));
            assert_eq!(read(answer).await, (http::StatusCode::UNPROCESSABLE_ENTITY, "no".into()));
        };
        let (intent, tx) = (quote_for(&service, query("why"), 300).await, shop.pay(300));
        let asked = shop.chain.calls();
        let reserved = shop.ledger.counts().unwrap().reserved;
        assert_refused(ask(&service, query("no")).await).await;
        assert_refused(ask(&service, redeem("no", &intent, tx)).await).await;
        assert_refused(ask(&service, redeem("no", "made-up", tx)).await).await;
        assert_refused(ask(&service, post(r#"{"query":"no","intentId":"x"}"#)).await).await;
        assert_refused(ask(&service, post(format!(r#"{{"query":"no","txHash":"{tx}"}}"#))).await).await;
        assert_eq!((shop.chain.calls(), shop.ledger.counts().unwrap().reserved), (asked, reserved));
        // The pair stays good, and buys the corrected request.
        assert_eq!(ask(&service, redeem("why", &intent, tx)).await.status(), 200);
        assert_problem(ask(&service, redeem("no", &intent, tx)).await, 409, "already_consumed").await;
        assert_eq!(counter.runs(), 1);
    }
}

/// Free by closure: no receipt, no header of ours, and the whole body with its trailers.
#[tokio::test]
async fn what_is_free_is_served_as_if_there_were_no_layer() {
    let shop = Shop::open().await;
    for layer in ways(&shop) {
        let service = layered(
            &layer,
            tower::service_fn(|request: Request<tower_x402::RequestBody<Body>>| async move {
                let paid = request.extensions().get::<Receipt>().is_some();
                let body = request.into_body().collect().await.unwrap();
                let trailer = body.trailers().and_then(|trailers| trailers.get("etag")).cloned();
                let mut response = Response::new(Body::from(body.to_bytes()));
                response.headers_mut().extend(trailer.map(|etag| (header::ETAG, etag)));
                if paid {
                    response.headers_mut().insert("x-paid", http::HeaderValue::from_static("1"));
                }
                Ok(response)
            }),
        );
        let text = r#" {"query":"free", "rest":[1,2]} "#;
        let frames = [
            http_body::Frame::data(Bytes::from(&text.as_bytes()[..9])),
            http_body::Frame::data(Bytes::from(&text.as_bytes()[9..])),
            http_body::Frame::trailers(http::HeaderMap::from_iter([(header::ETAG, "\"1\"".parse().unwrap())])),
        ];
        let frames = futures_util::stream::iter(frames.map(Ok::<_, std::convert::Infallible>));
        let mut request = post("");
        *request.body_mut() = Body::new(http_body_util::StreamBody::new(frames));
        let answer = ask(&service, request).await;
        assert_eq!((answer.status().as_u16(), answer.headers().len()), (200, 1));
        assert_eq!(answer.headers()["etag"], "\"1\"");
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), text);
        // With a proof it is free as well, and takes nothing.
        let (intent, tx) = (quote_for(&service, query("why"), 300).await, shop.pay(300));
        let answer = ask(&service, redeem("free", &intent, tx)).await;
        assert_eq!((answer.status().as_u16(), answer.headers().len()), (200, 0));
        assert_eq!(ask(&service, redeem("why", &intent, tx)).await.status(), 200);
    }
}

#[tokio::test]
async fn a_price_of_nothing_sells_nothing_and_gives_nothing_away() {
    let shop = Shop::open().await;
    for layer in ways(&shop) {
        let counter = Counter::default();
        let service = layered(&layer, answering(counter.clone(), |_| with_status(200)));
        let (intent, tx) = (quote_for(&service, query("why"), 300).await, shop.pay(300));
        let half = post(format!(r#"{{"query":"","txHash":"{tx}"}}"#));
        for request in [query(""), redeem("", &intent, tx), redeem("", "made-up", tx), half] {
            let answer = ask(&service, request).await;
            assert_eq!((answer.status().as_u16(), answer.headers().contains_key("x-price-intent")), (500, false));
        }
        assert_eq!(counter.runs(), 0);
    }
}

/// A service that takes the two names for its own sells by them: they are no proof there, and no way around the price.
#[tokio::test]
async fn a_header_only_route_prices_members_of_any_name() {
    let shop = Shop::open().await;
    let by_hash = |_: &Parts, body: &Bytes| {
        let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        Price::Charge(Amount::from_base_units(100 * body["txHash"].as_str().unwrap_or("x").len() as u128))
    };
    let priced = shop.merchant.price_with("explain", by_hash).unwrap().header_only();
    let bound = shop.layer().header_only().bind_request();
    for (layer, units) in [(priced, 300), (bound, 490_000)] {
        let service = layered(&layer, echo(Counter::default()));
        let body = |name: &str, hash: &str| post(format!(r#"{{"{name}":"{hash}"}}"#));
        let intent = quote_for(&service, body("txHash", "0x1"), units).await;
        let tx = shop.pay(units.into());
        let paid = |mut request: Request<Body>| {
            request.headers_mut().insert("x402-payment", proof(&intent, tx).parse().unwrap());
            request
        };
        assert_problem(ask(&service, paid(body("txHash", "0x12345"))).await, 404, "intent_not_found").await;
        assert_eq!(ask(&service, paid(body("txHash", "0x1"))).await.status(), 200);
    }
}

/// With the proof in the head, a body is the service's own to the last byte: nothing is hidden in members that only a proof has.
#[tokio::test]
async fn a_cheap_body_buys_none_that_grew_by_a_proofs_members() {
    let shop = Shop::open().await;
    let by_size = |_: &Parts, body: &Bytes| Price::Charge(Amount::from_base_units(body.len() as u128));
    let priced = shop.merchant.price_with("store", by_size).unwrap();
    for (layer, units) in [(priced, 15), (shop.layer().bind_request(), 490_000)] {
        let service = layered(&layer, echo(Counter::default()));
        let small = r#"{"query":"why"}"#;
        let intent = quote_for(&service, post(small), units).await;
        let tx = shop.pay(units.into());
        for name in ["intentId", "txHash", "paymentSecret", "paymentSignature"] {
            for value in [format!("\"{}\"", "a".repeat(5_000)), "[1]".to_owned()] {
                let mut grown = post(format!(r#"{{"query":"why","{name}":{value}}}"#));
                grown.headers_mut().insert("x402-payment", proof(&intent, tx).parse().unwrap());
                assert_problem(ask(&service, grown).await, 404, "intent_not_found").await;
            }
        }
        // What a quoted body may have, and a redemption in the body replaces, counts as nothing in both places.
        let mut same = post(r#"{"query":"why","paymentSecret":"","txHash":null}"#);
        same.headers_mut().insert("x402-payment", proof(&intent, tx).parse().unwrap());
        assert_eq!(ask(&service, same).await.status(), 200);
    }
}

/// Over HTTP/2 the host stands in the target alone.
#[tokio::test]
async fn a_price_by_host_is_bound_to_the_host_of_the_target_too() {
    let shop = Shop::open().await;
    let by_tenant = |parts: &Parts, _: &Bytes| {
        let dear = parts.uri.host() == Some("dear.example");
        Price::Charge(Amount::from_base_units(if dear { 5_000_000 } else { 10_000 }))
    };
    let layer = shop.merchant.price_with("tenant", by_tenant).unwrap().bind_headers([header::HOST]);
    let service = layered(&layer, echo(Counter::default()));
    let of = |host: &str| Request::get(format!("https://{host}/answer"));
    let intent = quote_for(&service, of("cheap.example").body(Body::empty()).unwrap(), 10_000).await;
    let tx = shop.pay(10_000);
    let paid = |host: &str| of(host).header("x402-payment", proof(&intent, tx)).body(Body::empty()).unwrap();
    assert_problem(ask(&service, paid("dear.example")).await, 404, "intent_not_found").await;
    assert_eq!(ask(&service, paid("cheap.example")).await.status(), 200);
    // A quote for a host that stands elsewhere, where the price does not look.
    let elsewhere = Request::get("/answer").header(header::HOST, "dear.example").body(Body::empty()).unwrap();
    let intent = quote_for(&service, elsewhere, 10_000).await;
    let tx = shop.pay(10_000);
    for request in [of("dear.example"), of("dear.example").header(header::HOST, "dear.example")] {
        let paid = request.header("x402-payment", proof(&intent, tx)).body(Body::empty()).unwrap();
        assert_problem(ask(&service, paid).await, 404, "intent_not_found").await;
    }
}

/// Where a price hangs on a header, a quote counts for the value it was made for.
#[tokio::test]
async fn a_price_by_header_is_bound_to_that_header() {
    let shop = Shop::open().await;
    let by_model = |parts: &Parts, _: &Bytes| {
        let dear = parts.headers.get("x-model").is_some_and(|model| model == "max");
        Price::Charge(Amount::from_base_units(if dear { 5_000_000 } else { 10_000 }))
    };
    let layer = shop.merchant.price_with("model", by_model).unwrap();
    let service = layered(&layer.bind_headers(["x-model".parse().unwrap()]), echo(Counter::default()));
    let with_model = |mut request: Request<Body>, model: &'static str| {
        request.headers_mut().insert("x-model", model.parse().unwrap());
        request
    };
    let intent = intent_of(&ask(&service, with_model(query("why"), "mini")).await);
    let tx = shop.pay(10_000);
    let dear = ask(&service, with_model(redeem("why", &intent, tx), "max")).await;
    assert_problem(dear, 404, "intent_not_found").await;
    assert_eq!(ask(&service, with_model(redeem("why", &intent, tx), "mini")).await.status(), 200);
}

#[tokio::test]
async fn a_header_only_route_says_where_the_proof_goes() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().header_only(), echo(Counter::default()));
    let (_, quote) = read(ask(&service, post("{}")).await).await;
    assert!(quote["detail"].as_str().unwrap().contains("in the x402-payment header"), "{quote}");
}

/// Bound by setting: only the very request that was quoted, even at a fixed price.
#[tokio::test]
async fn a_bound_route_sells_only_what_was_quoted() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().bind_request(), echo(Counter::default()));
    let intent = quoted(&service).await;
    let tx = shop.pay(490_000);
    let answer = ask(&service, redeem("who", &intent, tx)).await;
    let fresh = fresh_intent(answer, 404, "intent_not_found").await;
    assert_problem(ask(&service, redeem("why", &fresh, tx)).await, 404, "intent_not_found").await;
    assert_eq!(ask(&service, redeem("who", &fresh, tx)).await.status(), 200);
    let tx = shop.pay(490_000);
    let mut by_header = query("why");
    by_header.headers_mut().insert("x402-payment", proof(&intent, tx).parse().unwrap());
    assert_eq!(ask(&service, by_header).await.status(), 200);
    // Once consumed, that is said, whatever request it is shown with.
    assert_problem(ask(&service, redeem("other", &intent, tx)).await, 409, "already_consumed").await;
    // A quote from before the route was bound is for no request in particular, and opens no bound one.
    let loose = shop.sibling(|merchant| merchant).await;
    let intent = quoted(&layered(&loose.charge("answer", PRICE).unwrap(), echo(Counter::default()))).await;
    assert_problem(ask(&service, redeem("why", &intent, shop.pay(490_000))).await, 404, "intent_not_found").await;
}

/// By method, path and query too, where there is no body at all.
#[tokio::test]
async fn a_bound_route_knows_its_urls_apart() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().bind_request(), answering(Counter::default(), |_| with_status(200)));
    let get = |uri: &str| Request::get(uri).body(Body::empty()).unwrap();
    let intent = intent_of(&ask(&service, get("/answer?a=1")).await);
    let tx = shop.pay(490_000);
    for other in ["/answer", "/answer?", "/answer?a=2", "/answer?a=1&", "/answer/?a=1", "/answer?A=1"] {
        let mut request = get(other);
        request.headers_mut().insert("x402-payment", proof(&intent, tx).parse().unwrap());
        assert_problem(ask(&service, request).await, 404, "intent_not_found").await;
    }
    let mut request = get("https://proxy.example/answer?a=1");
    request.headers_mut().insert("x402-payment", proof(&intent, tx).parse().unwrap());
    assert_eq!(ask(&service, request).await.status(), 200, "the host is not part of it");
}

#[tokio::test]
async fn a_quote_buys_only_what_it_was_for() {
    let shop = Shop::open().await;
    let cheap = layered(&shop.merchant.charge("cheap", "0.01 USDC").unwrap(), echo(Counter::default()));
    let dear = layered(&shop.merchant.charge("dear", "10 USDC").unwrap(), echo(Counter::default()));
    let (intent, tx) = (quoted(&cheap).await, shop.pay(10_000));
    let fresh = fresh_intent(ask(&dear, redemption(&intent, tx)).await, 404, "intent_not_found").await;
    assert_problem(ask(&dear, redemption(&fresh, tx)).await, 422, "insufficient_amount").await;
    assert_eq!(ask(&cheap, redemption(&intent, tx)).await.status(), 200);
    // One recipient, one ledger: what was spent on one route is spent on all.
    let tx = shop.pay(10_000_000);
    assert_eq!(ask(&dear, redemption(&quoted(&dear).await, tx)).await.status(), 200);
    assert_problem(ask(&cheap, redemption(&quoted(&cheap).await, tx)).await, 409, "tx_already_used").await;
}

#[tokio::test]
async fn merchants_of_different_realms_do_not_know_each_others_quotes() {
    let shop = Shop::open().await;
    let [here, there] =
        [shop.sibling(|merchant| merchant.realm("here")).await, shop.sibling(|merchant| merchant.realm("there")).await];
    let here = layered(&here.charge("answer", PRICE).unwrap(), echo(Counter::default()));
    let there = layered(&there.charge("answer", PRICE).unwrap(), echo(Counter::default()));
    let (intent, tx) = (quoted(&here).await, shop.pay(490_000));
    assert_problem(ask(&there, redemption(&intent, tx)).await, 404, "intent_not_found").await;
    assert_eq!(ask(&here, redemption(&intent, tx)).await.status(), 200);
}

fn pay_to(shop: &Shop, recipient: Address, token: Address, time: u64) -> TxHash {
    shop.chain.pay(recipient, token, payer(), Amount::from_base_units(490_000), ChainTime::from_unix(time))
}

const NEW_HOME: Address = Address::new([0x5b; 20]);

/// A seller who moves: open quotes name the old address, and payments to it count for them alone.
#[tokio::test]
async fn a_former_recipient_is_paid_for_its_own_quotes() {
    let shop = Shop::open().await;
    let before = layered(&shop.layer(), echo(Counter::default()));
    let move_to = async |former: bool| {
        let clock = shop.clock.clone();
        let builder = tower_x402::Merchant::builder(NEW_HOME)
            .hold_unbound(Duration::ZERO)
            .verifier(shop.chain.clone())
            .ledger(Arc::clone(&shop.ledger))
            .clock(clock)
            .sealing_keys(SealingKeys::new(KEY));
        let builder = if former { builder.former_recipient(recipient()) } else { builder };
        layered(&builder.build().await.unwrap().charge("answer", PRICE).unwrap(), echo(Counter::default()))
    };
    let (after, hard) = (move_to(true).await, move_to(false).await);
    let usdc = Asset::USDC_BASE.contract();
    let (old, new) = (quoted(&before).await, quoted(&after).await);
    let (to_old, to_new) = (pay_to(&shop, recipient(), usdc, NOW), pay_to(&shop, NEW_HOME, usdc, NOW));
    assert_problem(ask(&after, redemption(&old, to_new)).await, 422, "transfer_not_found").await;
    assert_problem(ask(&after, redemption(&new, to_old)).await, 422, "transfer_not_found").await;
    assert_problem(ask(&hard, redemption(&old, to_old)).await, 404, "intent_not_found").await;
    assert_eq!(ask(&after, redemption(&old, to_old)).await.status(), 200);
    assert_eq!(ask(&after, redemption(&new, to_new)).await.status(), 200);
    // What the seller moves from the old account to the new one is nobody's payment.
    let moved =
        shop.chain.pay(NEW_HOME, usdc, recipient(), Amount::from_base_units(490_000), ChainTime::from_unix(NOW));
    let open = quoted(&after).await;
    assert_problem(ask(&after, redemption(&open, moved)).await, 422, "transfer_not_found").await;
}

/// The fresh intent for a payment that came late goes by the recipient that was paid.
#[tokio::test]
async fn a_late_payment_to_a_former_recipient_is_rescued_too() {
    let shop = Shop::open().await;
    let before = layered(&shop.layer(), echo(Counter::default()));
    let old = quoted(&before).await;
    let moved = tower_x402::Merchant::builder(NEW_HOME)
        .hold_unbound(Duration::ZERO)
        .former_recipient(recipient())
        .verifier(shop.chain.clone())
        .ledger(Arc::clone(&shop.ledger))
        .clock(shop.clock.clone())
        .sealing_keys(SealingKeys::new([8; 32]).with_former(KEY).unwrap());
    let after = layered(&moved.build().await.unwrap().charge("answer", PRICE).unwrap(), echo(Counter::default()));
    shop.clock.advance(Duration::from_secs(HOUR));
    shop.chain.set_head(ChainTime::from_unix(NOW + HOUR));
    let late = shop.pay_at(490_000, NOW + HOUR);
    let fresh = fresh_intent(ask(&after, redemption(&old, late)).await, 410, "intent_expired").await;
    assert_eq!(ask(&after, redemption(&fresh, late)).await.status(), 200);
}

#[tokio::test]
async fn a_former_token_still_counts_and_is_no_longer_quoted() {
    let shop = Shop::open_with(|merchant| merchant.asset(Asset::USDC_BASE).former_asset(Asset::USDBC_BASE)).await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let quote = ask(&service, post("{}")).await;
    assert_eq!(quote.headers()["x-payment-contracts"], Asset::USDC_BASE.contract().to_string().as_str());
    let tx = pay_to(&shop, recipient(), Asset::USDBC_BASE.contract(), NOW);
    assert_eq!(ask(&service, redemption(&intent_of(&quote), tx)).await.status(), 200);
    let strict = Shop::open().await;
    let service = layered(&strict.layer(), echo(Counter::default()));
    let tx = pay_to(&strict, recipient(), Asset::USDBC_BASE.contract(), NOW);
    assert_problem(ask(&service, redemption(&quoted(&service).await, tx)).await, 422, "transfer_not_found").await;
}

/// Keys change under load: whichever replica quoted, whichever redeems, old and new, as long as the old key is listed.
#[tokio::test]
async fn keys_rotate_under_load() {
    const NEW: [u8; 32] = [8; 32];
    let shop = Shop::open().await;
    let with = async |keys: SealingKeys| {
        let merchant = shop.sibling(|merchant| merchant.sealing_keys(keys)).await;
        layered(&merchant.charge("answer", PRICE).unwrap(), echo(Counter::default()))
    };
    // As a careful operator does it: the new key opens everywhere before it seals anywhere.
    let replicas = [
        with(SealingKeys::new(KEY).with_former(NEW).unwrap()).await,
        with(SealingKeys::new(NEW).with_former(KEY).unwrap()).await,
    ];
    let mut buyers = tokio::task::JoinSet::new();
    for n in 0..64 {
        let (quoting, redeeming) = (replicas[n % 2].clone(), replicas[n / 2 % 2].clone());
        let tx = shop.pay(490_000);
        buyers.spawn(async move {
            let intent = quoted(&quoting).await;
            tokio::task::yield_now().await;
            ask(&redeeming, redemption(&intent, tx)).await.status().as_u16()
        });
    }
    assert!(buyers.join_all().await.into_iter().all(|status| status == 200));
    // Then the old key is dropped, and whoever still holds its quotes is helped without paying again.
    let old = quoted(&replicas[0]).await;
    let after = with(SealingKeys::new(NEW)).await;
    let tx = shop.pay(490_000);
    let fresh = fresh_intent(ask(&after, redemption(&old, tx)).await, 404, "intent_not_found").await;
    assert_eq!(ask(&after, redemption(&fresh, tx)).await.status(), 200);
}

/// Expiry is a matter of when one paid, by the chain's clock, to the second.
#[tokio::test]
async fn a_payment_counts_up_to_expiry_and_grace() {
    for grace in [60, 0, 3600] {
        let shop = Shop::open_with(|merchant| merchant.quote_grace(Duration::from_secs(grace))).await;
        let service = layered(&shop.layer(), echo(Counter::default()));
        let last = NOW + 900 + grace;
        let [first, second] = [quoted(&service).await, quoted(&service).await];
        // Redeemed much later: that is not what expires.
        shop.clock.advance(Duration::from_secs(20 * HOUR));
        shop.chain.set_head(ChainTime::from_unix(NOW + 20 * HOUR));
        let (in_time, late) = (shop.pay_at(490_000, last), shop.pay_at(490_000, last + 1));
        let fresh = fresh_intent(ask(&service, redemption(&second, late)).await, 410, "intent_expired").await;
        assert_eq!(ask(&service, redemption(&first, in_time)).await.status(), 200);
        assert_eq!(ask(&service, redemption(&fresh, late)).await.status(), 200, "a fresh intent rescues it");
    }
}

/// After the last payment made in time is too old, the intent is too, and the chain is not asked.
#[tokio::test]
async fn an_intent_ages_out() {
    let shop = Shop::open_with(|merchant| merchant.max_payment_age(Duration::from_secs(HOUR))).await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    let end = 900 + 60 + HOUR;
    shop.clock.advance(Duration::from_secs(end));
    shop.chain.set_head(ChainTime::from_unix(NOW + end));
    let tx = shop.pay_at(490_000, NOW + 960);
    assert_problem(ask(&service, redemption(&intent, TxHash::new([1; 32]))).await, 409, "tx_not_confirmed").await;
    shop.clock.advance(Duration::from_secs(1));
    let calls = shop.chain.calls();
    let fresh = fresh_intent(ask(&service, redemption(&intent, tx)).await, 410, "intent_expired").await;
    assert_eq!(shop.chain.calls(), calls);
    assert_eq!(ask(&service, redemption(&fresh, tx)).await.status(), 200, "the payment itself is just young enough");
}

/// To the second, by the chain's clock; then only the seller can help.
#[tokio::test]
async fn a_payment_ages_out() {
    let age = Duration::from_secs(30 * 60);
    let shop = Shop::open_with(|merchant| merchant.max_payment_age(age).contact("help@example.org")).await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (young, old) = (shop.pay_at(490_000, NOW - 1800), shop.pay_at(490_000, NOW - 1801));
    let body =
        assert_problem(ask(&service, redemption(&quoted(&service).await, old)).await, 422, "payment_too_old").await;
    assert_eq!(body["contact"], "help@example.org");
    assert_eq!(ask(&service, redemption(&quoted(&service).await, young)).await.status(), 200);
}

#[tokio::test]
async fn pay_first_quote_later() {
    let shop = Shop::open().await;
    for layer in [shop.layer(), ways(&shop)[0].clone()] {
        let service = layered(&layer, echo(Counter::default()));
        let tx = shop.pay_at(490_000, NOW - 1800);
        assert_eq!(ask(&service, redemption(&quoted(&service).await, tx)).await.status(), 200);
    }
}

/// Every answer that carries a fresh intent, at a fixed price and at one by closure: the same money buys with it.
#[tokio::test]
async fn every_fresh_intent_works() {
    let shop = Shop::open().await;
    let sibling = shop.sibling(|merchant| merchant).await;
    let [closure, later, own] = ways(&shop);
    let fixed = sibling.charge("answer", "0.0003 USDC").unwrap();
    for layer in [fixed.clone(), fixed.bind_request(), closure, later, own] {
        let service = layered(&layer, echo(Counter::default()));
        let half = |tx: TxHash| post(format!(r#"{{"query":"why","txHash":"{tx}"}}"#));
        let mut half_header = query("why");
        let (by_body, by_header) = (shop.pay(300), shop.pay(300));
        half_header.headers_mut().insert("x402-payment", format!(r#"{{"txHash":"{by_header}"}}"#).parse().unwrap());
        for (request, tx, status, code) in [
            (half(by_body), by_body, 400, "intent_required"),
            (half_header, by_header, 400, "intent_required"),
            (redeem("why", "made-up", by_body), by_body, 404, "intent_not_found"),
        ] {
            let fresh = fresh_intent(ask(&service, request).await, status, code).await;
            let mut answer = ask(&service, redeem("why", &fresh, tx)).await;
            if code == "intent_not_found" {
                // That payment is spent by now; another one will do.
                assert_problem(answer, 409, "tx_already_used").await;
                answer = ask(&service, redeem("why", &fresh, shop.pay(300))).await;
            }
            assert_eq!(answer.status(), 200, "{code}");
        }
    }
}

/// A flood of quotes costs the seller neither a question to the ledger nor one to the chain.
#[tokio::test]
async fn quotes_ask_nobody() {
    let shop = Shop::open().await;
    let priced = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&priced);
    let closure = shop
        .merchant
        .price_with("closure", move |parts, body| {
            count.fetch_add(1, Ordering::SeqCst);
            by_length(parts, body)
        })
        .unwrap();
    shop.faults.take_asked();
    for layer in [shop.layer(), closure] {
        let service = layered(&layer, echo(Counter::default()));
        for _ in 0..500 {
            quoted(&service).await;
            assert_problem(ask(&service, post(r#"{"query":"why","intentId":"x"}"#)).await, 400, "tx_required").await;
            let unknown = TxHash::new([1; 32]);
            assert_problem(ask(&service, redeem("why", "x", unknown)).await, 404, "intent_not_found").await;
            assert_problem(ask(&service, post(r#"{"query":"why","txHash":[]}"#)).await, 400, "invalid_redemption")
                .await;
        }
    }
    assert_eq!((shop.faults.take_asked(), shop.chain.calls()), (vec![], 0));
    assert_eq!(priced.load(Ordering::SeqCst), 1500, "asked once for each request, and not for what is no proof");
}

/// What a quote says is sold may hang on the request. Whatever stands there, it is one label, and the money is the same.
#[tokio::test]
async fn a_closure_says_what_is_sold() {
    let shop = Shop::open().await;
    let label = |body: &Bytes| serde_json::from_slice::<serde_json::Value>(body).unwrap()["label"].clone();
    let price = move |body: &Bytes| {
        let amount = Amount::from_cents(49, 6);
        match label(body).as_str() {
            Some(label) => Price::labelled(amount, label),
            None => Price::labelled(Amount::ZERO, "nothing"),
        }
    };
    let layers = [
        shop.merchant.price_with("now", move |_, body| price(body)).unwrap().label("The route's").unwrap(),
        shop.merchant
            .price_with_async("later", move |_, body| std::future::ready(price(&body)))
            .unwrap()
            .label("The route's")
            .unwrap(),
    ];
    for layer in layers {
        let service = layered(&layer, echo(Counter::default()));
        let long = "é".repeat(300);
        for (given, shown) in [
            ("12 pages", "12 pages"),
            (r#"a\r\nb\u0000 \"c\" \\"#, "a  b  \"c\" \\"),
            ("", "The route's"),
            (r"\n\t ", "The route's"),
            (long.as_str(), &"é".repeat(100)),
        ] {
            let quote = ask(&service, post(format!(r#"{{"label":"{given}"}}"#))).await;
            let read = tower_x402::protocol::Quote::from_headers(quote.headers()).unwrap();
            assert_eq!((read.label.as_str(), read.amount), (shown, Amount::from_base_units(490_000)));
            let (intent, tx) = (intent_of(&quote), shop.pay(490_000));
            let paid = post(format!(r#"{{"label":"{given}","intentId":"{intent}","txHash":"{tx}"}}"#));
            assert_eq!(ask(&service, paid).await.status(), 200);
            let half = post(format!(r#"{{"label":"{given}","txHash":"{tx}"}}"#));
            fresh_intent(ask(&service, half).await, 400, "intent_required").await;
        }
        for request in [post("{}"), post(format!(r#"{{"intentId":"x","txHash":"{}"}}"#, TxHash::new([1; 32])))] {
            assert_eq!(ask(&service, request).await.status(), 500, "a price of nothing is none under any label");
        }
    }
}

/// A price that does not come sells nothing, bills nobody, and takes nothing from whoever has paid.
#[tokio::test(start_paused = true)]
async fn a_price_that_does_not_come_in_time_is_unavailable() {
    let stage = Stage::open().await;
    let slow = Arc::new(AtomicBool::new(false));
    let price = {
        let slow = Arc::clone(&slow);
        move |parts: Parts, body: Bytes| {
            let slow = slow.load(Ordering::SeqCst);
            async move { if slow { std::future::pending().await } else { by_length(&parts, &body) } }
        }
    };
    let layer = stage.shop.merchant.price_with_async("slow", price).unwrap();
    for (layer, patience) in [(layer.clone(), 10), (layer.price_timeout(Duration::from_secs(3)).unwrap(), 3)] {
        let service = layered(&layer, echo(Counter::default()));
        slow.store(false, Ordering::SeqCst);
        let [sold, open] = [quoted(&service).await, quoted(&service).await];
        let (spent, tx) = (stage.shop.pay(300), stage.shop.pay(300));
        assert_eq!(ask(&service, redeem("why", &sold, spent)).await.status(), 200);
        slow.store(true, Ordering::SeqCst);
        let half = |member: &str| post(format!(r#"{{"query":"why",{member}}}"#));
        for request in [
            query("why"),
            redeem("why", &open, tx),
            redeem("why", "made-up", tx),
            half(&format!(r#""intentId":"{open}""#)),
            half(&format!(r#""txHash":"{tx}""#)),
        ] {
            let begun = tokio::time::Instant::now();
            let answer = ask(&service, request).await;
            assert_eq!(begun.elapsed().as_secs(), patience);
            assert_eq!(answer.headers()["retry-after"], "5");
            assert!(!answer.headers().contains_key("x-price-intent"));
            assert_problem(answer, 503, "price_unavailable").await;
        }
        // Consumed is consumed, whatever else is true.
        assert_problem(ask(&service, redeem("why", &sold, tx)).await, 409, "already_consumed").await;
        slow.store(false, Ordering::SeqCst);
        assert_eq!(ask(&service, redeem("why", &open, tx)).await.status(), 200);
    }
    let refused = stage.layer().price_timeout(Duration::ZERO).map(drop);
    assert!(matches!(refused, Err(BuildError::OutOfRange { what: "price_timeout" })));
}

#[derive(Clone)]
struct Member(&'static str);

/// Free for whoever an outer layer found to be a member, with a body that nobody touches.
#[tokio::test(start_paused = true)]
async fn what_is_free_may_be_asked_of_somebody_else() {
    let stage = Stage::open().await;
    let layer = stage.layer().free_when_async(|head| {
        let member = head.extensions.get::<Member>().cloned();
        async move {
            match member {
                Some(Member("hangs")) => std::future::pending().await,
                Some(Member(name)) => {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    name == "paid up"
                }
                None => false,
            }
        }
    });
    let counter = Counter::default();
    let service = layered(&layer, echo(counter.clone()));
    let of = |mut request: Request<Body>, name| {
        request.extensions_mut().insert(Member(name));
        request
    };
    // Not even what would be refused in a priced request is looked at.
    let free = ask(&service, of(post("{ no json"), "paid up")).await;
    assert_eq!((free.status().as_u16(), free.headers().len()), (200, 0));
    assert_eq!(free.into_body().collect().await.unwrap().to_bytes(), "{ no json");
    for nobody in [post("{}"), of(post("{}"), "lapsed")] {
        assert_problem(ask(&service, nobody).await, 402, "payment_required").await;
    }
    assert_problem(ask(&service, of(post("{}"), "hangs")).await, 503, "price_unavailable").await;
    assert_eq!(counter.runs(), 1);
    // The others buy as ever, by body and by header; and who is free with a proof keeps the payment.
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    assert_eq!(ask(&service, of(redemption(&intent, tx), "paid up")).await.status(), 200);
    assert_eq!(ask(&service, of(redemption(&intent, tx), "lapsed")).await.status(), 200);
    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    assert_eq!(ask(&service, crate::support::by_header("GET", &intent, tx)).await.status(), 200);
    assert_eq!(stage.counts().consumed, 2);
}

/// A verifier's wait without end is told as a long one.
#[tokio::test]
async fn a_wait_without_end_is_a_day() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, TxHash::new([3; 32]));
    for (wait, seconds) in
        [(Duration::MAX, "86400"), (Duration::from_secs(u64::MAX), "86400"), (Duration::from_millis(1001), "2")]
    {
        shop.chain.answer(tx, Verdict::NotConfirmed { retry_after: wait });
        let answer = ask(&service, redemption(&intent, tx)).await;
        assert_eq!(answer.headers()["retry-after"], seconds);
        assert_problem(answer, 409, "tx_not_confirmed").await;
    }
}

/// An intent that bought its answer with a payment from before its quote is remembered for as long as it could be paid for.
#[tokio::test]
async fn an_intent_is_remembered_for_as_long_as_it_may_be_paid() {
    let (ttl, age) = (Duration::from_secs(20 * HOUR), Duration::from_secs(HOUR));
    let shop = Shop::open_with(|merchant| merchant.quote_ttl(ttl).max_payment_age(age)).await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, early) = (quoted(&service).await, shop.pay_at(490_000, NOW - 1800));
    assert_eq!(ask(&service, redemption(&intent, early)).await.status(), 200);
    // The payment itself is long out of age, and others buy, so that the ledger forgets what it may.
    let later = NOW + 10 * HOUR;
    shop.clock.advance(Duration::from_secs(10 * HOUR));
    shop.chain.set_head(ChainTime::from_unix(later));
    for _ in 0..3 {
        let other = quoted(&service).await;
        assert_eq!(ask(&service, redemption(&other, shop.pay_at(490_000, later))).await.status(), 200);
    }
    let again = ask(&service, redemption(&intent, shop.pay_at(490_000, later))).await;
    assert_problem(again, 409, "already_consumed").await;
}

/// Whatever is wrong with the payment that is shown, a consumed intent is told first that it is consumed.
#[tokio::test]
async fn a_late_payment_for_a_consumed_intent_is_told_so() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    shop.clock.advance(Duration::from_secs(2 * HOUR));
    shop.chain.set_head(ChainTime::from_unix(NOW + 2 * HOUR));
    let late = shop.pay_at(490_000, NOW + 2 * HOUR);
    let answer = ask(&service, redemption(&intent, late)).await;
    assert!(!answer.headers().contains_key("x-price-intent"));
    assert_problem(answer, 409, "already_consumed").await;
    // The payment is as good as new, under an intent of its own.
    assert_eq!(ask(&service, redemption(&quoted(&service).await, late)).await.status(), 200);
}

/// The door looks again at whatever a verifier calls paid: one that judged by other terms must not sell here.
#[tokio::test]
async fn a_verifiers_word_is_looked_at_again() {
    let shop = Shop::open_with(|merchant| merchant.former_recipient(NEW_HOME)).await;
    let counter = Counter::default();
    let service = layered(&shop.layer(), echo(counter.clone()));
    let tx = TxHash::new([9; 32]);
    let honest = Transfer::new(Network::BASE, tx, 0)
        .with_token(Asset::USDC_BASE.contract())
        .with_payer(payer())
        .with_recipient(recipient())
        .with_amount(Amount::from_base_units(490_000))
        .with_block(7, ChainTime::from_unix(NOW));
    let lies = [
        ("another chain", {
            let mut transfer = honest.clone();
            transfer.network = Network::BASE_SEPOLIA;
            transfer
        }),
        ("another transaction", {
            let mut transfer = honest.clone();
            transfer.transaction = TxHash::new([8; 32]);
            transfer
        }),
        ("another recipient", honest.clone().with_recipient(Address::new([1; 20]))),
        ("a recipient of other quotes", honest.clone().with_recipient(NEW_HOME)),
        ("another token", honest.clone().with_token(Address::new([1; 20]))),
        ("too little", honest.clone().with_amount(Amount::from_base_units(489_999))),
        ("our own", honest.clone().with_payer(recipient())),
        ("formerly our own", honest.clone().with_payer(NEW_HOME)),
    ];
    let says = |transfers: Vec<Transfer>| {
        shop.chain.answer(tx, Verdict::Paid { transfers, head: ChainTime::from_unix(NOW) });
    };
    let intent = quoted(&service).await;
    for (lie, transfer) in &lies {
        says(vec![transfer.clone()]);
        let answer = ask(&service, redemption(&intent, tx)).await;
        assert_eq!(answer.status(), 422, "{lie}");
        assert_problem(answer, 422, "transfer_not_found").await;
    }
    says(Vec::new());
    assert_problem(ask(&service, redemption(&intent, tx)).await, 422, "transfer_not_found").await;
    assert_eq!((counter.runs(), shop.ledger.counts().unwrap().reserved), (0, 0));
    // Beside all of them the honest one is found, and it alone is spent.
    says(lies.into_iter().map(|(_, transfer)| transfer).chain([honest.clone()]).collect());
    let answer = ask(&service, redemption(&intent, tx)).await;
    assert_eq!(answer.headers()["x-paid"], honest.payment_id().to_string().as_str());
    assert_problem(ask(&service, redemption(&quoted(&service).await, tx)).await, 409, "tx_already_used").await;
}
