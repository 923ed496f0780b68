//! `Pay`: the client that pays.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;
use tracing::{Instrument as _, field::Empty, info_span};

use super::{
    PayError, ReplayBody, ResponseBody, box_error::BoxError, inner::ClientInner, purchase::PurchaseFlow,
    replay_request::ReplayRequest,
};

/// An HTTP client that pays for answers: the [`Service`] that [`PayLayer`](super::PayLayer) makes. Its module has an example.
#[derive(Clone)]
pub struct Pay<S> {
    service: S,
    inner: Arc<ClientInner>,
}

impl<S> Pay<S> {
    pub(super) const fn new(service: S, inner: Arc<ClientInner>) -> Self {
        Self { service, inner }
    }

    /// Returns a reference to the client inside.
    pub const fn get_ref(&self) -> &S {
        &self.service
    }

    /// Returns a mutable reference to the client inside.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// Returns the client inside. Its clones, and what it has begun, pay as before.
    pub fn into_inner(self) -> S {
        self.service
    }
}

impl<S, B, R> Service<Request<B>> for Pay<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: ReplayBody + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type Response = Response<ResponseBody<R>>;
    type Error = PayError;
    type Future = ResponseFuture<R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PayError>> {
        self.service.poll_ready(cx).map_err(|error| PayError::Http(error.into()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<R> {
        // The instance that was polled is the one that is called.
        let unpolled = self.service.clone();
        let polled = mem::replace(&mut self.service, unpolled);
        let request = ReplayRequest::new(request);
        let (host, what) = (&request.identity.host, &request.identity.what);
        let span = info_span!("purchase", host, request = what, purchase = Empty, transaction = Empty);
        let flow = PurchaseFlow::new(Arc::clone(&self.inner), polled, request);
        ResponseFuture { future: Box::pin(flow.run().instrument(span)) }
    }
}

impl<S: fmt::Debug> fmt::Debug for Pay<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pay").field("inner", &self.service).finish_non_exhaustive()
    }
}

/// The future of an answer. If it is dropped, a purchase that has begun is left to the next call of the same request.
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<R> {
    future: Pin<Box<dyn Future<Output = Outcome<R>> + Send>>,
}

type Outcome<R> = Result<Response<ResponseBody<R>>, PayError>;

impl<R> Future for ResponseFuture<R> {
    type Output = Outcome<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.future.as_mut().poll(cx)
    }
}

impl<R> fmt::Debug for ResponseFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
