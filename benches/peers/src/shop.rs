//! What all contenders sell, and what all are asked.

use axum::{Json, body::Body};
use bytes::Bytes;
use http::{Request, request::Builder};
use serde::{Deserialize, Serialize};

/// 60 bytes.
pub(crate) const QUESTION: &str = r#"{"query":"What do the visitors of this month say of price?"}"#;

/// 200 bytes.
pub(crate) const ANSWER: &str = concat!(
    r#"{"answer":"Of 1,204 conversations 311 speak of the price. Most find it fair, "#,
    r#"a quarter would rather pay by use, and one in ten asks for a plan that is shared by a team. The share has risen by 2.41%."}"#
);

const _: () = assert!(QUESTION.len() == 60 && ANSWER.len() == 200);

/// Where it is sold.
pub(crate) const ROUTE: &str = "/insights";

/// The whole address of it, where a contender wants one.
pub(crate) const RESOURCE: &str = "https://api.example.com/insights";

/// Who is paid.
pub(crate) const RECIPIENT: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// Who pays.
pub(crate) const PAYER: &str = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";

/// 0.49 USDC, in base units.
pub(crate) const PRICE: u64 = 490_000;

/// What a stub says it was paid in.
pub(crate) const TRANSACTION: &str = "0xfafafafafafafafafafafafafafafafafafafafafafafafafafafafafafafafa";

/// What no paywall takes for a proof of payment.
pub(crate) const GARBAGE: &str = "this-is-no-proof-of-payment-whichever-way-one-looks-at-it-{\"}!";

/// The handler behind every paywall.
pub(crate) async fn handler(question: Bytes) -> &'static str {
    assert!(question.len() >= QUESTION.len());
    ANSWER
}

#[derive(Deserialize)]
pub(crate) struct Question {
    query: String,
}

#[derive(Serialize)]
pub(crate) struct Answer {
    answer: &'static str,
}

/// What a handler commonly is: JSON in and out.
pub(crate) async fn json_handler(Json(question): Json<Question>) -> Json<Answer> {
    assert!(!question.query.is_empty());
    Json(Answer { answer: &ANSWER[11..ANSWER.len() - 2] })
}

/// The question, as everybody is asked it.
pub(crate) fn ask() -> Builder {
    Request::post(ROUTE).header("content-type", "application/json")
}

/// The same with a proof of payment in that header.
pub(crate) fn ask_with(header: &str, proof: impl AsRef<[u8]>) -> Request<Body> {
    ask().header(header, proof.as_ref()).body(QUESTION.into()).expect("a proof is header text")
}

/// The same without.
pub(crate) fn ask_unpaid() -> Request<Body> {
    ask().body(QUESTION.into()).expect("it is a request")
}
