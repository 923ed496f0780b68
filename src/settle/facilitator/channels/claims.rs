//! Claims and sweeps. The chain must confirm what a facilitator reports.

use super::{asking, telling::Said};
use crate::{
    protocol::{
        Address, Amount,
        channel::{VoucherClaim, claim_digest},
    },
    settle::{
        CLAIMS_MAX, ClaimOutcome, RefusedClaim, SettleError, SettleErrorKind, SweepOutcome,
        facilitator::{
            keeper::{Fact, Keeper, SEEN_WITHIN},
            settler::Inner,
        },
        on_chain,
    },
};

/// The block time of Base.
const BLOCK_TIME: std::time::Duration = std::time::Duration::from_secs(2);

pub(super) async fn claim(
    inner: &Inner,
    keeper: &Keeper,
    claims: &[VoucherClaim],
) -> Result<ClaimOutcome, SettleError> {
    let network = keeper.network;
    let Some(first) = claims.first().map(|claim| &claim.config) else { return Ok(ClaimOutcome::Claimed(None)) };
    if claims.len() > CLAIMS_MAX {
        return Err(SettleError::new(SettleErrorKind::InvalidSetting { what: "claims" }));
    }
    // If channels belong to several facilitators, each facilitator must claim its own.
    let is_of_one = claims.iter().all(|claim| claim.config.receiver_authorizer == first.receiver_authorizer);
    if keeper.authorizer().is_none() && !is_of_one {
        return Ok(ClaimOutcome::Unknown(None));
    }
    let authorizer = keeper.authorizer().unwrap_or(first.receiver_authorizer);
    let misfits = on_chain::misfits(network, authorizer, claims);
    if !misfits.is_empty() {
        return Ok(ClaimOutcome::Refused(misfits));
    }
    let is_claimed = Fact::Claimed(claims);
    if keeper.is_so(&is_claimed).await? {
        return Ok(ClaimOutcome::Claimed(None));
    }
    let signature = keeper.authorize(claim_digest(claims, network)).await.map_err(|_| SettleError::unavailable())?;
    let body = asking::claim(network, first, claims, signature);
    let told = inner.tell(network, keeper.signing(first), &body).await;
    let depth = u32::try_from(keeper.final_after).unwrap_or(u32::MAX).saturating_add(1);
    let limit = SEEN_WITHIN.saturating_add(BLOCK_TIME.saturating_mul(depth));
    let transaction = match told.said {
        Said::Nothing => return Err(SettleError::unavailable()),
        Said::Refused(_) => {
            let outcome = without_bad_rows(keeper, claims).await;
            if !matches!(outcome, ClaimOutcome::Refused(_)) {
                told.is_wrong();
            }
            return Ok(outcome);
        }
        Said::Done(transaction) => Some(transaction),
        // It may have been sent. Another facilitator is told only after the chain has had time to show it.
        Said::Doubt(transaction) => transaction,
    };
    if keeper.becomes(&is_claimed, limit).await {
        return Ok(ClaimOutcome::Claimed(transaction));
    }
    told.is_wrong();
    Ok(ClaimOutcome::Unknown(transaction))
}

/// Returns the rows that fail by themselves according to every node; without any, the outcome is unknown.
async fn without_bad_rows(keeper: &Keeper, claims: &[VoucherClaim]) -> ClaimOutcome {
    let mut refused = Vec::new();
    for (row, claim) in claims.iter().enumerate() {
        let reason = on_chain::bad_row(&keeper.nodes, keeper.network, claim).await;
        refused.extend(reason.map(|reason| RefusedClaim::new(row, reason)));
    }
    if refused.is_empty() { ClaimOutcome::Unknown(None) } else { ClaimOutcome::Refused(refused) }
}

pub(super) async fn sweep(
    inner: &Inner,
    keeper: &Keeper,
    receiver: Address,
    token: Address,
) -> Result<SweepOutcome, SettleError> {
    let due = on_chain::due(&keeper.nodes, receiver, token).await?;
    let Some(amount) = due.total_claimed.checked_sub(due.total_settled).filter(|amount| *amount > 0) else {
        return Ok(SweepOutcome::Nothing);
    };
    let is_swept = Fact::Swept([receiver, token], due.total_claimed);
    let told = inner.tell(keeper.network, None, &asking::sweep(keeper.network, receiver, token)).await;
    Ok(match &told.said {
        Said::Nothing => return Err(SettleError::unavailable()),
        Said::Done(transaction) if keeper.becomes(&is_swept, SEEN_WITHIN).await => {
            SweepOutcome::Swept { transaction: *transaction, amount: Amount::from_base_units(amount) }
        }
        Said::Done(transaction) => {
            told.is_wrong();
            SweepOutcome::Unknown(Some(*transaction))
        }
        Said::Refused(reason) => match keeper.is_so(&is_swept).await {
            Ok(false) => {
                told.is_wrong();
                SweepOutcome::Refused(reason.clone())
            }
            _ => SweepOutcome::Unknown(None),
        },
        Said::Doubt(transaction) => SweepOutcome::Unknown(*transaction),
    })
}
