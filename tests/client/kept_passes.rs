//! Passes that were paid for: none is lost, and none is paid for beside another, whatever a seller says and whoever leaves.

use std::{
    convert::Infallible,
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use tokio::sync::Notify;
use tower::{Layer as _, Service, ServiceExt as _};
use tower_x402::{
    client::{
        Body, Deadline, Journal, JournalEntry, JournalError, MemoryJournal, PassLayer, PayError, PayLayer, Purchase,
        PurchaseState, QuoteOnly,
    },
    protocol::Quote,
};

use super::{
    Market,
    rig::{AnyBody, Asked, Bill, Reply, Seller, reply, sold},
};

pub type Answer = Response<Full<Bytes>>;
pub type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

const ANSWER: &str = "https://shop.example/answer";
pub const PASS: &str = "https://shop.example/pass";

pub fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(*name, *value);
    }
    answer.body(Full::new(body.into())).unwrap()
}

/// A quote that names a pass at this address, for a request that asks for no more.
pub fn quoting(url: &str) -> Answer {
    let (pay, bill) = (Bill::default().pay(), Bill::default());
    let headers = [("pay", &*pay), ("x-price-intent", &*bill.intent), ("x-payment-contracts", &*bill.contracts)];
    let mut quoted = answer(402, &headers, offer(url));
    let quote = Quote::from_headers(quoted.headers()).unwrap();
    quoted.extensions_mut().insert(quote);
    quoted
}

