//! Counters and timings, for Prometheus to fetch.

use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::interval;

use super::failure::Failure;

/// The content type of the text that Prometheus reads.
pub(crate) const TEXT: &str = "text/plain; version=0.0.4";
/// Upper bounds of the histograms' buckets, in seconds: for the times of questions, answers and blocks.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];
/// How often recorded timings move into the buckets, so that they take no memory between two scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

/// Installs the recorder. Call it before building the merchant, which describes its metrics then.
///
/// # Errors
/// Fails if another recorder is installed.
pub(crate) fn recorder() -> Result<PrometheusHandle, Failure> {
    let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS);
    let recorder = builder.map_err(Failure::environment)?.install_recorder().map_err(Failure::environment)?;
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
