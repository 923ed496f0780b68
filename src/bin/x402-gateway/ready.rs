//! `/readyz`: whether sales can be made right now. `/healthz` only says that the process runs: it must not be restarted
//! because a node is down.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};
use tower_x402::Merchant;

/// How long an answer stands. However many ask, chain and ledger are asked no oftener.
const STANDS: Duration = Duration::from_secs(1);
/// How long chain and ledger may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Well, or why not.
type Health = Result<(), String>;

/// Asks the merchant.
#[derive(Clone, Debug)]
pub(crate) struct Readiness {
    merchant: Merchant,
    last: Arc<Mutex<Option<(Instant, Health)>>>,
}

impl Readiness {
    pub(crate) fn of(merchant: &Merchant) -> Self {
        Self { merchant: merchant.clone(), last: Arc::default() }
    }

    /// 200, or 503 and a sentence.
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
