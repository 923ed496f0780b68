//! The goods of all contenders, and the requests to them.

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

/// The route of the goods.
pub(crate) const ROUTE: &str = "/insights";

/// The goods' full URL, for contenders that need one.
pub(crate) const RESOURCE: &str = "https://api.example.com/insights";

/// The recipient.
pub(crate) const RECIPIENT: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// The payer.
pub(crate) const PAYER: &str = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";

/// 0.49 USDC, in base units.
pub(crate) const PRICE: u64 = 490_000;

/// The transaction that a stub reports.
pub(crate) const TRANSACTION: &str = "0xfafafafafafafafafafafafafafafafafafafafafafafafafafafafafafafafa";

/// A text that no paywall accepts as a proof of payment.
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

/// A common handler: JSON in and out.
pub(crate) async fn json_handler(Json(question): Json<Question>) -> Json<Answer> {
    assert!(!question.query.is_empty());
    Json(Answer { answer: &ANSWER[11..ANSWER.len() - 2] })
}

/// Starts the question, the same for all contenders.
pub(crate) fn ask() -> Builder {
    Request::post(ROUTE).header("content-type", "application/json")
}

/// Returns the question with a proof of payment in that header.
pub(crate) fn ask_with(header: &str, proof: impl AsRef<[u8]>) -> Request<Body> {
    ask().header(header, proof.as_ref()).body(QUESTION.into()).expect("a proof is header text")
}

/// Returns the question without a proof.
pub(crate) fn ask_unpaid() -> Request<Body> {
    ask().body(QUESTION.into()).expect("it is a request")
}
