//! What is sold: by status, by the route's rule, by the handler's word; and what a payer can see of it.

use axum::{
    Router,
    body::Body,
    routing::{any, get},
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use tower::{ServiceBuilder, ServiceExt as _};
use tower_x402::{Consumption, Receipt, X402};

use crate::support::{
    Answer, Counter, Handler, PRICE, Shop, answering, ask, assert_problem, by_header, intent_of, layered, payer, post,
    quoted, recipient, redemption, with_status,
};

/// Redeems, and redeems again: whether the first answer was sold, as the payer sees it and as the ledger does.
async fn sells<S: Handler>(shop: &Shop, service: &X402<S>) -> (StatusCode, bool) {
    let (intent, tx) = (quoted(service).await, shop.pay(490_000));
    let first = ask(service, redemption(&intent, tx)).await;
    let status = first.status();
    let said = first.headers().contains_key("payment-response");
    let no_store = first.headers().get(header::CACHE_CONTROL).is_some_and(|value| value == "private, no-store");
    assert_eq!(said, no_store, "{status}");
    let again = ask(service, redemption(&intent, tx)).await;
    if said {
        assert_problem(again, 409, "already_consumed").await;
    } else {
        assert_eq!(again.status(), status, "the pair is free at once");
    }
    (status, said)
}

#[tokio::test]
async fn what_delivers_is_sold_and_nothing_else() {
    let shop = Shop::open().await;
    for (status, sold) in [
        (101, true),
        (200, true),
        (201, true),
        (204, true),
        (206, true),
        (299, true),
        (301, true),
        (303, true),
        (304, false),
        (307, true),
        (400, false),
        (401, false),
        (403, false),
        (404, false),
        (409, false),
        (422, false),
        (429, false),
        (500, false),
        (503, false),
        (599, false),
        (999, false),
    ] {
        let service = layered(&shop.layer(), answering(Counter::default(), move |_| with_status(status)));
        assert_eq!(sells(&shop, &service).await, (StatusCode::from_u16(status).unwrap(), sold));
    }
}

#[tokio::test]
async fn a_handler_overrides_the_rule() {
    let shop = Shop::open().await;
    for (status, word, sold) in [
        (200, Consumption::Keep, false),
        (303, Consumption::Keep, false),
        (404, Consumption::Consume, true),
        (500, Consumption::Consume, true),
    ] {
        let service = layered(
            &shop.layer(),
            answering(Counter::default(), move |_| {
                let mut response = with_status(status);
                response.extensions_mut().insert(word);
                response
            }),
        );
        assert_eq!(sells(&shop, &service).await.1, sold, "{status} {word:?}");
    }
}

/// Not even by the handler's word or the route's rule: a 402 to one who paid is never his answer.
#[tokio::test]
async fn a_402_of_the_handlers_own_is_never_sold() {
    let shop = Shop::open().await;
    for layer in [shop.layer(), shop.layer().consume_when(|_, _| true)] {
        let service = layered(
            &layer,
            answering(Counter::default(), |_| {
                let mut response = with_status(402);
                response.extensions_mut().insert(Consumption::Consume);
                response
            }),
        );
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        assert_problem(ask(&service, redemption(&intent, tx)).await, 502, "upstream_payment_required").await;
        assert_problem(ask(&service, redemption(&intent, tx)).await, 502, "upstream_payment_required").await;
    }
}

#[tokio::test]
async fn a_route_has_a_rule_of_its_own() {
    let shop = Shop::open().await;
    let rule = |status: StatusCode, headers: &HeaderMap| status == 404 || headers.contains_key("x-result");
    let layer = shop.layer().consume_when(rule);
    for (status, result, sold) in [(200, false, false), (200, true, true), (404, false, true), (500, true, true)] {
        let service = layered(
            &layer,
            answering(Counter::default(), move |_| {
                let mut response = with_status(status);
                if result {
                    response.headers_mut().insert("x-result", HeaderValue::from_static("1"));
                }
                response
            }),
        );
        assert_eq!(sells(&shop, &service).await.1, sold, "{status} {result}");
    }
}

/// `any(h)` under axum: every method costs, and each is sold once.
#[tokio::test]
async fn any_of_axum_is_sold_by_every_method() {
    let shop = Shop::open().await;
    let app = Router::new().route("/answer", any(|| async { "the answer" }).layer(shop.layer()));
    for method in ["OPTIONS", "GET", "DELETE"] {
        let request = Request::builder().method(method).uri("/answer").body(Body::empty()).unwrap();
        let quote = app.clone().oneshot(request).await.unwrap();
        assert_eq!(quote.status(), 402);
        let tx = shop.pay(490_000);
        let answer = app.clone().oneshot(by_header(method, &intent_of(&quote), tx)).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "the answer");
        let again = app.clone().oneshot(by_header(method, &intent_of(&quote), tx)).await.unwrap();
        assert_eq!(again.status(), 409);
    }
}

