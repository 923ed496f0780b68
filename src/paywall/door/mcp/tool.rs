//! `Tool`: the server behind the layer, as the handler of one sale.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header, response::Parts};
use http_body::Body;
use tokio::sync::mpsc::Sender;
use tower_service::Service;

use super::{
    events::{Ended, Events, Heard, QUIET, message},
    server::is_event_stream,
};
use crate::{
    paywall::{
        body::{RequestBody, ResponseBody},
        door::body_reader::is_identity,
        priced_request::strip::strip_headers,
        seller::{consumption::Consumption, inner::MerchantInner},
    },
    protocol::{
        Receipt,
        mcp::{Reply, Said, listen},
    },
};

/// What a server sends before its answer, to be passed to the client at once.
pub(super) enum Told {
    /// The head of its event stream, before any event.
    Head(HeaderMap),
    Event(Bytes),
}

/// In the extensions of an answer: the kind of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Result,
    Error,
}

/// Why a server gave no answer to a call.
#[derive(Debug)]
pub(super) enum NoAnswer<E> {
    TooLarge,
    Broken,
    /// The service's own error.
    Failed(E),
}

/// The headers with a digest of the body.
pub(super) const DIGESTS: [&str; 4] = ["content-digest", "repr-digest", "digest", "content-md5"];
/// The header that names the payer to servers that see no extensions.
const PAYER: HeaderName = HeaderName::from_static("x402-payer");
/// The header that names the payment.
const PAYMENT_ID: HeaderName = HeaderName::from_static("x402-payment-id");

/// Runs one call of a tool. Its response's body is the tool's result, without the call's id.
pub(super) struct Tool<S> {
    pub(super) merchant: Arc<MerchantInner>,
    pub(super) inner: S,
    /// The message for the server, and the id in it.
    pub(super) call: Bytes,
    pub(super) id: String,
    pub(super) limit: usize,
    pub(super) told: Sender<Told>,
}

impl<S, B, ResB> Service<Request<RequestBody<B>>> for Tool<S>
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>, Future: Send + 'static>,
    S::Error: Send + 'static,
    ResB: Body<Data = Bytes> + Send + 'static,
    ResB::Error: Send,
{
    type Response = Response<ResponseBody<ResB>>;
    type Error = NoAnswer<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(NoAnswer::Failed)
    }

    fn call(&mut self, request: Request<RequestBody<B>>) -> Self::Future {
        let (mut parts, _) = request.into_parts();
        dress(&mut parts.headers, &self.merchant, self.call.len());
        if let Some(receipt) = parts.extensions.get::<Receipt>() {
            name_payer(&mut parts.headers, receipt);
        }
        let answer = self.inner.call(Request::from_parts(parts, RequestBody::whole(self.call.clone(), None)));
        let (id, limit, told) = (std::mem::take(&mut self.id), self.limit, self.told.clone());
        Box::pin(async move {
            let (parts, body) = answer.await.map_err(NoAnswer::Failed)?.into_parts();
            if !parts.status.is_success() {
                // The server reports the state of the connection or the session.
                return Ok(keep(Response::from_parts(parts, ResponseBody::streaming(body))));
            }
            if !is_identity(&parts.headers) {
                tracing::error!("the server compresses its answers to calls, which cannot be read so; nothing is sold");
                return Err(NoAnswer::Broken);
            }
            let reply = match is_event_stream(&parts.headers) {
                true => of_events(&parts.headers, body, &id, limit, &told).await?,
                false => of_json(body, &id, limit).await?,
            };
            Ok(answer_of(parts, reply))
        })
    }
}

/// Prepares the head of a message that is written anew, and removes what would make its answer unreadable.
pub(super) fn dress(headers: &mut HeaderMap, merchant: &MerchantInner, length: usize) {
    strip_headers(headers, merchant.mpp.as_ref());
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::ACCEPT_ENCODING);
    DIGESTS.iter().for_each(|name| _ = headers.remove(*name));
    headers.insert(header::CONTENT_LENGTH, length.into());
}

