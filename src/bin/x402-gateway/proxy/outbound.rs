//! The head of the request to the upstream.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header, request::Parts, uri::PathAndQuery};
use tower_x402::Receipt;

use super::{
    forwarded::{Before, forwarded},
    headers::{strip_hop_by_hop, strip_request},
    tunnel::WEBSOCKET,
    upstream::{Arrival, Upstream},
};

const X402_PAYER: HeaderName = HeaderName::from_static("x402-payer");
const X402_PAYMENT_ID: HeaderName = HeaderName::from_static("x402-payment-id");
const X402_AMOUNT: HeaderName = HeaderName::from_static("x402-amount");

/// Builds the head for a body of this length, if known.
pub(super) fn head(
    upstream: &Upstream,
    parts: Parts,
    length: Option<u64>,
    switches: bool,
) -> Result<Request<()>, http::Error> {
    let mut headers = parts.headers;
    let before = Before::of(&headers);
    strip_hop_by_hop(&mut headers);
    strip_request(&mut headers);
    join_cookies(&mut headers);
    let announced =
        headers.get(header::CONTENT_LENGTH).map(|value| value.to_str().ok().and_then(|text| text.parse().ok()));
    if announced.is_some_and(|announced| announced != length) {
        headers.remove(header::CONTENT_LENGTH);
    }
    // Over HTTP/1, a GET or HEAD without an announced body counts as having none.
    if length.is_none() && matches!(parts.method, Method::GET | Method::HEAD) {
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if switches {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static(WEBSOCKET));
    }
    let named = headers.insert(header::HOST, upstream.host.clone());
    let named = parts.uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok()).or(named);
    let peer = parts.extensions.get::<Arrival>().map(|arrival| &arrival.peer);
    forwarded(&mut headers, &upstream.known, peer, before, named);
    if let Some(receipt) = parts.extensions.get::<Receipt>() {
        paid(&mut headers, receipt)?;
    }
    let mut request = Request::new(());
    *request.uri_mut() = address(upstream, &parts.uri)?;
    *request.method_mut() = parts.method;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Joins the cookies: HTTP/2 may send each one on its own line, but HTTP/1 has a single line (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let lines: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if lines.len() > 1
        && let Ok(line) = HeaderValue::from_bytes(&lines.join(&b"; "[..]))
    {
        headers.insert(header::COOKIE, line);
    }
}

/// Returns the same path and query below the upstream's URL.
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

/// Tells the upstream who paid, and how much, in base units.
fn paid(headers: &mut HeaderMap, receipt: &Receipt) -> Result<(), http::Error> {
    headers.insert(X402_PAYER, HeaderValue::try_from(receipt.payer().to_string())?);
    headers.insert(X402_PAYMENT_ID, HeaderValue::try_from(receipt.payment_id().to_string())?);
    headers.insert(X402_AMOUNT, HeaderValue::try_from(receipt.amount().to_string())?);
    Ok(())
}
