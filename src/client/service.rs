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

use super::{PayError, ReplayBody, ResponseBody, buy::Visit, layer::Shared, order::Order};
use crate::protocol::TxHash;

/// An HTTP client that pays for answers. Made by [`PayLayer`](super::PayLayer).
#[derive(Clone)]
pub struct Pay<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> Pay<S> {
    pub(super) const fn new(inner: S, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }

    /// The client inside.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, B, R> Service<Request<B>> for Pay<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: ReplayBody + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type Response = Response<ResponseBody<R>>;
    type Error = PayError;
    type Future = ResponseFuture<R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PayError>> {
        self.inner.poll_ready(cx).map_err(|error| PayError::Http(error.into()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<R> {
        // The instance that was polled is the one that is called.
        let unpolled = self.inner.clone();
        let polled = mem::replace(&mut self.inner, unpolled);
        let order = Order::new(request);
        let (host, what) = (&order.host, &order.what);
        let span = info_span!("purchase", host, request = what, purchase = Empty, transaction = Empty);
        let visit = Visit::new(Arc::clone(&self.shared), polled, order);
        ResponseFuture { future: Box::pin(visit.run().instrument(span)) }
    }
}

impl<S: fmt::Debug> fmt::Debug for Pay<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pay").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// The answer to come. Dropped, it leaves a purchase that has begun to the next call of the same request.
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

/// Put into a request's extensions: finish an unfinished purchase of this request, and pay nothing new.
///
/// Where the journal has none, the call ends in [`PayError::NothingToResume`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumeOnly;

/// Put into a request's extensions: this transaction paid already, by another wallet or without a journal. The layer
/// asks for a quote, pays nothing, and redeems it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paid(pub TxHash);
