//! `RequestBody` and `ResponseBody`: the wrapped body, or bytes that the layer read or wrote.

pub(crate) mod arrival;

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

use crate::paywall::body::arrival::{Arrival, Pace};

/// Boxed, because they are rare and every body reserves room for them.
pub(crate) type Trailers = Option<Box<HeaderMap>>;

pin_project! {
    /// The body of the request that the handler gets: the client's body untouched, or the same bytes and trailers if the layer
    /// read them first.
    ///
    /// A service inside an [`X402Layer`](crate::X402Layer) takes `Request<RequestBody<B>>`, or is generic over the body. It reads
    /// this body like any other, and the error is that of `B`:
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use http_body_util::{BodyExt, Full};
    /// use tower_x402::RequestBody;
    ///
    /// async fn handler<B>(request: Request<RequestBody<B>>) -> Result<Response<Full<Bytes>>, B::Error>
    /// where
    ///     B: http_body::Body<Data = Bytes>,
    /// {
    ///     let body = request.into_body().collect().await?.to_bytes();
    ///     Ok(Response::new(Full::new(body)))
    /// }
    /// ```
    ///
    /// A service typed on the bare body is a compile error:
    ///
    /// ```compile_fail
    /// # use bytes::Bytes;
    /// # use http::{Request, Response};
    /// # use http_body_util::Full;
    /// # use tower::{Layer, Service, service_fn};
    /// # fn serve(_: impl Service<Request<Full<Bytes>>>) {}
    /// # fn with(paid: tower_x402::X402Layer) {
    /// let handler = service_fn(async |_: Request<Full<Bytes>>| Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::default())));
    /// serve(paid.layer(handler));
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct RequestBody<B> {
        #[pin]
        kind: Kind<B>,
        arrival: Option<Box<Arrival>>,
    }
}

pin_project! {
    /// The body of every response that leaves the layer: the handler's body untouched, or that of the layer's own answer.
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
        // Read in part; the rest continues as a stream.
        Continued { data: Option<Bytes>, trailers: Trailers, rest: Pin<Box<B>> },
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
        Self::whole_with(data, None)
    }

    pub(crate) fn whole_with(data: Bytes, trailers: Trailers) -> Self {
        Self { kind: Kind::whole(data, trailers) }
    }

    /// Returns all of it, if the layer wrote or read it, and none of it was sent.
    pub(crate) fn as_whole(&self) -> Option<&Bytes> {
        match &self.kind {
            Kind::Whole { data, trailers: None } => data.as_ref(),
            _ => None,
        }
    }

    /// Returns a partly read body: this part, and the rest.
    pub(crate) fn continued(data: Bytes, trailers: Trailers, rest: Pin<Box<B>>) -> Self {
        let data = Some(data).filter(|data| !data.is_empty());
        Self { kind: Kind::Continued { data, trailers, rest } }
    }
}

/// An empty body. The CORS and time-out layers of tower-http need one for their own answers.
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
            KindProjection::Continued { data, trailers, rest } => {
                let read =
                    data.take().map(Frame::data).or_else(|| trailers.take().map(|trailers| Frame::trailers(*trailers)));
                match read {
                    Some(frame) => Poll::Ready(Some(Ok(frame))),
                    None => rest.as_mut().poll_frame(cx),
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Streaming { body } => body.is_end_stream(),
            Self::Whole { data, trailers } => data.is_none() && trailers.is_none(),
            Self::Continued { data, trailers, rest } => data.is_none() && trailers.is_none() && rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Streaming { body } => body.size_hint(),
            Self::Whole { data, .. } => SizeHint::with_exact(length(data.as_ref())),
            Self::Continued { data, rest, .. } => {
                let (read, rest) = (length(data.as_ref()), rest.size_hint());
                let mut hint = SizeHint::new();
                hint.set_lower(rest.lower().saturating_add(read));
                if let Some(upper) = rest.upper() {
                    hint.set_upper(upper.saturating_add(read));
                }
                hint
            }
        }
    }
}

fn length(data: Option<&Bytes>) -> u64 {
    data.map_or(0, |data| data.len() as u64)
}

impl<B: Body<Data = Bytes>> RequestBody<B> {
    /// Watches an arriving body. The returned handle is notified when it arrives too slowly.
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
            arrival.observe(&frame, cx);
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
