//! `Exclusive`: makes a body `Sync`, so that several threads may hold it, though only one uses it.

use std::{
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Makes a body `Sync`. Polling takes no lock, because it has exclusive access.
pub(crate) struct Exclusive<B>(Mutex<Pin<Box<B>>>);

impl<B> Exclusive<B> {
    pub(crate) fn new(body: B) -> Self {
        Self(Mutex::new(Box::pin(body)))
    }

    fn get(&self) -> MutexGuard<'_, Pin<Box<B>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Body<Data = Bytes>> Body for Exclusive<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let body = self.get_mut().0.get_mut().unwrap_or_else(PoisonError::into_inner);
        body.as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.get().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.get().size_hint()
    }
}
