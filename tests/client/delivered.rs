//! A purchase is closed once its caller has the answer, and not before.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    client::{
        AskAgain, Body, BodyError, BudgetDenial, Deadline, MaxPrice, Money, PayErrorKind, PurchaseId, PurchaseState,
        QuoteOnly, ResponseBody,
    },
    protocol::{Amount, Quote},
};

use super::{
    Market, question,
    rig::{AnyBody, Bill, Reply, Seller, TAKEN, any, ask, call, problem, reply, sold},
    signed,
};

/// A seller that keeps its answers and sells this body.
fn selling(body: impl Fn() -> AnyBody + Send + Sync + 'static) -> Seller {
    Seller::paid(move |_| {
        let sold = Response::builder().header("payment-response", TAKEN);
        Reply::Answer(sold.body(body()).unwrap())
    })
}

fn streamed(size: usize, end: Option<&'static str>) -> AnyBody {
    let piece = |size| Ok::<_, String>(Frame::data(Bytes::from(vec![b'x'; size])));
    let end = stream::iter(end.map(|error| Err(error.to_owned())));
    any(StreamBody::new(stream::iter([piece(size / 2), piece(size - size / 2)]).chain(end)))
}

async fn head(market: &Market, seller: &Seller) -> (tower_x402::client::PayLayer, Response<ResponseBody<AnyBody>>) {
    let layer = market.layer().await;
    let answer = layer.layer(seller.clone()).oneshot(question("{}")).await.unwrap();
    (layer, answer)
}

fn state(market: &Market) -> PurchaseState {
    let entries = market.journal.entries();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].state
}

/// What a process that ends here leaves behind: the journal as it is.
#[tokio::test(start_paused = true)]
async fn the_journal_has_it_open_until_the_body_was_read_to_its_end() {
    for size in [10, 1_000_000] {
        let (market, seller) = (Market::open().await, selling(move || streamed(size, None)));
        let (_layer, answer) = head(&market, &seller).await;
        assert_eq!(state(&market), PurchaseState::Redeeming, "{size}");
        let mut body = answer.into_body();
        let first = body.frame().await.unwrap().unwrap();
        if first.data_ref().unwrap().len() < size {
            assert_eq!(state(&market), PurchaseState::Redeeming, "{size}");
        }
        assert!(!body.is_end_stream());
        body.collect().await.unwrap();
        assert_eq!(state(&market), PurchaseState::Answered, "{size}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_not_read_comes_to_the_same_request() {
    for restart in [false, true] {
        for size in [10, 1_000_000] {
            let (market, seller) = (Market::open().await, selling(move || streamed(size, None)));
            let (layer, answer) = head(&market, &seller).await;
            drop(answer);
            let layer = if restart { market.layer().await } else { layer };
            assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().text.len(), size);
            assert_eq!((market.wallet.transfers(), state(&market)), (1, PurchaseState::Answered), "{size}");
            assert!(layer.unfinished().is_empty());
        }
    }
}

/// An answer above what is read ahead is the caller's when it breaks off: the same request asks for it again.
#[tokio::test(start_paused = true)]
async fn a_large_answer_that_breaks_off_is_asked_for_again_by_the_same_request() {
    let (market, seller) = (Market::open().await, selling(|| streamed(1_000_000, Some("cut"))));
    let (layer, answer) = head(&market, &seller).await;
    assert!(answer.into_body().collect().await.is_err());
    assert_eq!(state(&market), PurchaseState::Redeeming);
    let whole = selling(|| streamed(1_000_000, None));
    assert_eq!(ask(&layer, &whole, question("{}")).await.unwrap().text.len(), 1_000_000);
    assert_eq!((market.wallet.transfers(), state(&market)), (1, PurchaseState::Answered));
}

/// While an answer is read, the same request asks for that answer, and pays for no other.
#[tokio::test(start_paused = true)]
async fn meanwhile_the_same_request_pays_nothing() {
    for other_first in [false, true] {
        let (market, seller) = (Market::open().await, selling(|| streamed(1_000_000, None)));
        let (layer, answer) = head(&market, &seller).await;
        let other = layer.layer(seller.clone()).oneshot(question("{}")).await.unwrap();
        let (one, two) = if other_first { (other, answer) } else { (answer, other) };
        assert_eq!(one.into_body().collect().await.unwrap().to_bytes().len(), 1_000_000);
        assert_eq!(two.into_body().collect().await.unwrap().to_bytes().len(), 1_000_000);
        assert_eq!((market.wallet.transfers(), state(&market)), (1, PurchaseState::Answered));
        assert!(layer.unfinished().is_empty());
        // The next one is another purchase.
        ask(&layer, &seller, question("{}")).await.unwrap();
        assert_eq!(market.wallet.transfers(), 2);
    }
}

/// Who stops at the last byte, and who wants the head of an answer without a body, has all of it.
#[tokio::test(start_paused = true)]
async fn what_has_nothing_left_to_read_is_closed_when_it_is_dropped() {
    let empty = || any(Empty::<Bytes>::new());
    let sized = || any(Full::new(Bytes::from(vec![b'x'; 1_000_000])));
    for (frames, body) in [(0, empty as fn() -> AnyBody), (1, sized)] {
        let (market, seller) = (Market::open().await, selling(body));
        let (layer, answer) = head(&market, &seller).await;
        let mut body = answer.into_body();
        for _ in 0..frames {
            body.frame().await.unwrap().unwrap();
        }
        drop(body);
        assert!(layer.unfinished().is_empty());
        tokio::task::yield_now().await;
        assert_eq!(state(&market), PurchaseState::Answered, "{frames}");
    }
}

/// A signed payment stays the one that is shown.
#[tokio::test(start_paused = true)]
async fn so_it_is_with_an_authorization() {
    for restart in [false, true] {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let seller = signed::seller(move |payment, _| signed::delivered(signed::settle(&chain, payment)));
        let (layer, answer) = head(&market, &seller).await;
        drop(answer);
        assert!(state(&market).is_open());
        let layer = if restart { market.layer().await } else { layer };
        assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().text, "the answer");
        assert_eq!((signed::nonces(&seller).0.len(), state(&market)), (1, PurchaseState::Answered));
    }
}

