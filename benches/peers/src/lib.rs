//! tower-x402 and its peers: the same requests, in one process, each set up as its own documentation says.
//!
//! [`contenders`] has one file per contender, each with a note on the fairness of its figures. Before measuring,
//! every case is [checked](Case::check): a contender that answers incorrectly fails the run.

pub mod contenders;
mod exact;
pub mod measure;
mod shop;

use axum::{Router, body::Body};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

/// The kinds of requests to a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// A route that sells nothing, without any paywall.
    Bare,
    /// A free route behind the paywall.
    Free,
    /// No payment: the bill.
    Unpaid,
    /// A payment: the answer.
    Paid,
    /// An invalid proof of payment.
    Garbage,
}

impl Path {
    /// All paths in the order of the table.
    pub const ALL: [Self; 5] = [Self::Bare, Self::Free, Self::Unpaid, Self::Paid, Self::Garbage];

    /// Returns the path's name in the table and for `--run`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Free => "free",
            Self::Unpaid => "unpaid",
            Self::Paid => "paid",
            Self::Garbage => "garbage",
        }
    }
}

/// Creates one request after the other; their creation is not measured.
type Asker = Box<dyn FnMut(&Runtime) -> Request<Body>>;

/// One contender on one path.
pub struct Case {
    /// The name of the contender.
    pub contender: &'static str,
    /// The kind of request.
    pub path: Path,
    app: Router,
    status: StatusCode,
    header: Option<&'static str>,
    request: Asker,
}

impl Case {
    /// Returns `count` requests, each of which can be sent once.
    pub fn requests(&mut self, runtime: &Runtime, count: usize) -> Vec<Request<Body>> {
        (0..count).map(|_| (self.request)(runtime)).collect()
    }

    /// Sends one request, and checks the whole answer.
    ///
    /// # Panics
    /// Panics if the answer does not match the path.
    pub fn check(&mut self, runtime: &Runtime) {
        let who = format!("{} on {}", self.contender, self.path.name());
        let request = (self.request)(runtime);
        let (status, headers, body) = answer(runtime, &self.app, request);
        assert_eq!(status, self.status, "{who}: {headers:?} {}", String::from_utf8_lossy(&body));
        assert!(self.header.is_none_or(|name| headers.contains_key(name)), "{who}: {headers:?}");
        if status == StatusCode::OK {
            assert_eq!(body, shop::ANSWER.as_bytes(), "{who}");
        }
    }
}

/// Sends one request and returns its whole answer.
fn answer(runtime: &Runtime, app: &Router, request: Request<Body>) -> (StatusCode, HeaderMap, Vec<u8>) {
    runtime.block_on(async {
        let Ok(response) = app.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body in memory is whole").to_bytes();
        (parts.status, parts.headers, body.into())
    })
}
