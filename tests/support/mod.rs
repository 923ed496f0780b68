//! What most tests need: a seller whose chain is scripted, a handler that counts, and short ways to ask and to read.

pub mod authorization;
pub mod channel_payer;
pub mod faults;
pub mod metrics;
pub mod mpp;
pub mod node;
pub mod servers;
pub mod tools;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use tower::{Layer, Service, ServiceExt as _};
use tower_x402::{
    Merchant, MerchantBuilder, Receipt, RequestBody, ResponseBody, X402, X402Layer,
    ledger::MemoryLedger,
    protocol::{Address, Amount, Asset, ChainTime, SealingKeys, TxHash},
    testing::{FakeClock, ScriptedVerifier},
};

use self::faults::Faulty;

/// The present moment of every scripted test, in Unix seconds.
pub const NOW: u64 = 1_795_280_000;
pub const PRICE: &str = "0.49 USDC";
pub const KEY: [u8; 32] = [7; 32];

pub fn recipient() -> Address {
    "0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap()
}

pub fn payer() -> Address {
    Address::new([0xaa; 20])
}

/// A seller on a scripted chain.
pub struct Shop {
    pub chain: ScriptedVerifier,
    pub ledger: Arc<MemoryLedger>,
    /// What the merchant sees of `ledger`.
    pub faults: Faulty,
    pub clock: FakeClock,
    pub merchant: Merchant,
}

impl Shop {
    pub async fn open() -> Self {
        Self::open_with(|builder| builder).await
    }

    /// With more settings.
    pub async fn open_with(set: impl FnOnce(MerchantBuilder) -> MerchantBuilder) -> Self {
        Self::open_on(|builder, _| set(builder)).await
    }

    /// With settings that know the chain.
    pub async fn open_on(set: impl FnOnce(MerchantBuilder, &ScriptedVerifier) -> MerchantBuilder) -> Self {
        let clock = FakeClock::new(NOW);
        // The ledger's memory begins an hour ago, so that payments of the last hour count.
        let chain = ScriptedVerifier::new(ChainTime::from_unix(NOW - 3600));
        let ledger = Arc::new(MemoryLedger::with_clock(clock.clone()));
        let faults = Faulty::over(Arc::clone(&ledger));
        let builder = Merchant::builder(recipient())
            .hold_unbound(Duration::ZERO)
            .verifier(chain.clone())
            .ledger(faults.clone())
            .clock(clock.clone())
            .sealing_keys(SealingKeys::new(KEY));
        let merchant = set(builder, &chain).build().await.unwrap();
        chain.set_head(ChainTime::from_unix(NOW));
        Self { chain, ledger, faults, clock, merchant }
    }

    /// A second merchant on the same chain and ledger.
    pub async fn sibling(&self, set: impl FnOnce(MerchantBuilder) -> MerchantBuilder) -> Merchant {
        let builder = Merchant::builder(recipient())
            .hold_unbound(Duration::ZERO)
            .verifier(self.chain.clone())
            .ledger(self.faults.clone())
            .clock(self.clock.clone())
            .sealing_keys(SealingKeys::new(KEY));
        set(builder).build().await.unwrap()
    }

    /// The same seller, who has moved to another recipient.
    pub async fn moved(&self) -> Merchant {
        let builder = Merchant::builder(Address::new([0x77; 20]))
            .former_recipient(recipient())
            .hold_unbound(Duration::ZERO)
            .verifier(self.chain.clone())
            .ledger(self.faults.clone())
            .clock(self.clock.clone())
            .sealing_keys(SealingKeys::new(KEY));
        builder.build().await.unwrap()
    }

    /// The layer that most tests use.
    pub fn layer(&self) -> X402Layer {
        self.merchant.charge("answer", PRICE).unwrap()
    }

    /// Mines a payment of that many base units, now.
    pub fn pay(&self, units: u128) -> TxHash {
        self.pay_at(units, NOW)
    }

    pub fn pay_at(&self, units: u128, time: u64) -> TxHash {
        self.chain.pay(
            recipient(),
            Asset::USDC_BASE.contract(),
            payer(),
            Amount::from_base_units(units),
            ChainTime::from_unix(time),
        )
    }
}

