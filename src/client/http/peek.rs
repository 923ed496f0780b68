//! `Peek`: reads the beginning of a body before the body is passed on.

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;

use crate::client::{ResponseBody, http::Rest};

/// The least that each piece of a body counts: otherwise a body of empty pieces would never reach a limit, nor let a
/// time-out fire.
const PIECE_MIN: usize = 64;

/// A partly read body.
pub(crate) struct Peek<B> {
    start: BytesMut,
    counted: usize,
    rest: Rest<B>,
}

impl<B: Body<Data = Bytes>> Peek<B> {
    pub(crate) fn of(body: B) -> Self {
        Self::of_rest(ResponseBody::untouched(body))
    }

    /// Continues with a body that may be partly read.
    pub(crate) fn of_rest(body: ResponseBody<B>) -> Self {
        let (start, rest) = body.into_rest();
        Self { counted: start.len(), start: start.into(), rest }
    }

    /// Reads until the end, or until more than `limit` bytes are there. It is cancel-safe: if dropped, nothing is lost.
    ///
    /// # Errors
    /// The body's error.
    pub(crate) async fn read(&mut self, limit: usize) -> Result<(), B::Error> {
        while let Rest::Unread(body) = &mut self.rest
            && self.counted <= limit
        {
            let Some(frame) = body.frame().await.transpose()? else {
                self.rest = Rest::Nothing;
                return Ok(());
            };
            match frame.into_data() {
                Ok(data) => {
                    self.counted += data.len().max(PIECE_MIN);
                    self.start.extend_from_slice(&data);
                }
                Err(frame) => {
                    self.rest =
                        frame.into_trailers().map_or(Rest::Nothing, |trailers| Rest::Trailers(Box::new(trailers)));
                }
            }
        }
        Ok(())
    }

    /// Returns the content, if all of it has been read.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        if matches!(self.rest, Rest::Unread(_)) { None } else { Some(&self.start) }
    }

    /// Returns the whole body, including what was read.
    pub(crate) fn into_body(self) -> ResponseBody<B> {
        ResponseBody::peeked(self.start.freeze(), self.rest)
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use futures_util::{StreamExt as _, stream};
    use http::HeaderMap;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::time::timeout;

    use super::*;

    type Piece = Result<Frame<Bytes>, Infallible>;

    fn piece(text: &'static str) -> Piece {
        Ok(Frame::data(Bytes::from_static(text.as_bytes())))
    }

    #[tokio::test]
    async fn what_was_read_is_there_again() {
        let trailers = || Ok(Frame::trailers(HeaderMap::from_iter([(http::header::ETAG, "x".parse().unwrap())])));
        for limit in [0, 1, 6, 1_000] {
            let pieces = [piece("the "), piece("answer"), trailers()];
            let mut beginning = Peek::of(StreamBody::new(stream::iter(pieces)));
            beginning.read(limit).await.unwrap();
            assert_eq!(beginning.whole().is_some(), limit == 1_000, "{limit}");
            let collected = beginning.into_body().collect().await.unwrap();
            assert_eq!(collected.trailers().map(HeaderMap::len), Some(1), "{limit}");
            assert_eq!(collected.to_bytes(), "the answer", "{limit}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_loses_nothing_and_empty_pieces_come_to_an_end() {
        let slow = stream::iter([piece("the ")]).chain(stream::once(async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            piece("answer")
        }));
        let mut beginning = Peek::of(StreamBody::new(Box::pin(slow)));
        assert!(timeout(Duration::from_secs(2), beginning.read(1_000)).await.is_err() && beginning.whole().is_none());
        assert_eq!(beginning.into_body().collect().await.unwrap().to_bytes(), "the answer");

        let mut endless = Peek::of(StreamBody::new(stream::repeat_with(|| piece(""))));
        endless.read(1_000).await.unwrap();
        assert!(endless.whole().is_none());
    }
}
