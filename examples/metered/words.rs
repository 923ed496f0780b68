//! The goods: words, each at the same price.

use axum::{
    Json, Router,
    http::{HeaderName, Method, StatusCode, header::ALLOW},
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use http::request::Parts;
use serde::Deserialize;
use serde_json::json;
use tower_x402::{BuildError, Charge, Merchant, Price, Refusal, protocol::Amount};

/// The price of a word in base units of USDC, which has 6 decimals: a tenth of a cent.
const EACH: u128 = 1_000;
/// The maximum number of words of one answer.
const MOST: usize = 1_000;

/// Sells `POST /words`. With channels, a payer asks by `GET` for the refund of its channel.
pub(crate) fn router(merchant: &Merchant, by_channels: bool) -> Result<Router, BuildError> {
    let paid = merchant.price_with("words", most)?.label("Words, 0.001 USDC each")?;
    let route = if by_channels { post(words).get(nothing) } else { post(words) };
    Ok(Router::new().route("/words", route.route_layer(paid)))
}

/// The request.
#[derive(Deserialize)]
struct Wish {
    prompt: String,
    words: usize,
}

fn cost_of(words: usize) -> Amount {
    Amount::from_base_units(EACH * words as u128)
}

/// Returns the maximum that an answer to this request can cost. Requests that cannot be answered are refused before
/// any quote.
fn most(head: &Parts, body: &Bytes) -> Price {
    let refuse = |status, text: &'static str| {
        let mut answer = http::Response::new(Bytes::from_static(text.as_bytes()));
        *answer.status_mut() = status;
        Price::Refuse(Refusal::new(answer))
    };
    if head.method != Method::POST {
        // This quote is for refunds.
        return Price::UpTo(cost_of(1));
    }
    match serde_json::from_slice::<Wish>(body) {
        Ok(wish) if (1..=MOST).contains(&wish.words) => Price::UpTo(cost_of(wish.words)),
        Ok(_) => refuse(StatusCode::UNPROCESSABLE_ENTITY, "ask for 1 to 1000 words\n"),
        Err(_) => refuse(StatusCode::BAD_REQUEST, "send JSON: {\"prompt\":\"…\",\"words\":20}\n"),
    }
}

/// Writes the words. In a real service, a model does this.
async fn words(Json(wish): Json<Wish>) -> Response {
    if wish.prompt.trim() == "fail" {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the model failed; nothing is charged\n").into_response();
    }
    let prompt: Vec<_> = wish.prompt.split_whitespace().collect();
    let made: Vec<_> = prompt.iter().cycle().take(wish.words.min(2 * prompt.len())).collect();
    (Charge(cost_of(made.len())), Json(json!({ "words": made }))).into_response()
}

/// Fails, so that a payment for it is charged nothing.
async fn nothing() -> (StatusCode, [(HeaderName, &'static str); 1], &'static str) {
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "POST")], "words are sold by POST; GET is for refunds of channels\n")
}
