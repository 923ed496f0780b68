//! The goods: a question of 60 bytes, an answer of 200.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use axum::{
    Json, Router,
    body::Body,
    routing::{MethodRouter, post},
};
use http::Request;
use serde::{Deserialize, Serialize};
use tower::ServiceExt as _;
use tower_x402::{
    Merchant,
    ledger::Ledger,
    protocol::{ChainTime, Quote, SealingKeys},
    testing::ScriptedVerifier,
};

/// 60 bytes.
pub(crate) const QUESTION: &str = r#"{"query":"What do the visitors of this month say of price?"}"#;
/// 200 bytes.
const ANSWER: &str = concat!(
    r#"{"answer":"Of 1,204 conversations 311 speak of the price. Most find it fair, "#,
    r#"a quarter would rather pay by use, and one in ten asks for a plan that is shared by a team. The share has risen by 2.41%."}"#
);
const _: () = assert!(QUESTION.len() == 60 && ANSWER.len() == 200);

pub(crate) const ROUTE: &str = "/insights";
/// The header of a proof.
pub(crate) const PROOF: &str = "x402-payment";

const RECIPIENT: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const PAYER: &str = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
/// A payment is mined after its quote, in the chain's next block.
const BLOCK: Duration = Duration::from_secs(2);

#[derive(Deserialize)]
struct Question {
    query: String,
}

#[derive(Serialize)]
struct Answer {
    answer: &'static str,
}

/// The same route with nothing around it.
pub(crate) fn bytes() -> MethodRouter {
    post(async |_question: axum::body::Bytes| ANSWER)
}

pub(crate) fn json() -> MethodRouter {
    post(async |Json(question): Json<Question>| {
        assert!(!question.query.is_empty());
        Json(Answer { answer: &ANSWER[11..ANSWER.len() - 2] })
    })
}

/// Sells the answer, and pays for it.
pub(crate) struct Shop {
    chain: ScriptedVerifier,
    /// How often the handler ran.
    pub(crate) runs: Arc<AtomicU64>,
    pub(crate) app: Router,
}

impl Shop {
    pub(crate) async fn open(ledger: impl Ledger) -> Result<Self, Box<dyn Error>> {
        let chain = ScriptedVerifier::new(now());
        let merchant = Merchant::builder(RECIPIENT.parse()?).hold_unbound(Duration::ZERO)
            .verifier(chain.clone())
            .ledger(ledger)
            .sealing_keys(SealingKeys::random()?)
            .build()
            .await?;
        let runs = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&runs);
        let route = post(async move |_question: axum::body::Bytes| {
            counter.fetch_add(1, Ordering::Relaxed);
            ANSWER
        });
        let route = route.route_layer(merchant.charge("insights", "0.49 USDC")?);
        Ok(Self { chain, runs, app: Router::new().route(ROUTE, route) })
    }

    /// Returns `count` proofs of payment as texts of the header, each for one answer.
    pub(crate) async fn proofs(&self, count: usize) -> Result<Vec<String>, Box<dyn Error>> {
        let payer = PAYER.parse()?;
        let mut proofs = Vec::with_capacity(count);
        for _ in 0..count {
            let Ok(bill) = self.app.clone().oneshot(ask(None)?).await;
            let quote = Quote::from_headers(bill.headers())?;
            let mined = now().after(BLOCK);
            self.chain.set_head(mined);
            let tx = self.chain.pay(quote.recipient, quote.contracts[0], payer, quote.amount, mined);
            proofs.push(format!(r#"{{"intentId":"{}","txHash":"{tx}"}}"#, quote.intent));
        }
        Ok(proofs)
    }
}

/// Returns the question, with or without a proof.
pub(crate) fn ask(proof: Option<&str>) -> Result<Request<Body>, http::Error> {
    let ask = Request::post(ROUTE).header("content-type", "application/json");
    match proof {
        Some(proof) => ask.header(PROOF, proof),
        None => ask,
    }
    .body(QUESTION.into())
}

fn now() -> ChainTime {
    ChainTime::from_unix(SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs())
}
