//! A client that holds a pass: bought once, shown with each call, bought again, and never shown to others.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tower::{Layer as _, Service, ServiceExt as _};
use tower_x402::{
    Pass,
    client::{Deadline, MaxPrice, PassLayer, QuoteOnly},
    protocol::{Amount, Quote},
};

use crate::support::{Counter, Shop, by_header, echo, intent_of, layered};

type Answer = Response<Full<Bytes>>;

/// The limits of one request.
type Limits = (Option<MaxPrice>, Option<Deadline>);

/// A shop, and a client that pays for passes there as a `PayLayer` does.
#[derive(Clone)]
struct Street {
    shop: Arc<Shop>,
    pass: Pass,
    route: tower_x402::X402Layer,
    counter: Counter,
    bought: Arc<AtomicUsize>,
    /// The budget is used up.
    is_broke: Arc<AtomicBool>,
    /// A route that takes no pass.
    other: tower_x402::X402Layer,
    /// A route that takes it, at 2 USDC.
    dear: tower_x402::X402Layer,
    seen: Seen,
    /// The limits of each purchase of a pass.
    limits: Arc<Mutex<Vec<Limits>>>,
}

/// The paths that were asked for, and whether with a pass.
type Seen = Arc<Mutex<Vec<(String, bool)>>>;

impl Street {
    async fn new() -> Self {
        let shop = Arc::new(Shop::open().await);
        Self::selling_at(shop, "/pass").await
    }

    async fn selling_at(shop: Arc<Shop>, url: &str) -> Self {
        let pass = shop.merchant.pass("three", "1 USDC").unwrap().calls(3).unwrap().at(url).unwrap();
        Self::selling(shop, pass)
    }

    fn selling(shop: Arc<Shop>, pass: Pass) -> Self {
        let route = shop.layer().accept_pass(&pass).unwrap();
        let other = shop.merchant.charge("other", "0.49 USDC").unwrap();
        let dear = shop.merchant.charge("dear", "2 USDC").unwrap().accept_pass(&pass).unwrap();
        let (bought, is_broke, seen) = <(Arc<AtomicUsize>, Arc<AtomicBool>, Seen)>::default();
        let (counter, limits) = Default::default();
        Self { shop, pass, route, other, dear, counter, bought, is_broke, seen, limits }
    }

    async fn answer(self, request: Request<Full<Bytes>>) -> Answer {
        let (parts, body) = request.into_parts();
        let with_pass = parts.headers.contains_key("x402-pass");
        self.seen.lock().unwrap().push((parts.uri.path().to_owned(), with_pass));
        let quote_only = parts.extensions.get::<QuoteOnly>().is_some();
        let answer = match parts.uri.path() {
            "/pass" if self.is_broke.load(Ordering::SeqCst) => return with_status(402),
            "/pass" => {
                let limits: Limits = (parts.extensions.get().copied(), parts.extensions.get().copied());
                self.limits.lock().unwrap().push(limits);
                // As a `PayLayer` does, that may not pay so much.
                if limits.0.is_some_and(|most| most.0 < Amount::from_base_units(1_000_000)) {
                    return with_status(402);
                }
                let sells = self.pass.service().unwrap();
                let asked = Request::post("/pass").body(axum::body::Body::empty()).unwrap();
                let intent = intent_of(&sells.clone().oneshot(asked).await.unwrap());
                self.bought.fetch_add(1, Ordering::SeqCst);
                let paid = by_header("POST", &intent, self.shop.pay(1_000_000));
                sells.oneshot(paid).await.unwrap().map(axum::body::Body::new)
            }
            _ => {
                let layer = match parts.uri.path() {
                    "/other" => &self.other,
                    "/dear" => &self.dear,
                    _ => &self.route,
                };
                let service = layered(layer, echo(self.counter.clone()));
                let request = Request::from_parts(parts, axum::body::Body::new(body));
                service.oneshot(request).await.unwrap().map(axum::body::Body::new)
            }
        };
        let (mut parts, body) = answer.into_parts();
        if let Ok(quote) = Quote::from_headers(&parts.headers)
            && quote_only
        {
            parts.extensions.insert(quote);
        }
        Response::from_parts(parts, Full::new(body.collect().await.unwrap().to_bytes()))
    }

    fn client(
        &self,
        passes: &PassLayer,
    ) -> impl Service<Request<Full<Bytes>>, Response = Answer, Error = Infallible, Future: Send> + Clone {
        let street = self.clone();
        passes.layer(tower::service_fn(move |request| {
            let street = street.clone();
            async move { Ok(street.answer(request).await) }
        }))
    }
}

