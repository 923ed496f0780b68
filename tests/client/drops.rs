//! Whoever leaves at whatever point, and whatever the journal does: the same request again gets the answer, and one
//! transfer was made in all.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use rand::Rng as _;
use tower::{Layer as _, Service, ServiceExt as _};
use tower_x402::{
    client::{Body, FileJournal, JournalError, Pay, PayError, PayErrorKind, PayLayer, PurchaseState},
    testing::{ScriptedPayer, Sending},
};

use super::{
    Market, question,
    rig::{Diary, Seller, Slip, SlowClient, SlowWallet, ask, call, reply},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Polls a future so many times, a second apart, then drops it. Tells what came of it, if anything did.
async fn polled<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future: Pin<Box<F>> = Box::pin(future);
    for _ in 0..polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    None
}

/// A layer where everything gives way.
async fn yielding(market: &Market, diary: Diary) -> PayLayer {
    let budget = Market::budget().build().unwrap();
    PayLayer::builder(SlowWallet(market.wallet.clone()), budget, diary)
        .clock(market.shop.clock.clone())
        .build()
        .await
        .unwrap()
}

/// A process that ended: whatever it was at work on is in the journal, and nowhere else.
#[derive(Clone, Copy, Debug)]
enum Then {
    AskAgain,
    Restart,
}

/// What a caller has in its hands, also when it leaves before the end.
#[derive(Clone, Default)]
struct Hands(Arc<Mutex<String>>);

impl Hands {
    /// One call, to the end of the answer's body.
    async fn receive<S, R>(&self, client: Pay<S>, request: Request<Body>) -> Result<(), PayError>
    where
        S: Service<Request<Body>, Response = Response<R>, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static,
        R: http_body::Body<Data = Bytes, Error: Send + std::fmt::Debug> + Send + 'static,
    {
        let mut body = Box::pin(client.oneshot(request).await?.into_body());
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap_or_default();
            self.0.lock().unwrap().push_str(std::str::from_utf8(&data).unwrap());
        }
        Ok(())
    }

    /// Whether the purchase is over for whoever asks now. Then all of the answer must be here: what is paid next is another.
    fn are_full(&self, layer: &PayLayer, market: &Market, context: &str) -> bool {
        let is_over = layer.unfinished().is_empty() && market.wallet.sent() > 0;
        if is_over {
            assert_eq!(*self.0.lock().unwrap(), "the answer", "{context}: closed, and not delivered");
        }
        is_over
    }
}

impl Then {
    /// The layer that is asked next.
    async fn layer(self, before: PayLayer, market: &Market) -> PayLayer {
        match self {
            Self::AskAgain => before,
            Self::Restart => yielding(market, Diary::of(market.journal.clone())).await,
        }
    }
}

fn assert_closed(market: &Market, context: &str) {
    let open: Vec<_> = market.journal.entries().into_iter().filter(|entry| entry.state.is_open()).collect();
    assert!(open.is_empty(), "{context}: still open: {open:?}");
}

