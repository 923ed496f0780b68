//! Nonces that nobody cares for any more, before others that wait: left by a process that is gone, or dropped by the nodes. They are
//! filled by transactions that do nothing.

use tokio::time::Instant;

use super::core::Core;
use crate::evm::wallet::fees::Fees;

/// Fills the account's lowest open nonce if it is below this one and nobody cares for it; again with a higher fee while that does not
/// help.
///
/// What waits there may be the settling of a payment, by a process that is gone. Then it is undone, and the payment is presented again.
pub(super) async fn fill(core: &Core, open: u64, below: u64) {
    if open >= below || core.is_held(open) {
        return;
    }
    // One task fills; the others go on.
    let Ok(mut filled) = core.filled.try_lock() else { return };
    let last = (*filled).filter(|(nonce, ..)| *nonce == open);
    if last.is_some_and(|(_, _, at)| at.elapsed() < core.policy.replace_after) {
        return;
    }
    let Ok(now) = core.account.fees().await else { return };
    // Whoever has the turn may be about to use this very nonce.
    let _turn = core.account.turn.lock().await;
    if core.is_held(open) {
        return;
    }
    // What is there is not known, and so not what it offers: each time a good deal more.
    let least = last
        .map_or(now, |(_, Fees { most, tip }, _)| Fees { most: most.saturating_mul(2), tip: tip.saturating_mul(2) });
    let fees = now.or_higher(least).at_most(core.policy.max_fee_per_gas);
    if now.most > fees.most {
        return;
    }
    let Some(signed) = core.account.sign(core.filler(open, fees)).await else { return };
    *filled = Some((open, fees, Instant::now()));
    let _ = core.account.send(open, &signed).await;
}
