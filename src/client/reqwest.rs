//! `ReqwestClient`: reqwest as a tower service of `http` requests.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use reqwest::{Body, Client, ClientBuilder, redirect};
use tower_service::Service;

use super::ReplayBody;

/// `reqwest::Client` for [`PayLayer`](super::PayLayer): takes `http::Request`s with any body.
///
/// It follows no redirect: a redirect followed on the way would carry a proof of payment to whoever the seller names.
/// A response of status 3xx reaches the caller, who can follow it himself.
///
/// ```
/// use tower_x402::client::ReqwestClient;
/// let client = ReqwestClient::new(reqwest::Client::builder().user_agent("my-agent/1.0"))?;
/// # Ok::<(), reqwest::Error>(())
/// ```
#[derive(Clone)]
pub struct ReqwestClient(Client);

impl ReqwestClient {
    /// A client with these settings, but for redirects, which are off.
    ///
    /// # Errors
    /// Those of [`ClientBuilder::build`].
    pub fn new(builder: ClientBuilder) -> reqwest::Result<Self> {
        Ok(Self(builder.redirect(redirect::Policy::none()).build()?))
    }
}

impl<B> Service<Request<B>> for ReqwestClient
where
    B: HttpBody<Data = Bytes> + Send + Sync + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = reqwest::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, reqwest::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), reqwest::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let client = self.0.clone();
        let request = reqwest::Request::try_from(request.map(Body::wrap));
        // An address may hold secrets, in its query above all.
        let open = async move { Ok(client.execute(request?).await?.into()) };
        Box::pin(async move { open.await.map_err(reqwest::Error::without_url) })
    }
}

/// What the builder was given may hold a proxy's password.
impl fmt::Debug for ReqwestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReqwestClient")
    }
}

impl ReplayBody for Body {
    fn replay(&self) -> Option<Self> {
        self.bytes().map(Into::into)
    }

    fn bytes(&self) -> Option<Bytes> {
        self.as_bytes().map(Bytes::copy_from_slice)
    }

    fn from_bytes(bytes: Bytes) -> Option<Self> {
        Some(bytes.into())
    }
}
