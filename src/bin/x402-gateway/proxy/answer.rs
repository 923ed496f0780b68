//! Prepares the upstream's answer for the client.

use http::{HeaderValue, Response, StatusCode, Version, header, response::Parts};
use http_body_util::Either;
use hyper::{body::Incoming, upgrade::OnUpgrade};
use tower_x402::Consumption;

use super::{
    answered::Answered,
    failed::Failed,
    headers::{strip_answer, strip_hop_by_hop},
    redirect::{Asked, Site},
    tunnel,
    upstream::ProxyBody,
};

/// Returns what the client gets of the upstream's answer.
pub(super) fn passed_on(
    mut answer: Response<Incoming>,
    switch: Option<OnUpgrade>,
    site: &Site<'_>,
    asked: &Asked<'_>,
    is_priced: bool,
) -> Response<ProxyBody> {
    let switches = match (answer.status(), switch) {
        (StatusCode::PAYMENT_REQUIRED, _) => return Failed::Bill.answer().map(Either::Right),
        (StatusCode::SWITCHING_PROTOCOLS, Some(client)) => {
            tunnel::open(client, &mut answer);
            true
        }
        // A switch of protocols that the gateway did not ask for.
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
    redirected(&mut head, site, asked);
    Response::from_parts(head, Either::Left(Answered(body)))
}

/// Rewrites a redirect for the client, and decides whether it is sold.
fn redirected(head: &mut Parts, site: &Site<'_>, asked: &Asked<'_>) {
    let Some(place) = head.headers.get(header::LOCATION).cloned() else { return };
    let Ok(place) = str::from_utf8(place.as_bytes()) else { return };
    if head.status.is_redirection() && asked.is_not_answered_by(head.status) && site.leads_back(place, asked.uri) {
        // The same resource is for sale again there, so the redirect itself costs nothing.
        head.extensions.insert(Consumption::Keep);
    }
    if let Some(place) = site.relative(place).and_then(|place| HeaderValue::try_from(place).ok()) {
        head.headers.insert(header::LOCATION, place);
    }
}
