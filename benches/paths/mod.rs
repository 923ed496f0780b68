//! The measured paths of a request: by time in `paywall.rs`, by instructions in `instructions/`, and by allocations
//! in `tests/allocations.rs`, which asserts the numbers given here.
//!
//! Creating a request is not measured, only serving it: from the clone of the service, which a server makes for each
//! request, to the end of the answer's body.

mod baselines;
mod client;
mod metered;
mod prices;
mod redemptions;
mod refusals;
mod shop;
mod standard;
mod vouchers;

use std::{
    fmt::Debug,
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, Waker},
};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use tower::{Service, ServiceExt as _};

/// One path of a request, with its own service.
pub struct Path {
    pub name: &'static str,
    /// The status of its answer.
    pub status: u16,
    /// The allocations for serving one request, including reallocations.
    pub allocations: u64,
    prepare: Box<dyn FnMut() -> Request<Body>>,
    serve: Box<dyn FnMut(Request<Body>) -> StatusCode>,
}

impl Path {
    fn new<S, B>(
        name: &'static str,
        status: u16,
        allocations: u64,
        service: S,
        prepare: impl FnMut() -> Request<Body> + 'static,
    ) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Debug> + Clone + 'static,
        B: http_body::Body<Data = Bytes>,
    {
        let serve = Box::new(move |request| serve(&service, request));
        Self { name, status, allocations, prepare: Box::new(prepare), serve }
    }

    /// Returns a request that can be served once.
    pub fn prepare(&mut self) -> Request<Body> {
        (self.prepare)()
    }

    pub fn serve(&mut self, request: Request<Body>) -> StatusCode {
        (self.serve)(request)
    }
}

/// Returns every path. Needs a tokio context with time enabled, though nothing waits for it.
pub fn all() -> Vec<Path> {
    let shop = shop::Shop::open();
    let mut paths = baselines::paths(&shop);
    paths.extend(prices::paths(&shop));
    paths.extend(redemptions::paths(&shop));
    paths.extend(standard::paths(&shop));
    paths.extend(metered::paths(&shop));
    paths.extend(vouchers::paths(&shop));
    paths.extend(refusals::paths(&shop));
    paths.extend(client::paths());
    paths
}

/// Serves a request as a server does: with a clone of the service, reading the answer to its end. Never inlined, so
/// that a profiler can tell it from the creation of requests.
#[inline(never)]
fn serve<S, B>(service: &S, request: Request<Body>) -> StatusCode
where
    S: Service<Request<Body>, Response = Response<B>, Error: Debug> + Clone,
    B: http_body::Body<Data = Bytes>,
{
    let response = now(service.clone().oneshot(request)).unwrap();
    let status = response.status();
    let mut body = pin!(response.into_body());
    while let Some(frame) = now(poll_fn(|cx| body.as_mut().poll_frame(cx))) {
        std::hint::black_box(frame.is_ok());
    }
    status
}

/// Returns the output of a future that never waits.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing here waits"),
    }
}

/// A question of 60 bytes.
const QUESTION: &str = r#"{"query":"where do towns want bicycles?","days":14,"top":99}"#;
/// An answer of 200 bytes.
const ANSWER: &[u8] = &[b'a'; 200];

const _: () = assert!(QUESTION.len() == 60);

/// Returns a POST of JSON.
fn post(json: impl Into<Bytes>) -> Request<Body> {
    Request::post("/answer").header(header::CONTENT_TYPE, "application/json").body(Body::from(json.into())).unwrap()
}

/// Returns a JSON object of `length` bytes.
fn object(length: usize) -> Bytes {
    Bytes::from(format!(r#"{{"query":"{}"}}"#, "x".repeat(length - 12)))
}
