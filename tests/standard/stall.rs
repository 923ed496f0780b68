//! The simplest seller of the standard: messages of this crate, a foreign facilitator, and no promise.

use std::sync::Arc;

use axum::{Json, Router, extract::State, http::HeaderMap, response::IntoResponse, routing::post};
use http::StatusCode;
use serde_json::json;
use tower_x402::protocol::{
    Amount, Asset, IntentId,
    headers::{PAYMENT_REQUIRED, PAYMENT_RESPONSE},
    v2::{FacilitatorRequest, PaymentPayload, PaymentRequired, PaymentRequirements, ResourceInfo, SettleResponse},
};

use super::{PRICE, SELLER, facilitator::Facilitator};
use crate::served::shop::{client, serve};

pub const INTENT: &str = "an-intent-that-a-client-has-to-echo";

struct Stall {
    facilitator: String,
    http: reqwest::Client,
}

/// What it asks for.
pub fn requirements() -> PaymentRequirements {
    PaymentRequirements::new(&Asset::USDC_BASE, Amount::from_base_units(PRICE), SELLER, 300)
        .with_token_domain("USD Coin", "2")
        .with_intent(&IntentId::new(INTENT).unwrap())
}

pub async fn open(facilitator: &Facilitator) -> String {
    let stall = Stall { facilitator: facilitator.url().to_owned(), http: client() };
    serve(Router::new().route("/answer", post(sell)).with_state(Arc::new(stall))).await + "/answer"
}

async fn sell(State(stall): State<Arc<Stall>>, headers: HeaderMap) -> axum::response::Response {
    let Some(payment) = PaymentPayload::from_headers(&headers).unwrap() else {
        let required = PaymentRequired::new(requirements()).with_resource(ResourceInfo::new("http://127.0.0.1/answer"));
        return (StatusCode::PAYMENT_REQUIRED, [(PAYMENT_REQUIRED, required.to_header())]).into_response();
    };
    assert!(payment.accepted.exact().is_some_and(|accepted| accepted.echoes(&requirements())), "{payment:?}");
    let settled = stall.settle(payment).await;
    let status = if settled.success { StatusCode::OK } else { StatusCode::PAYMENT_REQUIRED };
    (status, [(PAYMENT_RESPONSE, settled.to_header())], Json(json!({ "answer": 42 }))).into_response()
}

impl Stall {
    async fn settle(&self, payment: PaymentPayload) -> SettleResponse {
        let body = FacilitatorRequest::new(payment, requirements()).to_json();
        let request = self.http.post(format!("{}/settle", self.facilitator)).body(body);
        SettleResponse::from_json(request.send().await.unwrap().bytes().await.unwrap()).unwrap()
    }
}
