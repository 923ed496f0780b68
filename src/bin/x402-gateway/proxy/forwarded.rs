//! Tells the upstream where a request came from: `X-Forwarded-*`, and `Forwarded` (RFC 7239).

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(super) const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The peer of a connection, in the form of these headers. Written once for all requests of the connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    address: HeaderValue,
    /// `for=` and the address.
    element: Arc<str>,
}

impl Peer {
    pub(crate) fn new(peer: SocketAddr) -> Self {
        let ip = peer.ip().to_canonical();
        let element = match ip {
            IpAddr::V4(ip) => format!("for={ip}"),
            IpAddr::V6(ip) => format!("for=\"[{ip}]\""),
        };
        // An address is digits, letters, dots and colons.
        let address = HeaderValue::try_from(ip.to_string()).unwrap_or(HeaderValue::from_static("unknown"));
        Self { address, element: element.into() }
    }
}

/// The public scheme and host of the service. Without a configured host, each request's own host is used.
#[derive(Debug)]
pub(super) struct PublicOrigin {
    proto: HeaderValue,
    host: Option<HeaderValue>,
}

impl PublicOrigin {
    pub(super) fn of(public: Option<&Uri>) -> Self {
        let value = |text: &str| HeaderValue::from_str(text).ok();
        let proto = public.and_then(Uri::scheme_str).and_then(value);
        let host = public.and_then(Uri::authority).and_then(|host| value(host.as_str()));
        Self { proto: proto.unwrap_or(HeaderValue::from_static("http")), host }
    }
}

/// What earlier proxies wrote into these headers.
pub(super) struct Before {
    addresses: String,
    forwarded: String,
}

impl Before {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self { addresses: joined(headers, &X_FORWARDED_FOR), forwarded: joined(headers, &header::FORWARDED) }
    }
}

fn joined(headers: &HeaderMap, name: &HeaderName) -> String {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.fold(String::new(), |all, value| if all.is_empty() { value.to_owned() } else { all + ", " + value })
}

/// Appends where the request came from to what earlier proxies wrote, and adds the service's public address. `named`
/// is the host that the request names.
pub(super) fn forwarded(
    headers: &mut HeaderMap,
    known: &PublicOrigin,
    peer: Option<&Peer>,
    before: Before,
    named: Option<HeaderValue>,
) {
    let named = || named.filter(|host| host.to_str().is_ok_and(|host| !host.is_empty()));
    let host = known.host.clone().or_else(named);
    if let Some(peer) = peer {
        let element = element(peer, host.as_ref(), &known.proto);
        append(headers, X_FORWARDED_FOR, before.addresses, &peer.address);
        if let Ok(element) = HeaderValue::from_str(&element) {
            append(headers, header::FORWARDED, before.forwarded, &element);
        }
    }
    headers.insert(X_FORWARDED_PROTO, known.proto.clone());
    if let Some(host) = host {
        headers.insert(X_FORWARDED_HOST, host);
    }
}

fn element(peer: &Peer, host: Option<&HeaderValue>, proto: &HeaderValue) -> String {
    let host = host.and_then(|host| host.to_str().ok()).filter(|host| !host.contains('"'));
    let proto = proto.to_str().unwrap_or_default();
    let mut element = String::with_capacity(peer.element.len() + host.map_or(0, str::len) + proto.len() + 16);
    element.push_str(&peer.element);
    if let Some(host) = host {
        element.extend([";host=\"", host, "\""]);
    }
    element.extend([";proto=", proto]);
    element
}

/// Sets the header to the earlier values and the last one.
fn append(headers: &mut HeaderMap, name: HeaderName, before: String, last: &HeaderValue) {
    let value = match (before.is_empty(), last.to_str()) {
        (false, Ok(last)) => HeaderValue::try_from(before + ", " + last).ok(),
        _ => Some(last.clone()),
    };
    if let Some(value) = value {
        headers.insert(name, value);
    }
}
