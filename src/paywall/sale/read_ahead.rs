//! `ReadAhead`: reads the body of an answer before the sale, up to a limit.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body::Body;

use crate::paywall::body::{ResponseBody, Trailers};

/// A body that is being read. Reading can stop at any time; the body then continues as a stream.
pub(crate) struct ReadAhead<B> {
    rest: Pin<Box<B>>,
    limit: usize,
    first: Bytes,
    more: BytesMut,
    trailers: Trailers,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    TooLong,
    Broken,
}

/// The result of reading ahead.
pub(crate) enum Read<B> {
    /// To its end.
    Whole(Bytes, Trailers),
    /// Not to its end: the body can only be delivered as a stream.
    Part(ResponseBody<B>),
    /// The body failed.
    Broken,
}

impl<B: Body<Data = Bytes>> ReadAhead<B> {
    pub(crate) fn new(body: B, limit: usize) -> Self {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let end = (announced > limit).then_some(End::TooLong);
        Self { rest: Box::pin(body), limit, first: Bytes::new(), more: BytesMut::new(), trailers: None, end }
    }

    /// Reads to the end of the body, or past the limit.
    pub(crate) async fn read(&mut self) {
        poll_fn(|cx| self.poll_read(cx)).await;
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.end.is_none() {
            self.end = match std::task::ready!(self.rest.as_mut().poll_frame(cx)) {
                None => Some(End::Complete),
                Some(Err(_)) => Some(End::Broken),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.push(data);
                        (self.length() > self.limit).then_some(End::TooLong)
                    }
                    Err(frame) => {
                        self.trailers = frame.into_trailers().ok().map(Box::new);
                        None
                    }
                },
            };
        }
        Poll::Ready(())
    }

    fn length(&self) -> usize {
        if self.more.is_empty() { self.first.len() } else { self.more.len() }
    }

    /// A body that comes in one piece is not copied.
    fn push(&mut self, data: Bytes) {
        if self.first.is_empty() {
            self.first = data;
            return;
        }
        if self.more.is_empty() {
            self.more.extend_from_slice(&self.first);
        }
        self.more.extend_from_slice(&data);
    }

    /// Returns the part that was read, and the rest.
    pub(crate) fn finish(self) -> Read<B> {
        let data = if self.more.is_empty() { self.first } else { self.more.freeze() };
        match (self.end, self.trailers) {
            (Some(End::Broken), _) => Read::Broken,
            (Some(End::Complete), trailers) => Read::Whole(data, trailers),
            (Some(End::TooLong) | None, trailers) => Read::Part(ResponseBody::continued(data, trailers, self.rest)),
        }
    }
}
