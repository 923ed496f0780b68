//! The measurement: requests one after the other, from the call to the last byte of the answer.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use axum::{Router, body::Body};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

use crate::Case;

/// How many requests are created before they are sent: few enough to stay in the processor's cache, like a request
/// that was just read from a connection.
const AT_HAND: usize = 20;

/// Returns a runtime with one thread, the caller's.
///
/// # Panics
/// Panics if the system cannot create one.
#[must_use]
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime is made")
}

/// Sends the requests, and returns how many answers had that status. Creating a request is not part of it.
///
/// Callgrind counts only what runs inside this function, so it must not be inlined.
#[inline(never)]
pub fn drive(runtime: &Runtime, app: &Router, status: StatusCode, requests: Vec<Request<Body>>) -> usize {
    runtime.block_on(async {
        let mut answered = 0;
        for request in requests {
            let Ok(response) = app.clone().oneshot(request).await;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes);
            answered += usize::from(parts.status == status && body.is_ok());
            black_box((parts, body)).1.ok();
        }
        answered
    })
}

impl Case {
    /// Returns how long the answers to `count` requests took.
    ///
    /// # Panics
    /// Panics if an answer has another status.
    pub fn time(&mut self, runtime: &Runtime, count: usize) -> Duration {
        let mut took = Duration::ZERO;
        let mut left = count;
        while left > 0 {
            let requests = self.requests(runtime, left.min(AT_HAND));
            left -= requests.len();
            let start = Instant::now();
            self.send(runtime, requests);
            took += start.elapsed();
        }
        took
    }

    /// Sends the requests.
    ///
    /// # Panics
    /// Panics if an answer has another status.
    pub fn send(&self, runtime: &Runtime, requests: Vec<Request<Body>>) {
        let count = requests.len();
        let answered = drive(runtime, &self.app, self.status, requests);
        assert_eq!(answered, count, "{} on {} changed its answer", self.contender, self.path.name());
    }
}