fn with_status(status: u16) -> Answer {
    Response::builder().status(status).body(Full::default()).unwrap()
}

fn to(url: &str) -> Request<Full<Bytes>> {
    Request::post(url).body(Full::default()).unwrap()
}

const URL: &str = "https://shop.example/pass";
const ANSWER: &str = "https://shop.example/answer";

#[tokio::test]
async fn one_pass_is_bought_for_each_three_calls() {
    let street = Street::new().await;
    let passes = PassLayer::new().buying(URL).unwrap();
    let client = street.client(&passes);
    for call in 1..=7_usize {
        let answer = client.clone().oneshot(to(ANSWER)).await.unwrap();
        assert_eq!(answer.status(), 200, "{call}");
        assert_eq!(street.bought.load(Ordering::SeqCst), call.div_ceil(3), "{call}");
    }
    let held = passes.passes();
    assert_eq!((held.len(), held[0].remaining.as_deref()), (1, Some("2")));
    assert!(!format!("{passes:?} {held:?}").contains(&held[0].token), "no text shows the token");
}

#[tokio::test]
async fn calls_that_begin_at_once_buy_one_pass() {
    let street = Street::new().await;
    let passes = PassLayer::new().buying(URL).unwrap();
    let client = street.client(&passes);
    let calls = (0..3).map(|_| client.clone().oneshot(to(ANSWER)));
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().status() == 200));
    assert_eq!(street.bought.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn without_money_requests_go_on_without_a_pass() {
    let street = Street::new().await;
    let passes = PassLayer::new().buying(URL).unwrap();
    let client = street.client(&passes);
    street.is_broke.store(true, Ordering::SeqCst);
    assert_eq!(client.clone().oneshot(to(ANSWER)).await.unwrap().status(), 402);
    street.is_broke.store(false, Ordering::SeqCst);
    // Not asked for at every request.
    assert_eq!(client.clone().oneshot(to(ANSWER)).await.unwrap().status(), 402);
    assert_eq!(street.bought.load(Ordering::SeqCst), 0);
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(client.clone().oneshot(to(ANSWER)).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_its_seller_closed_is_dropped() {
    for is_later_process in [false, true] {
        let (street, folder) = (Street::new().await, tempfile::tempdir().unwrap());
        let open = || PassLayer::new().buying(URL).unwrap().kept_in(folder.path().join("passes.json")).unwrap();
        let mut passes = open();
        assert_eq!(street.client(&passes).oneshot(to(ANSWER)).await.unwrap().status(), 200);
        let _ = street.pass.close(&passes.passes()[0].token).await.unwrap();
        if is_later_process {
            passes = open();
        }
        let client = street.client(&passes);
        assert_eq!(client.clone().oneshot(to(ANSWER)).await.unwrap().status(), 402, "it is asked without the pass");
        assert_eq!(passes.passes().len(), 1, "one answer may be a stray one");
        tokio::time::advance(Duration::from_secs(601)).await;
        assert_eq!(client.clone().oneshot(to(ANSWER)).await.unwrap().status(), 402, "it is refused again");
        assert!(passes.passes().is_empty(), "{is_later_process}");
        assert_eq!(client.clone().oneshot(to(ANSWER)).await.unwrap().status(), 402, "no other is bought at once");
    }
}

#[tokio::test]
async fn a_pass_is_shown_to_its_shop_alone() {
    let seen: Arc<std::sync::Mutex<Vec<(String, HeaderMap)>>> = Arc::default();
    let passes = PassLayer::new().buying(URL).unwrap();
    let log = Arc::clone(&seen);
    let client = passes.layer(tower::service_fn(move |request: Request<Full<Bytes>>| {
        log.lock().unwrap().push((request.uri().to_string(), request.headers().clone()));
        let body = if request.uri().path() == "/pass" { r#"{"pass":"x402p_secret","expires":null}"# } else { "" };
        async move { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body)))) }
    }));
    for url in [
        ANSWER,
        "https://SHOP.example:443/answer",
        "http://shop.example/answer",
        "https://shop.example:8443/answer",
        "https://shop.example.evil/answer",
        "https://evil.example/shop.example",
        "/answer",
    ] {
        assert_eq!(client.clone().oneshot(to(url)).await.unwrap().status(), StatusCode::OK);
    }
    let mut own = to(ANSWER);
    own.headers_mut().insert("x402-pass", "mine".parse().unwrap());
    let _ = client.oneshot(own).await.unwrap();
    let shown: Vec<_> =
        seen.lock().unwrap().iter().map(|(url, headers)| (url.clone(), headers.get("x402-pass").cloned())).collect();
    let with: Vec<_> = shown.iter().filter(|(_, pass)| pass.is_some()).map(|(url, _)| url.as_str()).collect();
    assert_eq!(with, [ANSWER, "https://SHOP.example:443/answer", ANSWER]);
    assert!(shown[1].1.as_ref().unwrap().is_sensitive());
    assert_eq!(shown.last().unwrap().1.as_ref().unwrap(), "mine");
}

