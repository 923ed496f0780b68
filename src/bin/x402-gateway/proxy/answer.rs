//! The upstream's answer on its way to the client.

use http::{HeaderValue, Response, StatusCode, Uri, Version, header, uri::Authority};
use http_body_util::Either;
use hyper::{body::Incoming, upgrade::OnUpgrade};
use tower_x402::Consumption;

use super::{
    super::routes::path::CleanPath,
    answered::Answered,
    failed::Failed,
    headers::{strip_answer, strip_hop_by_hop},
    tunnel,
    upstream::{ProxyBody, Upstream},
};

/// What the client gets of it.
pub(super) fn passed_on(
    mut answer: Response<Incoming>,
    switch: Option<OnUpgrade>,
    upstream: &Upstream,
    asked: &str,
    is_priced: bool,
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
    strip_answer(&mut head.headers, is_priced);
    if switches {
        head.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        head.headers.insert(header::UPGRADE, HeaderValue::from_static(tunnel::WEBSOCKET));
    }
    if let Some(place) = head.headers.get(header::LOCATION).cloned() {
        let place = relative(&place, upstream).unwrap_or(place);
        if head.status.is_redirection() && leads_back(&place, upstream, asked) {
            // There the same is for sale again: a redirect to it is not to be paid for.
            head.extensions.insert(Consumption::Keep);
        }
        head.headers.insert(header::LOCATION, place);
    }
    Response::from_parts(head, Either::Left(Answered(body)))
}

/// A place on the upstream itself, as clients reach it.
fn relative(place: &HeaderValue, upstream: &Upstream) -> Option<HeaderValue> {
    let (scheme, host) = (upstream.url.scheme_str()?, upstream.url.authority()?.as_str());
    let base = upstream.url.path().trim_end_matches('/');
    let path =
        place.to_str().ok()?.strip_prefix(scheme)?.strip_prefix("://")?.strip_prefix(host)?.strip_prefix(base)?;
    match path.as_bytes().first() {
        // Another slash would name another host.
        Some(b'/') if !path.starts_with("//") => HeaderValue::from_str(path).ok(),
        None => Some(HeaderValue::from_static("/")),
        _ => None,
    }
}

/// Whether a redirect leads to the path that was asked for, in another spelling: with a slash at its end, for instance.
fn leads_back(place: &HeaderValue, upstream: &Upstream, asked: &str) -> bool {
    let Some(place) = place.to_str().ok().and_then(|place| place.parse::<Uri>().ok()) else { return false };
    let elsewhere = |host: &Authority| upstream.public.as_ref().and_then(Uri::authority) != Some(host);
    if place.authority().is_some_and(elsewhere) {
        return false;
    }
    match (CleanPath::read(place.path()), CleanPath::read(asked)) {
        (Ok(place), Ok(asked)) => place.segments() == asked.segments(),
        _ => false,
    }
}
