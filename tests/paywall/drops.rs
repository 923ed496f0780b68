//! Whoever leaves, at whatever point, leaves the pair free or sold; whatever panics or fails takes nothing.

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::runtime;
use tower::{Layer as _, Service, ServiceExt as _};
use tower_x402::{
    RequestBody, X402Layer,
    ledger::{
        Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, RenewOutcome, ReserveOutcome, Sale, Settling,
    },
    protocol::{
        Address, Asset, ChainTime, IntentKey, Network, PaymentId, PaymentSignature, Terms, TokenDomain, TxHash,
    },
    testing::ScriptedVerifier,
    verify::{NonceState, Signatures, Verdict, Verifier, VerifyError},
};

use crate::{
    support::faults::{Stage, failed, give_way, handler, ok, quoted, settle},
    support::{Shop, ask, assert_problem, intent_of, layered, post, redemption},
};

/// A chain that gives way once before and once after each verdict.
struct Yielding(ScriptedVerifier);

impl Verifier for Yielding {
    async fn check(&self, network: Network, assets: &[Asset]) -> Result<(), VerifyError> {
        self.0.check(network, assets).await
    }

    async fn verify(&self, terms: &Terms, transaction: TxHash) -> Result<Verdict, VerifyError> {
        give_way().await;
        let verdict = self.0.verify(terms, transaction).await;
        give_way().await;
        verdict
    }

    async fn head(&self) -> Result<ChainTime, VerifyError> {
        self.0.head().await
    }

    async fn horizon(&self) -> Result<ChainTime, VerifyError> {
        self.0.horizon().await
    }

    fn signatures(&self) -> Option<&impl Signatures> {
        Some(self)
    }
}

impl Signatures for Yielding {
    async fn signer(
        &self,
        message: &str,
        signature: &PaymentSignature,
        accounts: &[Address],
    ) -> Result<Option<Address>, VerifyError> {
        give_way().await;
        self.0.signer(message, signature, accounts).await
    }

    async fn domain(&self, token: Address) -> Result<Option<TokenDomain>, VerifyError> {
        give_way().await;
        self.0.domain(token).await
    }

    async fn nonce_state(
        &self,
        token: Address,
        payer: Address,
        nonce: &[u8; 32],
        since: ChainTime,
    ) -> Result<NonceState, VerifyError> {
        give_way().await;
        self.0.nonce_state(token, payer, nonce, since).await
    }

    async fn permit_state(
        &self,
        permit: &tower_x402::protocol::permit2::Permit,
        since: ChainTime,
    ) -> Result<NonceState, VerifyError> {
        give_way().await;
        self.0.permit_state(permit, since).await
    }
}

/// A handler that gives way in everything it does: to be ready, to read, to answer.
#[derive(Clone, Default)]
struct Slow {
    waited: bool,
    outcomes: Arc<Mutex<Vec<u16>>>,
}

impl Service<Request<RequestBody<Body>>> for Slow {
    type Response = Response<Body>;
    type Error = String;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, String>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        if std::mem::replace(&mut self.waited, true) {
            return Poll::Ready(Ok(()));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, request: Request<RequestBody<Body>>) -> Self::Future {
        assert!(std::mem::take(&mut self.waited), "called without being ready");
        let status = self.outcomes.lock().unwrap().pop().unwrap_or(200);
        Box::pin(async move {
            give_way().await;
            http_body_util::BodyExt::collect(request.into_body()).await.map_err(|error| error.to_string())?;
            give_way().await;
            if status == 0 {
                Err("boom".to_owned())
            } else {
                Ok(Response::builder().status(status).body("answer".into()).unwrap())
            }
        })
    }
}

/// A redemption whose body comes in pieces, with a pause before each.
fn piecemeal(intent: &str, transaction: TxHash, by_header: bool) -> Request<Body> {
    let proof = format!(r#"{{"intentId":"{intent}","txHash":"{transaction}"}}"#);
    let pieces: Vec<Bytes> = proof.as_bytes().chunks(100).map(Bytes::copy_from_slice).collect();
    let frames = in_pieces(pieces);
    let request = Request::post("/answer").header(header::CONTENT_TYPE, "application/json");
    let request = if by_header { request.header("x402-payment", proof) } else { request };
    request.body(Body::new(StreamBody::new(frames))).unwrap()
}

/// Each piece after one pending poll.
fn in_pieces(
    pieces: Vec<Bytes>,
) -> impl futures_util::Stream<Item = Result<Frame<Bytes>, std::convert::Infallible>> + Send {
    futures_util::stream::unfold(pieces.into_iter(), |mut pieces| async move {
        give_way().await;
        pieces.next().map(|piece| (Ok(Frame::data(piece)), pieces))
    })
}

/// Polls a redemption so many times, then drops it. Tells what came of it, if anything did.
async fn polled<F: Future + Send>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut done = None;
    for _ in 0..polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            done = Some(output);
            break;
        }
    }
    drop(future);
    settle().await;
    done
}

