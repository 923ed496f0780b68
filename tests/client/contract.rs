//! What tower asks of a layer: readiness is the inner service's, the instance that was polled is called, and nothing
//! is held while the chain is waited for.

use std::error::Error as _;

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::future::join_all;
use http::{Request, Response};
use tokio::time::timeout;
use tower::{Layer as _, Service, ServiceExt as _, limit::ConcurrencyLimit};
use tower_x402::{
    client::{
        Body, Budget, MemoryJournal, Pay, PayError, PayErrorKind, PayLayer, Purchase, ReqwestClient, ResponseBody,
    },
    testing::Sending,
};

use super::{
    Market, question,
    rig::{AnyBody, Bill, Reply, Seller, call, reply, sold},
};

#[test]
fn everything_can_be_shared() {
    const fn shared<T: Send + Sync + Clone + std::fmt::Debug + 'static>() {}
    const fn sent<T: Send + std::fmt::Debug + 'static>() {}
    const {
        shared::<PayLayer>();
        shared::<Pay<ReqwestClient>>();
        shared::<Budget>();
        shared::<MemoryJournal>();
        shared::<Purchase>();
        sent::<<Pay<Seller> as Service<Request<Body>>>::Future>();
        sent::<ResponseBody<AnyBody>>();
        sent::<PayError>();
    }
}

/// What the inner service says when it is asked whether it is ready.
#[derive(Clone, Copy, Debug)]
enum Mood {
    Busy,
    Ready,
    Gone,
}

/// A seller that insists on being asked first, each clone for itself.
#[derive(Clone)]
struct Strict {
    seller: Seller,
    mood: Arc<Mutex<Mood>>,
    asked: AskedFirst,
}

#[derive(Default)]
struct AskedFirst(bool);

impl Clone for AskedFirst {
    fn clone(&self) -> Self {
        Self(false)
    }
}

impl Strict {
    fn new(seller: Seller) -> Self {
        Self { seller, mood: Arc::new(Mutex::new(Mood::Ready)), asked: AskedFirst(false) }
    }
}

impl Service<Request<Body>> for Strict {
    type Response = Response<AnyBody>;
    type Error = String;
    type Future = Pin<Box<dyn Future<Output = Result<Response<AnyBody>, String>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        match *self.mood.lock().unwrap() {
            Mood::Busy => Poll::Pending,
            Mood::Gone => Poll::Ready(Err("gone".into())),
            Mood::Ready => {
                self.asked.0 = true;
                Poll::Ready(Ok(()))
            }
        }
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        assert!(std::mem::take(&mut self.asked.0), "called without being ready");
        self.seller.call(request)
    }
}

#[tokio::test(start_paused = true)]
async fn readiness_is_the_inner_services() {
    let market = Market::open().await;
    let strict = Strict::new(Seller::honest());
    let mood = Arc::clone(&strict.mood);
    let mut client = market.layer().await.layer(strict);
    let mut poll = |says: Mood| {
        *mood.lock().unwrap() = says;
        Service::<Request<Body>>::poll_ready(&mut client, &mut Context::from_waker(Waker::noop()))
    };
    assert!(poll(Mood::Busy).is_pending());
    assert!(matches!(poll(Mood::Ready), Poll::Ready(Ok(()))));
    let Poll::Ready(Err(error)) = poll(Mood::Gone) else { panic!("it is not there") };
    assert_eq!(error.kind(), PayErrorKind::Http);
    assert_eq!(error.source().unwrap().to_string(), "gone");
}

/// Before the quote, before each proof, and when a purchase is gone on with.
#[tokio::test(start_paused = true)]
async fn only_instances_that_were_ready_are_called() {
    let market = Market::open().await;
    market.wallet.script([Sending::Lost; 2]);
    let seller = Seller::paid(|asked| if asked.proofs < 3 { Reply::Broken } else { sold() });
    let client = market.layer().await.layer(Strict::new(seller.clone()));
    assert!(timeout(Duration::from_secs(5), call(&client, question("{}"))).await.is_err());
    assert_eq!(call(&client, question("{}")).await.unwrap().text, "the answer");
    assert_eq!((market.wallet.transfers(), seller.proofs()), (1, 4));
}

/// A client that is not ready any more once the money moved is waited for, within the patience.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_gone_after_the_payment_loses_nothing() {
    for says in [Mood::Busy, Mood::Gone] {
        let market = Market::open().await;
        let layer = market.layer().await;
        let mood = Arc::new(Mutex::new(Mood::Ready));
        let after = Arc::clone(&mood);
        let seller = Seller::new(move |asked| {
            *after.lock().unwrap() = says;
            if asked.proof.is_some() { sold() } else { Bill::default().reply() }
        });
        let strict = Strict { mood: Arc::clone(&mood), ..Strict::new(seller.clone()) };
        let client = layer.layer(strict);
        let error = call(&client, question("{}")).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::Unanswered, "{error}");
        *mood.lock().unwrap() = Mood::Ready;
        assert_eq!(call(&client, question("{}")).await.unwrap().text, "the answer");
        assert_eq!((market.wallet.transfers(), seller.proofs()), (1, 1));
    }
}

fn free(path: &str) -> Request<Body> {
    Request::get(format!("https://seller.example/{path}")).body(Body::empty()).unwrap()
}

/// A seller of answers, that gives one thing away.
fn generous() -> Seller {
    Seller::new(|asked| match &asked.proof {
        _ if asked.uri.path() == "/free" => reply(200, &[], "free"),
        Some(_) => sold(),
        None => Bill::default().reply(),
    })
}

/// One request at a time, and another one gets its turn while the first waits for the chain.
#[tokio::test(start_paused = true)]
async fn readiness_is_not_held_while_the_chain_is_waited_for() {
    let market = Market::open().await;
    market.wallet.script([Sending::Held]);
    let client = market.layer().await.layer(ConcurrencyLimit::new(generous(), 1));
    for resumed in [false, true] {
        let mut held = Box::pin(call(&client, question("{}")));
        assert!(timeout(Duration::from_secs(3), &mut held).await.is_err(), "{resumed}");
        let other = timeout(Duration::from_secs(1), call(&client, free("free"))).await;
        assert_eq!(other.expect("readiness is held").unwrap().text, "free", "{resumed}");
    }
    market.wallet.release();
    assert_eq!(call(&client, question("{}")).await.unwrap().text, "the answer");
    assert_eq!(market.wallet.transfers(), 1);
}

/// Somebody else's payment is resumed by a caller that was ready: he gives his place back at once.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_gives_its_place_back() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let mut client = layer.layer(ConcurrencyLimit::new(generous(), 1));
    client.ready().await.unwrap();
    drop(client.call(question("{}")));
    assert_eq!(call(&client, free("free")).await.unwrap().text, "free");
    assert!(market.journal.entries().is_empty());
}

#[tokio::test(start_paused = true)]
async fn many_calls_share_one_place() {
    let market = Market::open().await;
    let client = market.layer().await.layer(ConcurrencyLimit::new(generous(), 1));
    let calls = (0..20).map(|number| call(&client, free(&number.to_string())));
    let answers = timeout(Duration::from_secs(600), join_all(calls)).await.expect("they wait for each other");
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().text == "the answer"));
    assert_eq!(market.wallet.transfers(), 20);
}
