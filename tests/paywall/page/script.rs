//! What the page's script is answered: a redirect that it can tell, and an answer that is kept.

use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, Request, Response, StatusCode};
use serde_json::Value;
use tower_x402::{Redelivery, RequestBody, X402Layer, page::Page, protocol::TxHash};

use super::{navigation, text};
use crate::standard::{Stall, offered, paid, pays, settled};
use crate::support::{Counter, Shop, answering, ask, intent_of, layered, proof};

const ELSEWHERE: &str = "https://files.example/signed?key=1";

/// What the script of a page asks for, and what another program does.
fn redeeming(intent: &str, paid: TxHash, by_script: bool) -> Request<Body> {
    let mut request = Request::get("/answer").header("x402-payment", proof(intent, paid));
    if by_script {
        request = request.header("x402-page", "1");
    }
    request.body(Body::empty()).unwrap()
}

/// Shows one payment twice to a route whose handler redirects: status and headers of both answers, and how often it ran.
async fn twice(set: impl FnOnce(X402Layer) -> X402Layer, by_script: bool) -> ([(u16, HeaderMap); 2], usize) {
    let shop = Shop::open().await;
    let counter = Counter::default();
    let moved = |_: &Request<RequestBody<Body>>| {
        let response = Response::builder().status(StatusCode::SEE_OTHER).header("location", ELSEWHERE);
        response.body(Body::empty()).unwrap()
    };
    let service = layered(&set(shop.layer()), answering(counter.clone(), moved));
    let intent = intent_of(&ask(&service, navigation("/answer")).await);
    let paid = shop.pay(490_000);
    let first = ask(&service, redeeming(&intent, paid, by_script)).await;
    let second = ask(&service, redeeming(&intent, paid, by_script)).await;
    ([first, second].map(|answer| (answer.status().as_u16(), answer.headers().clone())), counter.runs())
}

#[tokio::test]
async fn a_sold_redirect_is_told_to_the_script_as_a_header() {
    let (answers, runs) = twice(|layer| layer.page(Page::new()), true).await;
    for (status, headers) in answers {
        assert_eq!((status, headers["x402-location"].as_bytes()), (200, ELSEWHERE.as_bytes()));
        assert!(headers.contains_key("payment-response") && !headers.contains_key("location"));
    }
    assert_eq!(runs, 1, "the second one is the answer that was kept");
}

#[tokio::test]
async fn others_are_redirected() {
    for (page, by_script) in [(true, false), (false, true)] {
        let (answers, _) = twice(|layer| if page { layer.page(Page::new()) } else { layer }, by_script).await;
        let (status, headers) = &answers[0];
        assert_eq!((*status, headers["location"].as_bytes()), (303, ELSEWHERE.as_bytes()));
        assert!(!headers.contains_key("x402-location"));
    }
}

/// SECURITY row 55: a settled payment is told beside a redirect that it did not buy, and the page keeps it.
#[tokio::test]
async fn a_redirect_that_is_not_sold_is_not_told_as_one() {
    let stall = Stall::open().await;
    let moved = |_: &Request<RequestBody<Body>>| {
        let response = Response::builder().status(StatusCode::SEE_OTHER).header("location", ELSEWHERE);
        response.body(Body::empty()).unwrap()
    };
    let layer = stall.shop.layer().settle_first().consume_when(|_, _| false).page(Page::new());
    let service = layered(&layer, answering(Counter::default(), moved));
    let mut request = paid(&pays(&offered(&service).await));
    request.headers_mut().insert("x402-page", "1".parse().unwrap());
    let answer = ask(&service, request).await;
    assert!(!settled(&answer).success);
    assert_eq!((answer.status().as_u16(), answer.headers()["location"].as_bytes()), (303, ELSEWHERE.as_bytes()));
    assert!(!answer.headers().contains_key("x402-location"));
}

/// Why nothing was sold, as the visitor reads it; other programs read what they always do.
#[tokio::test]
async fn a_refusal_is_told_to_the_script_in_the_visitors_language() {
    let shop = Shop::open().await;
    let service =
        layered(&shop.layer().page(Page::new()), answering(Counter::default(), |_| Response::new(Body::empty())));
    let intent = intent_of(&ask(&service, navigation("/answer")).await);
    let paid = shop.pay(480_000);
    for (language, by_script, words) in [
        ("de", true, "Diese Transaktion zahlt {paid}, und der Preis ist {required}. Zahlungen werden"),
        ("pt", true, "This transaction pays {paid}, and the price is {required}."),
        ("de", false, "no single transfer in the transaction reaches the price"),
    ] {
        let mut request = redeeming(&intent, paid, by_script);
        request.headers_mut().insert("accept-language", language.parse().unwrap());
        let (status, headers, body) = text(ask(&service, request).await).await;
        assert_eq!(headers["content-length"], body.len().to_string().as_str());
        let problem: Value = serde_json::from_str(&body).unwrap();
        let told = problem["detail"].as_str().unwrap();
        assert!(told.to_lowercase().contains(&words.to_lowercase()), "{status} {told}");
        assert_eq!(
            (status, &problem["error"], &problem["paid"]),
            (422, &"insufficient_amount".into(), &"480000".into())
        );
    }
}

#[tokio::test]
async fn a_page_keeps_answers_unless_the_route_says_otherwise() {
    let none = || Redelivery::lasting(Duration::ZERO);
    let (answers, _) = twice(|layer| layer.page(Page::new()), true).await;
    assert_eq!((answers[1].0, answers[1].1["idempotent-replayed"].as_bytes()), (200, &b"true"[..]));
    let settings: [fn(X402Layer, Redelivery) -> X402Layer; 2] =
        [|layer, none| layer.page(Page::new()).redeliver(none), |layer, none| layer.redeliver(none).page(Page::new())];
    for set in settings {
        let (answers, runs) = twice(|layer| set(layer, none()), true).await;
        assert_eq!((answers[1].0, answers[1].1["x402-error"].as_bytes()), (409, &b"already_consumed"[..]));
        assert_eq!(runs, 1);
    }
}
