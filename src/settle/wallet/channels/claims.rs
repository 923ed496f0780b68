//! Claims: which rows can be claimed, and what became of the transaction.

use std::{collections::HashSet, future::ready, slice, time::Duration};

use futures_util::{StreamExt as _, stream};

use super::{orders, state};
use crate::{
    evm::{channel, wallet::node::Call},
    protocol::{
        Amount,
        channel::{BATCH_SETTLEMENT, VoucherClaim},
        v2::Reason,
    },
    settle::{
        CLAIMS_MAX, ClaimOutcome, RefusedClaim, SettleError, SettleErrorKind, Settlement, TransactionRecorder,
        wallet::{
            SETTLED_WITHIN, WalletSettler, checks,
            core::{BLOCK_TIME, Core},
            trial::{self, Trial},
        },
    },
};

/// How many rows are looked at at once.
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
    let misfits = misfits(core, claims);
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
            // It is claimed, in a block that may go, or about to be.
            Trial::Used => return Ok(ClaimOutcome::Unknown(None)),
            Trial::Fails(_) => return Ok(without_bad_rows(core, claims).await),
        }
    }
    let settled = settler.settle_order(order, &TransactionRecorder::none(), patience(core)).await;
    Ok(match settled {
        Settlement::Settled(transaction) => ClaimOutcome::Claimed(Some(transaction)),
        Settlement::Unknown(transaction) => ClaimOutcome::Unknown(transaction),
        // It reverted, though its trial had succeeded: contract accounts can do that.
        Settlement::Refused(reason) if reason == Reason::INVALID_TRANSACTION_STATE => {
            match without_bad_rows(core, claims).await {
                ClaimOutcome::Unknown(_) => suspects(claims),
                refused => refused,
            }
        }
        Settlement::Refused(_) => without_bad_rows(core, claims).await,
    })
}

/// How long a claim may take to be as deep as it is to be.
fn patience(core: &Core) -> Duration {
    let blocks = u32::try_from(core.policy.final_after).unwrap_or(u32::MAX).saturating_add(3);
    SETTLED_WITHIN.saturating_add(BLOCK_TIME.saturating_mul(blocks))
}

/// The rows that cannot be claimed, as far as can be told without asking anybody.
fn misfits(core: &Core, claims: &[VoucherClaim]) -> Vec<RefusedClaim> {
    let mut seen = HashSet::new();
    let reason = |claim: &VoucherClaim| {
        misfit(core, claim).or_else(|| {
            let is_again = !seen.insert(claim.voucher.channel);
            is_again.then_some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_BUSY)
        })
    };
    let reasons = claims.iter().map(reason).enumerate();
    reasons.filter_map(|(row, reason)| Some(RefusedClaim::new(row, reason?))).collect()
}

/// The same of one row.
pub(super) fn misfit(core: &Core, claim: &VoucherClaim) -> Option<Reason> {
    let (config, network) = (&claim.config, core.account.network);
    match () {
        () if config.receiver_authorizer != core.authorizer() => {
            Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_RECEIVER_AUTHORIZER_MISMATCH)
        }
        () if claim.voucher.channel != config.id(network) => {
            Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_ID_MISMATCH)
        }
        () if claim.total_claimed > claim.voucher.max_claimable => {
            Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CHARGE_EXCEEDS_SIGNED_CUMULATIVE)
        }
        () if config.voucher_key().is_some_and(|key| claim.voucher.signer(network) != Some(key)) => {
            Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_VOUCHER_SIGNATURE)
        }
        () => None,
    }
}

/// Names the rows that fail by themselves, by the word of every node; where there is none, nothing is known.
async fn without_bad_rows(core: &Core, claims: &[VoucherClaim]) -> ClaimOutcome {
    let look = |row: usize| async move { Some(RefusedClaim::new(row, bad(core, claims.get(row)?).await?)) };
    let rows = stream::iter(0..claims.len()).map(look).buffered(AT_ONCE);
    let refused: Vec<_> = rows.filter_map(ready).collect().await;
    if refused.is_empty() { ClaimOutcome::Unknown(None) } else { ClaimOutcome::Refused(refused) }
}

async fn bad(core: &Core, claim: &VoucherClaim) -> Option<Reason> {
    let data = channel::claim_directly(slice::from_ref(claim));
    let (from, gas) = (core.authorizer(), orders::row_gas(claim));
    let call = Call { from, to: BATCH_SETTLEMENT, data: &data, gas, fees: None };
    if !core.account.nodes.all_say(async |node| Ok(node.run(&call, "pending").await?.is_err())).await {
        return None;
    }
    let state = state::read(core, &claim.config).await.ok();
    Some(match state {
        Some(state) if state.balance < Amount::from_base_units(claim.total_claimed) => {
            Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_EXCEEDS_BALANCE
        }
        _ if claim.config.voucher_key().is_none() => Reason::INVALID_BATCH_SETTLEMENT_EVM_VOUCHER_SIGNATURE,
        _ => Reason::INVALID_BATCH_SETTLEMENT_EVM_CLAIM_SIMULATION_FAILED,
    })
}

/// Names the rows of contract accounts, which alone can make a claim fail that was tried.
fn suspects(claims: &[VoucherClaim]) -> ClaimOutcome {
    let accounts = claims.iter().enumerate().filter(|(_, claim)| claim.config.voucher_key().is_none());
    let refuse = |(row, _)| RefusedClaim::new(row, Reason::INVALID_BATCH_SETTLEMENT_EVM_VOUCHER_SIGNATURE);
    let refused: Vec<_> = accounts.map(refuse).collect();
    if refused.is_empty() { ClaimOutcome::Unknown(None) } else { ClaimOutcome::Refused(refused) }
}
