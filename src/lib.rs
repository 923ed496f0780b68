//! Sell HTTP answers one request at a time, paid in USDC on Base, with no account.
//!
//! Put an [`X402Layer`] around any tower service. A request without payment gets a *quote* (402); the *payer* sends an
//! ordinary token transfer to the *recipient*; the same request with the transaction's hash *redeems* it, and gets the
//! answer, once: intent and transfer are *consumed* together.
//!
//! ```
//! # #[cfg(feature = "test-util")]
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use tower::{Layer, ServiceExt, service_fn};
//! use tower_x402::{
//!     Merchant, Receipt, RequestBody, ledger::MemoryLedger,
//!     protocol::{ChainTime, Quote, SealingKeys},
//!     testing::{FakeClock, ScriptedVerifier},
//! };
//!
//! // In production: `verify::evm::EvmVerifier::connect([rpc_url]).await?`, and no clock.
//! let chain = ScriptedVerifier::new(ChainTime::from_unix(1_795_280_000));
//! let recipient = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?;
//! let merchant = Merchant::builder(recipient)
//!     .verifier(chain.clone())
//!     .ledger(MemoryLedger::new())
//!     .sealing_keys(SealingKeys::random()?)
//!     .clock(FakeClock::new(1_795_280_000))
//!     .build()
//!     .await?;
//!
//! let service = merchant.charge("greeting", "0.49 USDC")?.layer(service_fn(
//!     async |request: Request<RequestBody<Full<Bytes>>>| {
//!         let paid = request.extensions().get::<Receipt>().expect("the layer is there");
//!         Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from(format!("hello {}", paid.payer()))))
//!     },
//! ));
//!
//! // Without payment: a quote.
//! let quote = service.clone().oneshot(Request::new(Full::default())).await?;
//! assert_eq!(quote.status(), StatusCode::PAYMENT_REQUIRED);
//! let quote = Quote::from_headers(quote.headers())?;
//!
//! // The payer sends an ordinary transfer, and asks again with its hash.
//! chain.set_head(ChainTime::from_unix(1_795_280_002));
//! let payer = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse()?;
//! let tx = chain.pay(quote.recipient, quote.contracts[0], payer, quote.amount, ChainTime::from_unix(1_795_280_002));
//! let redeem = Request::builder()
//!     .header("x402-payment", format!(r#"{{"intentId":"{}","txHash":"{tx}"}}"#, quote.intent))
//!     .body(Full::default())?;
//! let answer = service.clone().oneshot(redeem.clone()).await?;
//! assert_eq!(answer.status(), StatusCode::OK);
//!
//! // Once.
//! assert_eq!(service.oneshot(redeem).await?.status(), StatusCode::CONFLICT);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # Rooms
//!
//! | Module | Question it answers |
//! |---|---|
//! | [`X402Layer`], [`Merchant`] and what stands beside them | the door: who may pass |
//! | [`verify`] | is it paid? [`Verifier`](verify::Verifier), and with `evm` ERC-20 transfers over JSON-RPC |
//! | [`ledger`] | is it spent? [`Ledger`](ledger::Ledger), in memory, in a file, or shared by replicas |
//! | `client` (feature) | the payer: a tower layer that pays and redeems |
//! | [`protocol`] | what is said: values and headers |
//! | [`clock`] | what time is it |
//!
//! # Features
//!
//! | Feature | What it brings | Default |
//! |---|---|---|
//! | `evm` | `verify::evm`: verification of ERC-20 transfers over JSON-RPC | no |
//! | `axum` | [`Receipt`] as an axum extractor | no |
//! | `client` | `client`: a tower layer that pays for answers, with budget and journal | no |
//! | `wallet` | `client::WalletPayer`: pays from a key of one's own; implies `client` | no |
//! | `reqwest` | `client::ReqwestClient`: reqwest as the client that pays; implies `client` | no |
//! | `sqlite` | [`ledger`]`::SqliteLedger`: in a file that outlives the process | no |
//! | `postgres`, `postgres-tls` | [`ledger`]`::PostgresLedger`: shared by replicas, the reference; with TLS | no |
//! | `redis`, `redis-tls` | [`ledger`]`::RedisLedger`: shared by replicas, on Redis 7 or Valkey; with TLS | no |
//! | `test-util` | `testing`: a scripted verifier, a fake clock, with `evm` a local chain, with `client` a scripted wallet; `ledger::conformance` | no |
//! | `full` | all but `test-util` | no |
//!
//! # The order of layers
//!
//! - CORS and tracing belong *outside*, where preflights never reach the door; see [CORS](#cors).
//! - In axum, put the layer on a route's methods, *after* all of them: whatever is added behind it is free. There are two ways:
//!   - `get(a).post(b).route_layer(paid)` prices the methods that are named, and quotes no 405. It does **not** cover
//!     `any(…)` or a method router's `fallback(…)`: `any(a).get(b).route_layer(paid)` gives `a` away.
//!   - `any(a).get(b).layer(paid)` prices every method, fallbacks included. Use it wherever the route has one.
//! - On a whole `Router`, `route_layer` prices all routes that were added before it, their fallbacks for other methods
//!   included, and no 404; `layer` goes around the 404, too.
//! - Let handlers take a [`Receipt`]: with the feature `axum` it is an extractor, which answers 500 where no layer sold the
//!   request. A route that lost its layer then gives nothing away.
//! - One request has one price. A layer around a service that has one already, or the same layer twice, is answered
//!   500 at the first request, and told in the log. An inner price that is hidden is found only when the first payment is
//!   shown: behind a `Router` that is used as a service (in `nest_service`, in `fallback_service`, or with the layer put
//!   around it by `ServiceBuilder`) and behind a `Buffer`. That payment stays unspent, but it was made; from then on this
//!   process answers 500 instead of the outer layer's quotes. This goes for everything behind that layer, also where
//!   `Router::layer` covers a hidden price and unpriced routes alike; a payment made for one of those is still honoured.
//! - `nest` strips the path that a request digest sees; that is consistent, as long as quote and redemption take the same way.
//! - Put time-outs *inside*, on the handler, or use [`MerchantBuilder::max_hold`]. One outside cuts a commit short: the
//!   payment is then safe or sold, and the payer has to ask again to learn which.
//! - Limits outside count quotes; limits inside make a quote wait where the handler has no room, for readiness is forwarded.
//!   A `LoadShed` may stand inside: an error that comes at once, before anything was waited for, is no attempt of the payer's.
//! - A layer inside that builds a response anew must carry its extensions over, or [`Consumption`] is lost with them.
//! - An inner service that is not `Clone` (a `RateLimit`) needs a `Buffer`.

