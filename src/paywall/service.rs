//! `X402<S>`: the service behind the paywall.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::paywall::{
    body::{RequestBody, ResponseBody},
    checkout::Checkout,
    door::free::AnswerFilter,
    future::ResponseFuture,
    inner_service::InnerService,
    priced_request::strip::strip_headers,
    refusal::Fault,
    seller::{nested, route::Route},
};
use crate::protocol::headers::X402_PASS;

/// A service that sells its answers. Created by [`X402Layer`](crate::X402Layer).
///
/// It answers `Request<B>` if the service inside answers `Request<RequestBody<B>>`, is `Clone`, and has a future, an error and a
/// response body that are `Send`. It never adds an error of its own: a refusal is a response, with its
/// [`ProblemCode`](crate::protocol::ProblemCode) in the extensions.
///
/// ```
/// # #[cfg(feature = "test-util")]
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # use tower_x402::{Merchant, ledger::MemoryLedger, protocol::{ChainTime, SealingKeys}, testing::ScriptedVerifier};
/// # let merchant = Merchant::builder("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?)
/// #     .verifier(ScriptedVerifier::new(ChainTime::from_unix(1_795_280_000)))
/// #     .ledger(MemoryLedger::new())
/// #     .sealing_keys(SealingKeys::random()?)
/// #     .build()
/// #     .await?;
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use tower::{Layer, ServiceExt, service_fn};
/// use tower_x402::{RequestBody, protocol::ProblemCode};
///
/// let paid = merchant.charge("greeting", "0.49 USDC")?.layer(service_fn(
///     async |_: Request<RequestBody<Full<Bytes>>>| Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::from("hello"))),
/// ));
/// let proof = r#"{"intentId":"not-an-intent"}"#;
/// let answer = paid.oneshot(Request::builder().header("x402-payment", proof).body(Full::default())?).await?;
/// assert_eq!(answer.extensions().get(), Some(&ProblemCode::TxRequired));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct X402<S> {
    route: Arc<Route>,
    inner: S,
}

impl<S> X402<S> {
    pub(crate) fn new(route: Arc<Route>, inner: S) -> Self {
        Self { route, inner }
    }

    /// Returns a reference to the service inside.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns a mutable reference to the service inside. Called directly, it sells nothing.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the service inside.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: Clone> Clone for X402<S> {
    fn clone(&self) -> Self {
        nested::cloned();
        Self { route: Arc::clone(&self.route), inner: self.inner.clone() }
    }
}

impl<S, B> Service<Request<B>> for X402<S>
where
    S: InnerService<B> + Clone,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<ResponseBody<S::ResponseBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, S::ResponseBody>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if let Some(filter) = AnswerFilter::of(&self.route, &request) {
            if self.route.strip_proof {
                strip_headers(request.headers_mut(), self.route.merchant.mpp.as_ref());
            }
            if self.route.takes_passes() {
                request.headers_mut().remove(X402_PASS);
            }
            return ResponseFuture::free(self.inner.call(request.map(RequestBody::streaming)), filter);
        }
        // The instance that was polled ready must not stay behind: it would keep the readiness that it holds.
        let (clone, priced_inside) = nested::clone_inside(&self.inner);
        let polled = mem::replace(&mut self.inner, clone);
        let (parts, body) = request.into_parts();
        let checkout = Checkout::new(Arc::clone(&self.route), polled, parts);
        if priced_inside || checkout.is_paid_already() {
            return ResponseFuture::answered(checkout.turn_away(Fault::NestedPrice));
        }
        if self.route.bypass.asks() {
            return ResponseFuture::maybe_free(checkout, body);
        }
        ResponseFuture::priced(checkout, body)
    }
}
