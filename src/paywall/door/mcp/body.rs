//! `McpBody`: the body of a response: the server's own, one that the layer wrote, or one that is still being made.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// A body whose reading drives the work behind it. It adds no errors of its own.
pub(super) type Driven<E> = Pin<Box<dyn Body<Data = Bytes, Error = E> + Send>>;

pin_project! {
    /// The body of every response of an [`Mcp`](super::Mcp) service: the server's own unchanged, one of the layer's, or an event stream
    /// that continues while a sale is made. Dropping such a stream counts as the client leaving: a sale that is not recorded yet is given
    /// up.
    pub struct McpBody<B: Body> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B: Body> {
        Passing { #[pin] body: B },
        Whole { data: Option<Bytes> },
        Driven { body: Driven<B::Error> },
    }
}

impl<B: Body<Data = Bytes>> McpBody<B> {
    pub(super) const fn passing(body: B) -> Self {
        Self { kind: Kind::Passing { body } }
    }

    pub(super) fn whole(data: impl Into<Bytes>) -> Self {
        Self { kind: Kind::Whole { data: Some(data.into()).filter(|data| !data.is_empty()) } }
    }

    pub(super) fn driven(body: impl Body<Data = Bytes, Error = B::Error> + Send + 'static) -> Self {
        Self { kind: Kind::Driven { body: Box::pin(body) } }
    }
}

/// An empty body, for outer layers that answer themselves.
impl<B: Body<Data = Bytes>> Default for McpBody<B> {
    fn default() -> Self {
        Self::whole(Bytes::new())
    }
}

impl<B: Body<Data = Bytes>> Body for McpBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Passing { body } => body.poll_frame(cx),
            KindProjection::Whole { data } => Poll::Ready(data.take().map(|data| Ok(Frame::data(data)))),
            KindProjection::Driven { body } => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Passing { body } => body.is_end_stream(),
            Kind::Whole { data } => data.is_none(),
            Kind::Driven { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Passing { body } => body.size_hint(),
            Kind::Whole { data } => SizeHint::with_exact(data.as_ref().map_or(0, |data| data.len() as u64)),
            Kind::Driven { body } => body.size_hint(),
        }
    }
}

impl<B: Body> fmt::Debug for McpBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpBody").finish_non_exhaustive()
    }
}
