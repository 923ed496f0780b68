//! `--metrics`: what is counted, for Prometheus to fetch, on an address of its own.

use std::{net::SocketAddr, time::Duration};

use axum::{Router, routing::get};
use http::header;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::interval;

use super::{log::TARGET, run::Failure, serve};

/// What a question, an answer, and a block are timed by, in seconds.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];
/// How often what was timed is put into the buckets, so that it takes no memory while nobody asks.
const UPKEEP: Duration = Duration::from_secs(5);

/// Installs the recorder and serves `/metrics` there until the program ends. Before the merchant is built, which describes what it counts.
///
/// # Errors
/// A sentence that names the address.
pub(crate) async fn start(address: SocketAddr) -> Result<(), Failure> {
    let listener = serve::listen(address).await.map_err(Failure::world)?;
    let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS);
    let recorder = builder.map_err(Failure::world)?.install_recorder().map_err(Failure::world)?;
    let shown = listener.local_addr().map_err(Failure::world)?;
    tracing::info!(target: TARGET, "metrics on http://{shown}/metrics");
    tokio::spawn(upkeep(recorder.clone()));
    tokio::spawn(async move { axum::serve(listener, router(recorder)).await });
    Ok(())
}

async fn upkeep(recorder: PrometheusHandle) {
    let mut tick = interval(UPKEEP);
    loop {
        tick.tick().await;
        recorder.run_upkeep();
    }
}

fn router(recorder: PrometheusHandle) -> Router {
    let text = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Router::new().route("/metrics", get(async move || (text, recorder.render())))
}