//! # CORS
//!
//! A page in a browser pays from another origin. Its preflight asks for the content type and for the header with the proof, and
//! it may read only the response headers that are exposed. CORS goes outside, around the whole router:
//!
//! ```
//! # #[cfg(feature = "axum")]
//! # fn app(paid: tower_x402::X402Layer) -> axum::Router {
//! use axum::{Router, routing::post};
//! use http::{Method, header};
//! use tower_http::cors::{Any, CorsLayer};
//! use tower_x402::protocol::headers;
//!
//! let cors = CorsLayer::new()
//!     .allow_origin(Any)
//!     .allow_methods([Method::GET, Method::POST])
//!     .allow_headers([header::CONTENT_TYPE, headers::X402_PAYMENT])
//!     .expose_headers(headers::EXPOSED);
//! let app = Router::new()
//!     .route("/answer", post(async || "42").route_layer(paid))
//!     .layer(cors);
//! # app
//! # }
//! ```

#[cfg(feature = "axum")]
pub mod axum;
#[cfg(feature = "client")]
pub mod client;
pub mod clock;
#[cfg(any(feature = "wallet", feature = "evm"))]
mod json_rpc;
pub mod ledger;
mod paywall;
pub mod protocol;
#[cfg(feature = "test-util")]
pub mod testing;
pub mod verify;

pub use paywall::{
    ConfigError, Consumption, HealthError, Merchant, MerchantBuilder, Price, PriceTag, Pricing, Refusal, RequestBody,
    ResponseBody, ResponseFuture, X402, X402Layer,
};
pub use protocol::Receipt;

#[cfg(all(doctest, feature = "axum", feature = "evm", feature = "sqlite", feature = "test-util"))]
#[doc = include_str!("../README.md")]
struct Readme;
