//! `Bypass`: decides which requests pass without a price.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use http::{HeaderMap, Method, Request, Uri, header, request::Parts};

type FreeWhen = dyn Fn(&Method, &Uri, &HeaderMap) -> bool + Send + Sync;
/// A decision that must be awaited.
pub(crate) type Decision = Pin<Box<dyn Future<Output = bool> + Send>>;
type FreeWhenAsync = dyn Fn(&Parts) -> Decision + Send + Sync;

/// Which requests bypass the paywall.
#[derive(Clone, Default)]
pub(crate) struct Bypass {
    pub(crate) free_when: Option<Arc<FreeWhen>>,
    pub(crate) free_when_async: Option<Arc<FreeWhenAsync>>,
    pub(crate) preflight: bool,
}

/// Why a request bypasses the paywall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    Free,
    /// A CORS preflight.
    Preflight,
}

impl Bypass {
    /// Returns why this request bypasses the paywall, if that is known at once; `None` if it is priced.
    pub(crate) fn decide<B>(&self, request: &Request<B>) -> Option<Passage> {
        let (method, headers) = (request.method(), request.headers());
        if let Some(free_when) = &self.free_when
            && free_when(method, request.uri(), headers)
        {
            Some(Passage::Free)
        } else if self.preflight && is_preflight(method, headers) {
            Some(Passage::Preflight)
        } else {
            None
        }
    }

    /// Returns whether a decision that must be awaited may still make a priced request free.
    pub(crate) const fn asks(&self) -> bool {
        self.free_when_async.is_some()
    }

    pub(crate) fn ask(&self, parts: &Parts) -> Option<Decision> {
        self.free_when_async.as_ref().map(|free| free(parts))
    }
}

/// Returns whether a request is a preflight as the [Fetch standard](https://fetch.spec.whatwg.org/#cors-preflight-request) defines it.
fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

impl fmt::Debug for Bypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bypass")
            .field("free_when", &self.free_when.is_some())
            .field("free_when_async", &self.free_when_async.is_some())
            .field("preflight", &self.preflight)
            .finish()
    }
}
