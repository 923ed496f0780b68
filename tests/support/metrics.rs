//! What a test does is counted by a recorder of its own.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// What was counted so far, as Prometheus reads it.
pub struct Metrics(PrometheusHandle);

/// Runs a test whose metrics are its own: on one thread, and so are the tasks that it starts.
pub fn counted(test: impl AsyncFnOnce(Metrics)) {
    let recorder = PrometheusBuilder::new().set_buckets(&[0.1, 10.0, 1_000.0]).unwrap().build_recorder();
    let metrics = Metrics(recorder.handle());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(test(metrics)));
}

impl Metrics {
    /// The sum of all series of that name that have these labels; of a histogram, how often it was recorded (`…_count`).
    pub fn of(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let text = self.0.render();
        let lines = text.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']))
                && labels.iter().all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")))
        });
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// Everything.
    pub fn text(&self) -> String {
        self.0.render()
    }
}
