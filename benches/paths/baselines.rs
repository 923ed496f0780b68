//! Routes to compare the layer with, and requests that it lets through.

use std::{convert::Infallible, rc::Rc};

use axum::{Json, Router, body::Body, routing};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use serde::{Deserialize, Serialize};
use tower::{Layer as _, layer::util::Identity, service_fn};

use super::{ANSWER, Path, QUESTION, post, shop::Shop};

pub fn paths(shop: &Rc<Shop>) -> Vec<Path> {
    let free = shop.layer.clone().free_when(|_, _, _| true);
    let ask = || post(QUESTION);
    vec![
        Path::new("tower: bare", 200, 0, service_fn(answer), ask),
        Path::new("tower: free", 200, 0, free.layer(service_fn(answer)), ask),
        Path::new("axum: bare, Bytes", 200, 12, route(routing::post(bytes)), ask),
        Path::new("axum: bare, Json", 200, 23, route(routing::post(json)), ask),
        Path::new("axum: Identity", 200, 15, route(routing::post(bytes).route_layer(Identity::new())), ask),
        Path::new("axum: free", 200, 18, route(routing::post(bytes).route_layer(free)), ask),
        Path::new("axum: constant 402", 402, 16, constant(), ask),
    ]
}

fn route(method: routing::MethodRouter) -> Router {
    Router::new().route("/answer", method)
}

/// A plain tower service that reads nothing.
async fn answer<B: http_body::Body>(request: Request<B>) -> Result<Response<Full<Bytes>>, Infallible> {
    std::hint::black_box(request.body().size_hint());
    Ok(Response::new(Full::from(ANSWER)))
}

async fn bytes(_: Bytes) -> Bytes {
    Bytes::from_static(ANSWER)
}

#[derive(Deserialize)]
struct Question {
    query: String,
    days: u32,
    top: u32,
}

#[derive(Serialize)]
struct Answer {
    query: String,
    days: u32,
    top: u32,
    towns: &'static str,
}

/// Returns an answer as long as [`ANSWER`].
async fn json(Json(Question { query, days, top }): Json<Question>) -> Json<Answer> {
    Json(Answer { query, days, top, towns: TOWNS })
}

const TOWNS: &str = "Aachen, Bremen, Coburg, Dessau, Emden, Freiburg im Breisgau, Greifswald, Hannover, Ingolstadt, Jena, Kassel, Lindau, Minden, Kehl";

/// A constant quote: eight prepared headers and a body.
fn constant() -> Router {
    let headers: HeaderMap = [
        (header::CONTENT_TYPE, "application/problem+json"),
        (header::CONTENT_LENGTH, "640"),
        (header::CACHE_CONTROL, "no-store"),
        (
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            "Pay, X-Price-Intent, X-Payment-Contracts, PAYMENT-REQUIRED, PAYMENT-RESPONSE, x402-error, Retry-After",
        ),
        ("pay".parse().unwrap(), "{}"),
        ("x-price-intent".parse().unwrap(), "AUbX-9_k"),
        ("x-payment-contracts".parse().unwrap(), "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
        ("x402-error".parse().unwrap(), "payment_required"),
    ]
    .map(|(name, value): (header::HeaderName, _)| (name, HeaderValue::from_static(value)))
    .into_iter()
    .collect();
    let handler = async move |_: Bytes| -> Response<Body> {
        let mut response = Response::new(Body::from(Bytes::from_static(&[b'a'; 640])));
        *response.status_mut() = StatusCode::PAYMENT_REQUIRED;
        *response.headers_mut() = headers.clone();
        response
    };
    route(routing::post(handler))
}