#[tokio::test]
async fn a_pass_outlives_its_process() {
    let street = Street::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passes.json");
    let open = || PassLayer::new().buying(URL).unwrap().kept_in(&file).unwrap();
    assert_eq!(street.client(&open()).oneshot(to(ANSWER)).await.unwrap().status(), 200);
    let again = open();
    assert_eq!(again.passes()[0].remaining.as_deref(), Some("2"));
    assert_eq!(street.client(&again).oneshot(to(ANSWER)).await.unwrap().headers()["x402-pass-remaining"], "1");
    assert_eq!(street.bought.load(Ordering::SeqCst), 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    std::fs::write(&file, "not JSON").unwrap();
    assert!(PassLayer::new().buying(URL).unwrap().kept_in(&file).is_err());
}

/// An amount of 1 USDC covers no answer at 2 USDC, and two at 0.49.
#[tokio::test]
async fn an_amount_that_a_price_exceeds_is_kept_for_lower_prices() {
    let shop = Arc::new(Shop::open().await);
    let purse = shop.merchant.pass("purse", "0.9 USDC").unwrap().worth("1 USDC").unwrap();
    let street = Street::selling(shop, purse);
    let passes = PassLayer::new().buying(URL).unwrap();
    let client = street.client(&passes);
    let bought = || street.bought.load(Ordering::SeqCst);
    let (low, dear) = (ANSWER, "https://shop.example/dear");
    // Neither a whole one nor a rest is given up for a price that it does not cover.
    for (url, status, purchases) in [
        (dear, 402, 1),
        (dear, 402, 1),
        (low, 200, 1),
        (dear, 402, 1),
        (low, 200, 1),
        // What is left does not cover what it did before: another one is bought for the same request.
        (low, 200, 2),
        (dear, 402, 2),
        (low, 200, 2),
    ] {
        assert_eq!((client.clone().oneshot(to(url)).await.unwrap().status().as_u16(), bought()), (status, purchases));
    }
}

/// Three answers cost 1.47 alone, and 1 with a pass.
#[tokio::test]
async fn a_pass_that_a_quote_names_is_bought_where_it_is_cheaper() {
    for (expected, bought) in [(0, 0), (2, 0), (3, 1), (100, 1)] {
        let street = Street::new().await;
        let passes = PassLayer::new().expecting(expected);
        let client = street.client(&passes);
        for _ in 0..3 {
            let answer = client.clone().oneshot(to(ANSWER)).await.unwrap();
            assert_eq!(answer.status().as_u16(), if bought == 0 { 402 } else { 200 }, "{expected}");
        }
        assert_eq!(street.bought.load(Ordering::SeqCst), bought, "{expected}");
        // Asked for once: three answers with the pass, or three without.
        let asked = street.seen.lock().unwrap().iter().filter(|(path, _)| path == "/answer").count();
        assert_eq!(asked, 4, "{expected}");
        if bought == 1 {
            // The next one.
            assert_eq!(client.clone().oneshot(to(ANSWER)).await.unwrap().status(), 200);
            assert_eq!((street.bought.load(Ordering::SeqCst), passes.passes().len()), (2, 1));
            assert_eq!(passes.passes()[0].name.as_deref(), Some("three"));
        }
    }
}

#[tokio::test]
async fn a_pass_is_bought_by_its_name_and_at_its_own_origin_alone() {
    let bought = async |url: &str, name: &str| {
        let street = Street::selling_at(Arc::new(Shop::open().await), url).await;
        let passes = PassLayer::new().preferring(name);
        let client = street.client(&passes);
        let status = client.oneshot(to(ANSWER)).await.unwrap().status().as_u16();
        (street.bought.load(Ordering::SeqCst), status)
    };
    assert_eq!(bought("/pass", "three").await, (1, 200));
    assert_eq!(bought("https://shop.example/pass", "three").await, (1, 200));
    assert_eq!(bought("/pass", "other").await, (0, 402));
    for elsewhere in ["https://evil.example/pass", "http://shop.example/pass", "//evil.example/pass", "pass"] {
        assert_eq!(bought(elsewhere, "three").await, (0, 402), "{elsewhere}");
    }
}

#[tokio::test]
async fn a_route_that_takes_no_pass_costs_none() {
    let street = Street::new().await;
    let passes = PassLayer::new().buying(URL).unwrap();
    let client = street.client(&passes);
    let other = "https://shop.example/other";
    for _ in 0..2 {
        assert_eq!(client.clone().oneshot(to(other)).await.unwrap().status(), 402);
    }
    assert_eq!(client.clone().oneshot(to(ANSWER)).await.unwrap().headers()["x402-pass-remaining"], "2");
    assert_eq!(client.clone().oneshot(to(other)).await.unwrap().status(), 402);
    assert_eq!(passes.passes()[0].remaining.as_deref(), Some("2"));
    let with_pass = street.seen.lock().unwrap().iter().filter(|seen| **seen == ("/other".to_owned(), true)).count();
    assert_eq!(with_pass, 1, "it is shown there once");
}

/// What other calls hold comes back, or does not.
#[tokio::test(start_paused = true)]
async fn a_call_waits_while_others_hold_what_is_left() {
    for (busy, status, took) in [(1, 200, 2), (6, 200, 12), (7, 409, 12), (99, 409, 12)] {
        let passes = PassLayer::new().buying(URL).unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let client = passes.layer(tower::service_fn(move |request: Request<Full<Bytes>>| {
            let calls = &counted;
            let call = if request.uri().path() == "/pass" { 0 } else { calls.fetch_add(1, Ordering::SeqCst) + 1 };
            let answer = Response::builder();
            let answer = match call {
                0 => answer.status(200),
                call if call <= busy => answer.status(409).header("x402-error", "pass_busy").header("retry-after", "2"),
                _ => answer.header("x402-pass-remaining", "1"),
            };
            let body = r#"{"pass":"x402p_secret","expires":null}"#;
            async move { Ok::<_, Infallible>(answer.body(Full::new(Bytes::from(body))).unwrap()) }
        }));
        let started = tokio::time::Instant::now();
        let answer = client.clone().oneshot(to(ANSWER)).await.unwrap();
        assert_eq!((answer.status().as_u16(), started.elapsed().as_secs()), (status, took), "{busy}");
        // Where time is short, it does not wait.
        let mut hurried = to(ANSWER);
        hurried.extensions_mut().insert(tower_x402::client::Deadline(Duration::from_secs(5)));
        calls.store(0, Ordering::SeqCst);
        assert_eq!(client.oneshot(hurried).await.unwrap().status(), 409);
    }
}

#[tokio::test]
async fn a_found_pass_outlives_its_process() {
    let street = Street::new().await;
    let folder = tempfile::tempdir().unwrap();
    let open = || PassLayer::new().preferring("three").kept_in(folder.path().join("passes.json")).unwrap();
    let first = open();
    assert_eq!(street.client(&first).oneshot(to(ANSWER)).await.unwrap().status(), 200);
    drop(first);
    let again = open();
    assert_eq!(street.client(&again).oneshot(to(ANSWER)).await.unwrap().headers()["x402-pass-remaining"], "1");
    assert_eq!(street.bought.load(Ordering::SeqCst), 1);
}

#[test]
fn where_passes_are_bought_is_checked() {
    for url in ["", "/pass", "http://shop.example/pass", "ftp://shop.example/pass"] {
        assert!(PassLayer::new().buying(url).is_err(), "{url}");
    }
    let local = PassLayer::new().buying("http://127.0.0.1:4020/pass").unwrap();
    assert!(local.buying("http://127.0.0.1:4020/other").is_err(), "two for one shop");
}

#[tokio::test]
async fn a_pass_whose_time_is_over_is_not_shown() {
    let passes = PassLayer::new().buying(URL).unwrap();
    let shown = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&shown);
    let client = passes.layer(tower::service_fn(move |request: Request<Full<Bytes>>| {
        counted.fetch_add(usize::from(request.headers().contains_key("x402-pass")), Ordering::SeqCst);
        let body = r#"{"pass":"x402p_secret","expires":1}"#;
        async move { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body)))) }
    }));
    assert_eq!(client.oneshot(to(ANSWER)).await.unwrap().status(), StatusCode::OK);
    assert_eq!((shown.load(Ordering::SeqCst), passes.passes().len()), (0, 1));
}