/// axum answers HEAD from a GET handler: the door does not sell what HEAD cannot carry.
#[tokio::test]
async fn head_of_a_get_route_consumes_nothing() {
    let shop = Shop::open().await;
    let app = Router::new().route("/answer", get(|| async { "the answer" })).layer(shop.layer());
    let quote = app.clone().oneshot(Request::head("/answer").body(Body::empty()).unwrap()).await.unwrap();
    let (intent, tx) = (intent_of(&quote), shop.pay(490_000));
    assert_eq!(app.clone().oneshot(by_header("HEAD", &intent, tx)).await.unwrap().status(), 400);
    assert_eq!(app.oneshot(by_header("GET", &intent, tx)).await.unwrap().status(), 200);
}

/// With `route_layer` a path that is not there is not sold.
#[tokio::test]
async fn a_404_of_the_router_is_not_quoted() {
    let shop = Shop::open().await;
    let app = Router::new().route("/answer", get(|| async { "the answer" })).route_layer(shop.layer());
    let nowhere = app.oneshot(Request::get("/nowhere").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(nowhere.status(), 404);
}

/// What each of axum's ways to put a layer on covers: whatever the documentation recommends leaves no method free.
#[tokio::test]
async fn every_method_is_priced_where_the_documentation_says_so() {
    let shop = Shop::open().await;
    let free = || async { "free" };
    let only_paid = |receipt: Receipt| async move { receipt.amount().to_string() };
    let statuses = async |app: Router| {
        let mut statuses = Vec::new();
        for method in ["GET", "POST", "DELETE"] {
            let request = Request::builder().method(method).uri("/answer").body(Body::empty()).unwrap();
            statuses.push(app.clone().oneshot(request).await.unwrap().status().as_u16());
        }
        statuses
    };
    let route = |methods| Router::new().route("/answer", methods);
    let layer = || shop.layer();
    // Recommended: `layer`, last, where any method is answered.
    assert_eq!(statuses(route(any(free).get(free).layer(layer()))).await, [402, 402, 402]);
    assert_eq!(statuses(route(get(free).fallback(free).layer(layer()))).await, [402, 402, 402]);
    assert_eq!(statuses(route(any(free).get(free)).route_layer(layer())).await, [402, 402, 402]);
    // Recommended: `route_layer`, last, where methods are named; the others are not there, and not for sale.
    assert_eq!(statuses(route(get(free).post(free).route_layer(layer()))).await, [402, 402, 405]);
    // What the documentation warns of.
    assert_eq!(statuses(route(any(free).get(free).route_layer(layer()))).await, [402, 200, 200]);
    assert_eq!(statuses(route(get(free).fallback(free).route_layer(layer()))).await, [402, 200, 200]);
    assert_eq!(statuses(route(get(free).route_layer(layer()).post(free))).await, [402, 200, 405]);
    // And why it says to take the receipt: what has lost its price sells nothing.
    assert_eq!(statuses(route(any(only_paid).get(only_paid).route_layer(layer()))).await, [402, 500, 500]);
}

/// A price on the whole router over a route that has its own.
#[tokio::test]
async fn a_router_sells_no_route_that_has_a_price_of_its_own() {
    let shop = Shop::open().await;
    let all = shop.merchant.charge("all", "1.00 USDC").unwrap();
    let apps = [
        Router::new().route("/answer", get(|| async { "" }).route_layer(shop.layer())).route_layer(all.clone()),
        Router::new().route("/answer", get(|| async { "" }).layer(shop.layer())).layer(all.clone()),
        Router::new().route("/answer", get(|| async { "" }).route_layer(shop.layer()).layer(shop.layer())),
        Router::new().merge(Router::new().route("/answer", get(|| async { "" })).layer(shop.layer())).layer(all),
    ];
    for app in apps {
        let answer = app.oneshot(Request::get("/answer").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 500);
        assert!(!answer.headers().contains_key("pay"));
    }
}

/// A router that is used as a service hides what is in it. A price in there is met by the first who pays: nothing is taken from
/// him, whatever the route's rule says, and nobody else is sent a bill.
#[tokio::test]
async fn a_price_inside_a_router_as_a_service_bills_nobody_after_the_first() {
    for mount in 0..3 {
        let shop = Shop::open().await;
        let outer = shop.merchant.charge("all", PRICE).unwrap().consume_when(|_, _| true);
        let counter = Counter::default();
        let handler = {
            let counter = counter.clone();
            move || async move { counter.run().to_string() }
        };
        let inner = Router::new().route("/answer", any(handler.clone()).layer(shop.layer()));
        let inner = inner.route("/plain", any(handler));
        let app = match mount {
            0 => Router::new().nest_service("/in", ServiceBuilder::new().layer(outer).service(inner)),
            1 => Router::new().nest_service("/in", inner).layer(outer),
            _ => Router::new().nest("/in", Router::new().fallback_service(inner).layer(outer)),
        };
        let to = |path: &'static str, mut request: Request<Body>| {
            *request.uri_mut() = path.parse().unwrap();
            app.clone().oneshot(request)
        };
        let plain = intent_of(&to("/in/plain", post("{}")).await.unwrap());
        let (intent, tx) = (intent_of(&to("/in/answer", post("{}")).await.unwrap()), shop.pay(490_000));
        // As often as he likes: it was no attempt of his that failed.
        for _ in 0..20 {
            let answer = to("/in/answer", redemption(&intent, tx)).await.unwrap();
            assert_eq!(answer.status(), 500, "{mount}");
            assert!(!answer.headers().contains_key("payment-response"));
        }
        for path in ["/in/answer", "/in/plain"] {
            let answer = to(path, post("{}")).await.unwrap();
            assert_eq!(answer.status(), 500, "{mount} {path}");
            assert!(!answer.headers().contains_key("pay") && !answer.headers().contains_key("x-price-intent"));
        }
        let counts = shop.ledger.counts().unwrap();
        assert_eq!((counter.runs(), counts.consumed, counts.held), (0, 0, 0));
        // Whoever paid for something else before is served, and the payment that was shown is still good.
        assert_eq!(to("/in/plain", redemption(&plain, tx)).await.unwrap().status(), 200, "{mount}");
        assert_eq!(counter.runs(), 1);
    }
}