/// Without a word of the seller's that it took the payment there is nothing to close.
#[tokio::test(start_paused = true)]
async fn what_was_not_sold_is_the_callers_at_once() {
    let (market, seller) = (Market::open().await, Seller::paid(|_| reply(200, &[], "free?")));
    let (_layer, answer) = head(&market, &seller).await;
    assert_eq!(state(&market), PurchaseState::Unspent);
    drop(answer);
    assert_eq!(state(&market), PurchaseState::Unspent);
}

fn with<T: Clone + Send + Sync + 'static>(directive: T) -> Request<Body> {
    let mut request = question("{}");
    request.extensions_mut().insert(directive);
    request
}

/// A caller who stores what it reads says so itself; and one who needs no more than the head.
#[tokio::test(start_paused = true)]
async fn an_acknowledged_answer_is_closed_and_no_other() {
    for (by_caller, read) in [(true, true), (true, false), (false, false)] {
        let (market, seller) = (Market::open().await, selling(|| streamed(1_000_000, None)));
        let build = |builder: tower_x402::client::PayLayerBuilder| {
            if by_caller { builder.acknowledged_by_caller() } else { builder }
        };
        let layer = market.layer_with(build).await;
        let answer = layer.layer(seller.clone()).oneshot(question("{}")).await.unwrap();
        let id = answer.extensions().get::<tower_x402::client::Purchase>().unwrap().id;
        if read {
            answer.into_body().collect().await.unwrap();
        } else {
            drop(answer);
        }
        assert_eq!(state(&market), PurchaseState::Redeeming);
        assert!(layer.acknowledge(id).await.unwrap());
        assert_eq!((state(&market), layer.unfinished().len()), (PurchaseState::Answered, 0));
        assert!(!layer.acknowledge(id).await.unwrap());
    }
    // What was not sold is not closed by it.
    let (market, seller) = (Market::open().await, Seller::paid(|_| reply(400, &[], "no")));
    let layer = market.layer().await;
    let unsold = ask(&layer, &seller, question("{}")).await.unwrap().purchase.unwrap();
    assert!(!layer.acknowledge(unsold.id).await.unwrap());
    assert_eq!(state(&market), PurchaseState::Unspent);
}

/// An authorization's transaction is the seller's word until then, and is recorded with the rest.
#[tokio::test(start_paused = true)]
async fn an_acknowledged_authorization_has_its_transaction() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = signed::seller(move |payment, _| signed::delivered(signed::settle(&chain, payment)));
    let layer = market.layer_with(tower_x402::client::PayLayerBuilder::acknowledged_by_caller).await;
    let bought = ask(&layer, &seller, question("{}")).await.unwrap().purchase.unwrap();
    assert!(market.journal.entries()[0].transaction.is_none());
    assert!(layer.acknowledge(bought.id).await.unwrap());
    assert_eq!(
        (market.journal.entries()[0].transaction, state(&market)),
        (bought.transaction, PurchaseState::Answered)
    );
}

