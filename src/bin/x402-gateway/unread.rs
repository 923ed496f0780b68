//! An answer over HTTP/2 whose client must keep reading. A client that opens no window for it blocks no write of the
//! connection, so [`Stall`](super::stall::Stall) does not see it. Unwatched, such a client would keep the answer and
//! its source for ever.

use std::{
    error::Error,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::{task::AbortHandle, time::sleep};

/// How many bytes the server gets at once. It asks for more once the client took these, so slow reading is noticed
/// too.
const PIECE: usize = 16 * 1024;

/// A body that is dropped once its client read nothing of it for the given patience.
#[derive(Debug)]
pub(crate) struct WatchedAnswer<B> {
    answer: Arc<Mutex<Answer<B>>>,
    watch: AbortHandle,
}

#[derive(Debug)]
struct Answer<B> {
    /// `None` once the answer is dropped.
    body: Option<Pin<Box<B>>>,
    /// What the body produced and the server has not taken yet.
    rest: Bytes,
    /// How many parts were asked for: the server asks for the next one when the client has room for the last one.
    asked: u64,
    /// Whether the client has to make room. Otherwise the body has to produce something, which may take any time.
    clients_turn: bool,
}

impl<B: Body + Send + 'static> WatchedAnswer<B> {
    pub(crate) fn new(body: B, patience: Duration) -> Self {
        let answer = Answer { body: Some(Box::pin(body)), rest: Bytes::new(), asked: 0, clients_turn: true };
        let answer = Arc::new(Mutex::new(answer));
        let watch = tokio::spawn(give_up_unread(Arc::clone(&answer), patience)).abort_handle();
        Self { answer, watch }
    }
}

/// Checks once per patience, so an unread answer is dropped after twice that time at most.
async fn give_up_unread<B>(answer: Arc<Mutex<Answer<B>>>, patience: Duration) {
    let mut asked = 0;
    loop {
        sleep(patience).await;
        let mut answer = locked(&answer);
        if answer.clients_turn && answer.asked == asked {
            (answer.body, answer.rest) = (None, Bytes::new());
            return;
        }
        asked = answer.asked;
    }
}

fn locked<B>(answer: &Mutex<Answer<B>>) -> MutexGuard<'_, Answer<B>> {
    answer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B> Drop for WatchedAnswer<B> {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl<B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>> Body for WatchedAnswer<B> {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let mut answer = locked(&self.answer);
        let answer = &mut *answer;
        answer.asked += 1;
        answer.clients_turn = false;
        let Some(body) = &mut answer.body else {
            return Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())));
        };
        if answer.rest.is_empty() {
            let frame = ready!(body.as_mut().poll_frame(cx));
            match frame.transpose().map_err(Into::into)?.map(Frame::into_data) {
                Some(Ok(data)) => answer.rest = data,
                Some(Err(frame)) => return Poll::Ready(Some(Ok(frame))),
                None => return Poll::Ready(None),
            }
        }
        answer.clients_turn = true;
        let length = answer.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(answer.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        let answer = locked(&self.answer);
        answer.rest.is_empty() && answer.body.as_ref().is_some_and(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let answer = locked(&self.answer);
        let Some(body) = &answer.body else { return SizeHint::default() };
        let (left, rest) = (body.size_hint(), answer.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(left.lower().saturating_add(rest));
        if let Some(upper) = left.upper().and_then(|upper| upper.checked_add(rest)) {
            hint.set_upper(upper);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Empty, StreamBody};
    use hyper::{body::Incoming, client::conn::http2, server, service::service_fn};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::{io::duplex, sync::mpsc, time::timeout};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);
    const PART: &[u8] = b"part";

    struct Answered {
        /// Sends the answer's parts.
        parts: mpsc::Sender<&'static [u8]>,
        body: Incoming,
        /// Dropping it ends the connection.
        _client: http2::SendRequest<Empty<Bytes>>,
    }

    /// Starts an answer to a client with a window of this size.
    async fn answered(window: u32) -> Answered {
        let (parts, sent) = mpsc::channel::<&'static [u8]>(1);
        let sent = Arc::new(Mutex::new(Some(sent)));
        let (near, far) = duplex(64 * 1024);
        let service = service_fn(move |_| {
            let mut sent = sent.lock().unwrap().take().unwrap();
            let parts = futures_util::stream::poll_fn(move |cx| {
                sent.poll_recv(cx)
                    .map(|part| part.map(|part| Ok::<_, Infallible>(Frame::data(Bytes::from_static(part)))))
            });
            async move { Ok::<_, Infallible>(Response::new(WatchedAnswer::new(StreamBody::new(parts), PATIENCE))) }
        });
        let server = server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(server.serve_connection(TokioIo::new(near), service));
        let mut client = http2::Builder::new(TokioExecutor::new());
        client.initial_stream_window_size(window);
        let (mut client, connection) = client.handshake(TokioIo::new(far)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("http://shop.example/").body(Empty::<Bytes>::new()).unwrap();
        let body = client.send_request(request).await.unwrap().into_body();
        Answered { parts, body, _client: client }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_is_given_up() {
        let answered = answered(0).await;
        answered.parts.send(PART).await.unwrap();
        timeout(3 * PATIENCE, answered.parts.closed()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_read_to_a_part_alone_is_given_up() {
        let answered = answered(2).await;
        for _ in 0..2 {
            sleep(3 * PATIENCE).await;
            answered.parts.send(PART).await.unwrap();
        }
        timeout(3 * PATIENCE, answered.parts.closed()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_reads_slowly_gets_it_all() {
        const LONG: &[u8] = &[7; 400_000];
        let Answered { parts, mut body, _client } = answered(64 * 1024).await;
        tokio::spawn(async move {
            for _ in 0..4 {
                parts.send(LONG).await.unwrap();
            }
        });
        let mut got = 0;
        while let Some(frame) = body.frame().await {
            got += frame.unwrap().into_data().unwrap().len();
            sleep(PATIENCE / 6).await;
        }
        assert_eq!(got, 4 * LONG.len());
    }

    #[tokio::test(start_paused = true)]
    async fn little_is_kept_of_an_answer_that_is_given_up() {
        let Answered { parts, body, _client } = answered(1).await;
        parts.send(&[7; 300_000]).await.unwrap();
        drop(parts);
        sleep(3 * PATIENCE).await;
        assert!(body.collect().await.is_err(), "it is not whole");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_slow_is_waited_for() {
        let Answered { parts, mut body, _client } = answered(64 * 1024).await;
        for _ in 0..3 {
            sleep(5 * PATIENCE).await;
            parts.send(PART).await.unwrap();
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), PART);
        }
        drop(parts);
        assert!(body.collect().await.unwrap().to_bytes().is_empty());
    }
}
