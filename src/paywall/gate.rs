//! The gate: requests that the layer lets through without a look.

use std::{fmt, sync::Arc};

use http::{HeaderMap, Method, Request, Uri, header};

type FreeWhen = dyn Fn(&Method, &Uri, &HeaderMap) -> bool + Send + Sync;

/// Which requests are let through.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    pub(crate) free_when: Option<Arc<FreeWhen>>,
    pub(crate) preflight: bool,
}

/// What the gate says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It is priced.
    Priced,
    /// The layer is not there at all.
    Free,
    /// A CORS preflight: it passes, and its answer leaves without a body, so that nothing is sold by it.
    Preflight,
}

impl Gate {
    pub(crate) fn passage<B>(&self, request: &Request<B>) -> Passage {
        if let Some(free_when) = &self.free_when
            && free_when(request.method(), request.uri(), request.headers())
        {
            Passage::Free
        } else if self.preflight && is_preflight(request) {
            Passage::Preflight
        } else {
            Passage::Priced
        }
    }
}

/// As the [Fetch standard](https://fetch.spec.whatwg.org/#cors-preflight-request) sends it.
fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("free_when", &self.free_when.is_some())
            .field("preflight", &self.preflight)
            .finish()
    }
}
