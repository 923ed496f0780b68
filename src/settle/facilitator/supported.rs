//! Caches what a facilitator can settle, and waits if it asks for patience.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout_at},
};

use super::{answers::is_denial, call::FacilitatorAction, transport::Transport};
use crate::{
    protocol::v2::Supported,
    settle::{SettleError, SettleErrorKind},
};

/// The wait if a rate-limiting facilitator names none.
const PAUSE: Duration = Duration::from_secs(1);

/// The last answer to `/supported` and its time. Concurrent callers wait for the same answer.
#[derive(Debug, Default)]
pub(super) struct SupportedCell(Mutex<Option<(Instant, Arc<Supported>)>>);

impl SupportedCell {
    /// Returns an answer that is younger than `age`, from memory or from the facilitator within the time limit.
    pub(super) async fn get(
        &self,
        transport: &Transport,
        age: Duration,
        limit: Duration,
    ) -> Result<Arc<Supported>, SettleError> {
        let deadline = Instant::now() + limit;
        let asked = timeout_at(deadline, async {
            let mut last = self.0.lock().await;
            if let Some((_, supported)) = last.as_ref().filter(|(at, _)| at.elapsed() < age) {
                return Ok(Arc::clone(supported));
            }
            let supported = Arc::new(ask(transport, deadline).await?);
            *last = Some((Instant::now(), Arc::clone(&supported)));
            Ok(supported)
        });
        asked.await.unwrap_or(Err(SettleError::unavailable()))
    }
}

async fn ask(transport: &Transport, deadline: Instant) -> Result<Supported, SettleError> {
    loop {
        let answer = transport.send(FacilitatorAction::Supported, None).await;
        let answer = answer.map_err(|_| SettleError::unavailable())?;
        match answer.status {
            status if status.is_success() => {
                return Supported::from_json(&answer.body).map_err(|_| SettleError::unavailable());
            }
            http::StatusCode::TOO_MANY_REQUESTS => {
                let pause = answer.retry_after.unwrap_or(PAUSE).max(PAUSE);
                // Waiting in vain would delay the use of another facilitator.
                if pause >= deadline.saturating_duration_since(Instant::now()) {
                    return Err(SettleError::unavailable());
                }
                sleep(pause).await;
            }
            status if is_denial(status) => {
                return Err(SettleError::new(SettleErrorKind::Denied { status: status.as_u16() }));
            }
            _ => return Err(SettleError::unavailable()),
        }
    }
}
