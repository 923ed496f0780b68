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
//! | `client` | `client`: a tower layer that pays for answers, with budget, wallet and journal | no |
//! | `sqlite` | [`ledger`]`::SqliteLedger`: in a file that outlives the process | no |
//! | `postgres`, `postgres-tls` | [`ledger`]`::PostgresLedger`: shared by replicas, the reference; with TLS | no |
//! | `redis`, `redis-tls` | [`ledger`]`::RedisLedger`: shared by replicas, on Redis 7 or Valkey; with TLS | no |
//! | `test-util` | `testing`: a scripted verifier, a fake clock, with `evm` a local chain, with `client` a scripted wallet; `ledger::conformance` | no |
//! | `full` | all but `test-util` | no |
//!
//! # The order of layers
//!
//! - CORS and tracing belong *outside*, where preflights never reach the door.
//! - In axum use `route_layer`, so that neither a 404 nor a 405 is ever quoted: `.layer` goes around those, too.
//! - `nest` strips the path that a request digest sees; that is consistent, as long as quote and redemption take the same way.
//! - A time-out outside cuts a commit short: the payment is then safe or sold, and the payer asks again to learn which.
//!   Put time-outs inside, on the handler, or use [`MerchantBuilder::max_hold`].
//! - Limits outside count quotes; limits inside make a quote wait where the handler has no room, for readiness is forwarded.
//! - An inner service that is not `Clone` (a `RateLimit`) needs a `Buffer`.

#[cfg(feature = "axum")]
pub mod axum;
#[cfg(feature = "client")]
pub mod client;
pub mod clock;
#[cfg(any(feature = "client", feature = "evm"))]
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