/// Drops a call after every number of polls; answers how many there are until it is done.
async fn dropped_everywhere(sendings: &[Sending], then: Then) -> usize {
    for polls in 0.. {
        let context = format!("{sendings:?}, {then:?}, after {polls} polls");
        let market = Market::open().await;
        market.wallet.script(sendings.iter().copied());
        let (layer, seller) = (yielding(&market, Diary::of(market.journal.clone())).await, Seller::honest());
        let hands = Hands::default();
        let done = polled(hands.receive(layer.layer(SlowClient::new(seller.clone())), question("{}")), polls).await;
        let done = done.map(|answer| answer.unwrap_or_else(|error| panic!("{context}: {error}")));
        let layer = then.layer(layer, &market).await;
        if !hands.are_full(&layer, &market, &context) {
            let got = call(&layer.layer(SlowClient::new(seller)), question("{}")).await;
            let got = got.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(got.text, "the answer", "{context}");
        }
        assert_eq!(market.wallet.transfers(), 1, "{context}");
        assert_closed(&market, &context);
        if done.is_some() {
            return polls;
        }
    }
    unreachable!("some number of polls is enough")
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_at_any_await_is_finished_by_the_same_request() {
    for then in [Then::AskAgain, Then::Restart] {
        let polls = dropped_everywhere(&[], then).await;
        assert!(polls > 20, "{polls} awaits are too few to have met them all");
    }
}

#[tokio::test(start_paused = true)]
async fn so_is_one_whose_transfer_was_not_heard_of() {
    for then in [Then::AskAgain, Then::Restart] {
        dropped_everywhere(&[Sending::MinedUnheard], then).await;
        dropped_everywhere(&[Sending::Lost], then).await;
        dropped_everywhere(&[Sending::Refused], then).await;
    }
}

#[tokio::test(start_paused = true)]
async fn so_is_one_whose_transfer_had_to_be_bumped() {
    for then in [Then::AskAgain, Then::Restart] {
        let polls = dropped_everywhere(&[Sending::Held], then).await;
        assert!(polls > 40, "{polls}: the bump was not reached");
    }
}

/// And one that is paid with what was left over of another.
#[tokio::test(start_paused = true)]
async fn so_is_one_that_a_left_over_payment_pays_for() {
    for then in [Then::AskAgain, Then::Restart] {
        for polls in 0.. {
            let context = format!("{then:?}, after {polls} polls");
            let market = Market::open().await;
            ask(&market.layer().await, &Seller::paid(|_| reply(400, &[], "no")), question("[1]")).await.unwrap();
            let (layer, seller) = (yielding(&market, Diary::of(market.journal.clone())).await, Seller::honest());
            let hands = Hands::default();
            let client = layer.layer(SlowClient::new(seller.clone()));
            let done = polled(hands.receive(client, question("[2]")), polls).await.is_some();
            let layer = then.layer(layer, &market).await;
            if !hands.are_full(&layer, &market, &context) {
                let got = call(&layer.layer(SlowClient::new(seller)), question("[2]")).await;
                assert_eq!(got.unwrap_or_else(|error| panic!("{context}: {error}")).text, "the answer", "{context}");
            }
            assert_eq!(market.wallet.transfers(), 1, "{context}");
            assert_closed(&market, &context);
            if done {
                assert!(polls > 5, "{polls} awaits are too few to have met them all");
                break;
            }
        }
    }
}

/// With a seller of ours, which gives an answer once: whoever leaves after that is told so, and pays nothing more.
#[tokio::test(start_paused = true)]
async fn with_a_real_seller_the_answer_comes_unless_it_was_given_already() {
    for then in [Then::AskAgain, Then::Restart] {
        for polls in 0.. {
            let context = format!("{then:?}, after {polls} polls");
            let market = Market::open().await;
            let (layer, seller) =
                (yielding(&market, Diary::of(market.journal.clone())).await, SlowClient::new(market.seller()));
            let hands = Hands::default();
            let done = polled(hands.receive(layer.layer(seller.clone()), question("{}")), polls).await.is_some();
            let layer = then.layer(layer, &market).await;
            if !hands.are_full(&layer, &market, &context) {
                let sold = market.runs.runs() == 1;
                match call(&layer.layer(seller), question("{}")).await {
                    Ok(got) => assert_eq!((got.text.as_str(), sold), ("the answer", false), "{context}"),
                    Err(error)
                        if sold
                            && (error.kind(), error.reason()) == (PayErrorKind::Refused, Some("already_consumed")) => {}
                    Err(error) => panic!("{context}: {error}"),
                }
            }
            assert_eq!((market.wallet.transfers(), market.runs.runs()), (1, 1), "{context}");
            assert_closed(&market, &context);
            if done {
                break;
            }
        }
    }
}

/// Of twenty calls for the same, every second one leaves at a random point: as many transfers as answers in the end.
#[tokio::test(start_paused = true)]
async fn calls_for_the_same_that_leave_do_not_disturb_those_that_stay() {
    for _ in 0..50 {
        let market = Market::open().await;
        let (layer, seller) = (yielding(&market, Diary::of(market.journal.clone())).await, Seller::honest());
        let client = layer.layer(SlowClient::new(seller));
        let calls = (0..20).map(|number| {
            let client = client.clone();
            let polls = if number % 2 == 0 { usize::MAX } else { rand::rng().random_range(0..60) };
            async move {
                let mut call = Box::pin(call(&client, question("{}")));
                for _ in 0..polls {
                    if let Poll::Ready(answer) = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await {
                        return answer.is_ok();
                    }
                    // Time goes on: what another call left unsent is sent, and waited for.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                false
            }
        });
        let answered = join_all(calls).await.into_iter().filter(|answered| *answered).count();
        assert!(answered >= 10);
        // What was begun and left is finished by the same request, until nothing is left to finish.
        let mut finished = answered;
        while !layer.unfinished().is_empty() {
            call(&client, question("{}")).await.unwrap();
            finished += 1;
        }
        assert_eq!(market.wallet.transfers(), finished);
        assert_closed(&market, "in the end");
    }
}

/// What the journal has at a crash is all there is; and where it fails while the process lives, that process remembers.
async fn slipping(slip: Slip, then: Then) {
    for write in 1.. {
        let context = format!("{slip:?} at write {write}, {then:?}");
        let market = Market::open().await;
        let diary = Diary::of(market.journal.clone()).slip(write, slip);
        let (layer, seller) = (yielding(&market, diary.clone()).await, Seller::honest());
        let hands = Hands::default();
        let first = polled(hands.receive(layer.layer(seller.clone()), question("{}")), 200).await;
        match &first {
            Some(Err(error)) if error.kind() == PayErrorKind::Journal => {
                assert_eq!((write, market.wallet.sent()), (1, 0), "{context}: sent what was not recorded");
            }
            Some(Err(error)) => panic!("{context}: {error}"),
            Some(Ok(_)) | None => {}
        }
        if write == 1 {
            assert_eq!(market.wallet.sent(), 0, "{context}: sent what was not recorded");
        }
        if diary.writes() < write {
            break;
        }
        let layer = then.layer(layer, &market).await;
        if !hands.are_full(&layer, &market, &context) {
            let got = ask(&layer, &seller, question("{}")).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(got.text, "the answer", "{context}");
        }
        assert_eq!(market.wallet.transfers(), 1, "{context}");
        assert!(layer.unfinished().is_empty(), "{context}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_at_any_write_costs_no_second_transfer() {
    for then in [Then::AskAgain, Then::Restart] {
        slipping(Slip::Fails, then).await;
        slipping(Slip::FailsWritten, then).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nor_does_one_that_hangs_and_is_left() {
    for then in [Then::AskAgain, Then::Restart] {
        slipping(Slip::Hangs, then).await;
        slipping(Slip::HangsWritten, then).await;
    }
}

/// A journal that fails for good: nothing is sent, however often it is tried, and no money stays set aside.
#[tokio::test(start_paused = true)]
async fn without_a_journal_nothing_is_paid() {
    let market = Market::open().await;
    let diary = (1..=30).fold(Diary::default(), |diary, write| diary.slip(write, Slip::Fails));
    let (layer, seller) = (yielding(&market, diary).await, Seller::honest());
    for _ in 0..30 {
        let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::Journal, "{error}");
        assert_eq!((error.transaction(), error.is_resumable()), (None, false));
    }
    assert_eq!((market.wallet.sent(), layer.unfinished().len()), (0, 0));
    assert!(ask(&layer, &seller, question("{}")).await.is_ok(), "thirty times 0.49 was not spent");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_polled_does_nothing() {
    let market = Market::open().await;
    let (layer, seller) = (market.layer().await, Seller::honest());
    let mut client = layer.layer(seller.clone());
    client.ready().await.unwrap();
    drop(client.call(question("{}")));
    assert!(seller.asked().is_empty() && market.journal.entries().is_empty());
    assert_eq!(market.wallet.prepared(), 0);
}

/// The two wallets are one account: what one process prepared and never sent, another's payment may displace.
#[tokio::test(start_paused = true)]
async fn what_another_process_displaced_is_paid_anew_within_the_call() {
    let market = Market::open().await;
    let (layer, seller) = (yielding(&market, Diary::of(market.journal.clone())).await, Seller::honest());
    for polls in 0..200 {
        if market.wallet.prepared() == 1 {
            break;
        }
        let request: Request<Body> = question("{}");
        assert!(polled(layer.layer(SlowClient::new(seller.clone())).oneshot(request), polls).await.is_none());
    }
    let wallet: &ScriptedPayer = &market.wallet;
    wallet.displace();
    let got = ask(&layer, &seller, question("{}")).await.unwrap();
    assert_eq!((got.text.as_str(), wallet.transfers()), ("the answer", 1));
    let states: Vec<PurchaseState> = market.journal.entries().iter().map(|entry| entry.state).collect();
    assert!(states.contains(&PurchaseState::Answered) && !states.iter().any(|state| state.is_open()), "{states:?}");
}

/// The same over a file, whose writes go on when nobody waits for them any more.
#[tokio::test]
async fn a_call_dropped_at_any_await_is_finished_from_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let budget = || Market::budget().build().unwrap();
    for polls in 0.. {
        let market = Market::open().await;
        let path = directory.path().join(format!("{polls}.jsonl"));
        let open = async || {
            let journal = loop {
                match FileJournal::open(&path).await {
                    // The process that ended is still writing.
                    Err(JournalError::Locked) => tokio::task::yield_now().await,
                    opened => break opened.unwrap(),
                }
            };
            let builder = PayLayer::builder(SlowWallet(market.wallet.clone()), budget(), journal);
            builder.clock(market.shop.clock.clone()).build().await.unwrap()
        };
        let (layer, seller) = (open().await, Seller::honest());
        let (client, hands) = (layer.layer(SlowClient::new(seller.clone())), Hands::default());
        let mut call_once = Box::pin(hands.receive(client, question("{}")));
        let mut left = polls;
        // Polled when it is woken only, for the file takes the time it takes.
        let done = poll_fn(|cx| {
            if left == 0 {
                return Poll::Ready(false);
            }
            left -= 1;
            call_once.as_mut().poll(cx).map(|_| true)
        })
        .await;
        drop((call_once, layer));
        let layer = open().await;
        let open_before = layer.unfinished().len();
        assert!(open_before <= usize::from(!done), "after {polls} polls");
        if open_before == 0 && seller.proofs() > 0 {
            assert_eq!(*hands.0.lock().unwrap(), "the answer", "after {polls} polls");
        }
        if open_before == 1 {
            assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().text, "the answer", "after {polls} polls");
        }
        assert!(layer.unfinished().is_empty(), "after {polls} polls");
        assert_eq!(market.wallet.transfers(), usize::from(done || open_before == 1 || seller.proofs() > 0));
        if done {
            assert!(polls > 12, "{polls} awaits are too few to have met them all");
            return;
        }
    }
}
