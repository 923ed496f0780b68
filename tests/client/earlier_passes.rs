//! Passes of earlier purchases that an attempt to buy finds open. What is known of them stays known if the attempt gets no answer.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::Response;
use http_body_util::BodyExt as _;
use tokio::time::{advance, timeout};
use tower::{Layer as _, Service, ServiceExt as _};
use tower_x402::client::{PassLayer, PayLayer};

use super::{
    Market,
    kept_passes::{bought, offer, to},
    paid_passes::{bill, paid_for},
    pass_faults::stalled,
    rig::{AnyBody, Asked, Reply, Seller, problem, reply, sold},
};

/// A client that is not ready while it is busy.
#[derive(Clone)]
struct Busy<S> {
    service: S,
    is_busy: Arc<AtomicBool>,
}

impl<S: Service<R>, R> Service<R> for Busy<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        match self.is_busy.load(SeqCst) {
            // The caller has its own timeout.
            true => Poll::Pending,
            false => self.service.poll_ready(cx),
        }
    }

    fn call(&mut self, request: R) -> S::Future {
        self.service.call(request)
    }
}

async fn asks(passes: &PassLayer, layer: &PayLayer, seller: &Seller, is_busy: &Arc<AtomicBool>) -> String {
    let service = tower::ServiceBuilder::new()
        .map_response(|answer: Response<AnyBody>| answer.map(|body| body.map_err(std::io::Error::other)))
        .service(seller.clone());
    let service = Busy { service, is_busy: Arc::clone(is_busy) };
    let answer = passes.layer(layer.layer(service)).oneshot(to("https://shop.example/answer")).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8_lossy(&body).into_owned()
}

async fn leaves(passes: &PassLayer, layer: &PayLayer, seller: &Seller) {
    let left = timeout(Duration::from_secs(30), bought(passes, layer, seller, "/answer"));
    assert!(left.await.is_err());
}

