//! tower-x402 and its peers: the same requests, in one process, set up as each one's own documentation says.
//!
//! [`contenders`] has one file per contender, each with a note on what makes its figures fair or unfair. Before anything is
//! measured every case is [checked](Case::check): a contender that does not answer as it should fails the run.

pub mod contenders;
mod exact;
pub mod measure;
mod shop;

use axum::{Router, body::Body};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

/// What is asked of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// A route that sells nothing, without any paywall.
    Bare,
    /// A route behind the paywall that it lets through.
    Free,
    /// No payment: the bill.
    Unpaid,
    /// A payment: the answer.
    Paid,
    /// A proof of payment that is none.
    Garbage,
}

impl Path {
    /// In the order of the table.
    pub const ALL: [Self; 5] = [Self::Bare, Self::Free, Self::Unpaid, Self::Paid, Self::Garbage];

    /// As the table and `--run` call it.
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

/// Makes one request after the other; what it takes to make one is not measured.
type Asker = Box<dyn FnMut(&Runtime) -> Request<Body>>;

/// One contender on one path.
pub struct Case {
    /// Whose.
    pub contender: &'static str,
    /// Which.
    pub path: Path,
    app: Router,
    status: StatusCode,
    header: Option<&'static str>,
    request: Asker,
}

impl Case {
    /// So many requests, each of which can be sent once.
    pub fn requests(&mut self, runtime: &Runtime, count: usize) -> Vec<Request<Body>> {
        (0..count).map(|_| (self.request)(runtime)).collect()
    }

    /// Asks once, and looks at the whole answer.
    ///
    /// # Panics
    /// If it is not what this path is about.
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

/// One request and its whole answer.
fn answer(runtime: &Runtime, app: &Router, request: Request<Body>) -> (StatusCode, HeaderMap, Vec<u8>) {
    runtime.block_on(async {
        let Ok(response) = app.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body in memory is whole").to_bytes();
        (parts.status, parts.headers, body.into())
    })
}