/// A stage where everything gives way.
async fn yielding() -> Stage {
    let chain = ScriptedVerifier::new(ChainTime::from_unix(crate::support::NOW - 3600));
    let stage = Stage::open_with(|builder| builder.verifier(Yielding(chain.clone()))).await;
    chain.set_head(ChainTime::from_unix(crate::support::NOW));
    stage.ledger.yielding();
    Stage { shop: Shop { chain, ..stage.shop }, ..stage }
}

async fn quote_of(layer: &X402Layer, service: Slow) -> String {
    intent_of(&layer.layer(service).oneshot(post("{}")).await.unwrap())
}

/// Drops a redemption after every number of polls; answers how many there are until it is done.
async fn dropped_everywhere(by_header: bool, first_outcome: u16) -> usize {
    for polls in 0.. {
        let stage = yielding().await;
        let (layer, service) = (stage.layer(), Slow::default());
        let (intent, tx) = (quote_of(&layer, service.clone()).await, stage.shop.pay(490_000));
        service.outcomes.lock().unwrap().extend((first_outcome != 200).then_some(first_outcome));
        let request = piecemeal(&intent, tx, by_header);
        let outcome = polled(layer.layer(service.clone()).oneshot(request), polls).await;
        let delivered = outcome.as_ref().is_some_and(|answer| answer.as_ref().is_ok_and(|a| a.status() == 200));
        let counts = stage.counts();
        assert_eq!(counts.held, 0, "stuck after {polls} polls: {counts:?}");
        assert!(!delivered || counts.consumed == 1, "delivered unpaid after {polls} polls");
        // An honest client asks again.
        service.outcomes.lock().unwrap().clear();
        let again = layer.layer(service).oneshot(redemption(&intent, tx)).await.unwrap();
        if counts.consumed == 1 {
            assert_problem(again, 409, "already_consumed").await;
        } else {
            assert_eq!(again.status(), 200, "after {polls} polls");
        }
        assert_eq!((stage.counts().held, stage.counts().consumed), (0, 1));
        if outcome.is_some() {
            return polls;
        }
    }
    unreachable!()
}

#[tokio::test(start_paused = true)]
async fn a_redemption_dropped_at_any_point_leaves_its_pair_free_or_sold() {
    for by_header in [false, true] {
        for outcome in [200, 500, 402, 0] {
            let polls = dropped_everywhere(by_header, outcome).await;
            assert!(polls > 12, "only {polls} polls with outcome {outcome}");
        }
    }
}

/// Only the window between the commit and the answer may leave a sale without a delivery.
#[tokio::test(start_paused = true)]
async fn only_a_client_that_leaves_during_its_commit_can_lose_its_answer() {
    let mut lost = 0;
    for polls in 0.. {
        let stage = yielding().await;
        let (layer, service) = (stage.layer(), Slow::default());
        let (intent, tx) = (quote_of(&layer, service.clone()).await, stage.shop.pay(490_000));
        let done = polled(layer.layer(service).oneshot(redemption(&intent, tx)), polls).await.is_some();
        lost += usize::from(!done && stage.counts().consumed == 1);
        if done {
            break;
        }
    }
    assert_eq!(lost, 1, "of all points at which to leave");
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Panics {
    InReady,
    InCall,
    InPoll,
    AfterAwaits,
    InDrop,
}

/// Panics in its first run.
#[derive(Clone)]
struct Panicking {
    at: Panics,
    asked_ready: Arc<AtomicUsize>,
    runs: Arc<AtomicUsize>,
}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("the handler panics");
    }
}