fn ten(transaction: &str, expires: &str) -> Reply {
    let body = format!(r#"{{"pass":"x402p_{}","calls":10,"expires":{expires}}}"#, &transaction[..20]);
    reply(200, &[("payment-response", "e30=")], body)
}

/// It sells ten calls for 4.90. At stage 1 it names thirty for 14.70, and has no answer to a payment, like at stage 0.
fn dear_for_a_while(
    stage: &Arc<AtomicUsize>,
    quotes: impl Fn() + Send + Sync + 'static,
    pass: impl Fn() -> Reply + Send + Sync + 'static,
) -> Seller {
    let (now, showings) = (Arc::clone(stage), AtomicUsize::new(0));
    Seller::new(move |asked| {
        let stage = now.load(SeqCst);
        match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
            ("/pass", Some(_), _) if stage == 0 => Reply::Hangs,
            ("/pass", Some(_), _) if stage == 1 => pass(),
            ("/pass", Some((_, transaction, _)), _) => ten(transaction, "null"),
            ("/pass", None, _) => bill(if stage == 1 { "14700000" } else { "4900000" }, asked, "{}".to_owned()),
            (_, Some(_), _) => sold(),
            (_, None, true) => {
                let left = 9 - showings.fetch_add(1, SeqCst) % 10;
                reply(200, &[("x402-pass-remaining", &left.to_string())], "by pass")
            }
            (_, None, false) if stage == 1 => {
                quotes();
                let offered = offer("/pass").replace("0.49", "14.70").replace(r#""calls":10"#, r#""calls":30"#);
                bill("490000", asked, offered)
            }
            (_, None, false) => bill("490000", asked, offer("/pass").replace("0.49", "4.90")),
        }
    })
}

/// An earlier process paid for ten calls. An attempt by a quote for thirty finds that payment, and its answer has no end; or its process is
/// killed; or its client is busy, and it finds nothing.
#[tokio::test(start_paused = true)]
async fn a_pass_of_before_is_judged_by_no_quote_of_an_attempt_that_did_not_pay() {
    for end in ["stalls", "is killed", "is busy"] {
        let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
        let budget = Market::budget().per_payment("20").per_day("100").build().unwrap();
        let builder = PayLayer::builder(market.wallet.clone(), budget, market.journal.clone());
        let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
        let (stage, is_busy) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let busy = Arc::clone(&is_busy);
        let quotes = move || busy.store(end == "is busy", SeqCst);
        let seller = dear_for_a_while(&stage, quotes, move || match end {
            "stalls" => stalled(200, &[("payment-response", "e30=")]),
            _ => Reply::Hangs,
        });
        leaves(&PassLayer::new().preferring("ten"), &layer, &seller).await;
        let file = folder.path().join("passes.json");
        let open = || PassLayer::new().preferring("ten").kept_in(&file).unwrap();
        let mut passes = if end == "is killed" { open() } else { PassLayer::new().preferring("ten") };
        stage.store(1, SeqCst);
        {
            let asking = std::pin::pin!(asks(&passes, &layer, &seller, &is_busy));
            let mut asking = asking;
            let asked = timeout(Duration::from_secs(50), &mut asking).await;
            assert_eq!(asked.is_ok(), end == "stalls", "{end}");
            if end == "is killed" {
                // What it has not written by now is never written.
                std::fs::copy(&file, folder.path().join("killed.json")).unwrap();
            }
        }
        if end == "is killed" {
            std::fs::copy(folder.path().join("killed.json"), &file).unwrap();
            passes = open();
        }
        is_busy.store(false, SeqCst);
        advance(Duration::from_secs(61)).await;
        stage.store(2, SeqCst);
        for calls in 1..=11 {
            assert_eq!(asks(&passes, &layer, &seller, &is_busy).await, "by pass", "{end} {calls}");
            assert_eq!(paid_for(&seller), if calls > 10 { 2 } else { 1 }, "{end} {calls}");
        }
    }
}

/// What the seller says of the first payment, once it has an answer again.
fn of_long_ago(stage: &Arc<AtomicUsize>, says: &'static str) -> Seller {
    let (now, first) = (Arc::clone(stage), Mutex::new(String::new()));
    Seller::new(move |asked: &Asked| {
        let first = &mut *first.lock().unwrap();
        let token = asked.headers.get("x402-pass").map(|token| token.to_str().unwrap().to_owned());
        match (asked.uri.path(), &asked.proof, token) {
            ("/pass", Some((_, transaction, _)), _) => {
                if first.is_empty() {
                    first.clone_from(transaction);
                }
                match says {
                    _ if transaction != first => ten(transaction, "null"),
                    _ if now.load(SeqCst) < 2 => Reply::Hangs,
                    "refused" => problem(409, "tx_already_used", &[]),
                    "expired" => ten(transaction, "1"),
                    _ => ten(transaction, "null"),
                }
            }
            (_, Some(_), _) => sold(),
            (_, None, Some(token)) if token.ends_with(&first[..20]) => {
                bill("490000", asked, r#"{"pass":"used_up"}"#.to_owned())
            }
            (_, None, Some(_)) => reply(200, &[("x402-pass-remaining", "9")], "by pass"),
            (_, None, None) => bill("490000", asked, offer("/pass")),
        }
    })
}

/// An earlier process used it to its end, and was gone before it closed the purchase. The attempt that finds that has no answer; the next one
/// has one, and buys another.
#[tokio::test(start_paused = true)]
async fn a_seller_without_an_answer_does_not_hide_that_a_pass_came_before() {
    for says in ["refused", "expired", "used up"] {
        let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
        let layer = market.layer().await;
        let stage = Arc::new(AtomicUsize::new(0));
        let seller = of_long_ago(&stage, says);
        leaves(&PassLayer::new().preferring("ten"), &layer, &seller).await;
        // As if it had been kept.
        let passes = PassLayer::new().preferring("ten").kept_in(folder.path().join("passes.json")).unwrap();
        leaves(&passes, &layer, &seller).await;
        advance(Duration::from_secs(61)).await;
        stage.store(2, SeqCst);
        for _ in 0..2 {
            assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass", "{says}");
            assert_eq!((paid_for(&seller), layer.unfinished().len()), (2, 0), "{says}");
        }
    }
}

/// It came to this process, and its caller has not closed the purchase. There is no file.
#[tokio::test(start_paused = true)]
async fn a_pass_that_came_to_this_process_is_remembered_where_its_seller_has_no_answer() {
    let market = Market::open().await;
    let layer = market.layer_with(|builder| builder.acknowledged_by_caller()).await;
    let passes = PassLayer::new().buying("https://shop.example/pass").unwrap();
    let (seen, hangs) = (Mutex::new(BTreeSet::new()), Arc::new(AtomicBool::new(true)));
    let is_silent = Arc::clone(&hangs);
    let seller =
        Seller::new(move |asked| match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
            ("/pass", Some((_, transaction, _)), _) if seen.lock().unwrap().insert(transaction.clone()) => {
                let body = format!(r#"{{"pass":"x402p_{}","calls":1,"expires":null}}"#, &transaction[..20]);
                reply(200, &[("payment-response", "e30=")], body)
            }
            ("/pass", Some(_), _) if is_silent.load(SeqCst) => Reply::Hangs,
            ("/pass", Some(_), _) => problem(409, "tx_already_used", &[]),
            (_, Some(_), _) => sold(),
            (path, None, true) if path != "/pass" => reply(200, &[("x402-pass-remaining", "0")], "by pass"),
            _ => bill("490000", asked, offer("/pass")),
        });
    assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass");
    leaves(&passes, &layer, &seller).await;
    advance(Duration::from_secs(61)).await;
    hangs.store(false, SeqCst);
    assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass");
    assert_eq!(market.wallet.transfers(), 2);
}
