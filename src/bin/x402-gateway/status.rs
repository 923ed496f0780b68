//! `/readyz`, `/healthz` and `/metrics`, on an address of their own.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

use super::{
    failure::Failure,
    gateway::Present,
    log::TARGET,
    metrics,
    serve::{self},
};

/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(10);

/// The listener of the status address, and the recorder of the metrics.
pub(crate) struct Status {
    listener: TcpListener,
    recorder: PrometheusHandle,
}

impl Status {
    /// Listens on the address of the status endpoints.
    ///
    /// # Errors
    /// Fails with a sentence that names the address.
    pub(crate) async fn listen(address: SocketAddr, recorder: PrometheusHandle) -> Result<Self, Failure> {
        let listener = serve::listen(address).await.map_err(Failure::environment)?;
        let shown = listener.local_addr().map_err(Failure::environment)?;
        tracing::info!(target: TARGET, "status on http://{shown}");
        Ok(Self { listener, recorder })
    }

    /// Serves until the program ends.
    pub(crate) async fn serve(self, present: Present) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (present, recorder) = (present.clone(), self.recorder.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (present, recorder) = (present.clone(), recorder.clone());
                async move { Ok::<_, Infallible>(answer(request.uri().path(), &present, &recorder).await) }
            });
            tokio::spawn(async move {
                let mut server = http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(HEAD);
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }
}

async fn answer(path: &str, present: &Present, recorder: &PrometheusHandle) -> Response<Full<Bytes>> {
    match path {
        "/readyz" => present.get().ready.clone().answer().await,
        "/healthz" => Response::new("ok\n".into()),
        "/metrics" => {
            let mut response = Response::new(Full::from(recorder.render()));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(metrics::TEXT));
            response
        }
        _ => {
            let mut response = Response::new(Full::from("there are /readyz, /healthz and /metrics\n"));
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    }
}
