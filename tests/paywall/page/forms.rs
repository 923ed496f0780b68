//! The form of a page: it redeems, for browsers without script.

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use tower_x402::{Price, Receipt, Redelivery, RequestBody, page::Page, protocol::Amount};

use super::{form, get, navigation, text, varying};
use crate::support::{Counter, Handler, NOW, Shop, ask, assert_problem, intent_of, layered, post};

/// Answers with what it sees of the request.
fn witness(counter: Counter) -> impl Handler {
    tower::service_fn(move |request: Request<RequestBody<Body>>| {
        counter.run();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let typed = head.headers.contains_key("content-type") || head.headers.contains_key("content-length");
            let paid = head.extensions.get::<Receipt>().is_some();
            let seen = format!("{} {} {} {typed} {paid}", head.method, head.uri, String::from_utf8_lossy(&body));
            Ok(http::Response::new(Body::from(seen)))
        }
    })
}

#[tokio::test]
async fn it_redeems_the_get_of_the_same_address() {
    let shop = Shop::open().await;
    let counter = Counter::default();
    let unkept = Redelivery::lasting(std::time::Duration::ZERO);
    let service = layered(&shop.layer().page(Page::new()).redeliver(unkept), witness(counter.clone()));
    let intent = intent_of(&ask(&service, navigation("/answer?query=why")).await);
    let paid = shop.pay(490_000);
    let (status, headers, body) = text(
        ask(
            &service,
            form("/answer?query=why", &format!("intentId={intent}&txHash=%30x{}&x=y", &paid.to_string()[2..])),
        )
        .await,
    )
    .await;
    assert_eq!((status, body.as_str()), (200, "GET /answer?query=why  false true"));
    assert!(headers.contains_key("payment-response"));
    let again = ask(&service, form("/answer?query=why", &format!("intentId={intent}&txHash={paid}"))).await;
    let (status, headers, page) = text(again).await;
    assert_eq!((status, headers["x402-error"].as_bytes()), (409, &b"already_consumed"[..]));
    assert!(page.contains("delivered already") && headers["content-type"] == "text/html; charset=utf-8");
    assert_eq!(counter.runs(), 1);
}

/// What was quoted for a GET is bound to it where the price depends on the request.
#[tokio::test]
async fn it_is_the_request_that_was_quoted() {
    let shop = Shop::open().await;
    let layer = shop.merchant.price_with("answer", |parts, _| {
        let dear = parts.method == http::Method::POST || parts.uri.query() == Some("dear");
        Price::Charge(Amount::from_cents(if dear { 100 } else { 49 }, 6))
    });
    let layer = layer.unwrap().bind_request().page(Page::new());
    let service = layered(&layer, witness(Counter::default()));
    let intent = intent_of(&ask(&service, navigation("/answer?cheap")).await);
    let paid = shop.pay(490_000);
    let (status, headers, _) =
        text(ask(&service, form("/answer?dear", &format!("intentId={intent}&txHash={paid}"))).await).await;
    assert_eq!((status, headers["x402-error"].as_bytes()), (404, &b"intent_not_found"[..]));
    let (status, _, body) =
        text(ask(&service, form("/answer?cheap", &format!("intentId={intent}&txHash={paid}"))).await).await;
    assert_eq!((status, body.as_str()), (200, "GET /answer?cheap  false true"));
}

#[tokio::test]
async fn what_is_no_whole_redemption_is_refused_and_never_billed() {
    let shop = Shop::open().await;
    let counter = Counter::default();
    let service = layered(&shop.layer().page(Page::new()), witness(counter.clone()));
    let intent = intent_of(&ask(&service, get("/answer")).await);
    let paid = shop.pay(490_000);
    for fields in [
        format!("intentId={intent}"),
        format!("txHash={paid}"),
        format!("intentId={intent}&txHash="),
        format!("intentId={intent}&txHash=+{paid}"),
        format!("intentId={intent}&txHash={paid}0"),
        format!("intentId={intent}&txHash={paid}&txHash={paid}"),
        format!("intentId={intent}&intentId={intent}&txHash={paid}"),
        format!("intentId={intent}&tx%48ash=0X{}", "0".repeat(64)),
        format!("intentId=%ff&txHash={paid}"),
        format!("intentId={intent}&txHash={paid}&paymentSecret=short"),
        format!("intentId={intent}&txHash={paid}&paymentSignature=0x"),
        "intentId&txHash".to_owned(),
    ] {
        let (status, headers, page) = text(ask(&service, form("/answer", &fields)).await).await;
        assert_eq!((status, headers["x402-error"].as_bytes()), (400, &b"invalid_redemption"[..]), "{fields}");
        assert!(!headers.contains_key("pay") && page.starts_with("<!doctype html>"), "{fields}");
        // Programs that send forms read JSON.
        let mut request = form("/answer", &fields);
        request.headers_mut().remove("accept");
        assert_problem(ask(&service, request).await, 400, "invalid_redemption").await;
    }
    assert_eq!(counter.runs(), 0);
}