/// A finished purchase is asked for again with the same proof, for as long as the journal knows it; it stays finished.
#[tokio::test(start_paused = true)]
async fn a_finished_purchase_gives_its_answer_again() {
    for by_authorization in [false, true] {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let seller = if by_authorization {
            signed::seller(move |payment, _| signed::delivered(signed::settle(&chain, payment)))
        } else {
            selling(|| streamed(10, None))
        };
        let first = ask(&market.layer().await, &seller, question("{}")).await.unwrap();
        let id = first.purchase.unwrap().id;
        let before = market.journal.entries();
        let layer = market.layer().await;
        let again = ask(&layer, &seller, with(AskAgain(id))).await.unwrap();
        assert_eq!((again.text, again.purchase.unwrap().id), (first.text, id));
        assert_eq!((market.journal.entries(), layer.unfinished().len()), (before.clone(), 0));
        let shown = signed::nonces(&seller).0.len() + usize::from(!by_authorization);
        assert_eq!((shown, market.wallet.transfers()), (1, usize::from(!by_authorization)));

        // A refusal leaves it as it is.
        let refusing = Seller::new(|_| problem(409, "already_consumed", &[]));
        let error = ask(&layer, &refusing, with(AskAgain(id))).await.unwrap_err();
        assert_eq!(error.purchase(), Some(id), "{error}");
        assert_eq!((market.journal.entries(), layer.unfinished().len()), (before, 0));

        let unknown = AskAgain(PurchaseId::new([9; 16]));
        assert!(
            ask(&layer, &seller, with(unknown)).await.is_err_and(|error| error.kind() == PayErrorKind::NothingToResume)
        );
        let mut other = question("[1]");
        other.extensions_mut().insert(AskAgain(id));
        assert!(ask(&layer, &seller, other).await.is_err_and(|error| error.kind() == PayErrorKind::NothingToResume));
    }
}

fn dripping() -> AnyBody {
    any(StreamBody::new(Box::pin(stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok::<_, String>(Frame::data(Bytes::from_static(b"x"))), ()))
    }))))
}

/// An answer that never ends holds nobody for ever: it was paid once, and is asked for again.
#[tokio::test(start_paused = true)]
async fn a_dripping_answer_ends_in_time_and_is_not_paid_twice() {
    for by_request in [false, true] {
        let (market, seller) = (Market::open().await, selling(dripping));
        let limit = Duration::from_secs(30);
        let layer = market.layer_with(|builder| if by_request { builder } else { builder.body_timeout(limit) }).await;
        let request = || if by_request { with(Deadline(limit)) } else { question("{}") };
        let started = tokio::time::Instant::now();
        let mut body = layer.layer(seller.clone()).oneshot(request()).await.unwrap().into_body();
        let error = loop {
            match body.frame().await.unwrap() {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(error, BodyError::TimedOut) && started.elapsed() <= limit + Duration::from_secs(3));
        assert!(body.frame().await.is_none());
        assert_eq!(state(&market), PurchaseState::Redeeming);
        assert_eq!(ask(&layer, &Seller::honest(), request()).await.unwrap().text, "the answer");
        assert_eq!(market.wallet.transfers(), 1);
    }
    // So does one that is free.
    let market = Market::open().await;
    let free = Seller::new(|_| Reply::Answer(Response::new(dripping())));
    let layer = market.layer_with(|builder| builder.body_timeout(Duration::from_secs(5))).await;
    let body = layer.layer(free).oneshot(question("{}")).await.unwrap().into_body();
    assert!(matches!(body.collect().await, Err(BodyError::TimedOut)));
}

#[tokio::test(start_paused = true)]
async fn a_request_has_limits_of_its_own() {
    let market = Market::open().await;
    let (layer, seller) = (market.layer().await, Seller::honest());
    let price = |units| MaxPrice(Amount::from_base_units(units));
    let error = ask(&layer, &seller, with(price(489_999))).await.unwrap_err();
    assert!(error.denial() == Some(BudgetDenial::MaxPrice), "{error}");
    assert_eq!((error.money(), error.purchase(), market.wallet.prepared()), (Money::Untouched, None, 0));
    assert!(error.to_string().contains("0.49 would exceed the request's own limit of 0.489999"), "{error}");
    ask(&layer, &seller, with(price(490_000))).await.unwrap();

    let hanging = Seller::new(|_| Reply::Hangs);
    let error = ask(&layer, &hanging, with(Deadline(Duration::from_secs(5)))).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::TimedOut, "{error}");
    // After the payment it says where the money is.
    let hanging = Seller::paid(|_| Reply::Hangs);
    let error = ask(&layer, &hanging, with(Deadline(Duration::from_secs(60)))).await.unwrap_err();
    let transaction = error.transaction().unwrap();
    assert_eq!((error.kind(), error.money()), (PayErrorKind::Unanswered, Money::Spent { transaction }));
    assert_eq!(error.purchase(), Some(layer.unfinished()[0].id));
}

