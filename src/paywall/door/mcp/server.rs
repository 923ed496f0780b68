//! The server's answers to messages that are not sold.

use std::{future::poll_fn, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body::Body;
use tower_service::Service;

use super::{
    body::McpBody,
    filter::{Fate, Filtered},
    table::{MARK, Table},
};
use crate::{
    paywall::{
        body::{RequestBody, ResponseBody, Trailers},
        door::body_reader::is_identity,
        sale::read_ahead::{Read, ReadAhead},
    },
    protocol::mcp::{annotate, announce, is_reply_with},
};

/// The change of a message; `None` if it stays.
type Change = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Returns the change that adds prices to the list of tools.
pub(super) fn with_prices(table: &Arc<Table>) -> Arc<Change> {
    let table = Arc::clone(table);
    Arc::new(move |message| annotate(message, |tool| table.price_of(tool)))
}

/// Returns the change that announces the extension in what the server can do.
pub(super) fn with_extension() -> Arc<Change> {
    Arc::new(announce)
}

/// Forwards a message.
pub(super) async fn forward<S, B, ResB>(
    mut inner: S,
    parts: Parts,
    data: Bytes,
    trailers: Trailers,
) -> Result<Response<ResB>, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>>,
{
    poll_fn(|cx| inner.poll_ready(cx)).await?;
    inner.call(Request::from_parts(parts, RequestBody::whole(data, trailers))).await
}

/// Returns an answer with one of its messages changed, in JSON or among events.
pub(super) async fn changed<ResB>(
    response: Response<ResB>,
    limit: usize,
    change: Arc<Change>,
) -> Response<McpBody<ResB>>
where
    ResB: Body<Data = Bytes> + Send + 'static,
    ResB::Error: Send,
{
    if !is_identity(response.headers()) || !response.status().is_success() {
        return response.map(McpBody::passing);
    }
    let (mut parts, body) = response.into_parts();
    if is_event_stream(&parts.headers) {
        let judge = move |message: &str| change(message).map_or(Fate::Passes, Fate::Changed);
        parts.headers.remove(header::CONTENT_LENGTH);
        return Response::from_parts(parts, McpBody::driven(Filtered::new(body, limit, judge)));
    }
    let mut ahead = ReadAhead::new(body, limit);
    ahead.read().await;
    let body = match ahead.finish() {
        Read::Whole(data, _) => match std::str::from_utf8(&data).ok().and_then(|json| change(json)) {
            Some(json) => {
                parts.headers.insert(header::CONTENT_LENGTH, json.len().into());
                McpBody::whole(json)
            }
            None => McpBody::whole(data),
        },
        // It is too long to be changed, and passes as it is.
        Read::Part(rest) => McpBody::driven(rest),
        Read::Broken => {
            parts.status = StatusCode::BAD_GATEWAY;
            parts.headers = HeaderMap::new();
            McpBody::default()
        }
    };
    Response::from_parts(parts, body)
}

/// Filters a stream that the client opens by itself. By resuming one it could receive the answer to a call that was not sold, so those
/// answers are left out.
pub(super) fn without_sales<ResB>(response: Response<ResB>, limit: usize) -> Response<McpBody<ResB>>
where
    ResB: Body<Data = Bytes> + Send + 'static,
    ResB::Error: Send,
{
    if !is_event_stream(response.headers()) {
        return response.map(McpBody::passing);
    }
    let (mut parts, body) = response.into_parts();
    if !is_identity(&parts.headers) {
        tracing::error!(
            "the server compresses an event stream, which may have the results of paid calls; it is withheld"
        );
        parts.status = StatusCode::BAD_GATEWAY;
        parts.headers = HeaderMap::new();
        return Response::from_parts(parts, McpBody::default());
    }
    let judge = |message: &str| if is_reply_with(message, MARK) { Fate::Withheld } else { Fate::Passes };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, McpBody::driven(Filtered::new(body, limit, judge)))
}

/// Wraps the body of an answer to a call that turned out to be free.
pub(super) fn passing<ResB: Body<Data = Bytes> + Send + 'static>(
    response: Response<ResponseBody<ResponseBody<ResB>>>,
) -> Response<McpBody<ResB>>
where
    ResB::Error: Send,
{
    response.map(McpBody::driven)
}

pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let media = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    media.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}
