//! `ResponseFuture`: the first answer, and the purchase if that answer is a 402.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower_service::Service;
use tracing::{Instrument as _, field::Empty, info_span};

use super::{
    Failure, PayError, ReplayBody, ResponseBody,
    box_error::BoxError,
    flow::purchase::{FirstAnswer, PurchaseFlow},
    http::replay_request::ReplayRequest,
    http::request_copy::RequestCopy,
    inner::ClientInner,
};

pin_project! {
    /// The future of an answer. If it is dropped, the next call with the same request resumes a purchase that has
    /// begun.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, S, B, R> {
        #[pin]
        state: State<F, S, B, R>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, S, B, R> {
        // The unchanged request is sent. An answer that is no bill is returned.
        Asking {
            #[pin]
            asked: F,
            // Created only if the answer is not ready at the first poll.
            #[pin]
            patience: Option<Sleep>,
            started: Instant,
            rest: Option<AfterBill<S, B>>,
        },
        Purchase { flow: Flow<R> },
    }
}

type Answer<R> = Response<ResponseBody<R>>;
type Flow<R> = Pin<Box<dyn Future<Output = Result<Answer<R>, Failure>> + Send>>;

/// What the purchase needs after a bill.
struct AfterBill<S, B> {
    service: S,
    kept: RequestCopy<B>,
    inner: Arc<ClientInner>,
}

impl<F, S, B, R> ResponseFuture<F, S, B, R>
where
    S: Service<Request<B>, Response = Response<R>, Future = F> + Clone + Send + 'static,
    F: Send,
    S::Error: Into<BoxError>,
    B: ReplayBody + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    /// Waits for the answer to a request that was already sent.
    pub(super) fn asking(asked: F, service: S, kept: RequestCopy<B>, inner: Arc<ClientInner>) -> Self {
        let rest = Some(AfterBill { service, kept, inner });
        Self { state: State::Asking { asked, patience: None, started: Instant::now(), rest } }
    }

    /// Resumes or begins a purchase; `service` was polled ready.
    pub(super) fn purchase(inner: Arc<ClientInner>, service: S, request: Request<B>) -> Self {
        Self { state: State::Purchase { flow: flow(inner, service, request, None) } }
    }
}

fn flow<S, B, R>(inner: Arc<ClientInner>, service: S, request: Request<B>, first: Option<FirstAnswer<R>>) -> Flow<R>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: ReplayBody + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    let request = ReplayRequest::new(request);
    let (host, what) = (&request.identity.host, &request.identity.what);
    let span = info_span!("purchase", host, request = what, purchase = Empty, transaction = Empty);
    let started = first.as_ref().map_or_else(Instant::now, |first| first.asked);
    Box::pin(PurchaseFlow::new(inner, service, request, started).run(first).instrument(span))
}

impl<F, S, B, R> Future for ResponseFuture<F, S, B, R>
where
    S: Service<Request<B>, Response = Response<R>, Future = F> + Clone + Send + 'static,
    F: Future<Output = Result<Response<R>, S::Error>> + Send,
    S::Error: Into<BoxError>,
    B: ReplayBody + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type Output = Result<Answer<R>, PayError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let flow = match this.state.as_mut().project() {
                StateProjection::Purchase { flow } => return flow.as_mut().poll(cx).map_err(PayError::from),
                StateProjection::Asking { asked, mut patience, started, rest } => {
                    let Poll::Ready(answer) = asked.poll(cx) else {
                        if patience.is_none() {
                            let longest =
                                rest.as_ref().map_or_else(Default::default, |rest| rest.inner.settings.patience);
                            patience.set(Some(sleep_until(*started + longest)));
                        }
                        if let Some(patience) = patience.as_pin_mut() {
                            ready!(patience.poll(cx));
                        }
                        return Poll::Ready(Err(Failure::TimedOut("the seller's first answer").into()));
                    };
                    let answer = match answer {
                        Ok(answer) => answer,
                        Err(error) => return Poll::Ready(Err(Failure::Http(error.into()).into())),
                    };
                    let status = answer.status();
                    let Some(AfterBill { service, kept, inner }) = rest.take_if(|rest| rest.kept.is_billed(status))
                    else {
                        let until = rest.as_ref().and_then(|rest| rest.inner.settings.body_until());
                        return Poll::Ready(Ok(answer.map(|body| ResponseBody::untouched(body).ending(until))));
                    };
                    flow(inner, service, kept.into_request(), Some(FirstAnswer { answer, asked: *started }))
                }
            };
            this.state.set(State::Purchase { flow });
        }
    }
}

impl<F, S, B, R> fmt::Debug for ResponseFuture<F, S, B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
