//! `FacilitatorCall`: a request to a facilitator, as the authorizing function sees it.

use std::{error::Error, fmt, future::Future, pin::Pin, sync::Arc};

use http::{HeaderMap, Method};

/// The action of a request to a facilitator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FacilitatorAction {
    /// `POST /verify`: check whether a payment could be settled.
    Verify,
    /// `POST /settle`: settle a payment.
    Settle,
    /// `GET /supported`: list what can be settled.
    Supported,
}

impl FacilitatorAction {
    /// Returns the last segment of its path.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Settle => "settle",
            Self::Supported => "supported",
        }
    }

    /// Returns its HTTP method.
    #[must_use]
    pub const fn method(self) -> Method {
        match self {
            Self::Supported => Method::GET,
            _ => Method::POST,
        }
    }
}

/// A request that is about to be sent to a facilitator; an access token may depend on it.
///
/// `Debug` shows only the action, because an address may hold secrets.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FacilitatorCall {
    /// The action.
    pub action: FacilitatorAction,
    /// The facilitator's host, with its port unless that is the scheme's default: `api.facilitator.example`.
    pub host: String,
    /// The path: `/platform/v2/x402/verify`.
    pub path: String,
}

impl FacilitatorCall {
    /// Returns the HTTP method.
    #[must_use]
    pub const fn method(&self) -> Method {
        self.action.method()
    }
}

impl fmt::Debug for FacilitatorCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FacilitatorCall").field("action", &self.action).finish_non_exhaustive()
    }
}

type Headers = Pin<Box<dyn Future<Output = Option<HeaderMap>> + Send>>;

/// Makes the authorization headers of a request.
#[derive(Clone)]
pub(super) struct Authorizer(Arc<dyn Fn(FacilitatorCall) -> Headers + Send + Sync>);

impl Authorizer {
    /// Creates it. Errors are dropped, because they may hold a key.
    pub(super) fn new<F, Fut, E>(authorize: F) -> Self
    where
        F: Fn(FacilitatorCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HeaderMap, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self(Arc::new(move |call| {
            let headers = authorize(call);
            Box::pin(async move { headers.await.ok() })
        }))
    }

    /// Returns the headers for a request, all marked as sensitive; `None` if there are none.
    pub(super) async fn headers(&self, call: FacilitatorCall) -> Option<HeaderMap> {
        let mut headers = (self.0)(call).await?;
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        Some(headers)
    }
}
