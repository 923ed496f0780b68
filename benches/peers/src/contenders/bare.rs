//! Without any paywall: the cost of the route itself, which is also in every other figure.
//!
//! - `axum, Bytes`: the handler that is behind every paywall.
//! - `axum, Json`: the same question and answer through `axum::Json`, as in common handlers.
//! - `axum, Identity`: the first behind `tower_layer::Identity`. With any layer, axum boxes the service behind it; this is
//!   the price of that.
//! - `axum, constant 402`: a handler with a prepared answer, a 402 with seven headers and a body. No quote can cost
//!   less.

use axum::{
    Router,
    body::Body,
    response::Response,
    routing::{MethodRouter, post},
};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use tower_layer::Identity;

use crate::{
    Case, Path,
    shop::{ANSWER, ROUTE, ask_unpaid, handler, json_handler},
};

const HEADERS: [(HeaderName, HeaderValue); 7] = [
    (HeaderName::from_static("content-type"), HeaderValue::from_static("application/problem+json")),
    (HeaderName::from_static("cache-control"), HeaderValue::from_static("no-store")),
    (HeaderName::from_static("vary"), HeaderValue::from_static("x402-payment")),
    (HeaderName::from_static("pay"), HeaderValue::from_static(ANSWER)),
    (HeaderName::from_static("x-price-intent"), HeaderValue::from_static(ANSWER)),
    (HeaderName::from_static("x-payment-contracts"), HeaderValue::from_static(ANSWER)),
    (HeaderName::from_static("access-control-expose-headers"), HeaderValue::from_static("pay, x-price-intent")),
];

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("axum, Bytes", post(handler), StatusCode::OK),
        case("axum, Json", post(json_handler), StatusCode::OK),
        case("axum, Identity", post(handler).route_layer(Identity::new()), StatusCode::OK),
        case("axum, constant 402", post(constant), StatusCode::PAYMENT_REQUIRED),
    ]
}

fn case(contender: &'static str, route: MethodRouter, status: StatusCode) -> Case {
    let app = Router::new().route(ROUTE, route);
    Case { contender, path: Path::Bare, app, status, header: None, request: Box::new(|_| ask_unpaid()) }
}

async fn constant(_question: Bytes) -> Response {
    let mut response = Response::new(Body::from(ANSWER));
    *response.status_mut() = StatusCode::PAYMENT_REQUIRED;
    response.headers_mut().extend(HEADERS);
    response
}
