//! An authorization is made void on the chain, so that another may be signed before its time is over.

use tokio::time::{Instant, sleep};

use super::{
    AuthorizationStatus, PayError, PurchaseState, inner::ClientInner, registry::PurchaseGuard, showing::status,
};

/// Cancels a purchase's authorization, unless it was used before; `None` where there is none to cancel.
pub(super) async fn cancel(inner: &ClientInner, mut guard: PurchaseGuard) -> Result<Option<PurchaseState>, PayError> {
    let Some(prepared) = guard.entry().prepared.last().cloned() else { return Ok(None) };
    if prepared.authorization.is_none() || guard.entry().transaction.is_some() {
        return Ok(None);
    }
    let before = status(inner, guard.entry()).await?;
    if let Some(state) = ended(&mut guard, before).await {
        return Ok(Some(state));
    }
    inner.payer.cancel_authorization(&prepared).await.map_err(PayError::Payer)?;
    let deadline = Instant::now() + inner.settings.patience;
    loop {
        let said = status(inner, guard.entry()).await;
        let reason = match said {
            Ok(status) => match ended(&mut guard, status).await {
                Some(state) => return Ok(Some(state)),
                None => None,
            },
            Err(PayError::Unsettled { reason, .. }) => reason,
            Err(error) => return Err(error),
        };
        if Instant::now() + inner.settings.poll_every > deadline {
            return Err(PayError::Unsettled { transaction: None, reason });
        }
        sleep(inner.settings.poll_every).await;
    }
}

/// Records what became of an authorization, once that is certain.
async fn ended(guard: &mut PurchaseGuard, status: AuthorizationStatus) -> Option<PurchaseState> {
    match status {
        AuthorizationStatus::Void => guard.note(|entry| entry.state = PurchaseState::Void).await,
        AuthorizationStatus::Used { transaction } => guard.note(|entry| entry.is_settled_by(transaction)).await,
        AuthorizationStatus::Unused => return None,
    }
    Some(guard.entry().state)
}
