//! `Answered`: the body of the upstream's answer. Trailers that the gateway strips as headers are stripped too.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::headers::strip_answer;

#[derive(Debug)]
pub(crate) struct Answered(pub(super) Incoming);

impl Body for Answered {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.0).poll_frame(cx).map(|frame| frame.map(|frame| frame.map(passed_on)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

fn passed_on(frame: Frame<Bytes>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            strip_answer(&mut trailers, false);
            Frame::trailers(trailers)
        }
        Err(data) => data,
    }
}
