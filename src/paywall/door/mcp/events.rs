//! `Events`: the events of a server's stream, each of limited length.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_core::Stream;
use http_body::Body;
use sse_stream::{Sse, SseByteStream};

/// The events of a body.
pub(super) struct Events<B: Body<Data = Bytes>> {
    stream: SseByteStream<Pieces<B>>,
    state: Arc<State<B::Error>>,
    limit: usize,
    /// How much of the next event had arrived at the last poll.
    seen: usize,
}

/// What a stream delivers next.
pub(super) enum Heard {
    Event(Sse),
    /// Something that is no whole event. It shows that the connection is alive.
    Quiet,
}

/// Why a stream ended.
pub(super) enum Ended<E> {
    /// It ended by itself, perhaps in the middle of an event.
    Over,
    TooLong,
    /// It is no event stream.
    NoEvents,
    Broken(E),
}

/// What the stream and its reader share.
struct State<E> {
    /// How much has arrived since the last event.
    arrived: AtomicUsize,
    error: Mutex<Option<E>>,
}

impl<B: Body<Data = Bytes>> Events<B> {
    /// `limit` is the longest event, in bytes.
    pub(super) fn new(body: B, limit: usize) -> Self {
        let state = Arc::new(State { arrived: AtomicUsize::new(0), error: Mutex::new(None) });
        let pieces = Pieces { body: Box::pin(body), limit, state: Arc::clone(&state) };
        Self { stream: SseByteStream::new(pieces), state, limit, seen: 0 }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Heard, Ended<B::Error>>> {
        let polled = Pin::new(&mut self.stream).poll_next(cx);
        let arrived = self.state.arrived.load(Ordering::Relaxed);
        match polled {
            Poll::Ready(Some(Ok(event))) => {
                self.state.arrived.store(0, Ordering::Relaxed);
                self.seen = 0;
                Poll::Ready(Ok(Heard::Event(event)))
            }
            Poll::Ready(ended) => Poll::Ready(Err(self.ended(ended.is_some(), arrived))),
            Poll::Pending if arrived > self.seen => {
                self.seen = arrived;
                Poll::Ready(Ok(Heard::Quiet))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn ended(&self, by_error: bool, arrived: usize) -> Ended<B::Error> {
        let error = self.state.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        match error {
            Some(error) => Ended::Broken(error),
            None if arrived > self.limit => Ended::TooLong,
            None if by_error => Ended::NoEvents,
            None => Ended::Over,
        }
    }
}

/// The data of a body.
struct Pieces<B: Body> {
    body: Pin<Box<B>>,
    limit: usize,
    state: Arc<State<B::Error>>,
}

/// The stream ends. Its state says why.
#[derive(Debug, thiserror::Error)]
#[error("the event stream broke off, or has an event that is too long")]
struct Stopped;

impl<B: Body<Data = Bytes>> Stream for Pieces<B> {
    type Item = Result<Bytes, Stopped>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.body.as_mut().poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => {
                    *self.state.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return Poll::Ready(Some(Err(Stopped)));
                }
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let before = self.state.arrived.fetch_add(data.len(), Ordering::Relaxed);
                    // One piece may hold many events: it is in memory already.
                    if before > self.limit {
                        return Poll::Ready(Some(Err(Stopped)));
                    }
                    return Poll::Ready(Some(Ok(data)));
                }
            }
        }
    }
}

/// Returns an event as it is sent.
pub(super) fn write(event: &Sse) -> Bytes {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        text.extend([name, ": ", value, "\n"]);
    };
    if let Some(id) = &event.id {
        line("id", id);
    }
    if let Some(name) = &event.event {
        line("event", name);
    }
    if let Some(retry) = event.retry {
        line("retry", &retry.to_string());
    }
    if let Some(data) = &event.data {
        data.split('\n').for_each(|part| line("data", part));
    }
    text.push('\n');
    text.into()
}

/// Returns a message as an event.
pub(super) fn message(json: &str) -> Bytes {
    write(&Sse::default().event("message").data(json))
}

/// A comment, which clients skip, and which keeps a connection open.
pub(super) const QUIET: Bytes = Bytes::from_static(b":\n\n");
