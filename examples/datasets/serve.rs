//! The server around the routes: listening, and ending without cutting anything off.

use std::net::SocketAddr;

use axum::Router;
use http::{HeaderName, Method, header};
use tokio::{net::TcpListener, signal};
use tower_http::cors::{Any, CorsLayer};
use tower_x402::protocol::headers;

/// Anyone's page may buy. It stands outside the layer, so that preflights are not sold.
pub(crate) fn cors() -> CorsLayer {
    let exposed: [HeaderName; 5] = [
        headers::PAY,
        headers::X_PRICE_INTENT,
        headers::X_PAYMENT_CONTRACTS,
        headers::PAYMENT_RESPONSE,
        header::RETRY_AFTER,
    ];
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::CONTENT_TYPE, headers::X402_PAYMENT])
        .expose_headers(exposed)
}

/// Begins to listen.
///
/// # Errors
/// One sentence that names the address.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| format!("cannot listen on {address}: {error}"))
}

/// Serves until Ctrl-C or SIGTERM, then finishes what is in flight; a second one ends it at once.
///
/// # Errors
/// What the listener says.
pub(crate) async fn serve(listener: TcpListener, app: Router) -> std::io::Result<()> {
    eprintln!("listening on http://{}", listener.local_addr()?);
    tokio::select! {
        served = axum::serve(listener, app).with_graceful_shutdown(asked_to_end()) => served,
        () = asked_twice() => Ok(()),
    }
}

async fn asked_twice() {
    asked_to_end().await;
    eprintln!("finishing what is in flight");
    asked_to_end().await;
}

async fn asked_to_end() {
    #[cfg(unix)]
    if let Ok(mut terminate) = signal::unix::signal(signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        return;
    }
    let _ = signal::ctrl_c().await;
}