#[tokio::test(start_paused = true)]
async fn a_price_is_asked_and_not_paid() {
    let market = Market::open().await;
    let (layer, seller) = (market.layer().await, Seller::honest());
    let answer = layer.layer(seller.clone()).oneshot(with(QuoteOnly)).await.unwrap();
    let quote = answer.extensions().get::<Quote>().unwrap();
    assert_eq!((answer.status(), quote.amount), (StatusCode::PAYMENT_REQUIRED, Amount::from_base_units(490_000)));
    assert!(answer.into_body().collect().await.unwrap().to_bytes().starts_with(b"{"));
    assert_eq!((market.wallet.prepared(), seller.proofs(), market.journal.entries().len()), (0, 0, 0));
    let dear = Seller::new(|_| Bill::of("1000001").reply());
    assert!(ask(&layer, &dear, with(QuoteOnly)).await.is_err_and(|error| error.kind() == PayErrorKind::Declined));
    let free = Seller::new(|_| reply(200, &[], "free"));
    assert_eq!(ask(&layer, &free, with(QuoteOnly)).await.unwrap().text, "free");
}

/// A caller's own proof is a payment that nothing is known of here.
#[tokio::test(start_paused = true)]
async fn a_proof_of_the_callers_own_on_a_breaking_connection_is_not_called_unpaid() {
    let market = Market::open().await;
    for name in ["x402-payment", "payment-signature", "x-payment"] {
        for reply in [|| Reply::Broken, || Reply::Hangs] {
            let mut request = with(Deadline(Duration::from_secs(5)));
            request.headers_mut().insert(name, "e30=".parse().unwrap());
            let error = ask(&market.layer().await, &Seller::new(move |_| reply()), request).await.unwrap_err();
            assert_eq!(error.money(), Money::AtRisk { until: None }, "{error}");
            assert!(!error.to_string().contains("nothing was paid"), "{error}");
        }
    }
}

