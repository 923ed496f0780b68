//! Claims: which rows can be claimed, and the outcome of the transaction.

use std::future::ready;

use futures_util::{StreamExt as _, stream};

use super::orders;
use crate::{
    protocol::{channel::VoucherClaim, v2::Reason},
    settle::{
        CLAIMS_MAX, ClaimOutcome, RefusedClaim, SettleError, SettleErrorKind, Settlement, TransactionRecorder,
        on_chain,
        wallet::{
            WalletSettler, checks,
            core::Core,
            trial::{self, Trial},
        },
    },
};

/// How many rows are checked concurrently.
const AT_ONCE: usize = 4;

/// Claims these rows on the settler's chain.
pub(super) async fn claim(settler: &WalletSettler, claims: &[VoucherClaim]) -> Result<ClaimOutcome, SettleError> {
    let core = &settler.core;
    if claims.is_empty() {
        return Ok(ClaimOutcome::Claimed(None));
    }
    if claims.len() > CLAIMS_MAX {
        return Err(SettleError::new(SettleErrorKind::InvalidSetting { what: "claims" }));
    }
    let misfits = on_chain::misfits(core.account.network, core.authorizer(), claims);
    if !misfits.is_empty() {
        return Ok(ClaimOutcome::Refused(misfits));
    }
    let order = orders::claim(core, claims).await.ok_or_else(SettleError::unavailable)?;
    if core.flights.are_by(&order).is_none() {
        if trial::stays(core, &order).await {
            return Ok(ClaimOutcome::Claimed(None));
        }
        let fees = checks::affords(core, order.gas_max).await?;
        match trial::tried(core, &order, fees).await? {
            Trial::Settles { .. } => {}
            // It is claimed in a block that may vanish, or is about to be claimed.
            Trial::Used => return Ok(ClaimOutcome::Unknown(None)),
            Trial::Fails(_) => return Ok(without_bad_rows(core, claims).await),
        }
    }
    let settled = settler.settle_order(order, &TransactionRecorder::none(), core.certain_within()).await;
    Ok(match settled {
        Settlement::Settled(transaction) => ClaimOutcome::Claimed(Some(transaction)),
        Settlement::Unknown(transaction) => ClaimOutcome::Unknown(transaction),
        // It reverted although its trial succeeded, which contract accounts can cause.
        Settlement::Refused(reason) if reason == Reason::INVALID_TRANSACTION_STATE => {
            match without_bad_rows(core, claims).await {
                ClaimOutcome::Unknown(_) => suspects(claims),
                refused => refused,
            }
        }
        Settlement::Refused(_) => without_bad_rows(core, claims).await,
    })
}

/// Returns the rows that fail by themselves according to every node; without any, the outcome is unknown.
async fn without_bad_rows(core: &Core, claims: &[VoucherClaim]) -> ClaimOutcome {
    let (nodes, network) = (&core.account.nodes, core.account.network);
    let bad = async |row| on_chain::bad_row(nodes, network, claims.get(row)?).await;
    let look = |row: usize| async move { Some(RefusedClaim::new(row, bad(row).await?)) };
    let rows = stream::iter(0..claims.len()).map(look).buffered(AT_ONCE);
    let refused: Vec<_> = rows.filter_map(ready).collect().await;
    if refused.is_empty() { ClaimOutcome::Unknown(None) } else { ClaimOutcome::Refused(refused) }
}

/// Returns the rows of contract accounts: only they can make a claim fail after a successful trial.
fn suspects(claims: &[VoucherClaim]) -> ClaimOutcome {
    let accounts = claims.iter().enumerate().filter(|(_, claim)| claim.config.voucher_key().is_none());
    let refuse = |(row, _)| RefusedClaim::new(row, Reason::INVALID_BATCH_SETTLEMENT_EVM_VOUCHER_SIGNATURE);
    let refused: Vec<_> = accounts.map(refuse).collect();
    if refused.is_empty() { ClaimOutcome::Unknown(None) } else { ClaimOutcome::Refused(refused) }
}
