//! Servers that were made to cheat or to hold a client for ever, over real HTTP.

use std::time::Duration;

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::get as answers,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tower_x402::{
    client::{FileJournal, PayErrorKind},
    protocol::Asset,
};

use super::{super::CHEAP, Buyer, buy, get};
use crate::{SELLER, Token, World, served::shop::serve};

const ENDLESS: Duration = Duration::from_secs(120);

fn way() -> Value {
    json!({
        "scheme": "exact", "network": "eip155:8453", "amount": CHEAP.to_string(), "payTo": SELLER,
        "asset": Asset::USDC_BASE.contract(), "maxTimeoutSeconds": 60, "extra": { "name": "USD Coin", "version": "2" },
    })
}

fn bill(ways: usize, description: usize) -> String {
    let resource = json!({ "url": "http://127.0.0.1/", "description": "x".repeat(description) });
    STANDARD.encode(json!({ "x402Version": 2, "resource": resource, "accepts": vec![way(); ways] }).to_string())
}

fn billed(bills: &[String]) -> Response {
    let mut response = StatusCode::PAYMENT_REQUIRED.into_response();
    for bill in bills {
        response.headers_mut().append("payment-required", bill.parse().unwrap());
    }
    response
}

fn of_version_1(body: Body) -> Response {
    (StatusCode::PAYMENT_REQUIRED, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Sells nothing, whatever it is shown.
fn cheats() -> Router {
    let piece = || Ok::<_, std::io::Error>(Bytes::from_static(b"{\"x402Version\":1,\"accepts\":["));
    Router::new()
        .route("/large", answers(|| async { billed(&[bill(1, 40_000)]) }))
        .route("/many", answers(|| async { billed(&[bill(10_000, 0)]) }))
        .route("/twice", answers(|| async { billed(&[bill(1, 0), bill(1, 1)]) }))
        .route("/fast", answers(move || async move { of_version_1(Body::from_stream(stream::repeat_with(piece))) }))
        .route(
            "/silent",
            answers(move || async move {
                let pieces = futures_util::StreamExt::chain(stream::iter([piece()]), stream::pending());
                of_version_1(Body::from_stream(pieces))
            }),
        )
        .route(
            "/ten-megabytes",
            answers(|| async {
                let body = json!({ "x402Version": 1, "error": "x".repeat(10 << 20), "accepts": [] });
                of_version_1(Body::from(body.to_string()))
            }),
        )
        .route("/redirects", answers(redirects))
}

async fn redirects(headers: HeaderMap) -> Response {
    if !headers.contains_key("payment-signature") {
        return billed(&[bill(1, 0)]);
    }
    (StatusCode::TEMPORARY_REDIRECT, [("location", "/large")]).into_response()
}

#[tokio::test]
async fn no_server_holds_a_call_for_ever_or_gets_more_than_one_signature() {
    let Some(world) = World::with(Token::Circles).await else { return };
    let (buyer, url) = (Buyer::of(&world).await, serve(cheats()).await);
    // What it asks for, and whether it is signed for.
    let cases = [
        ("/large", true),
        ("/many", false),
        ("/twice", false),
        ("/fast", false),
        ("/silent", false),
        ("/ten-megabytes", false),
        ("/redirects", true),
    ];
    for (path, signs) in cases {
        let begun = Instant::now();
        let before = buyer.entries().await.len();
        let layer = buyer.layer_with(|builder| builder.patience(Duration::from_secs(15))).await;
        // A body that is handed on as it is has no end of its own.
        let outcome = timeout(ENDLESS, async {
            let client = tower_x402::client::ReqwestClient::new(reqwest::Client::builder().no_proxy()).unwrap();
            tower::ServiceExt::oneshot(tower::Layer::layer(&layer, client), get(&format!("{url}{path}"))).await
        });
        let outcome = outcome.await.unwrap_or_else(|_| panic!("{path} never ends"));
        let said = outcome.map(|answer| answer.status().as_u16());
        println!("{path}: {said:?} after {:?}", begun.elapsed());
        drop(layer);
        let signed = buyer.entries().await.len() - before;
        assert_eq!(signed, usize::from(signs), "{path}: {said:?}");
        match said {
            Ok(status) => assert_eq!((status, signs), (402, false), "{path}"),
            Err(error) => assert_eq!((error.is_resumable(), error.transaction()), (signs, None), "{path}: {error}"),
        }
    }
    assert_eq!(world.balance(SELLER).await, 0);
}

/// A second process is refused the journal, and so signs nothing.
#[tokio::test]
async fn two_processes_do_not_share_a_journal() {
    let Some(world) = World::with(Token::Circles).await else { return };
    let (buyer, url) = (Buyer::of(&world).await, serve(cheats()).await);
    let layer = buyer.layer().await;
    assert!(FileJournal::open(buyer.journal()).await.is_err());
    let error = buy(&layer, get(&format!("{url}/redirects"))).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Outstanding, "{error}");
    drop(layer);
    assert_eq!(buyer.entries().await.len(), 1);
}
