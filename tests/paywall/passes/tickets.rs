//! Tickets: a sold answer is fetched again for a while, in whatever parts.

use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tower_x402::{
    Price, Receipt, X402Layer,
    protocol::{Amount, SealingKeys},
};

use super::{buy, three};
use crate::support::{
    Counter, KEY, Shop, answering, ask, assert_problem, by_header, intent_of, layered, proof, with_status,
};

const HOUR: Duration = Duration::from_secs(3_600);
const FILM: &[u8] = b"0123456789";

/// A service that answers with a file, or with a part of it.
fn film(counter: Counter) -> impl crate::support::Handler {
    answering(counter, |request| {
        let from = request.headers().get("range").map(|range| {
            let from = range.to_str().unwrap().strip_prefix("bytes=").unwrap().strip_suffix('-').unwrap();
            from.parse::<usize>().unwrap()
        });
        let mut response = Response::new(Body::from(&FILM[from.unwrap_or(0)..]));
        if from.is_some() {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        let paid = request.extensions().get::<Receipt>().is_some();
        let headers = response.headers_mut();
        headers.insert("accept-ranges", HeaderValue::from_static("bytes"));
        headers.insert("x-paid", HeaderValue::from_static(if paid { "yes" } else { "no" }));
        headers.insert("x402-ticket", HeaderValue::from_static("the handler's own"));
        response
    })
}

async fn bought(shop: &Shop, layer: &X402Layer, counter: &Counter) -> (String, String) {
    let service = layered(layer, film(counter.clone()));
    let quote = ask(&service, Request::get("/answer").body(Body::empty()).unwrap()).await;
    let intent = intent_of(&quote);
    let mut paid = by_header("GET", &intent, shop.pay(490_000));
    paid.headers_mut().insert("range", HeaderValue::from_static("bytes=5-"));
    let answer = ask(&service, paid).await;
    assert_eq!((answer.status().as_u16(), &answer.headers()["x-paid"]), (200, &HeaderValue::from_static("yes")));
    assert_eq!(answer.headers()["accept-ranges"], "bytes");
    let ticket = answer.headers()["x402-ticket"].to_str().unwrap().to_owned();
    assert!(ticket.starts_with("x402t_") && answer.headers().get_all("x402-ticket").iter().count() == 1);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), FILM, "what is sold is the whole");
    (ticket, intent)
}

fn again(path: &str, ticket: &str) -> http::request::Builder {
    Request::get(path).header("x402-pass", ticket)
}

#[tokio::test]
async fn the_same_request_is_free_until_the_ticket_ends() {
    let shop = Shop::open().await;
    let (layer, counter) = (shop.layer().ticket(HOUR).unwrap(), Counter::default());
    let (ticket, _) = bought(&shop, &layer, &counter).await;
    let service = layered(&layer, film(counter.clone()));
    for from in [0, 3, 9] {
        let request = again("/answer", &ticket).header("range", format!("bytes={from}-")).body(Body::empty()).unwrap();
        let answer = ask(&service, request).await;
        assert_eq!((answer.status().as_u16(), &answer.headers()["x-paid"]), (206, &HeaderValue::from_static("no")));
        assert!(!answer.headers().contains_key("payment-response"));
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), &FILM[from..]);
    }
    // Another request, and another route.
    let other = shop.merchant.charge("other", "0.49 USDC").unwrap().ticket(HOUR).unwrap();
    let of_other = layered(&other, film(counter.clone()));
    for (service, request) in [
        (&service, again("/answer?film=2", &ticket).body(Body::empty()).unwrap()),
        (&service, again("/other", &ticket).body(Body::empty()).unwrap()),
        (&service, again("/answer", &ticket).method("POST").body(Body::empty()).unwrap()),
        (&service, again("/answer", &ticket).body(Body::from("{\"film\":2}")).unwrap()),
        (&of_other, again("/answer", &ticket).body(Body::empty()).unwrap()),
    ] {
        let runs = counter.runs();
        assert_problem(ask(service, request).await, 401, "invalid_pass").await;
        assert_eq!(counter.runs(), runs);
    }
    shop.clock.advance(HOUR);
    let late = ask(&service, again("/answer", &ticket).body(Body::empty()).unwrap()).await;
    let body = assert_problem(late, 402, "payment_required").await;
    assert_eq!(body["pass"], "expired");
}

/// What was sold is sold again if a cache on the way gives it to others.
#[tokio::test]
async fn an_answer_with_a_ticket_stays_out_of_shared_caches() {
    let shop = Shop::open().await;
    let (layer, counter) = (shop.layer().ticket(HOUR).unwrap(), Counter::default());
    let (ticket, _) = bought(&shop, &layer, &counter).await;
    let cached = |_: &Request<_>| {
        let mut answer = Response::new(Body::from(FILM));
        for (name, value) in [
            ("cache-control", "public, max-age=60"),
            ("cdn-cache-control", "max-age=60"),
            ("pay", "x"),
            ("payment-response", "x"),
            ("x402-ticket", "x"),
        ] {
            answer.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        answer
    };
    let service = layered(&layer, answering(counter, cached));
    let answer = ask(&service, again("/answer", &ticket).body(Body::empty()).unwrap()).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["cache-control"]),
        (200, &"private, no-store".parse().unwrap())
    );
    for gone in ["cdn-cache-control", "pay", "payment-response", "x402-ticket"] {
        assert!(!answer.headers().contains_key(gone), "{gone}");
    }
}