impl Service<Request<RequestBody<Body>>> for Panicking {
    type Response = Response<Body>;
    type Error = String;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, String>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        // The quote asks once, the redemption twice: at the door and for the handler.
        let third = self.asked_ready.fetch_add(1, Ordering::SeqCst) == 2;
        assert!(!(third && self.at == Panics::InReady), "the handler panics");
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<RequestBody<Body>>) -> Self::Future {
        let first = self.runs.fetch_add(1, Ordering::SeqCst) == 0 && self.at != Panics::InReady;
        let at = self.at;
        assert!(!(first && at == Panics::InCall), "the handler panics");
        Box::pin(async move {
            assert!(!(first && at == Panics::InPoll), "the handler panics");
            let _bomb = (first && at == Panics::InDrop).then(|| PanicsInDrop);
            give_way().await;
            assert!(!(first && at == Panics::AfterAwaits), "the handler panics");
            Ok(ok())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_unwinds_on_and_leaves_the_payment_free() {
    for at in [Panics::InReady, Panics::InCall, Panics::InPoll, Panics::AfterAwaits, Panics::InDrop] {
        let stage = Stage::open().await;
        let service = stage.layer().layer(Panicking { at, asked_ready: Arc::default(), runs: Arc::default() });
        let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
        let tx = stage.shop.pay(490_000);
        let panicked = tokio::spawn(service.clone().oneshot(redemption(&intent, tx))).await.unwrap_err().into_panic();
        assert_eq!(panicked.downcast_ref::<&str>(), Some(&"the handler panics"), "{at:?}");
        settle().await;
        assert_eq!((stage.counts().held, stage.counts().consumed), (0, 0), "{at:?}");
        assert_eq!(service.oneshot(redemption(&intent, tx)).await.unwrap().status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn panics_count_as_attempts_unless_the_handler_was_not_reached() {
    let stage = Stage::open().await;
    let service = layered(
        &stage.layer(),
        handler(|run| async move {
            assert!(run > 16, "the handler panics");
            ok()
        }),
    );
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    for _ in 0..16 {
        assert!(crate::support::faults::start(&service, redemption(&intent, tx)).await.is_err());
        settle().await;
    }
    assert_problem(ask(&service, redemption(&intent, tx)).await, 429, "too_many_attempts").await;
}

#[tokio::test(start_paused = true)]
async fn departures_count_as_attempts_of_a_handler_that_was_started() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|run| async move { if run > 16 { ok() } else { pending().await } }));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    for _ in 0..16 {
        assert!(polled(ask(&service, redemption(&intent, tx)), 3).await.is_none());
    }
    assert_problem(ask(&service, redemption(&intent, tx)).await, 429, "too_many_attempts").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
}

/// A service with an error of its own.
#[derive(Clone, Debug, PartialEq)]
struct Broken(u32);

#[tokio::test(start_paused = true)]
async fn a_services_own_error_passes_unchanged_and_frees_the_payment() {
    let stage = Stage::open().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let service = stage.layer().layer(tower::service_fn(move |_: Request<RequestBody<Body>>| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        async move { if run == 0 { Err(Broken(7)) } else { Ok(ok()) } }
    }));
    let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
    let tx = stage.shop.pay(490_000);
    assert_eq!(service.clone().oneshot(redemption(&intent, tx)).await.unwrap_err(), Broken(7));
    assert_eq!(stage.counts().held, 0, "free before the error leaves");
    assert_eq!(service.oneshot(redemption(&intent, tx)).await.unwrap().status(), 200);
}

/// Tells whether what it is dropped with panics.
struct Witness(Arc<AtomicBool>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.fetch_or(std::thread::panicking(), Ordering::SeqCst);
    }
}

/// A shop, and a redemption whose handler was started and never ends.
async fn under_way() -> (Shop, Pin<Box<dyn Future<Output = ()> + Send>>, String, TxHash) {
    let shop = Shop::open().await;
    let service = layered(&shop.merchant.charge("answer", "0.49 USDC").unwrap(), handler(|_| pending()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let future = service.oneshot(redemption(&intent, tx));
    (shop, Box::pin(async move { drop(future.await) }), intent, tx)
}

async fn started(future: &mut Pin<Box<dyn Future<Output = ()> + Send>>) {
    for _ in 0..3 {
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}

fn honest_retry_after_a_minute(shop: &Shop, intent: &str, tx: TxHash) {
    runtime().block_on(async {
        settle().await;
        shop.clock.advance(Duration::from_secs(60));
        let service = layered(
            &shop.merchant.charge("answer", "0.49 USDC").unwrap(),
            handler(|run| async move { if run == 0 { failed() } else { ok() } }),
        );
        assert_eq!(ask(&service, redemption(intent, tx)).await.status(), 200);
    });
}

fn runtime() -> runtime::Runtime {
    runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_redemption_dropped_without_a_runtime_does_not_panic() {
    for outlives in [true, false] {
        let first = runtime();
        let (shop, future, intent, tx) = first.block_on(async {
            let (shop, mut future, intent, tx) = under_way().await;
            started(&mut future).await;
            (shop, future, intent, tx)
        });
        assert_eq!(shop.ledger.counts().unwrap().held, 1);
        if outlives {
            // The runtime that it was reserved on does the release, wherever it is dropped.
            drop(future);
            first.block_on(async {
                while shop.ledger.counts().unwrap().held > 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        } else {
            drop(first);
            drop(future);
            assert_eq!(shop.ledger.counts().unwrap().held, 1, "expiry is the guarantee");
        }
        honest_retry_after_a_minute(&shop, &intent, tx);
    }
}

#[test]
fn a_runtime_that_shuts_down_with_a_redemption_under_way_does_not_panic() {
    for background in [false, true] {
        let first = runtime();
        let panicked = Arc::new(AtomicBool::new(false));
        let witness = Witness(Arc::clone(&panicked));
        let (shop, intent, tx) = first.block_on(async {
            let (shop, mut future, intent, tx) = under_way().await;
            started(&mut future).await;
            tokio::spawn(async move {
                let _witness = witness;
                future.await;
            });
            settle().await;
            (shop, intent, tx)
        });
        if background {
            first.shutdown_background();
            std::thread::sleep(Duration::from_millis(100));
        } else {
            drop(first);
        }
        assert!(!panicked.load(Ordering::SeqCst));
        honest_retry_after_a_minute(&shop, &intent, tx);
    }
}

/// A ledger whose first reservation panics after a while, and whose question must not be asked on then.
#[derive(Clone)]
pub(crate) struct PanicsInReserve(pub(crate) crate::support::faults::Faulty, pub(crate) Arc<AtomicUsize>);

impl Ledger for PanicsInReserve {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.0.begin(network, now).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        let first = self.1.fetch_add(1, Ordering::SeqCst) == 0;
        give_way().await;
        assert!(!first, "the ledger panics");
        self.0.reserve(claim).await
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        self.0.renew(lease).await
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        self.0.settling(lease, settling).await
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.0.not_settled(lease).await
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        self.0.commit(lease, answer).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.0.release(lease).await
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        self.0.consumed(intent).await
    }

    async fn begun(&self, intent: IntentKey, payment: PaymentId) -> Result<Option<Settling>, LedgerError> {
        self.0.begun(intent, payment).await
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        self.0.sweep(network, head).await
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.0.health().await
    }
}

/// Also where the panic is caught and the future dropped only then, as a layer that catches panics does.
#[tokio::test(start_paused = true)]
async fn a_reservation_that_panicked_is_not_polled_again() {
    let background = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&background);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.to_string().contains("resumed after panicking") {
            seen.fetch_add(1, Ordering::SeqCst);
        }
        before(info);
    }));
    for caught in [true, false] {
        let stage = Stage::open().await;
        let ledger = PanicsInReserve(stage.ledger.clone(), Arc::default());
        let merchant = stage.shop.sibling(|builder| builder.ledger(ledger.clone())).await;
        let service = layered(&merchant.charge("answer", "0.49 USDC").unwrap(), handler(|_| async { ok() }));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        let mut future = Box::pin(service.clone().oneshot(redemption(&intent, tx)));
        if caught {
            let mut panicked = false;
            for _ in 0..5 {
                let poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
                panicked |= std::panic::catch_unwind(std::panic::AssertUnwindSafe(poll)).is_err();
                if panicked {
                    break;
                }
            }
            assert!(panicked);
            drop(future);
        } else {
            assert!(tokio::spawn(future).await.unwrap_err().is_panic());
        }
        settle().await;
        assert_eq!((ledger.1.load(Ordering::SeqCst), background.load(Ordering::SeqCst)), (1, 0), "caught: {caught}");
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    }
    let _ = std::panic::take_hook();
}
