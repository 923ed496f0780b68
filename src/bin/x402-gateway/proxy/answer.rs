//! The upstream's answer on its way to the client.

use http::{HeaderValue, Response, StatusCode, Version, header};
use http_body_util::Either;
use hyper::{body::Incoming, upgrade::OnUpgrade};

use super::{
    ProxyBody, Upstream,
    failed::Failed,
    headers::{strip_answer, strip_hop_by_hop},
    tunnel,
};

/// What the client gets of it.
pub(super) fn passed_on(
    mut answer: Response<Incoming>,
    switch: Option<OnUpgrade>,
    upstream: &Upstream,
) -> Response<ProxyBody> {
    let switches = match (answer.status(), switch) {
        (StatusCode::PAYMENT_REQUIRED, _) => return Failed::Bill.answer().map(Either::Right),
        (StatusCode::SWITCHING_PROTOCOLS, Some(client)) => {
            tunnel::open(client, &mut answer);
            true
        }
        // To something that was not asked for.
        (StatusCode::SWITCHING_PROTOCOLS, None) => return Failed::Broken.answer().map(Either::Right),
        _ => false,
    };
    let (mut head, body) = answer.into_parts();
    head.extensions.clear();
    head.version = Version::HTTP_11;
    strip_hop_by_hop(&mut head.headers);
    strip_answer(&mut head.headers);
    if switches {
        head.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        head.headers.insert(header::UPGRADE, HeaderValue::from_static(tunnel::WEBSOCKET));
    }
    if let Some(public) = head.headers.get(header::LOCATION).and_then(|place| relative(place, upstream)) {
        head.headers.insert(header::LOCATION, public);
    }
    Response::from_parts(head, Either::Left(body))
}

/// A place on the upstream itself, as clients reach it.
fn relative(place: &HeaderValue, upstream: &Upstream) -> Option<HeaderValue> {
    let (scheme, host) = (upstream.url.scheme_str()?, upstream.url.authority()?.as_str());
    let base = upstream.url.path().trim_end_matches('/');
    let path = place.to_str().ok()?.strip_prefix(scheme)?.strip_prefix("://")?.strip_prefix(host)?.strip_prefix(base)?;
    match path.as_bytes().first() {
        // Another slash would name another host.
        Some(b'/') if !path.starts_with("//") => HeaderValue::from_str(path).ok(),
        None => Some(HeaderValue::from_static("/")),
        _ => None,
    }
}
