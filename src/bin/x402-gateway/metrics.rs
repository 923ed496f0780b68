//! What is counted and timed, for Prometheus to fetch.

use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::interval;

use super::failure::Failure;

/// The content type of the text that Prometheus reads.
pub(crate) const TEXT: &str = "text/plain; version=0.0.4";
/// What a question, an answer, and a block are timed by, in seconds.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];
/// How often what was timed is put into the buckets, so that it takes no memory between two requests for metrics.
const UPKEEP: Duration = Duration::from_secs(5);

/// Installs the recorder. Before the merchant is built, which describes what it counts.
///
/// # Errors
/// There is another recorder.
pub(crate) fn recorder() -> Result<PrometheusHandle, Failure> {
    let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS);
    let recorder = builder.map_err(Failure::world)?.install_recorder().map_err(Failure::world)?;
    tokio::spawn(upkeep(recorder.clone()));
    Ok(recorder)
}

async fn upkeep(recorder: PrometheusHandle) {
    let mut tick = interval(UPKEEP);
    loop {
        tick.tick().await;
        recorder.run_upkeep();
    }
}
