//! Sells HTTP answers one request at a time, paid in USDC on Base, without accounts.
//!
//! Put an [`X402Layer`] around an axum route or any other tower service. A request without payment gets a *quote* (402). The
//! *payer* sends an ordinary token transfer to the *recipient*. The same request with the transaction's hash *redeems*
//! the transfer and gets the answer, once: intent and transfer are *consumed* together.
//!
//! ```
//! # #[cfg(all(feature = "axum", feature = "test-util"))]
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use axum::{Router, body::Body, routing::post};
//! use http::{Request, StatusCode};
//! use tower::ServiceExt as _;
//! use tower_x402::{
//!     Merchant, Receipt,
//!     ledger::MemoryLedger,
//!     protocol::{ChainTime, Quote, SealingKeys},
//!     testing::{FakeClock, ScriptedVerifier},
//! };
//!
//! // In production: `verify::EvmVerifier::connect([rpc_url]).await?`, a ledger that outlives the process, and no clock.
//! let chain = ScriptedVerifier::new(ChainTime::from_unix(1_795_280_000));
//! let merchant = Merchant::builder("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?)
//!     .verifier(chain.clone())
//!     .ledger(MemoryLedger::new())
//!     .sealing_keys(SealingKeys::random()?)
//!     .clock(FakeClock::new(1_795_280_000))
//!     .build()
//!     .await?;
//!
//! // A route with a price. The handler runs for those who paid.
//! async fn greeting(receipt: Receipt) -> String {
//!     format!("hello {}", receipt.payer())
//! }
//! let paid = merchant.charge("greeting", "0.49 USDC")?;
//! let app = Router::new().route("/greeting", post(greeting).route_layer(paid));
//!
//! // Without payment: a quote.
//! let quote = app.clone().oneshot(Request::post("/greeting").body(Body::empty())?).await?;
//! assert_eq!(quote.status(), StatusCode::PAYMENT_REQUIRED);
//! let quote = Quote::from_headers(quote.headers())?;
//!
//! // The payer sends an ordinary transfer, and asks again with its hash.
//! let payer = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse()?;
//! let tx = chain.pay(quote.recipient, quote.contracts[0], payer, quote.amount, ChainTime::from_unix(1_795_280_002));
//! // One that is not bound to its payer is held for five seconds of chain time.
//! chain.set_head(ChainTime::from_unix(1_795_280_007));
//! let proof = format!(r#"{{"intentId":"{}","txHash":"{tx}"}}"#, quote.intent);
//! let redeem = || Request::post("/greeting").header("x402-payment", &proof).body(Body::empty());
//! let answer = app.clone().oneshot(redeem()?).await?;
//! assert_eq!(answer.status(), StatusCode::OK);
//!
//! // Once.
//! assert_eq!(app.oneshot(redeem()?).await?.status(), StatusCode::CONFLICT);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! With a settler, the same routes also speak the [x402 standard](https://github.com/x402-foundation/x402), versions 2 and 1, and
//! [MPP](https://paymentauth.org) where [`mpp`](MerchantBuilder::mpp) is set: see [the standard](guide::standard).
//!
//! # Modules
//!
//! | Module | Question it answers |
//! |---|---|
//! | [`X402Layer`], [`Merchant`] and the other items below | the paywall: which request is quoted, redeemed or refused |
//! | [`verify`] | is it paid? [`Verifier`](verify::Verifier), and with `evm` ERC-20 transfers over JSON-RPC |
//! | [`settle`] | make it paid: [`Settler`](settle::Settler) turns a signed authorization into a transfer |
//! | [`ledger`] | is it spent? [`Ledger`](ledger::Ledger), in memory, in a file, or shared by replicas |
//! | `mcp` (feature) | the tools of an MCP server, sold call by call |
//! | `page` (feature) | the 402 as a page for people, with a button for their wallet |
//! | `client` (feature) | the payer: a tower layer that pays and redeems |
//! | [`discovery`] | descriptions for programs: OpenAPI with prices |
//! | [`protocol`] | what goes over the wire: values and headers |
//! | [`clock`] | what time is it |
//! | `testing` (feature `test-util`) | a scripted verifier and wallet, a fake clock; with `devchain` a local chain |
//! | [`guide`] | how to: prose without items |
//!
//! # Guides
//!
//! - [Sell your first answer](guide::first_answer): axum, hyper, `ServiceBuilder`
//! - [The gateway](guide::gateway): sell the answers of a service in any language
//! - [Selling](guide::selling): prices, routes, the order of layers, CORS
//! - [How this relates to x402](guide::standard): the standard and MPP, and their signed payments
//! - [Coming from x402-axum](guide::coming_from_x402_axum)
//! - [Metered answers](guide::metered): the handler says what its answer costs
//! - [Passes](guide::passes): paid once, called many times; tickets for downloads that broke off
//! - [Payment proofs](guide::payment_proof): transfers in the standard's header
//! - [Payment channels](guide::channels): one deposit, a signature for each answer
//! - [Streaming and gRPC](guide::streaming): sold at the head
//! - [MCP](guide::mcp): tools sold by the call, and agents that pay for them
//! - [The page](guide::page): what browsers get instead of JSON
//! - [Ledgers](guide::ledgers): where sales are recorded
//! - [Verification](guide::verification): endpoints and finality
//! - [Going live](guide::going_live): decisions, proxy, systemd, container
//! - [Operating](guide::operating): health, keys, restarts, backups, logs
//! - [Metrics](guide::metrics): names, labels, a dashboard
//! - [Paying](guide::paying): redeeming by hand, refusals, the client
//! - [Who can redeem a payment](guide::who_can_redeem)
//! - [Security](guide::security): guarantees and limits
//! - [Threats](guide::threats): attackers and accepted risks
//! - [Test your service](guide::testing), without a chain
//! - [Write a ledger, a verifier, a settler](guide::backends)
//! - [API policy](guide::api_policy): what is public, versions, MSRV
//! - [When it does not compile](guide::when_it_does_not_compile)
//!
//! # Features
//!
//! None is on by default.
//!
//! | Feature | What it brings |
//! |---|---|
//! | `axum` | [`Receipt`] as an axum extractor, and [`Charge`] as a part of an axum response |
//! | `evm` | `verify::EvmVerifier`: verification of ERC-20 transfers over JSON-RPC |
//! | `facilitator` | [`settle`]`::FacilitatorSettler`: a facilitator settles signed payments |
//! | `mcp` | `mcp::McpLayer`: sells the tools of an MCP server; with `client`, `client::PaidTools` pays for them |
//! | `page` | `page::Page`: the 402 as a page for browsers, with a QR code and a button for wallets |
//! | `sqlite` | [`ledger`]`::SqliteLedger`: in a file that outlives the process |
//! | `postgres`, `postgres-tls` | [`ledger`]`::PostgresLedger`: shared by replicas, the reference; with TLS |
//! | `redis`, `redis-tls` | [`ledger`]`::RedisLedger`: shared by replicas, on Redis 7 or Valkey; with TLS |
//! | `secp256k1` | recovers signers with the C library of Bitcoin Core, in about a fifth of the time: for services that sell by signatures |
//! | `client` | `client`: a tower layer that pays for answers, with budget and journal |
//! | `wallet` | [`settle`]`::WalletSettler`, and with `client` `client::WalletPayer`: settles, or pays, from a key of your own or any alloy signer |
//! | `reqwest` | `client::ReqwestClient`: reqwest as the client that pays; implies `client` |
//! | `metrics` | counters, gauges and histograms through the `metrics` facade: see [the guide](guide::metrics) |
//! | `gateway` | the program `x402-gateway`: see [its guide](guide::gateway) |
//! | `test-util` | `testing`: a scripted verifier, a fake clock, with `client` a scripted wallet; `ledger::conformance` |
//! | `devchain` | `testing::DevChain`: a local chain (anvil); implies `test-util` |
//! | `full` | all but `gateway`, `test-util` and `devchain` |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "client")]
pub mod client;
pub mod clock;
pub mod discovery;
#[cfg(any(feature = "evm", feature = "wallet"))]
#[cfg_attr(
    not(all(feature = "evm", feature = "wallet", feature = "client")),
    allow(dead_code, unused_imports, reason = "each of the rooms that pay, settle and verify needs a part of it")
)]
mod evm;
#[cfg(doc)]
pub mod guide;
pub mod ledger;
#[cfg(feature = "mcp")]
pub mod mcp;
mod metrics;
#[cfg(feature = "page")]
pub mod page;
mod paywall;
pub mod protocol;
mod quality;
pub mod settle;
#[cfg(feature = "test-util")]
pub mod testing;
pub mod verify;

