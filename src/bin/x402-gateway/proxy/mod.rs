//! The reverse proxy: one request to the upstream, one answer back, both as streams.

mod answer;
mod answered;
mod failed;
mod forwarded;
mod headers;
mod outbound;
mod problem;
mod progress;
mod redirect;
mod tunnel;
mod upstream;

use std::{
    convert::Infallible,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Either;
use hyper::body::{Body, Incoming};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use tokio::time::timeout;
use tower_service::Service;

use failed::Failed;
pub(crate) use forwarded::Peer;
use forwarded::PublicOrigin;
pub(crate) use problem::problem;
use progress::Progress;
use redirect::{Asked, Site};
pub(crate) use upstream::{Arrival, BoxError, ProxyBody};
use upstream::{OutboundBody, Upstream};

use super::failure::Failure;

/// How long a connection to the upstream may take to open.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an unused connection is kept. It is shorter than in common servers: a request whose connection closes is
/// not retried.
const IDLE: Duration = Duration::from_secs(1);

/// The upstream, as a service. A clone uses the same connections.
#[derive(Clone, Debug)]
pub(crate) struct Proxy(Arc<Upstream>);

impl Proxy {
    /// Creates the proxy without connecting.
    ///
    /// # Errors
    /// Fails if the machine has no root certificates for an https upstream.
    pub(crate) fn new(url: Uri, public: Option<Uri>, timeout: Duration) -> Result<Self, Failure> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(timeout.min(CONNECT)));
        let tls = HttpsConnectorBuilder::new();
        let tls = match url.scheme_str() {
            // Root certificates are read only if needed.
            Some("https") => tls.with_provider_and_native_roots(aws_lc_rs::default_provider()).map_err(|error| {
                Failure::environment(format!(
                    "no root certificates for the https upstream: {error}; install ca-certificates"
                ))
            })?,
            _ => tls.with_tls_config(no_roots()?),
        };
        let connector = tls.https_or_http().enable_http1().wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        let authority = url.authority().map(|authority| authority.as_str()).unwrap_or_default();
        let host = HeaderValue::from_str(authority).map_err(Failure::usage)?;
        let known = PublicOrigin::of(public.as_ref());
        Ok(Self(Arc::new(Upstream { client, url, host, public, known, timeout })))
    }
}

impl<B> Service<Request<B>> for Proxy
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ProxyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let upstream = Arc::clone(&self.0);
        Box::pin(async move { Ok(upstream.forward(request).await) })
    }
}

impl Upstream {
    async fn forward<B>(&self, mut request: Request<B>) -> Response<ProxyBody>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let arrival = request.extensions().get::<Arrival>();
        let only = arrival.and_then(|arrival| arrival.only.as_ref());
        let is_priced = arrival.is_some_and(|arrival| arrival.is_priced);
        let get_has_same_target = arrival.is_some_and(|arrival| arrival.get_has_same_target);
        if only.is_some_and(|only| only != request.method()) {
            let detail = match *request.method() {
                Method::POST => "This address takes the form of its own page, and no other POST.",
                _ => "This address has no page, whose form it could take.",
            };
            return problem(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail).map(Either::Right);
        }
        let switch = tunnel::asked_for(&mut request);
        let (parts, body) = request.into_parts();
        let (body, progress) = progress::watched(body);
        let (uri, method) = (parts.uri.clone(), parts.method.clone());
        let length = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
        let head = match outbound::head(self, parts, length, switch.is_some()) {
            Ok(head) => head,
            Err(_) => {
                let detail = "The address does not fit the service behind this one.";
                return problem(StatusCode::BAD_REQUEST, "invalid_request", detail).map(Either::Right);
            }
        };
        let told = head.headers().get(forwarded::X_FORWARDED_HOST).cloned();
        match self.answered(head.map(|()| body), progress).await {
            Ok(answer) => {
                let told = told.as_ref().and_then(|told| told.to_str().ok());
                let site = Site { upstream: &self.url, public: self.public.as_ref(), told };
                let asked = Asked { uri: &uri, method: &method, get_has_same_target };
                answer::passed_on(answer, switch, &site, &asked, is_priced)
            }
            Err(failure) => failure.answer().map(Either::Right),
        }
    }

    /// Returns the head of the upstream's answer. The time limit counts from the last byte of the request that was
    /// sent.
    async fn answered(
        &self,
        request: Request<OutboundBody>,
        progress: Option<Arc<Progress>>,
    ) -> Result<Response<Incoming>, Failed> {
        let mut pending = pin!(self.client.request(request));
        let mut wait = self.timeout;
        loop {
            match timeout(wait, pending.as_mut()).await {
                Ok(answer) => return answer.map_err(|error| Failed::of(&error)),
                Err(_) => {
                    let Some(progress) = &progress else { return Err(Failed::Slow) };
                    match self.timeout.checked_sub(progress.idle()) {
                        Some(left) if !left.is_zero() => wait = left,
                        _ if progress.waits_for_client() => return Err(Failed::ClientSlow),
                        _ => return Err(Failed::Slow),
                    }
                }
            }
        }
    }
}

/// Returns a TLS configuration that trusts no certificate, for an upstream without TLS.
fn no_roots() -> Result<ClientConfig, Failure> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(Failure::environment)?;
    Ok(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}