#[tokio::test]
async fn the_handler_learns_what_was_paid() {
    async fn handler(receipt: Receipt) -> String {
        assert_eq!((receipt.payer(), receipt.recipient()), (payer(), recipient()));
        assert_eq!(receipt.resource(), "answer");
        format!("{} {} {}", receipt.amount(), receipt.payment_id(), receipt.intent())
    }
    let shop = Shop::open().await;
    let app = Router::new().route("/answer", get(handler).post(handler)).layer(shop.layer());
    let quote = app.clone().oneshot(post("{}")).await.unwrap();
    let (intent, tx) = (intent_of(&quote), shop.pay(500_000));
    let answer = app.oneshot(redemption(&intent, tx)).await.unwrap();
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(text, format!("500000 eip155:8453/{tx}/0 {intent}"), "what was sent, not what was asked");
}

/// A free request is not the layer's: no receipt, no header, no reading.
#[tokio::test]
async fn free_when_lets_a_request_through_untouched() {
    let shop = Shop::open().await;
    let layer = shop.layer().free_when(|method, uri, headers| {
        method == http::Method::GET && uri.path() == "/answer" && !headers.contains_key("x-paid-only")
    });
    let service = layered(
        &layer,
        answering(Counter::default(), |request| {
            assert!(request.extensions().get::<Receipt>().is_none());
            let mut response = with_status(402);
            response.headers_mut().insert("pay", HeaderValue::from_static("the handler's own business"));
            response
        }),
    );
    let request = Request::get("/answer").body(Body::empty()).unwrap();
    let answer: Answer = ask(&service, request).await;
    assert_eq!(answer.status(), 402);
    let names: Vec<_> = answer.headers().keys().map(|name| name.as_str().to_owned()).collect();
    assert_eq!(names, ["pay"]);
    let request = Request::get("/answer").header("x-paid-only", "1").body(Body::empty()).unwrap();
    assert_problem(ask(&service, request).await, 402, "payment_required").await;
}

/// The status, headers and extensions of what is sold are the handler's, but for what the layer says.
#[tokio::test]
async fn a_sold_answer_is_the_handlers_own() {
    #[derive(Clone, Debug, PartialEq)]
    struct Own(u8);
    let shop = Shop::open().await;
    let service = layered(
        &shop.merchant.charge("answer", PRICE).unwrap(),
        answering(Counter::default(), |_| {
            let mut response: Response<Body> = with_status(201);
            response.headers_mut().append(header::SET_COOKIE, HeaderValue::from_static("a=1"));
            response.headers_mut().append(header::SET_COOKIE, HeaderValue::from_static("b=2"));
            response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/answers/1"));
            response.extensions_mut().insert(Own(7));
            response.extensions_mut().insert(Consumption::Consume);
            response
        }),
    );
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let answer = ask(&service, redemption(&intent, tx)).await;
    assert_eq!(answer.status(), 201);
    assert_eq!(answer.headers().get_all(header::SET_COOKIE).iter().count(), 2);
    assert_eq!(answer.headers()[header::LOCATION], "/answers/1");
    assert_eq!(answer.extensions().get::<Own>(), Some(&Own(7)));
    assert!(answer.extensions().get::<Consumption>().is_none(), "it is no outer layer's business");
}
