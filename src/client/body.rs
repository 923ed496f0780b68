//! Bodies that can be sent again, and the answer's body, of which a little may have been read.

use std::{
    convert::Infallible,
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt as _, Empty, Full, combinators::BoxBody};
use pin_project_lite::pin_project;

use super::exclusive::Exclusive;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A request body that can be sent more than once: without payment, and again with its proof.
pub trait ReplayBody: HttpBody<Data = Bytes> + Sized {
    /// A body that says the same again; `None` where that cannot be had.
    fn replay(&self) -> Option<Self>;

    /// All that it says, where that is in memory.
    fn bytes(&self) -> Option<Bytes>;

    /// What tells this body from others where its bytes are not in memory.
    fn name(&self) -> Option<&str> {
        None
    }

    /// A body of these bytes, where this kind can hold any. With it, proofs can travel in the body.
    fn from_bytes(bytes: Bytes) -> Option<Self>;
}

impl ReplayBody for Full<Bytes> {
    fn replay(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn bytes(&self) -> Option<Bytes> {
        let mut copy = self.clone();
        match Pin::new(&mut copy).poll_frame(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
            _ => Some(Bytes::new()),
        }
    }

    fn from_bytes(bytes: Bytes) -> Option<Self> {
        Some(Self::new(bytes))
    }
}

impl ReplayBody for Empty<Bytes> {
    fn replay(&self) -> Option<Self> {
        Some(*self)
    }

    fn bytes(&self) -> Option<Bytes> {
        Some(Bytes::new())
    }

    fn from_bytes(_: Bytes) -> Option<Self> {
        None
    }
}

/// A request body for every case: bytes in memory, a stream that can be opened again, a stream that cannot.
///
/// ```
/// use tower_x402::client::{Body, ReplayBody};
/// assert!(Body::from("{}").replay().is_some());
///
/// // A file that is opened anew for every attempt. Its name is what tells this upload from another in the journal.
/// let upload = Body::from_factory("report-2026-11", || Body::from("as if streamed from a file"));
/// assert!(upload.replay().is_some());
/// ```
pub struct Body(Kind);

enum Kind {
    Bytes(Full<Bytes>),
    Factory { name: Arc<str>, make: Arc<dyn Fn() -> Stream + Send + Sync>, stream: Stream },
    Once(Stream),
}

type Stream = BoxBody<Bytes, BoxError>;

fn boxed<B>(body: B) -> Stream
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    BoxBody::new(Exclusive::new(body.map_err(Into::into)))
}

impl Body {
    /// Nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self::from(Bytes::new())
    }

    /// A body that `make` makes anew for every attempt. Its proof travels in the header.
    ///
    /// `name` stands for the content in the journal: two requests to one address with the same name are the same
    /// request, of which an unfinished purchase is finished before another is begun.
    pub fn from_factory<B>(name: impl Into<Arc<str>>, make: impl Fn() -> B + Send + Sync + 'static) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let make: Arc<dyn Fn() -> Stream + Send + Sync> = Arc::new(move || boxed(make()));
        Self(Kind::Factory { name: name.into(), stream: make(), make })
    }

    /// A body that can be sent once only. It reaches services that are free; one that asks for money is not paid, for
    /// there would be nothing left to send with the proof.
    pub fn once<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Once(boxed(body)))
    }
}

impl ReplayBody for Body {
    fn replay(&self) -> Option<Self> {
        match &self.0 {
            Kind::Bytes(full) => Some(Self(Kind::Bytes(full.clone()))),
            Kind::Factory { name, make, .. } => {
                Some(Self(Kind::Factory { name: Arc::clone(name), make: Arc::clone(make), stream: make() }))
            }
            Kind::Once(_) => None,
        }
    }

    fn bytes(&self) -> Option<Bytes> {
        match &self.0 {
            Kind::Bytes(full) => full.bytes(),
            _ => None,
        }
    }

    fn name(&self) -> Option<&str> {
        match &self.0 {
            Kind::Factory { name, .. } => Some(name),
            _ => None,
        }
    }

    fn from_bytes(bytes: Bytes) -> Option<Self> {
        Some(Self::from(bytes))
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self(Kind::Bytes(Full::new(bytes.into())))
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.0 {
            Kind::Bytes(full) => Pin::new(full).poll_frame(cx).map_err(|never: Infallible| match never {}),
            Kind::Factory { stream, .. } | Kind::Once(stream) => Pin::new(stream).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Bytes(full) => full.is_end_stream(),
            Kind::Factory { stream, .. } | Kind::Once(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Bytes(full) => full.size_hint(),
            Kind::Factory { stream, .. } | Kind::Once(stream) => stream.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Bytes(_) => "Body::Bytes",
            Kind::Factory { .. } => "Body::Factory",
            Kind::Once(_) => "Body::Once",
        })
    }
}

pin_project! {
    /// The answer's body, as the client gave it.
    pub struct ResponseBody<B> {
        #[pin]
        kind: Answer<B>,
    }
}

pin_project! {
    #[project = AnswerProjection]
    enum Answer<B> {
        Untouched { #[pin] body: B },
        // Its beginning was read, to learn whether it is a refusal of the seller's.
        Peeked { start: Option<Bytes>, rest: Rest<B> },
    }
}

/// What comes after the beginning that was read.
pub(super) enum Rest<B> {
    Unread(Pin<Box<B>>),
    Trailers(Box<HeaderMap>),
    Nothing,
}

impl<B> ResponseBody<B> {
    pub(super) const fn untouched(body: B) -> Self {
        Self { kind: Answer::Untouched { body } }
    }

    pub(super) fn peeked(start: Bytes, rest: Rest<B>) -> Self {
        Self { kind: Answer::Peeked { start: Some(start).filter(|start| !start.is_empty()), rest } }
    }
}

impl<B: HttpBody<Data = Bytes>> HttpBody for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            AnswerProjection::Untouched { body } => body.poll_frame(cx),
            AnswerProjection::Peeked { start, rest } => {
                if let Some(start) = start.take() {
                    return Poll::Ready(Some(Ok(Frame::data(start))));
                }
                if let Rest::Unread(body) = rest {
                    return body.as_mut().poll_frame(cx);
                }
                match mem::replace(rest, Rest::Nothing) {
                    Rest::Trailers(trailers) => Poll::Ready(Some(Ok(Frame::trailers(*trailers)))),
                    _ => Poll::Ready(None),
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Answer::Untouched { body } => body.is_end_stream(),
            Answer::Peeked { start, rest } => {
                start.is_none()
                    && match rest {
                        Rest::Unread(body) => body.is_end_stream(),
                        Rest::Trailers(_) => false,
                        Rest::Nothing => true,
                    }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Answer::Untouched { body } => body.size_hint(),
            Answer::Peeked { start, rest } => {
                let read = start.as_ref().map_or(0, |start| start.len() as u64);
                let rest = if let Rest::Unread(body) = rest { body.size_hint() } else { SizeHint::with_exact(0) };
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

impl<B> fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseBody")
    }
}