/// A seller that takes a new key, or a new recipient, still knows what it sold.
#[tokio::test]
async fn a_ticket_outlives_a_key_and_a_recipient() {
    let shop = Shop::open().await;
    let (layer, counter) = (shop.layer().ticket(HOUR).unwrap(), Counter::default());
    let (ticket, _) = bought(&shop, &layer, &counter).await;
    let key = shop.sibling(|builder| builder.sealing_keys(SealingKeys::new([9; 32]).with_former(KEY).unwrap())).await;
    let home = shop.moved().await;
    for merchant in [key, home] {
        let moved = merchant.charge("answer", "0.49 USDC").unwrap().ticket(HOUR).unwrap();
        let service = layered(&moved, film(counter.clone()));
        let request = again("/answer", &ticket).header("range", "bytes=5-").body(Body::empty()).unwrap();
        assert_eq!(ask(&service, request).await.status(), 206);
    }
}

/// Where a part has its own price, the ticket is for that part.
#[tokio::test]
async fn a_ticket_for_a_cheap_part_fetches_no_dear_whole() {
    let shop = Shop::open().await;
    let by_part = |parts: &http::request::Parts, _: &bytes::Bytes| {
        let units = if parts.headers.contains_key("range") { 490_000 } else { 4_900_000 };
        Price::Charge(Amount::from_base_units(units))
    };
    let layer = shop.merchant.price_with("by part", by_part).unwrap().keep_ranges();
    let layer = layer.bind_headers([http::header::RANGE]).ticket(HOUR).unwrap();
    let service = layered(&layer, film(Counter::default()));
    let part = |request: http::request::Builder| request.header("range", "bytes=9-").body(Body::empty()).unwrap();
    let intent = intent_of(&ask(&service, part(Request::get("/answer"))).await);
    let paid = Request::get("/answer").header("x402-payment", proof(&intent, shop.pay(490_000)));
    let answer = ask(&service, part(paid)).await;
    let ticket = answer.headers()["x402-ticket"].to_str().unwrap();
    assert_eq!(ask(&service, part(again("/answer", ticket))).await.status(), 206);
    let whole = ask(&service, again("/answer", ticket).body(Body::empty()).unwrap()).await;
    assert_problem(whole, 401, "invalid_pass").await;
}

/// A call by pass is a sale like any other: it may break off as well.
#[tokio::test]
async fn a_call_by_pass_comes_with_a_ticket() {
    let shop = Shop::open().await;
    let pass = three(&shop.merchant);
    let token = buy(&shop, &pass).await;
    let layer = shop.layer().accept_pass(&pass).unwrap().ticket(HOUR).unwrap();
    let service = layered(&layer, film(Counter::default()));
    let answer = ask(&service, again("/answer", &token).body(Body::empty()).unwrap()).await;
    assert_eq!(
        (&answer.headers()["x402-pass-remaining"], &answer.headers()["accept-ranges"]),
        (&"2".parse().unwrap(), &"bytes".parse().unwrap())
    );
    let exposed = answer.headers()["access-control-expose-headers"].to_str().unwrap();
    assert_eq!(exposed.matches("X402-Ticket").count(), 1, "{exposed}");
    let ticket = answer.headers()["x402-ticket"].to_str().unwrap();
    let request = again("/answer", ticket).header("range", "bytes=5-").body(Body::empty()).unwrap();
    assert_eq!(ask(&service, request).await.status(), 206);
    assert_eq!(pass.account(&token).await.unwrap().unwrap().drawn, 1);
}

#[tokio::test]
async fn with_a_payment_beside_it_the_payment_counts_and_a_bill_of_the_handlers_stays_inside() {
    let shop = Shop::open().await;
    let (layer, counter) = (shop.layer().ticket(HOUR).unwrap(), Counter::default());
    let (ticket, intent) = bought(&shop, &layer, &counter).await;
    let service = layered(&layer, film(counter.clone()));
    let used = again("/answer", &ticket).header("x402-payment", proof(&intent, shop.pay(490_000)));
    assert_problem(ask(&service, used.body(Body::empty()).unwrap()).await, 409, "already_consumed").await;
    let bills = layered(&layer, answering(counter, |_| with_status(402)));
    let billed = ask(&bills, again("/answer", &ticket).body(Body::empty()).unwrap()).await;
    assert_problem(billed, 502, "upstream_payment_required").await;
}

#[tokio::test]
async fn without_a_ticket_no_parts_are_promised() {
    let shop = Shop::open().await;
    let counter = Counter::default();
    for (layer, promised) in
        [(shop.layer(), false), (shop.merchant.charge("parts", "0.49 USDC").unwrap().keep_ranges(), true)]
    {
        let service = layered(&layer, film(counter.clone()));
        let quote = ask(&service, Request::get("/answer").body(Body::empty()).unwrap()).await;
        let answer = ask(&service, by_header("GET", &intent_of(&quote), shop.pay(490_000))).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers().contains_key("accept-ranges"), promised);
        assert!(!answer.headers().contains_key("x402-ticket"));
    }
}
