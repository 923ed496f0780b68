//! `ResponseBody`: the answer's body, whose beginning may have been read.

use std::{
    error::Error,
    fmt,
    future::Future as _,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::client::flow::Delivery;

pin_project! {
    /// The body of an answer, as the client returned it.
    ///
    /// The purchase of a sold answer stays open until the body was read to its end, or until
    /// [`PayLayer::acknowledge`](crate::client::PayLayer::acknowledge). If the body is dropped before, or breaks off,
    /// the same request asks the seller for the same answer with the same payment. The body reports its end only after
    /// the journal has recorded it.
    pub struct ResponseBody<B> {
        #[pin]
        kind: Content<B>,
        // For a sold answer, until its end.
        delivery: Option<Box<Delivery>>,
        ending: Ending,
    }
}

pin_project! {
    #[project = ContentProjection]
    enum Content<B> {
        Untouched { #[pin] body: B },
        // The beginning was read, to see whether the answer is a refusal, or whether it is complete.
        Peeked { start: Option<Bytes>, rest: Rest<B> },
    }
}

/// The time limit of a body.
enum Ending {
    Never,
    At(Pin<Box<Sleep>>),
    Over,
}

/// The error of an answer's body.
#[derive(Debug)]
#[non_exhaustive]
pub enum BodyError<E> {
    /// The body broke off.
    Body(E),
    /// It took longer than the layer's [`body_timeout`](crate::client::PayLayerBuilder::body_timeout) or the request's
    /// [`Deadline`](crate::client::Deadline).
    TimedOut,
}

impl<E: fmt::Display> fmt::Display for BodyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(error) => error.fmt(f),
            Self::TimedOut => f.write_str("the answer took too long; the same request asks for it again"),
        }
    }
}

impl<E: Error> Error for BodyError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Body(error) => error.source(),
            Self::TimedOut => None,
        }
    }
}

/// The part after the read beginning.
pub(crate) enum Rest<B> {
    Unread(Pin<Box<B>>),
    Trailers(Box<HeaderMap>),
    Nothing,
}

impl<B> ResponseBody<B> {
    pub(crate) const fn untouched(body: B) -> Self {
        Self { kind: Content::Untouched { body }, delivery: None, ending: Ending::Never }
    }

    /// Sets the time before which the body must end.
    pub(crate) fn ending(mut self, until: Option<Instant>) -> Self {
        self.ending = until.map_or(Ending::Never, |until| Ending::At(Box::pin(sleep_until(until))));
        self
    }

    /// Returns the beginning that was read, and the rest.
    pub(crate) fn into_rest(self) -> (Bytes, Rest<B>) {
        match self.kind {
            Content::Untouched { body } => (Bytes::new(), Rest::Unread(Box::pin(body))),
            Content::Peeked { start, rest } => (start.unwrap_or_default(), rest),
        }
    }

    pub(crate) fn peeked(start: Bytes, rest: Rest<B>) -> Self {
        Self {
            kind: Content::Peeked { start: Some(start).filter(|start| !start.is_empty()), rest },
            delivery: None,
            ending: Ending::Never,
        }
    }
}

impl<B: HttpBody<Data = Bytes>> HttpBody for ResponseBody<B> {
    type Data = Bytes;
    type Error = BodyError<B::Error>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let mut this = self.project();
        if this.delivery.as_ref().is_none_or(|delivery| !delivery.is_closing()) {
            if let Some(delivery) = this.delivery.as_mut() {
                // The caller polls again, so the answer only counts as read if the end comes.
                delivery.set_whole(false);
            }
            if let Ending::Over = this.ending {
                return Poll::Ready(None);
            }
            if let Ending::At(end) = this.ending
                && end.as_mut().poll(cx).is_ready()
            {
                (*this.ending, *this.delivery) = (Ending::Over, None);
                return Poll::Ready(Some(Err(BodyError::TimedOut)));
            }
            let frame = ready!(this.kind.as_mut().poll_frame(cx));
            if let Some(frame) = frame {
                match this.delivery {
                    Some(delivery) if frame.is_ok() => delivery.set_whole(this.kind.is_read()),
                    _ => *this.delivery = None,
                }
                return Poll::Ready(Some(frame.map_err(BodyError::Body)));
            }
        }
        if let Some(delivery) = this.delivery {
            ready!(delivery.poll_close(cx));
            *this.delivery = None;
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.delivery.is_none() && self.kind.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.kind.size_hint()
    }
}

impl<B: HttpBody<Data = Bytes>> Content<B> {
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project() {
            ContentProjection::Untouched { body } => body.poll_frame(cx),
            ContentProjection::Peeked { start, rest } => {
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
        match self {
            Self::Untouched { body } => body.is_end_stream(),
            Self::Peeked { start, rest } => {
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
        match self {
            Self::Untouched { body } => body.size_hint(),
            Self::Peeked { start, rest } => {
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

    /// Returns whether no byte is left to read, as far as the body tells.
    fn is_read(&self) -> bool {
        self.is_end_stream() || self.size_hint().exact() == Some(0)
    }
}

impl<B: HttpBody<Data = Bytes>> ResponseBody<B> {
    /// Attaches the delivery of a sold answer: at the body's end the purchase is closed.
    pub(crate) fn delivering(mut self, mut delivery: Delivery) -> Self {
        delivery.set_whole(self.kind.is_read());
        self.delivery = Some(Box::new(delivery));
        self
    }
}

impl<B> fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseBody")
    }
}
