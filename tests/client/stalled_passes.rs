//! A route of passes stalls, and requests buy the other answers of its origin meanwhile.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::Request;
use tokio::time::{Sleep, advance, sleep, timeout};
use tower::{Layer as _, Service, ServiceExt as _};
use tower_x402::client::{
    Body, Deadline, Journal, JournalEntry, JournalError, MemoryJournal, PassLayer, PayLayer, PurchaseState,
};

use super::{
    Market,
    kept_passes::{Answer, PASS, answer, bought, bought_by, offer, seller, to, token},
    paid_passes::{bill, paid_for},
    patience::on,
    rig::{Reply, Seller, reply, sold},
};

const ANSWER: &str = "https://shop.example/answer";

/// A caller that waits ten seconds, and then leaves.
async fn is_answered(passes: &PassLayer, layer: &PayLayer, seller: &Seller) -> bool {
    timeout(Duration::from_secs(10), bought(passes, layer, seller, "/answer")).await.is_ok()
}

/// A seller whose route of passes stalls before the bill.
fn without_bills() -> Seller {
    Seller::new(|asked| match (asked.uri.path(), &asked.proof) {
        ("/pass", _) => Reply::Hangs,
        (_, Some(_)) => sold(),
        (_, None) => bill("490000", asked, offer("/pass")),
    })
}

/// Each caller leaves. After the one that pays, the next one asks for the paid pass.
#[tokio::test(start_paused = true)]
async fn callers_that_leave_a_stalled_pass_leave_it_alone_for_a_minute() {
    for (seller, paid, expected) in
        [(seller(|_| Reply::Hangs), 1, [false, false, true, true]), (without_bills(), 0, [false, true, true, true])]
    {
        let market = Market::open().await;
        let layer = market.layer().await;
        let passes = PassLayer::new().buying(PASS).unwrap();
        for (call, expected) in expected.into_iter().enumerate() {
            assert_eq!(is_answered(&passes, &layer, &seller).await, expected, "{paid} {call}");
        }
        advance(Duration::from_secs(61)).await;
        let later = [is_answered(&passes, &layer, &seller).await, is_answered(&passes, &layer, &seller).await];
        assert_eq!((later, paid_for(&seller)), ([false, true], paid), "it is asked again");
    }
}

/// Nothing is signed, and nothing is paid: the next caller would wait in vain, too.
#[tokio::test(start_paused = true)]
async fn a_wallet_that_stalls_holds_up_one_caller_in_a_minute() {
    let market = Market::open().await;
    let (layer, node) = on(&market, Duration::ZERO).await;
    node.hangs.store(true, SeqCst);
    let seller = Seller::new(|asked| match asked.uri.path() {
        "/pass" => bill("490000", asked, "{}".to_owned()),
        _ => reply(200, &[], "the answer"),
    });
    let passes = PassLayer::new().buying(PASS).unwrap();
    for (expected, prepared) in [(false, 1), (true, 1), (true, 1)] {
        assert_eq!(is_answered(&passes, &layer, &seller).await, expected);
        assert_eq!(node.prepared.load(SeqCst), prepared);
    }
    advance(Duration::from_secs(61)).await;
    assert!(!is_answered(&passes, &layer, &seller).await);
    assert_eq!(node.prepared.load(SeqCst), 2, "it is asked again");
}

/// An earlier process paid for it, and that is settled. The caller that finds it leaves, and the next one asks for it at once.
#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_what_was_settled_before_holds_up_no_other() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let seller = seller(|asked| if asked.proofs < 2 { Reply::Hangs } else { token() });
    assert!(!is_answered(&PassLayer::new().buying(PASS).unwrap(), &layer, &seller).await);
    let passes = PassLayer::new().buying(PASS).unwrap();
    assert!(!is_answered(&passes, &layer, &seller).await);
    assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass");
    assert_eq!(paid_for(&seller), 1);
}

/// A journal that takes five seconds to close the first purchase. Clones are one journal.
#[derive(Clone)]
struct SlowToClose {
    kept: MemoryJournal,
    has_closed: Arc<AtomicBool>,
}

impl Journal for SlowToClose {
    async fn load(&self) -> Result<Vec<JournalEntry>, JournalError> {
        self.kept.load().await
    }

    async fn record(&self, entry: &JournalEntry) -> Result<(), JournalError> {
        if entry.state == PurchaseState::Answered && !self.has_closed.swap(true, SeqCst) {
            sleep(Duration::from_secs(5)).await;
        }
        self.kept.record(entry).await
    }
}