/// A 402 takes its time; meanwhile a payment for the same request is left by its call.
#[tokio::test(start_paused = true)]
async fn a_call_whose_402_comes_late_looks_again_before_it_pays() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let is_late = Arc::new(AtomicBool::new(true));
    let seller = {
        let is_late = Arc::clone(&is_late);
        Seller::paid(move |_| if is_late.load(Ordering::SeqCst) { Reply::Hangs } else { sold() })
    };
    let slow = {
        let seller = seller.clone();
        tower::service_fn(move |request: Request<Body>| {
            let seller = seller.clone();
            async move {
                let answer = seller.oneshot(request).await;
                tokio::time::sleep(Duration::from_secs(30)).await;
                answer
            }
        })
    };
    let late = tokio::spawn({
        let client = layer.layer(slow);
        async move { call(&client, question("{}")).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    // It pays, and is dropped while it waits for its answer.
    assert!(tokio::time::timeout(Duration::from_secs(10), ask(&layer, &seller, question("{}"))).await.is_err());
    assert_eq!(market.wallet.transfers(), 1);
    is_late.store(false, Ordering::SeqCst);
    assert_eq!(late.await.unwrap().unwrap().text, "the answer");
    assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (1, 0));
}

/// How a body of a known length goes on after its last byte.
#[derive(Clone, Copy)]
enum After {
    Error,
    Nothing,
}

/// A body that tells its length, and after its last byte does not come to its end: an HTTP/2 stream that is reset, or left open.
struct Unended {
    left: Option<Bytes>,
    after: After,
}

impl http_body::Body for Unended {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, String>>> {
        match (self.left.take(), self.after) {
            (Some(bytes), _) => std::task::Poll::Ready(Some(Ok(Frame::data(bytes)))),
            (None, After::Error) => std::task::Poll::Ready(Some(Err("reset".to_owned()))),
            (None, After::Nothing) => std::task::Poll::Pending,
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.left.as_ref().map_or(0, |left| left.len() as u64))
    }
}

/// Whoever waits for the end of a body, and does not get it, has no answer: not even where no byte is missing.
#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_after_its_last_byte_is_not_paid_twice() {
    for (after, own_limit) in [(After::Error, false), (After::Nothing, false), (After::Nothing, true)] {
        let body = move || any(Unended { left: Some(Bytes::from(vec![b'x'; 1_000_000])), after });
        let (market, seller) = (Market::open().await, selling(body));
        let layer = market.layer_with(|builder| builder.body_timeout(Duration::from_secs(30))).await;
        let answer = layer.layer(seller.clone()).oneshot(question("{}")).await.unwrap();
        let limit = Duration::from_secs(if own_limit { 10 } else { 60 });
        let read = tokio::time::timeout(limit, answer.into_body().collect()).await;
        assert!(!matches!(read, Ok(Ok(_))) && read.is_err() == own_limit);
        tokio::task::yield_now().await;
        assert_eq!((state(&market), layer.unfinished().len()), (PurchaseState::Redeeming, 1));
        assert_eq!(ask(&layer, &Seller::honest(), question("{}")).await.unwrap().text, "the answer");
        assert_eq!((market.wallet.transfers(), state(&market)), (1, PurchaseState::Answered));
    }
}

/// How long a human takes to approve is taken from no call: what is paid after that is waited for.
#[tokio::test(start_paused = true)]
async fn a_slow_approval_takes_nothing_from_the_deadline() {
    for by_authorization in [false, true] {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let budget = Market::budget().approve(async |_| {
            tokio::time::sleep(Duration::from_secs(90)).await;
            true
        });
        let builder = tower_x402::client::PayLayer::builder(
            market.wallet.clone(),
            budget.build().unwrap(),
            market.journal.clone(),
        );
        let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
        let seller = if by_authorization {
            signed::seller(move |payment, _| signed::delivered(signed::settle(&chain, payment)))
        } else {
            selling(|| streamed(1_000_000, None))
        };
        let slow = tower::service_fn(move |request: Request<Body>| {
            let seller = seller.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(2)).await;
                seller.oneshot(request).await
            }
        });
        let got = call(&layer.layer(slow), with(Deadline(Duration::from_secs(60)))).await;
        assert!(got.is_ok(), "{by_authorization} {:?}", got.err());
        assert_eq!(state(&market), PurchaseState::Answered);
    }
}

/// What a caller did not read, because its beginning was enough, counts for a day, as what was read does.
#[tokio::test(start_paused = true)]
async fn an_unread_answer_does_not_count_for_ever() {
    for (by_authorization, restart) in [(false, false), (false, true), (true, false), (true, true)] {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let seller = if by_authorization {
            signed::seller(move |payment, _| signed::delivered(signed::settle(&chain, payment)))
        } else {
            selling(|| streamed(1_000_000, None))
        };
        let (layer, answer) = head(&market, &seller).await;
        drop(answer);
        let layer = if restart { market.layer().await } else { layer };
        assert_eq!(layer.spent(), Amount::from_base_units(490_000));
        market.shop.clock.advance(Duration::from_secs(3 * 86_400));
        assert!(layer.spent().is_zero(), "{by_authorization} {restart}");
    }
}

/// A caller stored its answer, and the process ended before it said so.
#[tokio::test(start_paused = true)]
async fn an_answer_is_acknowledged_after_a_restart() {
    for by_authorization in [false, true] {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let seller = if by_authorization {
            signed::seller(move |payment, _| signed::delivered(signed::settle(&chain, payment)))
        } else {
            selling(|| streamed(10, None))
        };
        let by_caller = tower_x402::client::PayLayerBuilder::acknowledged_by_caller;
        let id = ask(&market.layer_with(by_caller).await, &seller, question("{}")).await.unwrap().purchase.unwrap().id;
        let layer = market.layer_with(by_caller).await;
        assert!(layer.acknowledge(id).await.unwrap(), "{by_authorization}");
        assert_eq!((state(&market), layer.unfinished().len()), (PurchaseState::Answered, 0));
    }
}