/// The crate whose signers [`WalletSettlerBuilder::signer`](settle::WalletSettlerBuilder::signer) and
/// `client::WalletPayerBuilder::signer` take, in the version that fits.
#[cfg(feature = "wallet")]
pub use ::alloy;
#[cfg(feature = "axum")]
pub use axum::MissingReceipt;
pub use paywall::{
    BuildError, Chain, ChannelPolicy, Charge, Claimed, Claimer, Consumption, FurtherNetwork, HealthError, LoggedSale,
    Merchant, MerchantBuilder, Mpp, Offer, OfferedPass, OpenChannel, Pass, PassIssuer, PaymentIdentifier, Price,
    PriceTag, Pricing, QuotePage, Redelivery, Refusal, RequestBody, ResponseBody, ResponseFuture, RestoredSales,
    Unredeemed, UnredeemedReason, X402, X402Layer, json_rpc_succeeded,
};
pub use protocol::receipt::Receipt;

#[cfg(all(doctest, feature = "axum", feature = "wallet", feature = "reqwest", feature = "evm", feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(
    test,
    not(all(
        feature = "axum",
        feature = "evm",
        feature = "devchain",
        feature = "page",
        feature = "wallet",
        feature = "reqwest"
    ))
))]
#[test]
#[ignore = "the integration tests want features: cargo test --all-features"]
fn integration_tests() {}
