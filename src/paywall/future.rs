//! `ResponseFuture`: a free request, one whose body is being read, a quote, or a checkout under way.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    body::{RequestBody, ResponseBody},
    checkout::{Boxed, Checkout, Incoming, Step},
    extract::{Read, Reader},
    media::Media,
    respond::{Form, without_bill},
};
use crate::protocol::headers::{X402_PAYMENT, keep_preflight_headers};

type Answer<S, B, ResB> = Result<Response<ResponseBody<ResB>>, <S as Service<Request<RequestBody<B>>>>::Error>;

/// How the answer to a request leaves that was let through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exit {
    Untouched,
    /// A proof was shown.
    WithoutBill(Form),
    /// It was a preflight.
    WithoutAnswer,
}

impl Exit {
    /// Of a request that is free.
    pub(crate) fn free(method: &Method, headers: &HeaderMap) -> Self {
        if headers.contains_key(X402_PAYMENT) {
            Self::WithoutBill(Form::of(method, Media::of(headers)))
        } else {
            Self::Untouched
        }
    }

    fn leave<ResB>(self, response: Response<ResponseBody<ResB>>) -> Response<ResponseBody<ResB>> {
        match self {
            Self::Untouched => response,
            Self::WithoutBill(form) => without_bill(response, form),
            Self::WithoutAnswer => without_answer(response),
        }
    }
}

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
        Passing { #[pin] response: F, exit: Exit },
        Reading { #[pin] reader: Reader<B>, checkout: Option<Checkout<S>> },
        Answered { response: Option<Response<ResponseBody<ResB>>> },
        Checkout { future: Boxed<ResB, E> },
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
    pub(crate) fn passing(response: S::Future, exit: Exit) -> Self {
        Self { state: State::Passing { response, exit } }
    }

    pub(crate) fn answered(response: Response<ResponseBody<ResB>>) -> Self {
        Self { state: State::Answered { response: Some(response) } }
    }

    /// Asks the gate first, and lets the polled instance go while its word is waited for.
    pub(crate) fn asking(mut checkout: Checkout<S>, body: B) -> Self {
        checkout.let_go();
        let future = Box::pin(async move {
            match checkout.order.is_free().await {
                Ok(true) => {
                    let exit = Exit::free(&checkout.order.parts.method, &checkout.order.parts.headers);
                    checkout.serve(RequestBody::streaming(body)).await.map(|response| exit.leave(response))
                }
                Ok(false) => Self::priced(checkout, body).await,
                Err(problem) => Ok(checkout.order.problem(problem)),
            }
        });
        Self { state: State::Checkout { future } }
    }

    /// Decides from the head whether the body must be read first.
    pub(crate) fn priced(checkout: Checkout<S>, body: B) -> Self {
        match checkout.incoming(&body) {
            Incoming::Read(plan, shown) => {
                let reader = Reader::new(body, plan, shown);
                Self { state: State::Reading { reader, checkout: Some(checkout) } }
            }
            Incoming::Decided(presented) => match checkout.decide(presented) {
                Step::Answered(response) => Self::answered(response),
                Step::Errand(errand) => {
                    let future = checkout.run(errand, RequestBody::streaming(body));
                    Self { state: State::Checkout { future } }
                }
            },
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
                StateProjection::Passing { response, exit } => {
                    let response = ready!(response.poll(cx))?;
                    return Poll::Ready(Ok(exit.leave(response.map(ResponseBody::streaming))));
                }
                StateProjection::Reading { reader, checkout } => {
                    let Poll::Ready(read) = reader.poll_read(cx) else {
                        if let Some(checkout) = checkout {
                            checkout.let_go();
                        }
                        return Poll::Pending;
                    };
                    // Taken before anything foreign is called: a price that panics is not asked again about nothing.
                    let mut checkout = take(checkout);
                    let (step, trailers) = match read {
                        Ok(Read::Whole { data, trailers, proof }) => {
                            checkout.order.bytes = Some(data);
                            (checkout.decide(Ok(proof)), trailers)
                        }
                        Ok(Read::TooLong) => {
                            checkout.too_long();
                            (checkout.decide(Ok(None)), None)
                        }
                        Err(code) => (Step::Answered(checkout.order.problem(code)), None),
                    };
                    match step {
                        Step::Answered(response) => return Poll::Ready(Ok(response)),
                        Step::Errand(errand) => {
                            let body = RequestBody::whole(checkout.order.body(), trailers);
                            State::Checkout { future: checkout.run(errand, body) }
                        }
                    }
                }
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
/// protocol, or the address of an answer, or a bill; browsers take none of these for a permission. Of its headers
/// those stay that a preflight is about, for any other may hold what is sold.
fn without_answer<ResB>(response: Response<ResponseBody<ResB>>) -> Response<ResponseBody<ResB>> {
    let mut response = response.map(|_| ResponseBody::default());
    let status = response.status();
    if status.is_informational() || status.is_redirection() || status == StatusCode::PAYMENT_REQUIRED {
        *response.status_mut() = StatusCode::FORBIDDEN;
    }
    keep_preflight_headers(response.headers_mut());
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
