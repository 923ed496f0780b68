//! The gate: requests that the layer lets through without a look.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use http::{HeaderMap, Method, Request, Uri, header, request::Parts};

type FreeWhen = dyn Fn(&Method, &Uri, &HeaderMap) -> bool + Send + Sync;
/// A word that must be waited for.
pub(crate) type Word = Pin<Box<dyn Future<Output = bool> + Send>>;
type FreeLater = dyn Fn(&Parts) -> Word + Send + Sync;

/// Which requests are let through.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    pub(crate) free_when: Option<Arc<FreeWhen>>,
    pub(crate) free_later: Option<Arc<FreeLater>>,
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

    /// Whether a priced request may be free all the same, by a word that must be waited for.
    pub(crate) const fn asks(&self) -> bool {
        self.free_later.is_some()
    }

    pub(crate) fn ask(&self, parts: &Parts) -> Option<Word> {
        self.free_later.as_ref().map(|free| free(parts))
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
            .field("free_when_async", &self.free_later.is_some())
            .field("preflight", &self.preflight)
            .finish()
    }
}
