//! `ShownTransfer`: finds the transfers that a redemption may claim, from its transaction on the chain and its proof.

use crate::{
    paywall::{
        dialect::client_submitted::Presented,
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection},
        sale::{opened::Opened, reservation::LeaseGuard, settle::is_of},
        seller::{
            chain::SellingChain,
            time_limits::{ledger_in_time, verifier_in_time},
            unbound::UnboundPolicy,
        },
        way::transfer::claimant::{Claimable, Claimant, NotClaimable},
    },
    protocol::{
        Address, Amount, ChainTime, IntentId, ProblemCode, ProvedBy, PurchaseKey, Redemption, Transfer, TxHash,
        mpp::challenge_hashes, redemption_message,
    },
    verify::{ErasedVerifier, Verdict},
};

/// A shown transaction, and the intent that it is shown for.
pub(super) struct ShownTransfer<'a> {
    pub(super) opened: &'a Opened<'a>,
    /// The network that it is said to be on.
    pub(super) chain: &'a SellingChain,
    pub(super) verifier: &'a dyn ErasedVerifier,
    pub(super) presented: &'a Presented,
    /// The purchase that its client names, if any.
    pub(super) purchase: Option<PurchaseKey>,
}

impl ShownTransfer<'_> {
    /// Returns the transfers of this transaction that the client may consume with this intent, and the chain's head.
    pub(super) async fn claimable(
        &self,
        request: &PricedRequest,
        now: Amount,
    ) -> Result<(Claimable, ChainTime), Rejection> {
        // Sealed for the recipient that was paid, even if that is a former one.
        let renewed =
            |code| request.with_new_intent(code, self.opened.route.seals.of(self.opened.recipient), now).into();
        if !self.opened.honours_transfer(request, now)
            || !self.presented.is_as_offered(self.chain, self.opened.terms.amount, self.opened.recipient)
        {
            return Err(renewed(ProblemCode::IntentNotFound));
        }
        if self.opened.aged_out() {
            return Err(renewed(ProblemCode::IntentExpired));
        }
        let (mut transfers, head) = self.verify(self.presented.redemption.transaction).await?;
        transfers.retain(|transfer| transfer.block_time <= self.opened.pay_until());
        if transfers.is_empty() {
            return Err(renewed(ProblemCode::IntentExpired));
        }
        Ok((self.claimable_by(transfers, head).await?, head))
    }

    /// Reserves the first free transfer, and returns how it is proved to be the claimant's.
    pub(super) async fn reserve(
        &self,
        claimable: Claimable,
        head: ChainTime,
    ) -> Result<(LeaseGuard, ProvedBy), Problem> {
        let attempts = &self.opened.route.merchant.attempts;
        let claimable = claimable
            .stand_back(|payment| attempts.is_awaited(payment))
            .map_err(|reason| self.not_claimable(&self.presented.redemption, reason))?;
        let others = claimable.others;
        let (claim, proofs) = claimable.add_to(self.opened.claim(head).purchase(self.purchase));
        match (self.opened.grant(claim, |payment| proofs.claimed(payment)).await, others) {
            (Ok(guard), _) => {
                let proved_by = proofs.of(guard.payment().id());
                Ok((guard, proved_by))
            }
            // The claimable transfers are sold, which must not hide the others.
            (Err(Problem { code: ProblemCode::TxAlreadyUsed, .. }), Some(others)) => {
                Err(self.not_claimable(&self.presented.redemption, others))
            }
            (Err(problem), _) => {
                if problem.code == ProblemCode::RedemptionInProgress {
                    attempts.payer_waits(proofs.payments());
                }
                Err(problem)
            }
        }
    }

    /// Returns the claimant's transfers, and those that anyone may claim.
    async fn claimable_by(&self, transfers: Vec<Transfer>, head: ChainTime) -> Result<Claimable, Problem> {
        let redemption = &self.presented.redemption;
        let Redemption { intent, secret, .. } = redemption;
        let signer = self.signer(&transfers).await?;
        let unbound = self.opened.route.merchant.unbound;
        let unbound = UnboundPolicy { refuse: unbound.refuse || self.presented.is_for_bound_only(), ..unbound };
        let claimant = Claimant { intent, secret: secret.as_ref(), signer, challenges: self.challenges(&transfers) };
        let signed = self.signed(&transfers);
        match claimant.claimable(transfers, head, unbound) {
            Ok(claimable) => Ok(claimable),
            Err(reason) => {
                let settled = Box::pin(self.settled_here(signed)).await?.map(Claimable::settled_here);
                settled.ok_or_else(|| self.not_claimable(redemption, reason))
            }
        }
    }

    /// Returns the nonces by which a payer of MPP binds its authorization to this intent.
    fn challenges(&self, transfers: &[Transfer]) -> Option<[[u8; 32]; 2]> {
        let mpp = self.opened.route.merchant.mpp.as_ref()?;
        let signed = transfers.iter().any(|transfer| transfer.binding.nonce().is_some());
        signed.then(|| challenge_hashes(self.presented.redemption.intent.as_str(), mpp.realm()))
    }

    /// Returns the transfers that were made from authorizations, which this merchant may have settled.
    fn signed(&self, transfers: &[Transfer]) -> Vec<Transfer> {
        let signed = transfers.iter().filter(|transfer| transfer.binding.nonce().is_some());
        if self.chain.standard.is_some() { signed.cloned().collect() } else { Vec::new() }
    }

    /// Returns the transfer that was settled for this very intent, which only its payer knows.
    async fn settled_here(&self, signed: Vec<Transfer>) -> Result<Option<Transfer>, Problem> {
        if signed.is_empty() {
            return Ok(None);
        }
        let payments: Vec<_> = signed.iter().map(Transfer::payment_id).collect();
        let begun = self.opened.route.merchant.ledger.begun_among(self.opened.key, &payments);
        let begun = ledger_in_time(begun).await;
        let begun = begun.map_err(|_| Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN))?;
        Ok(begun.and_then(|(payment, begun)| {
            let settled = signed.into_iter().find(|transfer| transfer.payment_id() == payment);
            settled.filter(|settled| is_of(Some(settled.transaction), settled.block_time, &begun))
        }))
    }

    /// Returns the problem if this redemption may claim none of the transfers.
    pub(crate) fn not_claimable(&self, redemption: &Redemption, reason: NotClaimable) -> Problem {
        let prove = |code| Problem::to_prove(code, self.message(redemption.transaction, &redemption.intent));
        match reason {
            NotClaimable::Bound => prove(ProblemCode::PaymentBound),
            NotClaimable::ProofRequired => prove(ProblemCode::PayerProofRequired),
            NotClaimable::Held(wait) => Problem::after(ProblemCode::TxNotConfirmed, wait),
            NotClaimable::Awaited => Problem::after(ProblemCode::RedemptionInProgress, ASK_AGAIN),
        }
    }

    /// Returns the payer whose signature is shown; `None` if none is shown.
    async fn signer(&self, transfers: &[Transfer]) -> Result<Option<Address>, Problem> {
        let redemption = &self.presented.redemption;
        let Some(signature) = &redemption.signature else { return Ok(None) };
        let message = self.message(redemption.transaction, &redemption.intent);
        let Some(signatures) = self.verifier.signatures() else {
            return Err(Problem::to_prove(ProblemCode::InvalidSignature, message));
        };
        let mut payers: Vec<Address> = transfers.iter().map(|transfer| transfer.payer).collect();
        payers.sort_unstable();
        payers.dedup();
        match verifier_in_time(signatures.signer(&message, signature, &payers)).await {
            // A verifier that names another account must not open that account's transfers.
            Ok(Some(signer)) if payers.contains(&signer) => Ok(Some(signer)),
            Ok(_) => Err(Problem::to_prove(ProblemCode::InvalidSignature, message)),
            Err(_) => Err(Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN)),
        }
    }

    /// Returns the message that a payer signs to redeem this transaction with this intent.
    fn message(&self, transaction: TxHash, intent: &IntentId) -> String {
        redemption_message(self.chain.network, transaction, intent)
    }

    async fn verify(&self, transaction: TxHash) -> Result<(Vec<Transfer>, ChainTime), Problem> {
        let merchant = &self.opened.route.merchant;
        self.chain.started().await?;
        let terms = self.opened.route.terms(self.chain, self.opened.recipient, self.opened.terms.amount);
        let verdict = verifier_in_time(self.verifier.verify(&terms, transaction)).await;
        tracing::debug!(intent = %self.opened.key, %transaction, ?verdict, "verified");
        Err(match verdict {
            Ok(Verdict::Paid { mut transfers, head }) => {
                // A verifier that judged by other terms, or another transaction, must not sell here. Transfers from the seller's own
                // accounts, present or former, buy nothing either.
                transfers.retain(|transfer| {
                    let own = merchant.recipients.contains(&transfer.payer);
                    transfer.transaction == transaction && terms.are_met_by(transfer) && !own
                });
                if !transfers.is_empty() {
                    return Ok((transfers, head));
                }
                ProblemCode::TransferNotFound.into()
            }
            Ok(Verdict::NoTransfer) => ProblemCode::TransferNotFound.into(),
            Ok(Verdict::NotConfirmed { retry_after }) => Problem::after(ProblemCode::TxNotConfirmed, retry_after),
            Ok(Verdict::Insufficient { paid }) => {
                Problem { short: Some((paid, self.opened.terms.amount)), ..ProblemCode::InsufficientAmount.into() }
            }
            Ok(Verdict::TooOld) => self.opened.too_old(),
            Err(_) => Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN),
        })
    }
}