/// A seller whose first payment bought a pass that has expired. It answers no other payment.
fn with_a_pass_of_long_ago() -> Seller {
    let first = Mutex::new(None);
    seller(move |asked| {
        let (_, transaction, _) = asked.proof.as_ref().unwrap();
        let is_first = *first.lock().unwrap().get_or_insert(transaction.clone()) == *transaction;
        match is_first && asked.proofs > 0 {
            true => reply(200, &[("payment-response", "e30=")], r#"{"pass":"x402p_old","calls":10,"expires":1}"#),
            false => Reply::Hangs,
        }
    })
}

/// While the first request closes the purchase of an old pass, the second begins to wait for its turn to buy. Then the first pays, and
/// leaves. The second fetches the paid pass, so a third waits only as long as for a fetch, not as for a purchase.
#[tokio::test(start_paused = true)]
async fn a_turn_to_buy_that_fetches_is_waited_for_like_a_fetch() {
    let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
    let journal = SlowToClose { kept: market.journal.clone(), has_closed: Arc::default() };
    let builder = PayLayer::builder(market.wallet.clone(), Market::budget().build().unwrap(), journal);
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    let seller = with_a_pass_of_long_ago();
    assert!(!is_answered(&PassLayer::new().preferring("ten"), &layer, &seller).await);
    let passes = PassLayer::new().preferring("ten").kept_in(folder.path().join("passes.json")).unwrap();
    let asks = async |after: u64, patience: u64| {
        sleep(Duration::from_secs(after)).await;
        timeout(Duration::from_secs(patience), bought(&passes, &layer, &seller, "/answer")).await.is_ok()
    };
    let answered = tokio::join!(asks(0, 10), asks(1, 60), asks(11, 10));
    assert_eq!((answered, paid_for(&seller)), ((false, true, true), 2));
}

/// Its caller waits as long as the layer does. Others wait for the pass at first, and not beyond that.
#[tokio::test(start_paused = true)]
async fn a_purchase_that_stalls_holds_up_others_for_half_a_minute() {
    for seller in [seller(|_| Reply::Hangs), without_bills()] {
        let market = Market::open().await;
        let layer = market.layer().await;
        let passes = PassLayer::new().buying(PASS).unwrap();
        let patient = timeout(Duration::from_secs(300), bought(&passes, &layer, &seller, "/answer"));
        let others = async {
            sleep(Duration::from_secs(1)).await;
            let first = timeout(Duration::from_secs(35), bought(&passes, &layer, &seller, "/answer")).await.is_ok();
            let all = (first, is_answered(&passes, &layer, &seller).await);
            assert_eq!(all, (true, true));
        };
        tokio::join!(async { assert!(patient.await.is_err()) }, others);
    }
}

/// A request that fetches a pass waits for half a minute, and others for a few seconds of that.
#[tokio::test(start_paused = true)]
async fn a_paid_pass_that_stalls_is_waited_for_half_a_minute() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let seller = seller(|_| Reply::Hangs);
    let passes = PassLayer::new().buying(PASS).unwrap();
    assert!(!is_answered(&passes, &layer, &seller).await);
    let fetches = timeout(Duration::from_secs(35), bought(&passes, &layer, &seller, "/answer"));
    let others = async {
        sleep(Duration::from_secs(1)).await;
        is_answered(&passes, &layer, &seller).await
    };
    let (fetched, other) = tokio::join!(fetches, others);
    assert_eq!((fetched.is_ok(), other), (true, true));
    assert!(is_answered(&passes, &layer, &seller).await);
    assert_eq!(paid_for(&seller), 1);
}

/// What was paid for takes half of its time, or another request that waits for that.
#[tokio::test(start_paused = true)]
async fn a_request_with_a_deadline_has_time_left_where_a_pass_stalls() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let seller = seller(|_| Reply::Hangs);
    let passes = PassLayer::new().buying(PASS).unwrap();
    let hurried = async || {
        let mut request = to(ANSWER);
        request.extensions_mut().insert(Deadline(Duration::from_secs(4)));
        bought_by(request, &passes, &layer, &seller).await.is_ok_and(|(text, _)| text == "the answer")
    };
    let patient = timeout(Duration::from_secs(10), bought(&passes, &layer, &seller, "/answer"));
    let other = async {
        sleep(Duration::from_secs(1)).await;
        hurried().await
    };
    let (left, answered) = tokio::join!(patient, other);
    assert_eq!((left.is_err(), answered), (true, true));
    for call in 0..3 {
        assert!(hurried().await, "{call}");
    }
    assert_eq!(paid_for(&seller), 1);
}

type Seen = Arc<Mutex<Vec<(String, Option<u64>)>>>;

/// A shop whose client takes a while to be ready, and notes what is asked, and what is left of the time.
struct Slow {
    delay: Duration,
    waits: Option<Pin<Box<Sleep>>>,
    seen: Seen,
}

impl Clone for Slow {
    fn clone(&self) -> Self {
        Self { delay: self.delay, waits: None, seen: Arc::clone(&self.seen) }
    }
}

impl Service<Request<Body>> for Slow {
    type Response = Answer;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Answer, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        let delay = self.delay;
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(delay)));
        waits.as_mut().poll(cx).map(Ok)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.waits = None;
        let left = request.extensions().get::<Deadline>().map(|deadline| deadline.0.as_secs());
        self.seen.lock().unwrap().push((request.uri().path().to_owned(), left));
        std::future::ready(Ok(match request.uri().path() {
            "/pass" => answer(200, &[], r#"{"pass":"x402p_ten","calls":10,"expires":null}"#),
            _ => answer(200, &[("x402-pass-remaining", "9")], ""),
        }))
    }
}

async fn asked_slowly(delay: u64, deadline: Option<u64>) -> Vec<(String, Option<u64>)> {
    let passes = PassLayer::new().buying(PASS).unwrap();
    let seen = Seen::default();
    let slow = Slow { delay: Duration::from_secs(delay), waits: None, seen: Arc::clone(&seen) };
    let mut request = to(ANSWER);
    if let Some(deadline) = deadline {
        request.extensions_mut().insert(Deadline(Duration::from_secs(deadline)));
    }
    assert_eq!(passes.layer(slow).oneshot(request).await.unwrap().status(), 200);
    seen.lock().unwrap().clone()
}

/// The client inside is busy with other requests.
#[tokio::test(start_paused = true)]
async fn the_time_until_a_client_is_ready_counts() {
    let (pass, answer) = ("/pass".to_owned(), "/answer".to_owned());
    let within = asked_slowly(10, Some(60)).await;
    assert_eq!(within, [(pass.clone(), Some(50)), (answer.clone(), Some(40))]);
    assert_eq!(asked_slowly(10, None).await, [(pass, None), (answer.clone(), None)]);
    // A pass is not waited for without end.
    assert_eq!(asked_slowly(100, None).await, [(answer.clone(), None)]);
    assert_eq!(asked_slowly(10, Some(15)).await, [(answer, Some(0))]);
}
