//! `Claimant`: the client of a redemption with its proof, and the transfers of a transaction that it may claim. Pure.

use std::{sync::Arc, time::Duration};

use crate::{
    ledger::ClaimBuilder,
    paywall::seller::{attempts::Claimed, unbound::UnboundPolicy},
    protocol::{
        Address, Binding, ByPermit, ChainTime, IntentId, PaymentId, PaymentSecret, PaymentTag, ProvedBy, Transfer,
    },
};

/// What a redemption shows to prove that it comes from the payer.
#[derive(Debug)]
pub(crate) struct Claimant<'a> {
    pub(crate) intent: &'a IntentId,
    pub(crate) secret: Option<&'a PaymentSecret>,
    /// The payer whose signature is shown.
    pub(crate) signer: Option<Address>,
    /// The nonces that stand for the intent in MPP, if the merchant speaks MPP.
    pub(crate) challenges: Option<[[u8; 32]; 2]>,
}

/// The transfers that a claimant may claim: at least one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claimable {
    /// Those proved to be the claimant's own.
    proven: Vec<(Transfer, ProvedBy)>,
    /// Those that anyone may claim.
    unbound: Vec<Transfer>,
    /// Why the other transfers, if any, are not claimable.
    pub(crate) others: Option<NotClaimable>,
}

/// Why a claimant may not claim a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotClaimable {
    /// All are bound to other secrets.
    Bound,
    /// None is the claimant's, and the merchant sells for no others.
    ProofRequired,
    /// One is unbound, and anyone may claim it after this time.
    Held(Duration),
    /// Anyone may claim one, but its payer waits for it.
    Awaited,
}

impl Claimant<'_> {
    /// Returns the transfers that may be claimed at this head.
    pub(crate) fn claimable(
        &self,
        mut transfers: Vec<Transfer>,
        head: ChainTime,
        policy: UnboundPolicy,
    ) -> Result<Claimable, NotClaimable> {
        // One or two hashes, which most redemptions do not need.
        let tags = if transfers.iter().any(|transfer| transfer.binding.is_bound()) { self.tags() } else { [None; 2] };
        let mut tags = ShownTags { tags, looked_through: None };
        let (mut proven, mut held, mut any_withheld) = (Vec::new(), None::<Duration>, false);
        // Without the permit's nonce, it is unknown whose permit made the transfer, and whether that is sold.
        transfers.retain(|transfer| {
            let is_told = transfer.binding.permit() != Some(ByPermit::Untold);
            any_withheld |= !is_told;
            is_told
        });
        transfers.retain(|transfer| match self.proof(transfer, &mut tags) {
            ProvedBy::Nothing if transfer.binding.is_bound() || policy.refuse => {
                any_withheld = true;
                false
            }
            ProvedBy::Nothing => {
                let wait = held_for(transfer, head, policy.hold);
                held = held.into_iter().chain(wait).min();
                wait.is_none()
            }
            proof => {
                proven.push((transfer.clone(), proof));
                false
            }
        });
        let withheld = || if policy.refuse { NotClaimable::ProofRequired } else { NotClaimable::Bound };
        let others = held.map(NotClaimable::Held).or_else(|| any_withheld.then(withheld));
        if proven.is_empty() && transfers.is_empty() {
            return Err(others.unwrap_or_else(withheld));
        }
        Ok(Claimable { proven, unbound: transfers, others })
    }

    fn tags(&self) -> [Option<PaymentTag>; 2] {
        [Some(PaymentTag::of(self.intent.as_str())), self.secret.map(PaymentSecret::tag)]
    }

    /// Returns whether the transfer was made from an authorization for the challenge of this intent.
    fn pays(&self, transfer: &Transfer) -> bool {
        let nonce = transfer.binding.nonce();
        nonce.is_some_and(|nonce| self.challenges.iter().flatten().any(|challenge| challenge == nonce))
    }

    /// Returns the proof that this transfer is the claimant's. A signature takes precedence over a secret, which several may know.
    fn proof(&self, transfer: &Transfer, tags: &mut ShownTags) -> ProvedBy {
        if self.signer == Some(transfer.payer) {
            ProvedBy::Signature
        } else if tags.tags.iter().flatten().any(|tag| transfer.binding.has_nonce(tag)) || self.pays(transfer) {
            ProvedBy::Nonce
        } else if tags.are_in(&transfer.binding) {
            ProvedBy::Tag
        } else {
            ProvedBy::Nothing
        }
    }
}

