//! The upstream, and what goes there and back.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Uri};
use http_body_util::{Either, Full, combinators::UnsyncBoxBody};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};

use super::{
    answered::Answered,
    forwarded::{Known, Peer},
};

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;
/// What the upstream answers, or the gateway in its place.
pub(crate) type ProxyBody = Either<Answered, Full<Bytes>>;
pub(super) type OutboundBody = UnsyncBoxBody<Bytes, BoxError>;

/// What the gateway knows of a request beside the request.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// The other end of its connection.
    pub(crate) peer: Peer,
    /// The one method by which it is passed on: the paywall turns the form of a page into a GET.
    pub(crate) only: Option<Method>,
    /// A GET of its path goes the same way, at the same price.
    pub(crate) get_is_alike: bool,
    /// The paywall is before it: what the upstream says of its charge goes there, and no further.
    pub(crate) is_priced: bool,
}

#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) client: Client<HttpsConnector<HttpConnector>, OutboundBody>,
    pub(super) url: Uri,
    pub(super) host: HeaderValue,
    /// The scheme and host under which clients know the service.
    pub(super) public: Option<Uri>,
    /// The same, for the upstream.
    pub(super) known: Known,
    pub(super) timeout: Duration,
}
