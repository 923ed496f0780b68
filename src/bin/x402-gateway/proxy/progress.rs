//! Watches whether the body of a request still moves: an upload may take longer than an upstream may stay silent.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::upstream::{BoxError, OutboundBody};

/// When a body last moved, and whether the client delays it.
#[derive(Debug)]
pub(super) struct Progress {
    began: Instant,
    /// Milliseconds since `began`.
    moved: AtomicU64,
    waits_for_client: AtomicBool,
}

impl Progress {
    /// Returns how long nothing has moved.
    pub(super) fn idle(&self) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(self.moved.load(Ordering::Relaxed)))
    }

    /// Returns whether the client has not sent the rest yet.
    pub(super) fn waits_for_client(&self) -> bool {
        self.waits_for_client.load(Ordering::Relaxed)
    }

    fn note<T>(&self, polled: &Poll<T>) {
        self.waits_for_client.store(polled.is_pending(), Ordering::Relaxed);
        if polled.is_ready() {
            let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.moved.store(now, Ordering::Relaxed);
        }
    }
}

/// Returns the body for the upstream. It is watched unless it has ended already.
pub(super) fn watched<B>(body: B) -> (OutboundBody, Option<Arc<Progress>>)
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    if body.is_end_stream() {
        return (UnsyncBoxBody::new(Empty::new().map_err(|never| match never {})), None);
    }
    let progress = Arc::new(Progress {
        began: Instant::now(),
        moved: AtomicU64::new(0),
        waits_for_client: AtomicBool::new(false),
    });
    let watched = Watched { body, progress: Arc::clone(&progress) };
    (UnsyncBoxBody::new(watched.map_err(Into::into)), Some(progress))
}

pin_project! {
    struct Watched<B> {
        #[pin]
        body: B,
        progress: Arc<Progress>,
    }
}

impl<B: Body> Body for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let polled = this.body.poll_frame(cx);
        this.progress.note(&polled);
        match polled {
            // Trailers could carry what the headers may not.
            Poll::Ready(Some(Ok(frame))) if !frame.is_data() => Poll::Ready(None),
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
