//! `ReqwestClient`: reqwest as a tower service of `http` requests.

use std::{
    fmt,
    future::{Future, poll_fn},
    net::{Ipv6Addr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use reqwest::{Body, Client, ClientBuilder, RequestBuilder, ResponseBuilderExt as _, Url, redirect};
use tower_service::Service;

use crate::{
    client::{Failure, Pay, PayError, ReplayBody, ResponseBody, box_error::BoxError, http::Exclusive},
    protocol::is_loopback,
};

/// A [`Service`] over `reqwest::Client` for [`PayLayer`](crate::client::PayLayer): takes `http::Request`s with any body.
///
/// It follows no redirects: otherwise a redirect could carry a proof of payment to any server that the seller names. A
/// 3xx response reaches the caller.
///
/// **This machine.** Requests over plain HTTP to a loopback address never use a proxy, regardless of `HTTP_PROXY` and
/// the builder: the layer pays loopback quotes over plain HTTP because nothing is on the path, unlike with a proxy. A
/// second client sends them, with reqwest's default settings and no proxy; [`loopback`](Self::loopback) gives it
/// others.
///
/// ```
/// use tower_x402::client::{ReqwestClient, reqwest};
/// let client = ReqwestClient::new(reqwest::Client::builder().user_agent("my-agent/1.0"))?;
/// # Ok::<(), reqwest::Error>(())
/// ```
///
/// [`Pay::send`] takes what reqwest builds, and returns what reqwest returns. A [`Purchase`](crate::client::Purchase) is among the extensions
/// of an answer that was bought:
///
/// ```
/// # use tower_x402::client::{Pay, PayError, Purchase, ReqwestClient};
/// async fn forecast(client: &Pay<ReqwestClient>, http: &reqwest::Client) -> Result<reqwest::Response, PayError> {
///     let answer = client.send(http.get("https://shop.example/forecast")).await?;
///     if let Some(bought) = answer.extensions().get::<Purchase>() {
///         println!("paid {}", bought.amount.to_decimal(bought.decimals));
///     }
///     Ok(answer)
/// }
/// ```
#[derive(Clone)]
pub struct ReqwestClient {
    client: Client,
    /// The client for plain HTTP to this machine.
    loopback: Client,
}

/// The caller's assurance that a client follows no redirects: see [`ReqwestClient::from_client`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowsNoRedirects;

impl ReqwestClient {
    /// Creates a client with these settings, but with redirects off.
    ///
    /// # Errors
    /// Those of [`ClientBuilder::build`].
    pub fn new(builder: ClientBuilder) -> reqwest::Result<Self> {
        Self::from_client(builder.redirect(redirect::Policy::none()).build()?, FollowsNoRedirects)
    }

    /// Wraps an existing client. It must have been built with
    /// [`redirect::Policy::none`](reqwest::redirect::Policy::none). A client does not reveal its policy, and one that
    /// follows redirects gives proofs of payment to any server that a seller names.
    ///
    /// ```
    /// use tower_x402::client::{FollowsNoRedirects, ReqwestClient};
    /// let shared = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    /// let client = ReqwestClient::from_client(shared, FollowsNoRedirects)?;
    /// # Ok::<(), reqwest::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`ClientBuilder::build`], for the second client.
    pub fn from_client(client: Client, _: FollowsNoRedirects) -> reqwest::Result<Self> {
        Ok(Self { client, loopback: direct(Client::builder())? })
    }

    /// Sets the settings of the client for plain HTTP to this machine. Its redirects and proxies stay off, and
    /// `localhost` stays the loopback address.
    ///
    /// # Errors
    /// Those of [`ClientBuilder::build`].
    pub fn loopback(self, builder: ClientBuilder) -> reqwest::Result<Self> {
        Ok(Self { loopback: direct(builder)?, ..self })
    }
}

impl Pay<ReqwestClient> {
    /// Sends a request that reqwest has built, pays for the answer if it costs money, and returns the answer.
    ///
    /// The client that built the request does not send it: this one does. A timeout of the request limits each time that it is sent, and
    /// not the purchase; that is what [`Deadline`](crate::client::Deadline) is for, which goes into the extensions of an `http::Request`,
    /// like every other directive.
    ///
    /// # Errors
    /// Those of the [module](crate::client), and [`PayErrorKind::Http`](crate::client::PayErrorKind::Http) for a request that reqwest could
    /// not build. [`PayError::money`] says where the money is.
    pub async fn send(&self, request: RequestBuilder) -> Result<reqwest::Response, PayError> {
        let built = request.build();
        let url = built.as_ref().ok().map(|built| built.url().clone());
        let built = built.and_then(Request::<Body>::try_from);
        let request = built.map_err(|error| Failure::Http(error.without_url().into()))?;
        let mut client = self.clone();
        poll_fn(|cx| Service::<Request<Body>>::poll_ready(&mut client, cx)).await?;
        let answer = client.call(request).await?;
        Ok(named(answer, url).into())
    }
}

/// Gives an answer the address that was asked: reqwest's own type keeps it among the extensions.
fn named<B>(mut answer: Response<B>, url: Option<Url>) -> Response<B> {
    let name = url.and_then(|url| Response::builder().url(url).body(()).ok());
    answer.extensions_mut().extend(name.map(|name| name.into_parts().0.extensions).unwrap_or_default());
    answer
}

fn direct(builder: ClientBuilder) -> reqwest::Result<Client> {
    // Port 0 means the port of the request.
    let here = [SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))];
    builder.redirect(redirect::Policy::none()).no_proxy().resolve_to_addrs("localhost", &here).build()
}

fn is_here(url: &Url) -> bool {
    url.scheme() == "http" && url.host_str().is_some_and(is_loopback)
}

impl<B> Service<Request<B>> for ReqwestClient
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = reqwest::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, reqwest::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), reqwest::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { client, loopback } = self.clone();
        let request = reqwest::Request::try_from(request.map(|body| Body::wrap(Exclusive::new(body))));
        let open = async move {
            let request = request?;
            let client = if is_here(request.url()) { loopback } else { client };
            Ok(client.execute(request).await?.into())
        };
        // Remove the URL from errors, because it may hold secrets, in particular in its query.
        Box::pin(async move { open.await.map_err(reqwest::Error::without_url) })
    }
}

/// Converts an answer's body, so that an answer can become a `reqwest::Response`.
impl From<ResponseBody<Body>> for Body {
    fn from(body: ResponseBody<Body>) -> Self {
        Self::wrap(body)
    }
}

/// Shows no settings, because they may include a proxy's password.
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