/// The same form again, with what the answer brings: a new intent, and the old one as its secret.
#[tokio::test]
async fn a_refusal_is_a_page_with_the_form_for_the_next_time() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().page(Page::new()), witness(Counter::default()));
    let intent = intent_of(&ask(&service, navigation("/answer?query=why%3F")).await);
    let late = shop.pay_at(490_000, NOW + 17 * 60);
    shop.chain.set_head(tower_x402::protocol::ChainTime::from_unix(NOW + 17 * 60));
    shop.clock.advance(std::time::Duration::from_secs(17 * 60));
    let (status, headers, page) =
        text(ask(&service, form("/answer?query=why%3F", &format!("intentId={intent}&txHash={late}"))).await).await;
    assert_eq!((status, headers["x402-error"].as_bytes()), (410, &b"intent_expired"[..]));
    assert_eq!(varying(&headers), ["Accept-Language", "Accept"]);
    let fresh = headers["x-price-intent"].to_str().unwrap();
    let field = |name: &str, value: &str| format!(r#"name="{name}" value="{value}""#);
    for part in [field("intentId", fresh), field("paymentSecret", &intent), field("txHash", &late.to_string())] {
        assert!(page.contains(&part), "{part} in {page}");
    }
    assert!(!page.contains("<script"));
    let fields = format!("intentId={fresh}&paymentSecret={intent}&txHash={late}");
    let (status, _, body) = text(ask(&service, form("/answer?query=why%3F", &fields)).await).await;
    assert_eq!((status, body.as_str()), (200, "GET /answer?query=why%3F  false true"));
}

#[tokio::test]
async fn other_forms_and_other_routes_are_what_they_were() {
    let shop = Shop::open().await;
    let counter = Counter::default();
    let with = layered(&shop.layer().page(Page::new()), witness(counter.clone()));
    let without = layered(&shop.layer(), witness(counter.clone()));
    let header_only = layered(&shop.layer().header_only().page(Page::new()), witness(counter.clone()));
    let intent = intent_of(&ask(&with, get("/answer")).await);
    let whole = format!("intentId={intent}&txHash={}", shop.pay(490_000));
    // No proof: a quote, in JSON, for what is sent.
    assert_problem(ask(&with, form("/answer", "a=b")).await, 402, "payment_required").await;
    // A route without a page: a broken proof, as ever.
    assert_problem(ask(&without, form("/answer", &whole)).await, 400, "invalid_redemption").await;
    assert_problem(ask(&header_only, form("/answer", &whole)).await, 402, "payment_required").await;
    // JSON that is sent under this type redeems what was sent.
    let mut json = post(format!(r#"{{"intentId":"{intent}","txHash":"{}"}}"#, shop.pay(490_000)));
    json.headers_mut().insert("content-type", "application/x-www-form-urlencoded".parse().unwrap());
    let (status, _, body) = text(ask(&with, json).await).await;
    assert!(status == 200 && body.starts_with("POST /answer {\"intentId\""), "{status} {body}");
    // Other methods do not redeem by form.
    let mut put = form("/answer", &whole);
    *put.method_mut() = http::Method::PUT;
    assert_problem(ask(&with, put).await, 400, "invalid_redemption").await;
    assert_eq!(counter.runs(), 1);
}

/// The header is a proof already: then the form is the service's own.
#[tokio::test]
async fn beside_a_proof_in_the_header_a_form_is_only_a_body() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().page(Page::new()), witness(Counter::default()));
    let intent = intent_of(&ask(&service, get("/answer")).await);
    let mut request = form("/answer", "intentId=x&txHash=y");
    let proof = crate::support::proof(&intent, shop.pay(490_000));
    request.headers_mut().insert("x402-payment", proof.parse().unwrap());
    let (status, _, body) = text(ask(&service, request).await).await;
    assert_eq!((status, body.as_str()), (200, "POST /answer intentId=x&txHash=y true true"));
}
