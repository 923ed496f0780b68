//! The paying client on free requests, beside the same client without the layer.

use std::{convert::Infallible, rc::Rc};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tower::{Layer as _, Service, ServiceExt as _, service_fn};
use tower_x402::{
    client::{Budget, MemoryJournal, PayLayer},
    protocol::{Address, Asset, ChainTime},
    testing::{ScriptedPayer, ScriptedVerifier},
};

use super::{ANSWER, Path, QUESTION, now, post};

pub fn paths() -> Vec<Path> {
    let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment("1").per_day("10").build().unwrap();
    let wallet = ScriptedPayer::new(ScriptedVerifier::new(ChainTime::from_unix(1)), Address::new([2; 20]));
    let layer = Rc::new(now(PayLayer::builder(wallet, budget, MemoryJournal::new()).build()).unwrap());
    let get = || Request::get("/answer").body(Body::empty()).unwrap();
    vec![
        Path::new("client: bare, GET", 200, 0, sending(service_fn(answer)), get),
        Path::new("client: free, GET", 200, 0, sending(layer.layer(service_fn(answer))), get),
        Path::new("client: bare, POST", 200, 0, sending(service_fn(answer)), || post(QUESTION)),
        Path::new("client: free, POST", 200, 0, sending(layer.layer(service_fn(answer))), || post(QUESTION)),
    ]
}

/// Wraps a client so that it gets a body that can be sent again.
fn sending<S, B>(
    client: S,
) -> impl Service<Request<Body>, Response = Response<B>, Error = S::Error, Future: Sized> + Clone + 'static
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + 'static,
    B: 'static,
{
    service_fn(move |request: Request<Body>| {
        let (parts, _) = request.into_parts();
        client.clone().oneshot(Request::from_parts(parts, Full::from(Bytes::from_static(QUESTION.as_bytes()))))
    })
}

async fn answer(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    std::hint::black_box(&request);
    Ok(Response::new(Full::from(ANSWER)))
}
