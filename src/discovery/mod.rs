//! Discovery for programs: an OpenAPI document with prices, a list of endpoints, and a text.
//!
//! A seller states the address and the input of each route by [`X402Layer::describe`](crate::X402Layer::describe);
//! [`Merchant::discovery`](crate::Merchant::discovery) answers for all of them.
//!
//! ```
//! # #[cfg(feature = "test-util")]
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use axum::{Router, body::Body, routing::post};
//! use http::Request;
//! use http_body_util::BodyExt as _;
//! use serde_json::{Value, json};
//! use tower::ServiceExt as _;
//! use tower_x402::discovery::Endpoint;
//! # use tower_x402::{Merchant, ledger::MemoryLedger, protocol::{ChainTime, SealingKeys}, testing::ScriptedVerifier};
//! # let merchant = Merchant::builder("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?)
//! #     .verifier(ScriptedVerifier::new(ChainTime::from_unix(1_795_280_000)))
//! #     .ledger(MemoryLedger::new())
//! #     .sealing_keys(SealingKeys::random()?)
//! #     .public_url("https://shop.example")
//! #     .build()
//! #     .await?;
//!
//! let paid = merchant.charge("demand-insights", "0.49 USDC")?.label("Demand insights")?.describe(
//!     Endpoint::post("/demand-insights")
//!         .input(json!({ "type": "object", "properties": { "query": { "type": "string" } } }))
//!         .example(json!({ "query": "pricing" })),
//! )?;
//! let app = Router::new()
//!     .route("/demand-insights", post(async || "an answer").route_layer(paid))
//!     .fallback_service(merchant.discovery().title("Insights"));
//!
//! let answer = app.oneshot(Request::get("/openapi.json").body(Body::empty())?).await?;
//! let document: Value = serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?;
//! let operation = &document["paths"]["/demand-insights"]["post"];
//! assert_eq!(operation["summary"], "Demand insights");
//! assert_eq!(operation["x-payment-info"]["price"], json!({ "mode": "fixed", "currency": "USD", "amount": "0.49" }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # What is followed
//!
//! - `GET /openapi.json`: [OpenAPI 3.1](https://spec.openapis.org/oas/v3.1.0). The price of an operation is in
//!   `x-payment-info`, as indexers read it (the package `@agentcash/discovery`): `price` is
//!   `{"mode":"fixed","currency":"USD","amount":"0.49"}`, or `{"mode":"dynamic","currency":"USD"}` with `min` and `max`
//!   if they are [stated](Endpoint::price_between); `protocols` has `{"x402":{}}` if quotes have `PAYMENT-REQUIRED`,
//!   and is empty if they ask for a transfer alone. USDC is priced in `USD`; another token's price is in its symbol.
//!   `security` is empty: no account is needed. `x-passes` has the [passes](crate::Pass) that are valid there, with
//!   their prices, their contents and the addresses that sell them.
//! - `GET /.well-known/x402`: `{"version":1,"resources":[…]}` with the URL of each endpoint whose path has no parameters, and `passes`,
//!   if there are any. Indexers are moving from this to OpenAPI.
//! - `GET /` and `GET /llms.txt`: the same as text.
//!
//! Indexers then send an *empty* request to each endpoint, and list the ones that answer with a 402. A service that
//! checks requests before it names a price should quote one that has no body at all.

mod bazaar;
mod document;
mod endpoint;
mod operation;
mod service;
mod storefront;

pub(crate) use bazaar::Bazaar;
pub use document::Discovery;
pub use endpoint::Endpoint;
pub(crate) use storefront::{Described, Storefront};