/// It is over by this machine's clock when it comes, or it is none at all: another one would be no better.
#[tokio::test(start_paused = true)]
async fn a_pass_that_cannot_be_used_is_bought_once() {
    for (sold, held) in [(r#"{"pass":"x402p_secret","expires":1}"#, 1), (r#"{"thanks":true}"#, 0)] {
        let (folder, bought) = (tempfile::tempdir().unwrap(), Arc::new(AtomicUsize::new(0)));
        // The second one is of another process.
        for _ in 0..2 {
            let passes = PassLayer::new().buying(URL).unwrap().kept_in(folder.path().join("passes.json")).unwrap();
            let counted = Arc::clone(&bought);
            let client = passes.layer(tower::service_fn(move |request: Request<Full<Bytes>>| {
                counted.fetch_add(usize::from(request.uri().path() == "/pass"), Ordering::SeqCst);
                async move { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(sold)))) }
            }));
            for _ in 0..5 {
                assert_eq!(client.clone().oneshot(to(ANSWER)).await.unwrap().status(), StatusCode::OK);
                tokio::time::advance(Duration::from_secs(3_600)).await;
            }
            assert_eq!((bought.load(Ordering::SeqCst), passes.passes().len()), (1, held), "{sold}");
        }
    }
}

/// It is bought for a request, within that request's limits, and at the price that made it worth its while.
#[tokio::test(start_paused = true)]
async fn a_pass_costs_no_more_than_its_quote_and_the_request_allow() {
    let quoted = || PassLayer::new().preferring("three");
    let known = || PassLayer::new().buying(URL).unwrap();
    for (passes, allowed, expected, bought) in [
        (quoted(), None, Some(1_000_000), 1),
        (quoted(), Some(2_000_000), Some(1_000_000), 1),
        (quoted(), Some(600_000), None, 0),
        (known(), Some(2_000_000), Some(2_000_000), 1),
        (known(), Some(600_000), Some(600_000), 0),
        (known(), None, None, 1),
    ] {
        let street = Street::new().await;
        let limit = |units: u128| MaxPrice(Amount::from_base_units(units));
        let mut request = to(ANSWER);
        request.extensions_mut().insert(Deadline(Duration::from_secs(60)));
        if let Some(allowed) = allowed {
            request.extensions_mut().insert(limit(allowed));
        }
        let _ = street.client(&passes).oneshot(request).await.unwrap();
        assert_eq!(street.bought.load(Ordering::SeqCst), bought);
        let asked = street.limits.lock().unwrap().first().copied();
        assert_eq!(asked.and_then(|(most, _)| most), expected.map(limit));
        let in_time = |(_, deadline): Limits| deadline.is_some_and(|left| left.0 <= Duration::from_secs(60));
        assert!(asked.is_none_or(in_time), "{asked:?}");
        // The limits of that request are no reason for others to go without.
        let _ = street.client(&passes).oneshot(to(ANSWER)).await.unwrap();
        assert_eq!(street.bought.load(Ordering::SeqCst), 1);
    }
}

