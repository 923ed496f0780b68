//! `Pay`: the client that pays.

use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    Failure, HeldChannel, PayError, ReplayBody, ResponseBody, ResponseFuture, box_error::BoxError,
    http::request_copy::RequestCopy, inner::ClientInner, way::channel::close,
};
use crate::protocol::channel::ChannelId;

/// An HTTP client that pays for answers: the [`Service`] of a [`PayLayer`](super::PayLayer). See the example in [its
/// module](super).
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

    /// Returns the inner client. Clones of the service, and running calls, still pay.
    pub fn into_inner(self) -> S {
        self.service
    }

    /// Closes a payment channel: asks its seller to refund what is left, and waits until the chain shows the refund. It
    /// costs the payer no gas. The refund then no longer counts against the budget.
    ///
    /// From then on the channel buys nothing more, even if the call fails: call it again, or
    /// [withdraw](super::PayLayer::withdraw_channel) without the seller.
    /// [`PayLayer::channels`](super::PayLayer::channels) lists the channels.
    ///
    /// # Errors
    /// [`PayErrorKind::Channel`](super::PayErrorKind::Channel) if there is no such channel, a purchase was left in it, the seller refuses, or
    /// the chain does not show within the layer's [patience](super::PayLayerBuilder::patience) that anything came back.
    pub async fn close_channel<B, R>(&self, channel: ChannelId) -> Result<Option<HeldChannel>, PayError>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        S::Error: Into<BoxError>,
        B: ReplayBody,
        R: Body<Data = Bytes>,
    {
        Box::pin(close::close(&self.inner, self.service.clone(), channel)).await?;
        let channels = self.inner.registry.channels();
        Ok(channels.iter().filter_map(HeldChannel::of).find(|held| held.id == channel))
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
    type Future = ResponseFuture<S::Future, S, B, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PayError>> {
        self.service.poll_ready(cx).map_err(|error| Failure::Http(error.into()).into())
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Call the instance that was polled.
        let unpolled = self.service.clone();
        let mut polled = mem::replace(&mut self.service, unpolled);
        // Most answers are free: keep only what a purchase after a 402 needs.
        let kept = Some(&request).filter(|_| self.inner.registry.is_idle()).and_then(RequestCopy::of);
        match kept {
            Some(kept) => {
                let asked = polled.call(request);
                ResponseFuture::asking(asked, polled, kept, Arc::clone(&self.inner))
            }
            None => ResponseFuture::purchase(Arc::clone(&self.inner), polled, request),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Pay<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pay").field("inner", &self.service).finish_non_exhaustive()
    }
}
