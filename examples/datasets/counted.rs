//! `--metrics`: serves the metrics on an address of their own.

use std::net::SocketAddr;

use axum::{Router, routing::get};
use http::header;

use super::{log::TARGET, metrics, run::Failure, serve};

/// Serves `/metrics` on this address until the program ends.
///
/// # Errors
/// Fails with a sentence that names the address.
pub(crate) async fn start(address: SocketAddr) -> Result<(), Failure> {
    let listener = serve::listen(address).await.map_err(Failure::environment)?;
    let recorder = metrics::recorder()?;
    let shown = listener.local_addr().map_err(Failure::environment)?;
    tracing::info!(target: TARGET, "metrics on http://{shown}/metrics");
    let text = [(header::CONTENT_TYPE, metrics::TEXT)];
    let router = Router::new().route("/metrics", get(async move || (text, recorder.render())));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(())
}
