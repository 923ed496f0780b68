//! The answer's body, of which a little may have been read.

use std::{
    fmt, mem,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of an answer, as the client returned it.
    pub struct ResponseBody<B> {
        #[pin]
        kind: Answer<B>,
    }
}

pin_project! {
    #[project = AnswerProjection]
    enum Answer<B> {
        Untouched { #[pin] body: B },
        // Its beginning was read: to learn whether it is a refusal of the seller's, or whether it comes to its end.
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

    /// Returns the beginning that was read, and the rest.
    pub(super) fn into_rest(self) -> (Bytes, Rest<B>) {
        match self.kind {
            Answer::Untouched { body } => (Bytes::new(), Rest::Unread(Box::pin(body))),
            Answer::Peeked { start, rest } => (start.unwrap_or_default(), rest),
        }
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