/// A handler that answers 200 with its run's number, and counts its runs.
#[derive(Clone, Default)]
pub struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub fn runs(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub fn run(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

pub type Answer = Response<ResponseBody<Body>>;

/// A service that counts its runs, echoes its body, and says in a header whether it saw a receipt.
pub fn echo(counter: Counter) -> impl Handler {
    tower::service_fn(move |request: Request<RequestBody<Body>>| {
        let counter = counter.clone();
        async move {
            counter.run();
            let paid = request.extensions().get::<Receipt>().map(|receipt| receipt.payment_id().to_string());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut response = Response::new(Body::from(body));
            if let Some(paid) = paid {
                response.headers_mut().insert("x-paid", paid.parse().unwrap());
            }
            Ok(response)
        }
    })
}

/// One request through a layered service.
pub async fn ask<S>(service: &X402<S>, request: Request<Body>) -> Answer
where
    X402<S>: Service<Request<Body>, Response = Answer, Error = std::convert::Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap()
}

pub fn layered<S: Clone>(layer: &X402Layer, inner: S) -> X402<S> {
    layer.layer(inner)
}

/// A POST of JSON.
pub fn post(json: impl Into<String>) -> Request<Body> {
    Request::post("/answer").header(header::CONTENT_TYPE, "application/json").body(Body::from(json.into())).unwrap()
}

/// A redemption in the body, beside a query.
pub fn redemption(intent: &str, transaction: TxHash) -> Request<Body> {
    post(format!(r#"{{"intentId":"{intent}","txHash":"{transaction}","query":"why"}}"#))
}

/// The intent of a quote or of a problem.
pub fn intent_of<B>(response: &Response<B>) -> String {
    response.headers()["x-price-intent"].to_str().unwrap().to_owned()
}

/// Status, and the body as JSON (or as a string where it is none).
pub async fn read(response: Answer) -> (StatusCode, serde_json::Value) {
    let status = response.status();
    let body: Bytes = response.into_body().collect().await.unwrap().to_bytes();
    let json = serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into());
    (status, json)
}

/// Asserts a problem's status and code.
pub async fn assert_problem(response: Answer, status: u16, code: &str) -> serde_json::Value {
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert!(status == 402 || !response.headers().contains_key("pay"), "only a quote has a Pay header");
    assert_eq!(response.headers()["x402-error"], code);
    let (found, body) = read(response).await;
    assert_eq!((found.as_u16(), body["error"].as_str()), (status, Some(code)), "{body}");
    body
}

/// What a layer is put around in these tests.
pub trait Handler:
    Service<
        Request<RequestBody<Body>>,
        Response = Response<Body>,
        Error = std::convert::Infallible,
        Future: Send + 'static,
    > + Clone
    + Send
    + 'static
{
}

impl<S> Handler for S where
    S: Service<
            Request<RequestBody<Body>>,
            Response = Response<Body>,
            Error = std::convert::Infallible,
            Future: Send + 'static,
        > + Clone
        + Send
        + 'static
{
}

/// A service that answers by the request's head, and counts its runs.
pub fn answering(
    counter: Counter,
    answer: impl Fn(&Request<RequestBody<Body>>) -> Response<Body> + Clone + Send + 'static,
) -> impl Handler {
    tower::service_fn(move |request: Request<RequestBody<Body>>| {
        counter.run();
        let response = answer(&request);
        async move { Ok(response) }
    })
}

/// A service that answers with this status.
pub fn status(status: u16) -> impl Handler {
    answering(Counter::default(), move |_| with_status(status))
}

/// A service that never answers, and counts how often it was asked.
pub fn hanging(counter: Counter) -> impl Handler {
    tower::service_fn(move |_: Request<RequestBody<Body>>| {
        counter.run();
        std::future::pending()
    })
}

pub fn with_status(status: u16) -> Response<Body> {
    Response::builder().status(status).body(Body::from("the handler's words")).unwrap()
}

/// A redemption in the header, as JSON.
pub fn proof(intent: &str, transaction: TxHash) -> String {
    format!(r#"{{"intentId":"{intent}","txHash":"{transaction}"}}"#)
}

/// A request of any method with a redemption in the header.
pub fn by_header(method: &str, intent: &str, transaction: TxHash) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri("/answer")
        .header("x402-payment", proof(intent, transaction))
        .body(Body::empty())
        .unwrap()
}

/// A service's quote for `{"query":"why"}`.
pub async fn quoted<S>(service: &X402<S>) -> String
where
    X402<S>: Service<Request<Body>, Response = Answer, Error = std::convert::Infallible> + Clone,
{
    let quote = ask(service, post(r#"{"query":"why"}"#)).await;
    assert_eq!(quote.status(), 402);
    intent_of(&quote)
}

/// Takes a problem's fresh intent, which must stand in header and body alike.
pub async fn fresh_intent(response: Answer, status: u16, code: &str) -> String {
    let intent = intent_of(&response);
    let body = assert_problem(response, status, code).await;
    assert_eq!(body["intentId"], intent.as_str());
    intent
}