/// Removes the headers that name a payer, in any spelling that a server may accept: only a sale names one.
pub(super) fn strip_names(headers: &mut HeaderMap) {
    let is_name =
        |name: &HeaderName| [&PAYER, &PAYMENT_ID].iter().any(|ours| name.as_str().replace('_', "-") == ours.as_str());
    let names: Vec<HeaderName> = headers.keys().filter(|name| is_name(name)).cloned().collect();
    names.iter().for_each(|name| _ = headers.remove(name));
}

fn name_payer(headers: &mut HeaderMap, receipt: &Receipt) {
    let value = |text: String| HeaderValue::try_from(text).ok();
    headers.extend(value(receipt.payer().to_string()).map(|payer| (PAYER, payer)));
    headers.extend(value(receipt.payment_id().to_string()).map(|payment| (PAYMENT_ID, payment)));
}

fn keep<B>(mut response: Response<B>) -> Response<B> {
    response.extensions_mut().insert(Consumption::Keep);
    response
}

/// Returns the answer as it is judged and kept: a head, and the result alone.
fn answer_of<ResB>(mut parts: Parts, reply: Reply) -> Response<ResponseBody<ResB>> {
    let (answered, consumption, body) = match reply {
        Reply::Result(result) => (Answered::Result, Consumption::Consume, result),
        Reply::Unsold(result) => (Answered::Result, Consumption::Keep, result),
        Reply::Error(error) => (Answered::Error, Consumption::Keep, error),
        // Judged like any bill of a handler.
        Reply::Bill => {
            parts.status = StatusCode::PAYMENT_REQUIRED;
            return Response::from_parts(parts, ResponseBody::default());
        }
        Reply::Unsellable => {
            tracing::error!(
                "the server answered a paid call with a result of a kind that cannot be sold; it is withheld"
            );
            let error = r#"{"code":-32603,"message":"Internal error: the tool gave no result that can be sold. Nothing was taken."}"#;
            (Answered::Error, Consumption::Keep, error.to_owned())
        }
    };
    parts.status = StatusCode::OK;
    parts.extensions.insert(answered);
    parts.extensions.insert(consumption);
    // These belong to the stream, or to a session that the client of a kept answer does not have.
    for name in
        ["content-length", "transfer-encoding", "connection", "keep-alive", "mcp-session-id", "x-accel-buffering"]
    {
        parts.headers.remove(name);
    }
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, ResponseBody::whole(body.into()))
}

/// Reads the answer from a JSON body.
async fn of_json<B: Body<Data = Bytes>, E>(body: B, id: &str, limit: usize) -> Result<Reply, NoAnswer<E>> {
    let mut body = pin!(body);
    let mut data = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(piece) = frame.map_err(|_| NoAnswer::Broken)?.into_data() else { continue };
        if data.len() + piece.len() > limit {
            return Err(NoAnswer::TooLarge);
        }
        data.extend_from_slice(&piece);
    }
    match std::str::from_utf8(&data).map(|json| listen(json, id)) {
        Ok(Said::Reply(reply)) => Ok(reply),
        _ => Err(NoAnswer::Broken),
    }
}

/// Reads the answer from an event stream. Everything before the answer goes to the client at once.
async fn of_events<B: Body<Data = Bytes>, E>(
    head: &HeaderMap,
    body: B,
    id: &str,
    limit: usize,
    told: &Sender<Told>,
) -> Result<Reply, NoAnswer<E>> {
    let mut events = Events::new(body, limit);
    let mut head = Some(head);
    loop {
        let event = match poll_fn(|cx| events.poll_next(cx)).await {
            Ok(Heard::Event(event)) => match event.data.as_deref().filter(|data| !data.is_empty()) {
                // Its id is not passed on: the stream of a sale is not resumed.
                Some(data) => match listen(data, id) {
                    Said::Reply(reply) => return Ok(reply),
                    Said::Passes => message(data),
                    Said::Withheld => continue,
                },
                None => continue,
            },
            Ok(Heard::Quiet) => QUIET,
            Err(Ended::TooLong) => return Err(NoAnswer::TooLarge),
            Err(Ended::Over | Ended::NoEvents | Ended::Broken(_)) => return Err(NoAnswer::Broken),
        };
        if let Some(head) = head.take() {
            let _ = told.send(Told::Head(head.clone())).await;
        }
        let _ = told.send(Told::Event(event)).await;
    }
}
