//! The upstream, and the types of bodies to and from it.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Uri};
use http_body_util::{Either, Full, combinators::UnsyncBoxBody};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};

use super::{
    answered::Answered,
    forwarded::{Peer, PublicOrigin},
};

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;
/// The upstream's answer, or the gateway's in its place.
pub(crate) type ProxyBody = Either<Answered, Full<Bytes>>;
pub(super) type OutboundBody = UnsyncBoxBody<Bytes, BoxError>;

/// What the gateway knows about a request beyond the request itself.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// The connection's peer.
    pub(crate) peer: Peer,
    /// The only method to pass it on with: the paywall turns the form of a page into a GET.
    pub(crate) only: Option<Method>,
    /// Whether a GET of its path has the same target, at the same price.
    pub(crate) get_has_same_target: bool,
    /// Whether the paywall is in front: it consumes the upstream's charge, which goes no further.
    pub(crate) is_priced: bool,
}

#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) client: Client<HttpsConnector<HttpConnector>, OutboundBody>,
    pub(super) url: Uri,
    pub(super) host: HeaderValue,
    /// The scheme and host under which clients know the service.
    pub(super) public: Option<Uri>,
    /// The same, in the form of the headers for the upstream.
    pub(super) known: PublicOrigin,
    pub(super) timeout: Duration,
}
