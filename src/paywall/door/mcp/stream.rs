//! The response to a call: one message, or an event stream that begins before the sale has ended.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame};
use tokio::sync::mpsc::Receiver;

use super::{body::McpBody, events::message, order::Answer, server::passing, tool::Told, voice::respond};
use crate::protocol::{
    headers::{PRIVATE_NO_STORE, strip_payment_headers},
    mcp::error_message,
};

/// A sale under way.
type Selling<ResB, E> = Pin<Box<dyn Future<Output = Result<Answer<ResB>, E>> + Send>>;

/// What comes first: the end of the sale, or an earlier message of the server.
enum First<ResB, E> {
    Answer(Result<Answer<ResB>, E>),
    Told(Told),
}

/// Answers a call. `id` is its id, as it is written.
///
/// # Errors
/// The service's own error, if nothing was sent before it.
pub(super) async fn respond_to<ResB, E>(
    id: String,
    sale: impl Future<Output = Result<Answer<ResB>, E>> + Send + 'static,
    mut told: Receiver<Told>,
) -> Result<Response<McpBody<ResB>>, E>
where
    ResB: Body<Data = Bytes> + Send + 'static,
    ResB::Error: Send,
    E: Send + 'static,
{
    let mut sale: Selling<ResB, E> = Box::pin(sale);
    let first = poll_fn(|cx| {
        let answer = sale.as_mut().poll(cx);
        // The server's earlier messages come before its answer.
        match (told.poll_recv(cx), answer) {
            (Poll::Ready(Some(first)), Poll::Pending) => Poll::Ready((First::Told(first), None)),
            (Poll::Ready(Some(first)), Poll::Ready(answer)) => Poll::Ready((First::Told(first), Some(answer))),
            (_, Poll::Ready(answer)) => Poll::Ready((First::Answer(answer), None)),
            (_, Poll::Pending) => Poll::Pending,
        }
    });
    let (head, done) = match first.await {
        (First::Answer(answer), _) => return answer.map(whole),
        (First::Told(Told::Head(head)), done) => (head, done),
        (First::Told(Told::Event(_)), done) => (HeaderMap::new(), done),
    };
    let (sale, last) = match done {
        Some(answer) => (None, Some(last_event(&id, answer))),
        None => (Some(sale), None),
    };
    let body = Going { id, sale, told, last };
    let mut response = Response::new(McpBody::driven(body));
    *response.headers_mut() = stream_head(head);
    Ok(response)
}

/// Returns the answer as a response of its own.
fn whole<ResB>(answer: Answer<ResB>) -> Response<McpBody<ResB>>
where
    ResB: Body<Data = Bytes> + Send + 'static,
    ResB::Error: Send,
{
    match answer {
        Answer::Message(message) => respond(StatusCode::OK, message.headers, message.json).map(McpBody::whole),
        Answer::Failed(status, message) => respond(status, message.headers, message.json).map(McpBody::whole),
        Answer::Response(response) => passing(response),
    }
}

/// Returns the head of a stream, made from the server's head.
fn stream_head(mut headers: HeaderMap) -> HeaderMap {
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
        headers.remove(name);
    }
    strip_payment_headers(&mut headers);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, PRIVATE_NO_STORE);
    // A proxy that waits for the end would keep the client waiting.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    headers
}

/// Returns the last event of a stream. The server has answered with events, so it has no second response.
fn last_event<ResB, E>(id: &str, answer: Result<Answer<ResB>, E>) -> Bytes {
    let json = match answer {
        Ok(Answer::Message(answer) | Answer::Failed(_, answer)) => answer.json,
        Ok(Answer::Response(_)) | Err(_) => {
            error_message(id, r#"{"code":-32603,"message":"Internal error: the server failed. Nothing was taken."}"#)
        }
    };
    message(&json)
}

/// A stream that drives its sale. Dropping it counts as the client leaving.
struct Going<ResB, E> {
    id: String,
    sale: Option<Selling<ResB, E>>,
    told: Receiver<Told>,
    last: Option<Bytes>,
}

impl<ResB, E> Body for Going<ResB, E>
where
    ResB: Body<Data = Bytes> + Send + 'static,
    E: Send + 'static,
{
    type Data = Bytes;
    type Error = ResB::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ResB::Error>>> {
        let this = self.get_mut();
        if let Some(sale) = &mut this.sale
            && let Poll::Ready(answer) = sale.as_mut().poll(cx)
        {
            this.sale = None;
            this.last = Some(last_event(&this.id, answer));
        }
        loop {
            return match this.told.poll_recv(cx) {
                Poll::Ready(Some(Told::Event(event))) => Poll::Ready(Some(Ok(Frame::data(event)))),
                // The head was sent already.
                Poll::Ready(Some(Told::Head(_))) => continue,
                // The server has said all, and its answer is being settled or recorded: the sale wakes this task.
                Poll::Ready(None) if this.sale.is_some() => Poll::Pending,
                Poll::Ready(None) => Poll::Ready(this.last.take().map(|last| Ok(Frame::data(last)))),
                Poll::Pending => Poll::Pending,
            };
        }
    }

    fn is_end_stream(&self) -> bool {
        self.sale.is_none() && self.last.is_none() && self.told.is_empty()
    }
}
