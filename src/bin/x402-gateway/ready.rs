//! `/readyz`: whether sales can be made right now. `/healthz` only says that the process runs, so that a node's
//! failure causes no restart.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};
use tower_x402::Merchant;

/// How long an answer is cached, so that many requests ask the chain and the ledger once.
const STANDS: Duration = Duration::from_secs(1);
/// How long the chain and the ledger may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Healthy, or the reason why not.
type Health = Result<(), String>;

/// Asks the merchant whether it can sell, and caches the answer.
#[derive(Clone, Debug)]
pub(crate) struct Readiness {
    merchant: Merchant,
    last: Arc<Mutex<Option<(Instant, Health)>>>,
}

impl Readiness {
    pub(crate) fn of(merchant: &Merchant) -> Self {
        Self { merchant: merchant.clone(), last: Arc::default() }
    }

    /// Answers 200, or 503 with the reason.
    pub(crate) async fn answer(self) -> Response<Full<Bytes>> {
        let (status, text) = match self.health().await {
            Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
            Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
        };
        let mut response = Response::new(text.into());
        *response.status_mut() = status;
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    async fn health(&self) -> Health {
        let mut last = self.last.lock().await;
        if let Some((at, health)) = &*last
            && at.elapsed() < STANDS
        {
            return health.clone();
        }
        let health = match timeout(PATIENCE, self.merchant.health()).await {
            Ok(health) => health.map_err(|error| error.to_string()),
            Err(_) => Err("chain and ledger take too long to answer".to_owned()),
        };
        *last = Some((Instant::now(), health.clone()));
        health
    }
}
