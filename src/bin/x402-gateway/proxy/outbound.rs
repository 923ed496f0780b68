//! The head of the request that the upstream sees.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, header, request::Parts, uri::PathAndQuery};
use tower_x402::Receipt;

use super::{
    headers::{strip_hop_by_hop, strip_request},
    tunnel::WEBSOCKET,
    upstream::{Arrival, Upstream},
};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(super) const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X402_PAYER: HeaderName = HeaderName::from_static("x402-payer");
const X402_PAYMENT_ID: HeaderName = HeaderName::from_static("x402-payment-id");
const X402_AMOUNT: HeaderName = HeaderName::from_static("x402-amount");

/// Makes it, for a body of this length, if that is known.
pub(super) fn head(
    upstream: &Upstream,
    parts: &Parts,
    length: Option<u64>,
    switches: bool,
) -> Result<Request<()>, http::Error> {
    let mut headers = parts.headers.clone();
    let before = Before::of(&headers);
    strip_hop_by_hop(&mut headers);
    strip_request(&mut headers);
    join_cookies(&mut headers);
    let announced =
        headers.get(header::CONTENT_LENGTH).map(|value| value.to_str().ok().and_then(|text| text.parse().ok()));
    if announced.is_some_and(|announced| announced != length) {
        headers.remove(header::CONTENT_LENGTH);
    }
    if switches {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static(WEBSOCKET));
    }
    let named = headers.insert(header::HOST, upstream.host.clone());
    let named = parts.uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok()).or(named);
    forwarded(&mut headers, upstream, parts, before, named);
    if let Some(receipt) = parts.extensions.get::<Receipt>() {
        paid(&mut headers, receipt)?;
    }
    let mut request = Request::builder().method(parts.method.clone()).uri(address(upstream, &parts.uri)?).body(())?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// HTTP/2 may send each cookie on a line of its own, and HTTP/1 has one line (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let lines: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if lines.len() > 1
        && let Ok(line) = HeaderValue::from_bytes(&lines.join(&b"; "[..]))
    {
        headers.insert(header::COOKIE, line);
    }
}

/// The same path and query, below the upstream's URL.
fn address(upstream: &Upstream, uri: &Uri) -> Result<Uri, http::Error> {
    let base = upstream.url.path().trim_end_matches('/');
    let asked = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let path: PathAndQuery = match (base, uri.path_and_query()) {
        ("", Some(asked)) => asked.clone(),
        _ => format!("{base}{asked}").parse()?,
    };
    let mut address = upstream.url.clone().into_parts();
    address.path_and_query = Some(path);
    Ok(Uri::from_parts(address)?)
}

/// What proxies before this one said.
struct Before {
    addresses: String,
    forwarded: String,
}

impl Before {
    fn of(headers: &HeaderMap) -> Self {
        Self { addresses: joined(headers, &X_FORWARDED_FOR), forwarded: joined(headers, &header::FORWARDED) }
    }
}

fn joined(headers: &HeaderMap, name: &HeaderName) -> String {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.fold(String::new(), |all, value| if all.is_empty() { value.to_owned() } else { all + ", " + value })
}

/// Says where the request came from, at the end of what is said already; and under which address clients know the service.
fn forwarded(headers: &mut HeaderMap, upstream: &Upstream, parts: &Parts, before: Before, named: Option<HeaderValue>) {
    let public = upstream.public.as_ref();
    let proto = public.and_then(Uri::scheme_str).unwrap_or("http");
    let host = public.and_then(Uri::authority).map(|host| host.as_str().to_owned());
    let host = host.or_else(|| named?.to_str().ok().map(str::to_owned)).unwrap_or_default();
    let mut set = |name, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    };
    if let Some(peer) = parts.extensions.get::<Arrival>().map(|arrival| arrival.peer.ip().to_canonical()) {
        let shown = match peer {
            IpAddr::V4(peer) => format!("for={peer}"),
            IpAddr::V6(peer) => format!("for=\"[{peer}]\""),
        };
        let host = if host.is_empty() || host.contains('"') { String::new() } else { format!(";host=\"{host}\"") };
        set(X_FORWARDED_FOR, after(before.addresses, &peer.to_string()));
        set(header::FORWARDED, after(before.forwarded, &format!("{shown}{host};proto={proto}")));
    }
    set(X_FORWARDED_PROTO, proto.to_owned());
    if !host.is_empty() {
        set(X_FORWARDED_HOST, host);
    }
}

fn after(before: String, last: &str) -> String {
    if before.is_empty() { last.to_owned() } else { before + ", " + last }
}

/// Says who paid, and how much, in base units.
fn paid(headers: &mut HeaderMap, receipt: &Receipt) -> Result<(), http::Error> {
    headers.insert(X402_PAYER, HeaderValue::try_from(receipt.payer().to_string())?);
    headers.insert(X402_PAYMENT_ID, HeaderValue::try_from(receipt.payment_id().to_string())?);
    headers.insert(X402_AMOUNT, HeaderValue::try_from(receipt.amount().to_string())?);
    Ok(())
}
