//! `ResponseFuture`: a free request, one whose body is being read, a quote, or a checkout under way.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    body::{RequestBody, ResponseBody},
    checkout::{Checkout, Incoming, Step},
    extract::Reader,
};
use crate::protocol::headers::strip_payment_headers;

type Answer<S, B, ResB> = Result<Response<ResponseBody<ResB>>, <S as Service<Request<RequestBody<B>>>>::Error>;

pin_project! {
    /// The answer of an [`X402`](crate::X402) service.
    pub struct ResponseFuture<S, B, ResB>
    where
        S: Service<Request<RequestBody<B>>>,
    {
        #[pin]
        state: State<S, B, ResB, S::Future, S::Error>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, ResB, F, E> {
        Passing { #[pin] response: F, preflight: bool },
        Reading { #[pin] reader: Reader<B>, checkout: Option<Checkout<S>> },
        Answered { response: Option<Response<ResponseBody<ResB>>> },
        Checkout { future: Pin<Box<dyn Future<Output = Result<Response<ResponseBody<ResB>>, E>> + Send>> },
    }
}

impl<S, B, ResB> ResponseFuture<S, B, ResB>
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Body<Data = Bytes> + Send + 'static,
    ResB: Send + 'static,
{
    pub(crate) fn passing(response: S::Future, preflight: bool) -> Self {
        Self { state: State::Passing { response, preflight } }
    }

    pub(crate) fn answered(response: Response<ResponseBody<ResB>>) -> Self {
        Self { state: State::Answered { response: Some(response) } }
    }

    /// Asks the gate first, and lets the polled instance go while its word is waited for.
    pub(crate) fn asking(mut checkout: Checkout<S>, body: B) -> Self {
        checkout.let_go();
        let future = Box::pin(async move {
            match checkout.order.is_free().await {
                Ok(true) => checkout.serve(RequestBody::streaming(body)).await,
                Ok(false) => Self::priced(checkout, body).await,
                Err(problem) => Ok(checkout.order.problem(problem)),
            }
        });
        Self { state: State::Checkout { future } }
    }

    /// Decides from the head whether the body must be read first.
    pub(crate) fn priced(checkout: Checkout<S>, body: B) -> Self {
        match checkout.incoming(body) {
            Incoming::Read(reader) => Self { state: State::Reading { reader, checkout: Some(checkout) } },
            Incoming::Decided(presented, body) => Self { state: State::of(checkout.step(presented, body)) },
        }
    }
}

impl<S, B, ResB, F, E> State<S, B, ResB, F, E> {
    fn of(step: Step<ResB, E>) -> Self {
        match step {
            Step::Answered(response) => Self::Answered { response: Some(response) },
            Step::Checkout(future) => Self::Checkout { future },
        }
    }
}

impl<S, B, ResB> Future for ResponseFuture<S, B, ResB>
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Body<Data = Bytes> + Send + 'static,
    ResB: Send + 'static,
{
    type Output = Answer<S, B, ResB>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Passing { response, preflight } => {
                    let response = ready!(response.poll(cx))?;
                    return Poll::Ready(Ok(if *preflight {
                        without_answer(response)
                    } else {
                        response.map(ResponseBody::streaming)
                    }));
                }
                StateProjection::Reading { reader, checkout } => match reader.poll_read(cx) {
                    Poll::Pending => {
                        if let Some(checkout) = checkout {
                            checkout.let_go();
                        }
                        return Poll::Pending;
                    }
                    Poll::Ready(read) => {
                        let checkout = take(checkout);
                        State::of(match read {
                            Ok(read) => {
                                let body = RequestBody::whole(read.data.clone(), read.trailers);
                                checkout.with_body(read.data).step(Ok(read.proof), body)
                            }
                            Err(code) => checkout.refused(code),
                        })
                    }
                },
                StateProjection::Answered { response } => return Poll::Ready(Ok(take(response))),
                StateProjection::Checkout { future } => return future.as_mut().poll(cx),
            };
            state.set(next);
        }
    }
}

#[expect(clippy::expect_used, reason = "polling a future after it completed is the caller's error")]
fn take<T>(slot: &mut Option<T>) -> T {
    slot.take().expect("ResponseFuture polled after completion")
}

/// An answer to a preflight: whatever the service says, nothing of it is an answer that is sold. Neither is it another
/// protocol, or the address of an answer, or a bill; browsers take none of these for a permission.
fn without_answer<ResB>(response: Response<ResB>) -> Response<ResponseBody<ResB>> {
    let mut response = response.map(|_| ResponseBody::default());
    let status = response.status();
    if status.is_informational() || status.is_redirection() || status == StatusCode::PAYMENT_REQUIRED {
        *response.status_mut() = StatusCode::FORBIDDEN;
    }
    let headers = response.headers_mut();
    for name in [header::CONTENT_LENGTH, header::LOCATION, header::CONTENT_LOCATION, header::UPGRADE] {
        headers.remove(name);
    }
    strip_payment_headers(headers);
    response
}

impl<S, B, ResB> fmt::Debug for ResponseFuture<S, B, ResB>
where
    S: Service<Request<RequestBody<B>>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
