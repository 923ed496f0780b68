//! `ResponseFuture`: the states of a request to an `X402` service.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::paywall::{
    body::{RequestBody, ResponseBody},
    checkout::{Answer, Checkout, Decided, Next, Running},
    door::{body_reader::BodyReader, free::AnswerFilter},
    inner_service::InnerService,
};

pin_project! {
    /// The response future of an [`X402`](crate::X402) service.
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
        Free { #[pin] response: F, filter: AnswerFilter },
        Reading { #[pin] reader: BodyReader<B>, checkout: Option<Checkout<S, B>> },
        Answered { response: Option<Response<ResponseBody<ResB>>> },
        Running { #[pin] future: Running<ResB, E> },
    }
}

impl<S, B, ResB, F, E> From<Next<S, B, ResB, E>> for State<S, B, ResB, F, E> {
    #[inline]
    fn from(next: Next<S, B, ResB, E>) -> Self {
        match next {
            Next::ReadBody(reader, checkout) => Self::Reading { reader, checkout: Some(checkout) },
            Next::Decided(Decided::Answer(response)) => Self::Answered { response: Some(response) },
            Next::Decided(Decided::Run(future)) => Self::Running { future },
        }
    }
}

impl<S, B, ResB> ResponseFuture<S, B, ResB>
where
    S: InnerService<B, ResponseBody = ResB> + Clone,
    B: Body<Data = Bytes> + Send + 'static,
    ResB: Body<Data = Bytes> + Send + 'static,
{
    /// A request that bypasses the paywall.
    pub(crate) fn free(response: S::Future, filter: AnswerFilter) -> Self {
        Self { state: State::Free { response, filter } }
    }

    pub(crate) fn answered(response: Response<ResponseBody<ResB>>) -> Self {
        Self { state: State::Answered { response: Some(response) } }
    }

    /// A request that may be free, by a decision that must be awaited.
    pub(crate) fn maybe_free(checkout: Checkout<S, B>, body: B) -> Self {
        Self { state: State::Running { future: checkout.ask_bypass(body, Self::priced) } }
    }

    #[inline]
    pub(crate) fn priced(checkout: Checkout<S, B>, body: B) -> Self {
        Self { state: checkout.begin(body).into() }
    }
}

impl<S, B, ResB> Future for ResponseFuture<S, B, ResB>
where
    S: InnerService<B, ResponseBody = ResB> + Clone,
    B: Body<Data = Bytes> + Send + 'static,
    ResB: Body<Data = Bytes> + Send + 'static,
{
    type Output = Answer<ResB, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let future = match state.as_mut().project() {
                StateProjection::Free { response, filter } => {
                    let response = ready!(response.poll(cx))?;
                    return Poll::Ready(Ok(filter.apply(response.map(ResponseBody::streaming))));
                }
                StateProjection::Reading { reader, checkout } => {
                    let Poll::Ready(read) = reader.poll_read(cx) else {
                        if let Some(checkout) = checkout {
                            checkout.drop_readiness();
                        }
                        return Poll::Pending;
                    };
                    // Taken before any code of the seller runs: if a price panics, a later poll does not run it again.
                    match take(checkout).body_read(read) {
                        // Most answers are quotes, and leave without passing through another state.
                        Decided::Answer(response) => return Poll::Ready(Ok(response)),
                        Decided::Run(future) => future,
                    }
                }
                StateProjection::Answered { response } => return Poll::Ready(Ok(take(response))),
                StateProjection::Running { future } => return future.poll(cx),
            };
            state.set(State::Running { future });
        }
    }
}

#[expect(clippy::expect_used, reason = "polling a future after it completed is the caller's error")]
fn take<T>(slot: &mut Option<T>) -> T {
    slot.take().expect("ResponseFuture polled after completion")
}

impl<S, B, ResB> fmt::Debug for ResponseFuture<S, B, ResB>
where
    S: Service<Request<RequestBody<B>>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
