//! `Mcp<S>`: an MCP server whose tools are sold.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header, request::Parts};
use http_body::Body;
use tokio::sync::mpsc;
use tower_service::Service;
use tracing::Instrument as _;

use super::{
    body::McpBody,
    message::{Asked, read, sort},
    order::Order,
    server::{changed, forward, with_extension, with_prices, without_sales},
    stream::respond_to,
    table::Table,
    tool::strip_names,
    voice::{refuse_body, refuse_message, respond},
};
use crate::{
    paywall::{body::RequestBody, door::body_reader::is_identity, seller::nested},
    protocol::{ProblemCode, has_foreign_charset, headers::NO_STORE},
};

/// How many events wait for the client before the server has to wait.
const EVENTS: usize = 16;

/// An MCP server whose tools are sold. Created by [`McpLayer`](super::McpLayer).
///
/// It answers `Request<B>` if the service inside answers `Request<RequestBody<B>>`, is `Clone`, and has a future, an error and a
/// response body that are `Send`. It adds no error of its own.
#[derive(Debug)]
pub struct Mcp<S> {
    table: Arc<Table>,
    inner: S,
}

impl<S> Mcp<S> {
    pub(super) const fn new(table: Arc<Table>, inner: S) -> Self {
        Self { table, inner }
    }

    /// Returns a reference to the server inside.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the server inside.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: Clone> Clone for Mcp<S> {
    fn clone(&self) -> Self {
        nested::cloned();
        Self { table: Arc::clone(&self.table), inner: self.inner.clone() }
    }
}

impl<S, B, ResB> Service<Request<B>> for Mcp<S>
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>, Future: Send, Error: Send> + Clone + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    ResB: Body<Data = Bytes, Error: Send> + Send + 'static,
{
    type Response = Response<McpBody<ResB>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        strip_names(request.headers_mut());
        let (clone, nested) = nested::clone_inside(&self.inner);
        // The instance that was polled ready must not stay behind: it would keep the readiness that it holds.
        let mut polled = mem::replace(&mut self.inner, clone);
        let table = Arc::clone(&self.table);
        if carries_no_message(request.method()) {
            request.headers_mut().remove(header::ACCEPT_ENCODING);
            let answer = polled.call(without_message(request));
            return Box::pin(async move { Ok(without_sales(answer.await?, table.limits.answer)) });
        }
        // No readiness is held while the message arrives.
        drop(polled);
        let inner = self.inner.clone();
        let (parts, body) = request.into_parts();
        Box::pin(answer(table, inner, parts, body, nested))
    }
}

/// Returns whether requests of this method have no message in their body: they open a stream, end a session, or ask about the endpoint.
fn carries_no_message(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS].contains(method)
}

/// Returns a request of such a method without any body: a server that reads one would run an unpaid call.
fn without_message<B: Body<Data = Bytes>>(mut request: Request<B>) -> Request<RequestBody<B>> {
    if request.body().is_end_stream() {
        return request.map(RequestBody::streaming);
    }
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING].iter().for_each(|name| _ = request.headers_mut().remove(name));
    request.map(|_| RequestBody::whole(Bytes::new(), None))
}

/// Answers a request that carries a message.
async fn answer<S, B, ResB>(
    table: Arc<Table>,
    inner: S,
    mut parts: Parts,
    body: B,
    nested: bool,
) -> Result<Response<McpBody<ResB>>, S::Error>
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>, Future: Send, Error: Send> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    ResB: Body<Data = Bytes, Error: Send> + Send + 'static,
{
    // The server must see the same message as the layer.
    if !is_identity(&parts.headers) || has_foreign_charset(&parts.headers) {
        return Ok(refused(refuse_body(ProblemCode::UnsupportedEncoding)));
    }
    // Only a stream that is opened by `GET` is resumed: there, the answers to calls are left out.
    parts.headers.remove("last-event-id");
    let (data, trailers) = match read(body, table.limits).await {
        Ok(read) => read,
        Err(code) => return Ok(refused(refuse_body(code))),
    };
    let change = match sort(&table, &data) {
        Asked::Passes => return Ok(forward(inner, parts, data, trailers).await?.map(McpBody::passing)),
        Asked::Tools => with_prices(&table),
        Asked::Abilities => with_extension(),
        Asked::Call(route, call) => {
            let (teller, told) = mpsc::channel(EVENTS);
            let id = call.id.as_deref().map_or("null", |id| id.get()).to_owned();
            let span = tracing::info_span!("x402.checkout", resource = &*route.resource);
            let order = Order { table, route, call: *call, parts, inner, nested, told: teller };
            return respond_to(id, order.answer().instrument(span), told).await;
        }
        Asked::Unanswerable => {
            tracing::warn!("a paid tool was called without an id, so that nothing could be answered; it was not run");
            let mut response = Response::new(McpBody::default());
            *response.status_mut() = StatusCode::ACCEPTED;
            return Ok(response);
        }
        Asked::Refused(refusal) => return Ok(refused(refuse_message(&refusal))),
    };
    // A compressed answer could not be changed.
    parts.headers.remove(header::ACCEPT_ENCODING);
    let limit = table.limits.answer;
    Ok(changed(forward(inner, parts, data, trailers).await?, limit, change).await)
}

fn refused<ResB: Body<Data = Bytes>>((status, json): (StatusCode, String)) -> Response<McpBody<ResB>> {
    let headers = HeaderMap::from_iter([(header::CACHE_CONTROL, NO_STORE)]);
    respond(status, headers, json).map(McpBody::whole)
}
