//! WebSocket: once both ends agree, bytes pass in both directions.

use http::{HeaderMap, Request, Response, Version, header};
use hyper::{body::Incoming, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use super::{super::log::TARGET, headers::tokens};

/// The only protocol that the gateway switches to.
pub(super) const WEBSOCKET: &str = "websocket";

/// Returns the client's end if it asks to switch to WebSocket.
pub(super) fn asked_for<B>(request: &mut Request<B>) -> Option<OnUpgrade> {
    let is_asked = request.version() == Version::HTTP_11 && asks(request.headers());
    is_asked.then(|| hyper::upgrade::on(request))
}

fn asks(headers: &HeaderMap) -> bool {
    let is_websocket = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes());
    headers.get(header::UPGRADE).is_some_and(is_websocket)
        && tokens(headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"))
}

/// Connects both ends once the answer has reached the client. If it never does, the upstream's end closes.
pub(super) fn open(client: OnUpgrade, answer: &mut Response<Incoming>) {
    let upstream = hyper::upgrade::on(answer);
    tokio::spawn(async move {
        let (client, upstream) = match tokio::try_join!(client, upstream) {
            Ok(ends) => ends,
            Err(error) => {
                tracing::debug!(target: TARGET, %error, "a switch of protocols came to nothing");
                return;
            }
        };
        let copied = copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(upstream)).await;
        if let Err(error) = copied {
            tracing::debug!(target: TARGET, %error, "a tunnel broke off");
        }
    });
}