pub fn offer(url: &str) -> String {
    format!(r#"{{"error":"payment_required","passes":[{{"name":"ten","price":"0.49","calls":10,"url":"{url}"}}]}}"#)
}

pub fn to(url: &str) -> Request<Body> {
    Request::post(url).body(Body::from(r#"{"question":1}"#)).unwrap()
}

/// What is asked for: method and path, and whether for the price alone; and the pass.
pub struct Call {
    pub method: Method,
    pub path: String,
    pub looks: bool,
    pub pass: Option<String>,
    pub deadline: Option<Duration>,
}

/// A client with passes of a shop that pays as it is told.
pub fn client(
    passes: &PassLayer,
    shop: impl Fn(Call) -> Answering + Clone + Send + 'static,
) -> impl Service<Request<Body>, Response = Answer, Error = Infallible, Future: Send + 'static> + Clone + Send + 'static
{
    passes.layer(tower::service_fn(move |request: Request<Body>| {
        let answer = shop(Call {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            looks: request.extensions().get::<QuoteOnly>().is_some(),
            pass: request.headers().get("x402-pass").map(|pass| pass.to_str().unwrap().to_owned()),
            deadline: request.extensions().get::<Deadline>().map(|deadline| deadline.0),
        });
        async move { Ok(answer.await) }
    }))
}

pub fn at_once(answer: Answer) -> Answering {
    Box::pin(async move { answer })
}

async fn settled() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Two routes name two passes, or one pass in two spellings. Both requests begin before the first purchase ends.
#[tokio::test]
async fn one_shop_sells_one_pass_at_a_time_whatever_its_quotes_name() {
    for (of_a, of_b) in [("/pass-a", "/pass-b"), ("/pass-a", "https://shop.example:443/pass-a")] {
        let passes = PassLayer::new().expecting(3);
        let (bought, paid) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (counted, waits) = (Arc::clone(&bought), Arc::clone(&paid));
        let shop = client(&passes, move |call| match call.path.as_str() {
            "/a" if call.looks => at_once(quoting(of_a)),
            "/b" if call.looks => at_once(quoting(of_b)),
            "/pass-a" | "/pass-b" => {
                let (token, waits) = (format!("x402p_{}", counted.fetch_add(1, SeqCst)), Arc::clone(&waits));
                Box::pin(async move {
                    waits.notified().await;
                    answer(200, &[], format!(r#"{{"pass":"{token}","calls":10,"expires":null}}"#))
                })
            }
            _ => at_once(answer(200, &[("x402-pass-remaining", "9")], call.pass.unwrap_or_default())),
        });
        let calls =
            ["/a", "/b"].map(|path| tokio::spawn(shop.clone().oneshot(to(&format!("https://shop.example{path}")))));
        settled().await;
        paid.notify_one();
        settled().await;
        paid.notify_one();
        for call in calls {
            let shown = call.await.unwrap().unwrap().into_body().collect().await.unwrap().to_bytes();
            assert_eq!(shown, "x402p_0", "{of_b}");
        }
        assert_eq!((bought.load(SeqCst), passes.passes().len()), (1, 1), "{of_b}");
    }
}

/// A shop that ignores passes on one route, by charging for it or by asking for money.
#[tokio::test]
async fn a_pass_outlives_a_route_that_takes_no_notice_of_it() {
    for ignoring in [(200, "payment-response"), (402, "pay")] {
        let passes = PassLayer::new().buying(PASS).unwrap();
        let bought = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&bought);
        let shop = client(&passes, move |call| match (call.path.as_str(), call.pass.is_some()) {
            ("/pass", _) => {
                counted.fetch_add(1, SeqCst);
                at_once(answer(200, &[], r#"{"pass":"x402p_ten","calls":10,"expires":null}"#))
            }
            ("/answer", true) => at_once(answer(200, &[("x402-pass-remaining", "9")], "")),
            ("/answer", false) => at_once(answer(402, &[], "")),
            (_, true) => at_once(answer(ignoring.0, &[(ignoring.1, "e30=")], "{}")),
            (_, false) => at_once(answer(200, &[("payment-response", "e30=")], "paid")),
        });
        for path in ["/other", "/answer", "/other", "/answer"] {
            let answer = shop.clone().oneshot(to(&format!("https://shop.example{path}"))).await.unwrap();
            assert_eq!(answer.status(), 200, "{path} {ignoring:?}");
        }
        assert_eq!((bought.load(SeqCst), passes.passes().len()), (1, 1), "{ignoring:?}");
    }
}

/// The last calls are under way: what is left is none while they are, and comes back where they fail.
#[tokio::test]
async fn a_pass_is_kept_for_the_calls_that_failed_while_none_was_left() {
    let passes = PassLayer::new().buying(PASS).unwrap();
    let (bought, fails) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, failing) = (Arc::clone(&bought), Arc::clone(&fails));
    let shop = client(&passes, move |call| match (call.path.as_str(), call.pass) {
        ("/pass", _) => {
            let token = counted.fetch_add(1, SeqCst);
            at_once(answer(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":2,"expires":null}}"#)))
        }
        ("/slow", Some(_)) => {
            let failing = Arc::clone(&failing);
            Box::pin(async move {
                failing.notified().await;
                answer(500, &[], "")
            })
        }
        (_, Some(_)) => at_once(answer(200, &[("x402-pass-remaining", "0")], "")),
        (_, None) => at_once(answer(402, &[], "")),
    });
    let ask = |path: &str| shop.clone().oneshot(to(&format!("https://shop.example{path}")));
    let slow = tokio::spawn(ask("/slow"));
    settled().await;
    assert_eq!(ask("/answer").await.unwrap().status(), 200);
    fails.notify_one();
    assert_eq!(slow.await.unwrap().unwrap().status(), 500);
    assert_eq!(passes.passes()[0].remaining.as_deref(), Some("0"));
    assert_eq!((ask("/answer").await.unwrap().status().as_u16(), bought.load(SeqCst)), (200, 1));
    assert!(passes.passes().is_empty(), "none is under way, and none is left");
    // A call whose caller left may have come back, too.
    let slow = tokio::spawn(ask("/slow"));
    settled().await;
    assert_eq!(ask("/answer").await.unwrap().status(), 200);
    slow.abort();
    assert!(slow.await.is_err());
    assert_eq!((ask("/answer").await.unwrap().status().as_u16(), bought.load(SeqCst)), (200, 2));
}

/// A quote says that it is used up: another is bought for the same request, unless this one bought nothing.
#[tokio::test]
async fn a_pass_is_dropped_by_the_words_of_a_quote() {
    for (word, calls, status, purchases) in
        [("used_up", 1, 200, 2), ("expired", 1, 200, 2), ("used_up", 0, 402, 1), ("expired", 0, 402, 1)]
    {
        let passes = PassLayer::new().buying(PASS).unwrap();
        let bought = Arc::new(AtomicUsize::new(0));
        let (counted, shown) = (Arc::clone(&bought), Arc::new(AtomicUsize::new(0)));
        let shop = client(&passes, move |call| match (call.path.as_str(), call.pass) {
            ("/pass", _) => {
                shown.store(0, SeqCst);
                let token = counted.fetch_add(1, SeqCst);
                at_once(answer(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":10,"expires":null}}"#)))
            }
            (_, Some(_)) if shown.fetch_add(1, SeqCst) < calls => {
                at_once(answer(200, &[("x402-pass-remaining", "9")], ""))
            }
            (_, Some(_)) => at_once(answer(402, &[], format!(r#"{{"error":"payment_required","pass":"{word}"}}"#))),
            (_, None) => at_once(answer(402, &[], "")),
        });
        for _ in 0..calls {
            assert_eq!(shop.clone().oneshot(to(ANSWER)).await.unwrap().status(), 200);
        }
        for _ in 0..2 {
            let got = shop.clone().oneshot(to(ANSWER)).await.unwrap().status().as_u16();
            assert_eq!((got, bought.load(SeqCst)), (status, purchases), "{word} {calls}");
            if calls > 0 {
                break;
            }
        }
    }
}

/// Its two routes name each other as the address of a pass that is none.
#[tokio::test]
async fn a_seller_of_no_passes_is_paid_once_whatever_address_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let bought = Arc::new(AtomicUsize::new(0));
    for _ in 0..2 {
        let passes = PassLayer::new().preferring("ten").kept_in(folder.path().join("passes.json")).unwrap();
        let counted = Arc::clone(&bought);
        let number = Arc::new(AtomicUsize::new(0));
        let shop = client(&passes, move |call| match call.path.as_str() {
            "/a" if call.looks => at_once(quoting("/b")),
            "/b" if call.looks => at_once(quoting("/a")),
            "/c" if call.looks => at_once(quoting(&format!("/pass-{}", number.fetch_add(1, SeqCst)))),
            path if call.pass.is_none() && (path.starts_with("/pass-") || path == "/a" || path == "/b") => {
                counted.fetch_add(1, SeqCst);
                at_once(answer(200, &[], r#"{"thanks":true}"#))
            }
            _ => at_once(answer(200, &[], "")),
        });
        // The requests themselves are sold, too.
        for (asked, path) in ["/a", "/b", "/a", "/b", "/c", "/c"].into_iter().enumerate() {
            let _ = shop.clone().oneshot(to(&format!("https://shop.example{path}"))).await.unwrap();
            if asked < 4 {
                bought.fetch_sub(1, SeqCst);
            }
            assert_eq!(bought.load(SeqCst), 1, "{path}");
        }
    }
}

/// Nothing is counted, so no answer says that it was taken.
#[tokio::test(start_paused = true)]
async fn a_timed_pass_that_its_seller_closed_is_bought_again() {
    let passes = PassLayer::new().buying(PASS).unwrap();
    let (bought, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, is_closed) = (Arc::clone(&bought), Arc::clone(&closed));
    let shop = client(&passes, move |call| match (call.path.as_str(), call.pass.as_deref()) {
        ("/pass", _) => {
            let token = counted.fetch_add(1, SeqCst);
            at_once(answer(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":null,"expires":9999999999}}"#)))
        }
        (_, Some("x402p_0")) if is_closed.load(SeqCst) => at_once(answer(401, &[("x402-error", "invalid_pass")], "")),
        (_, Some(_)) => at_once(answer(200, &[], "")),
        (_, None) => at_once(answer(402, &[], "")),
    });
    let status = async |path: &str| {
        shop.clone().oneshot(to(&format!("https://shop.example{path}"))).await.unwrap().status().as_u16()
    };
    assert_eq!(status("/answer").await, 200);
    closed.store(true, SeqCst);
    assert_eq!(status("/never").await, 402, "where it was not taken before, it may not count");
    assert_eq!((status("/answer").await, passes.passes().len()), (402, 1), "it may be a stray answer");
    tokio::time::advance(Duration::from_secs(601)).await;
    assert_eq!((status("/answer").await, passes.passes().len()), (402, 0));
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!((status("/answer").await, bought.load(SeqCst)), (200, 2));
}

/// The quote and the pass take their part of the time.
#[tokio::test(start_paused = true)]
async fn one_deadline_covers_quote_pass_and_answer() {
    let passes = PassLayer::new().preferring("ten");
    let left = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&left);
    let shop = client(&passes, move |call| {
        seen.lock().unwrap().push(call.deadline.unwrap().as_secs());
        let answer = match call.path.as_str() {
            _ if call.looks => quoting("/pass"),
            "/pass" => answer(200, &[], r#"{"pass":"x402p_ten","calls":10,"expires":null}"#),
            _ => answer(200, &[("x402-pass-remaining", "9")], ""),
        };
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            answer
        })
    });
    let mut request = to(ANSWER);
    request.extensions_mut().insert(Deadline(Duration::from_secs(60)));
    assert_eq!(shop.oneshot(request).await.unwrap().status(), 200);
    assert_eq!(*left.lock().unwrap(), [60, 40, 20]);
}

/// A seller whose pass costs what an answer does.
pub fn seller(pass: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Seller {
    let pay = Bill::default().pay();
    Seller::new(move |asked| match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
        ("/pass", Some(_), _) => pass(asked),
        ("/broken", Some(_), _) if asked.proofs < 3 => Reply::Broken,
        (_, Some(_), _) => sold(),
        (path, None, true) if path != "/pass" => reply(200, &[("x402-pass-remaining", "9")], "by pass"),
        (_, None, _) => {
            let bill = Bill { intent: format!("intent-{}", asked.before + 1), ..Bill::default() };
            let headers = [
                ("content-type", "application/problem+json"),
                ("pay", &*pay),
                ("x-price-intent", &*bill.intent),
                ("x-payment-contracts", &*bill.contracts),
            ];
            reply(402, &headers, offer("/pass"))
        }
    })
}

pub fn token() -> Reply {
    reply(200, &[("payment-response", "e30=")], r#"{"pass":"x402p_ten","calls":10,"expires":null}"#)
}

/// A client that pays by the one layer, with passes of the other.
pub async fn bought(
    passes: &PassLayer,
    layer: &PayLayer,
    seller: &Seller,
    path: &str,
) -> Result<(String, bool), PayError> {
    bought_by(to(&format!("https://shop.example{path}")), passes, layer, seller).await
}

/// The same, by a request with limits of its own.
pub async fn bought_by(
    request: Request<Body>,
    passes: &PassLayer,
    layer: &PayLayer,
    seller: &Seller,
) -> Result<(String, bool), PayError> {
    // With errors that are errors.
    let seller = tower::ServiceBuilder::new()
        .map_response(|answer: Response<AnyBody>| answer.map(|body| body.map_err(std::io::Error::other)))
        .service(seller.clone());
    let answer = passes.layer(layer.layer(seller)).oneshot(request).await?;
    let is_paid = answer.extensions().get::<Purchase>().is_some();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    Ok((String::from_utf8_lossy(&body).into_owned(), is_paid))
}

/// What was paid for goes on first, with a pass or without one, and says nothing of the pass.
#[tokio::test(start_paused = true)]
async fn a_purchase_that_goes_on_costs_no_pass() {
    for holds_one in [false, true] {
        let market = Market::open().await;
        let layer = market.layer_with(|builder| builder.patience(Duration::from_secs(5))).await;
        let seller = seller(|_| token());
        let passes = PassLayer::new().preferring("ten");
        // Paid singly, and unanswered.
        let _ = bought(&PassLayer::new(), &layer, &seller, "/broken").await.unwrap_err();
        assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (1, 1));
        if holds_one {
            assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass");
        }
        while layer.unfinished().len() == 1 {
            if let Ok(got) = bought(&passes, &layer, &seller, "/broken").await {
                assert_eq!(got, ("the answer".to_owned(), true), "{holds_one}");
            }
        }
        assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap(), ("by pass".to_owned(), false));
        assert_eq!((market.wallet.transfers(), passes.passes().len()), (2, 1), "{holds_one}");
    }
}

/// Settled, and answered with nothing that could be a pass, whatever the status.
#[tokio::test(start_paused = true)]
async fn an_answer_without_a_pass_is_paid_for_once_whatever_its_status() {
    for status in [200, 201, 204, 303, 404] {
        let market = Market::open().await;
        let layer = market.layer().await;
        let seller = seller(move |_| reply(status, &[("payment-response", "e30=")], ""));
        let passes = PassLayer::new().preferring("ten");
        for calls in 1..=3 {
            let _ = bought(&passes, &layer, &seller, "/answer").await.unwrap();
            // One for nothing, and each answer singly.
            assert_eq!(market.wallet.transfers(), 1 + calls, "{status}");
            tokio::time::advance(Duration::from_secs(3_600)).await;
        }
    }
}

/// A journal that tells whether the file of passes had the token when a purchase was closed.
#[derive(Clone)]
struct Watching {
    kept: MemoryJournal,
    file: PathBuf,
    had_token: Arc<Mutex<Vec<bool>>>,
}

impl Journal for Watching {
    async fn load(&self) -> Result<Vec<JournalEntry>, JournalError> {
        self.kept.load().await
    }

    async fn record(&self, entry: &JournalEntry) -> Result<(), JournalError> {
        if entry.state == PurchaseState::Answered {
            let text = std::fs::read_to_string(&self.file).unwrap_or_default();
            self.had_token.lock().unwrap().push(text.contains("x402p_ten"));
        }
        self.kept.record(entry).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_in_its_file_before_its_purchase_is_closed() {
    for can_be_written in [true, false] {
        let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
        let file = folder.path().join("passes.json");
        let journal = Watching { kept: market.journal.clone(), file: file.clone(), had_token: Arc::default() };
        let budget = Market::budget().build().unwrap();
        let builder = PayLayer::builder(market.wallet.clone(), budget, journal.clone());
        let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
        let passes = PassLayer::new().preferring("ten").kept_in(&file).unwrap();
        if !can_be_written {
            folder.close().unwrap();
        }
        let seller = seller(|_| token());
        assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass");
        let had_token = journal.had_token.lock().unwrap().clone();
        if can_be_written {
            assert_eq!((had_token, layer.unfinished().len()), (vec![true], 0));
            assert_eq!(passes.purchases().len(), 1);
        } else {
            // The same request asks for it again, and the payment stays good for that.
            assert_eq!((had_token, layer.unfinished().len()), (vec![], 1));
            assert!(passes.purchases().is_empty());
        }
    }
}

/// A pass comes again whose purchase was not closed: it is used up, so the purchase is closed, and another one bought.
#[tokio::test(start_paused = true)]
async fn a_used_up_pass_that_comes_again_is_not_bought_for_nothing() {
    let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
    let layer = market.layer().await;
    let passes = PassLayer::new().buying(PASS).unwrap().kept_in(folder.path().join("passes.json")).unwrap();
    folder.close().unwrap();
    let sales = Arc::new(Mutex::new(Vec::new()));
    let seller =
        Seller::new(move |asked| match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
            ("/pass", Some((_, transaction, _)), _) => {
                let mut sales = sales.lock().unwrap();
                let number = sales.iter().position(|sold| sold == transaction).unwrap_or_else(|| {
                    sales.push(transaction.clone());
                    sales.len() - 1
                });
                let body = format!(r#"{{"pass":"x402p_{number}","calls":1,"expires":null}}"#);
                reply(200, &[("payment-response", "e30=")], body)
            }
            ("/answer", None, true) => reply(200, &[("x402-pass-remaining", "0")], "by pass"),
            _ => Bill { intent: format!("intent-{}", asked.before + 1), ..Bill::default() }.reply(),
        });
    for transfers in 1..=3 {
        assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass");
        assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (transfers, 1));
    }
}

/// A journal beside it is being written anew, under its own name with another ending.
#[test]
fn a_file_of_passes_is_written_under_a_name_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("wallet.new");
    std::fs::write(&theirs, "theirs").unwrap();
    for name in ["wallet.passes", "wallet.more"] {
        let _ = PassLayer::new().buying(PASS).unwrap().kept_in(folder.path().join(name)).unwrap();
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
        assert_eq!(std::fs::read_to_string(folder.path().join(name)).unwrap(), "[]");
    }
    // What a crash has left is no obstacle.
    std::fs::write(folder.path().join("wallet.passes.new"), "half").unwrap();
    let _ = PassLayer::new().buying(PASS).unwrap().kept_in(folder.path().join("wallet.passes")).unwrap();
    assert!(!folder.path().join("wallet.passes.new").exists());
}

/// Its caller left while it was paid for: the next one takes it up, also in a later process, and where a quote now names another.
#[tokio::test(start_paused = true)]
async fn a_pass_that_was_paid_for_is_taken_up_before_another_is_bought() {
    for is_later_process in [false, true] {
        let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
        let file = folder.path().join("passes.json");
        let mut layer = market.layer().await;
        let mut passes = PassLayer::new().preferring("ten").kept_in(&file).unwrap();
        let is_slow = Arc::new(AtomicBool::new(true));
        let seller = seller_of_many(&is_slow);
        let left = tokio::time::timeout(Duration::from_secs(30), bought(&passes, &layer, &seller, "/a"));
        assert!(left.await.is_err());
        assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (1, 1));
        is_slow.store(false, SeqCst);
        if is_later_process {
            layer = market.layer().await;
            passes = PassLayer::new().preferring("ten").kept_in(&file).unwrap();
            assert!(passes.passes().is_empty());
        }
        for path in ["/b", "/c"] {
            assert_eq!(bought(&passes, &layer, &seller, path).await.unwrap().0, "by pass");
            assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (1, 0), "{is_later_process}");
        }
        // A later one has no purchase to finish.
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("x402p_ten") && !text.contains("unfinished"), "{text}");
    }
}

/// Each of its routes names a pass of its own, and it sells `/pass-a` alone.
fn seller_of_many(is_slow: &Arc<AtomicBool>) -> Seller {
    let slow = Arc::clone(is_slow);
    Seller::new(move |asked| match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
        ("/pass-a", Some(_), _) if slow.load(SeqCst) => Reply::Hangs,
        ("/pass-a", Some(_), _) => token(),
        (_, None, true) => reply(200, &[("x402-pass-remaining", "9")], "by pass"),
        (path, ..) => {
            let bill = Bill { intent: format!("intent-{}", asked.before + 1), ..Bill::default() };
            let pay = bill.pay();
            let headers =
                [("pay", &*pay), ("x-price-intent", &*bill.intent), ("x-payment-contracts", &*bill.contracts)];
            reply(402, &headers, offer(&format!("/pass-{}", path.trim_start_matches('/'))))
        }
    })
}