/// The tags of the secrets that the claimant shows.
struct ShownTags {
    tags: [Option<PaymentTag>; 2],
    /// The call data that was searched last, and whether one of the tags is in it. It may be long, and all transfers that the sender of a
    /// transaction makes in it share it.
    looked_through: Option<(Arc<[u8]>, bool)>,
}

impl ShownTags {
    fn are_in(&mut self, binding: &Binding) -> bool {
        let Some(call_data) = binding.call_data() else { return false };
        if let Some((last, found)) = &self.looked_through
            && Arc::ptr_eq(last, call_data)
        {
            return *found;
        }
        let found = self.tags.iter().flatten().any(|tag| binding.has_tag(tag));
        self.looked_through = Some((Arc::clone(call_data), found));
        found
    }
}

/// Returns how much chain time is left until this transfer can be claimed without proof.
fn held_for(transfer: &Transfer, head: ChainTime, hold: Duration) -> Option<Duration> {
    let free_at = transfer.block_time.after(hold).unix();
    free_at.checked_sub(head.unix()).filter(|left| *left > 0).map(Duration::from_secs)
}

impl Claimable {
    /// Returns the claim on a signed payment that was settled for the claimant's intent.
    pub(crate) fn settled_here(transfer: Transfer) -> Self {
        Self { proven: vec![(transfer, ProvedBy::Authorization)], unbound: Vec::new(), others: None }
    }

    /// Removes the transfers that anyone may claim and whose payer waits for them.
    pub(crate) fn stand_back(mut self, is_awaited: impl Fn(PaymentId) -> bool) -> Result<Self, NotClaimable> {
        let before = self.unbound.len();
        self.unbound.retain(|transfer| !is_awaited(transfer.payment_id()));
        if self.unbound.len() < before {
            self.others = Some(NotClaimable::Awaited);
        }
        if self.proven.is_empty() && self.unbound.is_empty() { Err(NotClaimable::Awaited) } else { Ok(self) }
    }

    /// Adds the candidates to a claim: first the claimant's own, then those that anyone may claim.
    pub(crate) fn add_to(self, claim: ClaimBuilder) -> (ClaimBuilder, Proofs) {
        let proofs = self.proven.iter().map(|(transfer, proof)| (transfer.payment_id(), *proof)).collect();
        let own = self.proven.into_iter().map(|(transfer, _)| transfer);
        (claim.payments(own).payments(self.unbound), Proofs(proofs))
    }
}

/// The proof for each of a claim's candidates.
#[derive(Debug)]
pub(crate) struct Proofs(Vec<(PaymentId, ProvedBy)>);

impl Proofs {
    /// Returns the payments that the claimant proved to be its own.
    pub(crate) fn payments(&self) -> impl Iterator<Item = PaymentId> {
        self.0.iter().map(|(payment, _)| *payment)
    }

    /// Returns who claims this payment.
    pub(crate) fn claimed(&self, payment: PaymentId) -> Claimed {
        match self.of(payment) {
            ProvedBy::Nothing => Claimed::ByAnyone,
            _ => Claimed::ByPayer,
        }
    }

    pub(crate) fn of(&self, payment: PaymentId) -> ProvedBy {
        let proof = self.0.iter().find(|(proven, _)| *proven == payment);
        proof.map_or(ProvedBy::Nothing, |(_, proof)| *proof)
    }
}

#[cfg(test)]
mod tests;
