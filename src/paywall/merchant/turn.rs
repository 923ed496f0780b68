//! `Turn`: of several processes one claims, by a lease in the ledger.

use std::{sync::Arc, time::Duration};

use crate::{
    ledger::{AccountId, Draw, DrawOutcome, ErasedLedger, LedgerError, Opening, accounts_of},
    paywall::{
        sale::draw::{DrawGuard, PendingDraw, RenewedDraw},
        seller::time_limits::ledger_in_time,
    },
    protocol::{Amount, Network},
};

/// The turn of this process.
pub(crate) struct Turn(RenewedDraw);

impl Turn {
    /// Takes the turn, unless another process has it.
    pub(crate) async fn take(
        ledger: &Arc<dyn ErasedLedger>,
        network: Network,
        lease: Duration,
    ) -> Result<Option<Self>, LedgerError> {
        let hash = blake3::derive_key("tower-x402 2026-11 turn to claim channels", &network.chain_id().to_be_bytes());
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        let id = AccountId::new(id);
        for _ in 0..2 {
            let draw = Draw::new(id, Amount::ZERO, lease).expecting(Amount::ZERO);
            match ledger_in_time(PendingDraw::new(ledger, draw)).await? {
                DrawOutcome::Granted(lease) => {
                    return Ok(Some(Self(DrawGuard::new(Arc::clone(ledger), lease).renewed())));
                }
                DrawOutcome::Unknown => {
                    let opening = Opening::new(id, Amount::ZERO);
                    let _ = ledger_in_time(async { accounts_of(&**ledger)?.open_account(&opening).await }).await?;
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Leaves it to the others.
    pub(crate) async fn end(self) {
        self.0.release().await;
    }
}
