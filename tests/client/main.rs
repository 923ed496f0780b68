//! The payer: one payment for one answer, whatever happens in between.
#![cfg(all(
    feature = "axum",
    feature = "devchain",
    feature = "evm",
    feature = "facilitator",
    feature = "metrics",
    feature = "page",
    feature = "postgres",
    feature = "redis",
    feature = "reqwest",
    feature = "sqlite",
    feature = "wallet"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub
)]
// The programs that are tested share a file.
#![allow(clippy::duplicate_mod)]

mod again;
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/agent.rs"]
mod agent;
mod allowing;
mod answers;
mod arbitrary;
mod bound;
mod budget;
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/buy.rs"]
mod buy;
mod caution;
mod chain;
mod contract;
mod delivered;
mod drops;
mod earlier_passes;
mod events;
mod examples;
mod fates;
mod flow;
mod hostile;
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/hyper_client.rs"]
mod hyper_client;
mod judged_passes;
mod kept_passes;
mod left_over;
mod lost;
mod meeting;
mod metered;
mod one_key;
mod paid_passes;
mod pass_faults;
mod passes;
mod patience;
mod programs;
mod programs_on_two_chains;
mod reqwest_client;
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/reqwest.rs"]
mod reqwest_example;
mod rig;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../served/mod.rs"]
mod served;
mod shopping;
mod signed;
mod stalled_passes;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
mod told;
pub mod wallet;

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use tower::{Layer as _, Service, ServiceExt as _};
use tower_x402::{
    RequestBody, ResponseBody, X402,
    client::{
        Body, Budget, BudgetBuilder, MemoryJournal, Pay, PayError, PayLayer, PayLayerBuilder, PayerError, Purchase,
    },
    protocol::Asset,
    testing::ScriptedPayer,
};

use crate::support::{Counter, Shop, payer};

/// A seller on a scripted chain, and a buyer with a wallet there.
pub struct Market {
    pub shop: Shop,
    pub wallet: ScriptedPayer,
    pub journal: MemoryJournal,
    pub runs: Counter,
}

pub type Answer = Response<Full<Bytes>>;

impl Market {
    pub async fn open() -> Self {
        let shop = Shop::open().await;
        let wallet = ScriptedPayer::new(shop.chain.clone(), payer());
        Self { shop, wallet, journal: MemoryJournal::new(), runs: Counter::default() }
    }

    /// What is sold at 0.49 USDC: the body that was sent, and how often the handler ran.
    pub fn seller(&self) -> X402<impl Handler> {
        self.seller_of(|_| Response::new(Full::from("the answer")))
    }

    pub fn seller_of(
        &self,
        answer: impl Fn(&Request<RequestBody<Body>>) -> Answer + Clone + Send + 'static,
    ) -> X402<impl Handler> {
        let runs = self.runs.clone();
        self.shop.layer().layer(tower::service_fn(move |request: Request<RequestBody<Body>>| {
            runs.run();
            let answer = answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        }))
    }

    pub fn budget() -> BudgetBuilder {
        Budget::in_assets([Asset::USDC_BASE]).per_payment("1").per_day("10")
    }

    pub async fn layer(&self) -> PayLayer {
        self.layer_with(|builder| builder).await
    }

    /// Another one is like another process on the same journal.
    pub async fn layer_with(&self, set: impl FnOnce(PayLayerBuilder) -> PayLayerBuilder) -> PayLayer {
        let budget = Self::budget().build().unwrap();
        let builder = PayLayer::builder(self.wallet.clone(), budget, self.journal.clone());
        set(builder.clock(self.shop.clock.clone())).build().await.unwrap()
    }
}

pub trait Handler:
    Service<Request<RequestBody<Body>>, Response = Answer, Error = Infallible, Future: Send + 'static>
    + Clone
    + Send
    + 'static
{
}

impl<S> Handler for S where
    S: Service<Request<RequestBody<Body>>, Response = Answer, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + 'static
{
}

pub fn question(json: &str) -> Request<Body> {
    Request::post("https://seller.example/answer")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(json.to_owned()))
        .unwrap()
}

/// One call; the answer's text with what was bought.
pub async fn buy<S>(client: &Pay<S>, request: Request<Body>) -> Result<(String, Option<Purchase>), PayError>
where
    Pay<S>: Service<
            Request<Body>,
            Response = Response<tower_x402::client::ResponseBody<ResponseBody<Full<Bytes>>>>,
            Error = PayError,
        > + Clone,
{
    let response = client.clone().oneshot(request).await?;
    let purchase = response.extensions().get::<Purchase>().cloned();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    Ok((String::from_utf8_lossy(&text).into_owned(), purchase))
}

/// What the payer said, where that is the cause of an error.
pub fn cause(error: &PayError) -> Option<&PayerError> {
    std::error::Error::source(error)?.downcast_ref()
}
