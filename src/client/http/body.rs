//! Request bodies that can be sent again.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt as _, Empty, Full, combinators::BoxBody};

use crate::client::{box_error::BoxError, http::Exclusive};

/// A request body that can be sent more than once: first without payment, then with its proof.
pub trait ReplayBody: HttpBody<Data = Bytes> + Sized {
    /// Returns a body with the same content, or `None` if that is impossible.
    fn replay(&self) -> Option<Self>;

    /// Returns the whole content, if it is in memory.
    fn bytes(&self) -> Option<Bytes>;

    /// Returns a name for the content, if it is not in memory.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Returns a body of these bytes, if this type can hold them. Proofs can travel only in such bodies.
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

/// A request body of any kind: bytes in memory, a stream that can be opened again, or a stream that can be sent once.
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
    Factory(Factory),
    Once(Stream),
}

type Stream = BoxBody<Bytes, BoxError>;

/// A stream that is opened at its first use, which is when it is sent.
struct Factory {
    name: Arc<str>,
    make: Arc<dyn Fn() -> Stream + Send + Sync>,
    stream: OnceLock<Stream>,
}

impl Factory {
    fn stream(&self) -> &Stream {
        self.stream.get_or_init(|| (self.make)())
    }

    fn stream_mut(&mut self) -> Option<&mut Stream> {
        self.stream();
        self.stream.get_mut()
    }

    fn anew(&self) -> Self {
        Self { name: Arc::clone(&self.name), make: Arc::clone(&self.make), stream: OnceLock::new() }
    }
}

fn boxed<B>(body: B) -> Stream
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    BoxBody::new(Exclusive::new(body.map_err(Into::into)))
}

impl Body {
    /// Returns a body without content.
    #[must_use]
    pub fn empty() -> Self {
        Self::from(Bytes::new())
    }

    /// Creates a body that `make` opens anew for each attempt, when that attempt is sent. Its proof travels in the
    /// header.
    ///
    /// `name` identifies the content in the journal. Two requests to one address with the same name count as the same
    /// request, so an unfinished purchase is finished before another one begins.
    pub fn from_factory<B>(name: impl Into<Arc<str>>, make: impl Fn() -> B + Send + Sync + 'static) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let make: Arc<dyn Fn() -> Stream + Send + Sync> = Arc::new(move || boxed(make()));
        Self(Kind::Factory(Factory { name: name.into(), make, stream: OnceLock::new() }))
    }

    /// Creates a body that can be sent only once. It works for free services. A service that asks for money is not
    /// paid, because nothing would be left to send with the proof.
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
            Kind::Factory(factory) => Some(Self(Kind::Factory(factory.anew()))),
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
            Kind::Factory(factory) => Some(&factory.name),
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
            Kind::Factory(factory) => match factory.stream_mut() {
                Some(stream) => Pin::new(stream).poll_frame(cx),
                None => Poll::Ready(None),
            },
            Kind::Once(stream) => Pin::new(stream).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Bytes(full) => full.is_end_stream(),
            Kind::Factory(factory) => factory.stream().is_end_stream(),
            Kind::Once(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Bytes(full) => full.size_hint(),
            Kind::Factory(factory) => factory.stream().size_hint(),
            Kind::Once(stream) => stream.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Bytes(_) => "Body::Bytes",
            Kind::Factory(_) => "Body::Factory",
            Kind::Once(_) => "Body::Once",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// An opened stream that is not sent would waste a file or a connection.
    #[tokio::test]
    async fn a_stream_is_opened_when_it_is_sent_and_once_for_each_attempt() {
        let opened = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&opened);
        let body = Body::from_factory("upload", move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Full::new(Bytes::from_static(b"stream"))
        });
        let attempts = [body.replay().unwrap(), body.replay().unwrap()];
        assert_eq!((body.name(), body.bytes(), opened.load(Ordering::Relaxed)), (Some("upload"), None, 0));
        for (before, attempt) in (0..).zip(attempts) {
            assert_eq!(opened.load(Ordering::Relaxed), before);
            assert_eq!(attempt.size_hint().exact(), Some(6), "told before it is read, as a client needs it");
            assert_eq!(attempt.collect().await.unwrap().to_bytes(), "stream");
            assert_eq!(opened.load(Ordering::Relaxed), before + 1);
        }
    }
}
