//! The fate of a permit (Permit2): its nonce shows whether it is used, and its payer's transfers by which transaction.

use super::{
    authorizations::{Authorizations, RANGE_MAX, SEARCHES_MAX, SETTLED_DEPTH},
    pool_answer::{NoAnswer, PoolAnswer},
};
use crate::{
    evm::{
        block_range::BlockRange,
        proxy::{PermitNonce, UsedPermit},
    },
    protocol::{ChainTime, TxHash, permit2::Permit},
    verify::{NonceState, VerifyError},
};

impl Authorizations {
    /// Returns whether the nonce of a permit is used. `Unused` needs the word of every endpoint that answers, at least
    /// one of them at the known head.
    pub(super) async fn permit_state(&self, permit: &Permit, since: ChainTime) -> Result<NonceState, VerifyError> {
        let nonce = PermitNonce { owner: permit.from, nonce: permit.nonce };
        let _turn = self.gate.enter(None).await?;
        let head = self.head.tip().await?.head.number;
        match self.pool.permit_nonce(&nonce).await? {
            PoolAnswer::Decided(_, seen) => self.find_permit(permit, head.min(seen.height), since).await,
            PoolAnswer::Doubtful(all) if all.iter().any(|(_, seen)| seen.height >= head) => Ok(NonceState::Unused),
            PoolAnswer::Doubtful(_) => Err(VerifyError::unavailable()),
        }
    }

    /// Searches for the use of the permit, from the head backwards, among the transfers from its payer to its
    /// recipient.
    async fn find_permit(&self, permit: &Permit, head: u64, since: ChainTime) -> Result<NonceState, VerifyError> {
        let mut width = RANGE_MAX;
        let mut range = BlockRange::up_to_latest(head, width);
        for _ in 0..SEARCHES_MAX {
            match self.pool.transfers_of(permit, &range).await {
                Ok(transactions) => {
                    if let Some(transaction) = self.user_of(permit, transactions).await? {
                        return Ok(NonceState::Used(transaction));
                    }
                    if self.is_early_enough(range.from(), head, since).await? {
                        return self.permit_used_longer_ago(permit, head).await;
                    }
                    range = range.before(width);
                }
                // The range may be too wide for an endpoint.
                Err(NoAnswer { unusable: true, .. }) if width > 1 => {
                    width /= 2;
                    range = range.last_of(width);
                }
                Err(none) => return Err(none.error),
            }
        }
        self.permit_used_longer_ago(permit, head).await
    }

    /// Returns `Spent` if the nonce was certainly used so long ago that no late log can be missing.
    async fn permit_used_longer_ago(&self, permit: &Permit, head: u64) -> Result<NonceState, VerifyError> {
        let nonce = PermitNonce { owner: permit.from, nonce: permit.nonce };
        if self.pool.permit_was_used(&nonce, head.saturating_sub(SETTLED_DEPTH)).await? {
            return Ok(NonceState::Spent);
        }
        tracing::warn!(payer = %permit.from, "a permit was used lately, and no endpoint has the log of it");
        Err(VerifyError::unavailable())
    }

    /// Returns the one of these transactions that passes this very permit to a proxy, and not another permit with its
    /// nonce. Its transfers are judged afterwards.
    async fn user_of(&self, permit: &Permit, transactions: Vec<TxHash>) -> Result<Option<TxHash>, VerifyError> {
        let used = UsedPermit::of(permit);
        for transaction in transactions {
            let found = self.receipts.get(transaction).await?;
            if found.is_some_and(|found| found.record.transaction.permit == Some(used)) {
                return Ok(Some(transaction));
            }
        }
        Ok(None)
    }
}