/// Each is bought by a quote of its time: also by a process that has only the file of an earlier one.
#[tokio::test]
async fn the_next_pass_costs_what_a_new_quote_says() {
    let street = Street::new().await;
    let folder = tempfile::tempdir().unwrap();
    let open = || PassLayer::new().preferring("three").kept_in(folder.path().join("passes.json")).unwrap();
    let first = open();
    for _ in 0..3 {
        assert_eq!(street.client(&first).oneshot(to(ANSWER)).await.unwrap().status(), 200);
    }
    // One that is over stays in the file until the next one is bought.
    let rest = r#"[{"url":"https://shop.example/pass","name":"three","token":"x402p_over","expires":1}]"#;
    std::fs::write(folder.path().join("passes.json"), rest.replace("https://shop.example/pass", URL)).unwrap();
    for passes in [first, open()] {
        street.limits.lock().unwrap().clear();
        for _ in 0..3 {
            assert_eq!(street.client(&passes).oneshot(to(ANSWER)).await.unwrap().status(), 200);
        }
        let limits = street.limits.lock().unwrap().clone();
        assert_eq!(limits, [(Some(MaxPrice(Amount::from_base_units(1_000_000))), None)]);
    }
    assert_eq!(street.bought.load(Ordering::SeqCst), 3);
}
