//! The 402 as a page for people: one self-contained document that shows the offer, takes the payment and shows the
//! answer.
//!
//! ```
//! # #[cfg(feature = "test-util")]
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt as _, Full};
//! use tower::{Layer as _, ServiceExt as _, service_fn};
//! use tower_x402::{RequestBody, page::Page};
//! # use tower_x402::{Merchant, ledger::MemoryLedger, protocol::{ChainTime, SealingKeys}, testing::ScriptedVerifier};
//! # let merchant = Merchant::builder("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?)
//! #     .verifier(ScriptedVerifier::new(ChainTime::from_unix(1_795_280_000)))
//! #     .ledger(MemoryLedger::new())
//! #     .sealing_keys(SealingKeys::random()?)
//! #     .build()
//! #     .await?;
//!
//! let paid = merchant.charge("forecast", "0.05 USDC")?.label("Tomorrow's weather")?.page(Page::new().title("Weather & Co."));
//! let service = paid.layer(service_fn(
//!     async |_: Request<RequestBody<Full<Bytes>>>| Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::from("sunny"))),
//! ));
//!
//! // What a browser asks for.
//! let request = Request::get("/forecast").header("accept", "text/html,*/*;q=0.8").body(Full::default())?;
//! let answer = service.oneshot(request).await?;
//! assert_eq!(answer.status(), 402);
//! assert!(answer.headers().contains_key("pay"));
//! let page = answer.into_body().collect().await?.to_bytes();
//! let page = std::str::from_utf8(&page)?;
//! assert!(page.contains("Tomorrow&#39;s weather") && page.contains("Weather &amp; Co."));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! See the guide [`page`](crate::guide::page).

mod data;
mod document;
mod escape;
mod language;
mod layer;
mod policy;
mod qr;
mod request;
mod settings;
mod text;
mod time;

pub use settings::Page;
