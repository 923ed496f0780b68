//! The bodies that go in and out: the caller's own, or what the layer read or wrote.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::sync::Notify;

use super::arrival::{Arrival, Pace};

/// Boxed: they are rare, and every body has room for them.
pub(crate) type Trailers = Option<Box<HeaderMap>>;

pin_project! {
    /// What the handler reads: the caller's body untouched, or the same bytes and trailers after the layer read them.
    #[derive(Debug)]
    pub struct RequestBody<B> {
        #[pin]
        kind: Kind<B>,
        arrival: Option<Box<Arrival>>,
    }
}

pin_project! {
    /// What leaves the layer: the handler's body untouched, or the layer's own words.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    #[derive(Debug)]
    enum Kind<B> {
        Streaming { #[pin] body: B },
        Whole { data: Option<Bytes>, trailers: Trailers },
    }
}

impl<B> RequestBody<B> {
    pub(crate) fn streaming(body: B) -> Self {
        Self { kind: Kind::Streaming { body }, arrival: None }
    }

    pub(crate) fn whole(data: Bytes, trailers: Trailers) -> Self {
        Self { kind: Kind::whole(data, trailers), arrival: None }
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn streaming(body: B) -> Self {
        Self { kind: Kind::Streaming { body } }
    }

    pub(crate) fn whole(data: Bytes) -> Self {
        Self { kind: Kind::whole(data, None) }
    }
}

/// Nothing: what tower-http's CORS and time-out layers answer with, wherever they stand.
impl<B> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::whole(Bytes::new())
    }
}

impl<B> Kind<B> {
    fn whole(data: Bytes, trailers: Trailers) -> Self {
        Self::Whole { data: Some(data).filter(|data| !data.is_empty()), trailers }
    }
}

impl<B: Body<Data = Bytes>> Body for Kind<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project() {
            KindProjection::Streaming { body } => body.poll_frame(cx),
            KindProjection::Whole { data, trailers } => {
                let frame =
                    data.take().map(Frame::data).or_else(|| trailers.take().map(|trailers| Frame::trailers(*trailers)));
                Poll::Ready(frame.map(Ok))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Streaming { body } => body.is_end_stream(),
            Self::Whole { data, trailers } => data.is_none() && trailers.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Streaming { body } => body.size_hint(),
            Self::Whole { data, .. } => SizeHint::with_exact(data.as_ref().map_or(0, |data| data.len() as u64)),
        }
    }
}

impl<B: Body<Data = Bytes>> RequestBody<B> {
    /// From here on a body that is still to come must keep arriving; who is given is told when it does not.
    pub(crate) fn watch(&mut self, pace: Pace) -> Option<Arc<Notify>> {
        if matches!(self.kind, Kind::Whole { .. }) || self.kind.is_end_stream() {
            return None;
        }
        let late = Arc::new(Notify::new());
        self.arrival = Some(Box::new(Arrival::new(pace, Arc::clone(&late))?));
        Some(late)
    }
}

impl<B: Body<Data = Bytes>> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = this.kind.poll_frame(cx);
        if let Some(arrival) = this.arrival {
            arrival.see(&frame, cx);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.kind.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.kind.size_hint()
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.project().kind.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.kind.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.kind.size_hint()
    }
}
