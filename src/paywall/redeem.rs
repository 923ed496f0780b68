//! Redeeming, up to the handler: seal, chain, ledger, in that order.

use std::sync::Arc;

use super::{
    priced_request::PricedRequest,
    problem::{ASK_AGAIN, Problem, Rejection},
    reservation::{LeaseGuard, PendingReservation},
    route::Route,
    time_limits::{ledger_in_time, verifier_in_time},
};
use crate::{
    ledger::{Claim, LedgerError, ReserveOutcome},
    protocol::{
        Address, Amount, ChainTime, IntentId, IntentKey, IntentTerms, ProblemCode, Proof, Receipt, RouteSeal, Transfer,
        TxHash,
    },
    verify::Verdict,
};

/// Reserves the payment that buys this answer; `None` where the request is free.
pub(crate) async fn admit(request: &PricedRequest, proof: Proof) -> Result<Option<(LeaseGuard, Receipt)>, Rejection> {
    let Some(amount) = request.amount().await.transpose() else { return Ok(None) };
    match proof {
        Proof::Redemption { intent, transaction } => redeem(request, intent, transaction, amount).await.map(Some),
        Proof::IntentOnly(_) => amount.and(Err(ProblemCode::TxRequired.into())),
        Proof::TransactionOnly(_) => {
            let seal = request.route.seals.present();
            Err(request.with_new_intent(ProblemCode::IntentRequired, seal, amount?).into())
        }
    }
}

/// Reserves a payment for this intent, in that transaction.
async fn redeem(
    request: &PricedRequest,
    intent: IntentId,
    transaction: TxHash,
    amount: Result<Amount, Rejection>,
) -> Result<(LeaseGuard, Receipt), Rejection> {
    let Some(opened) = Opened::open(&request.route, &intent) else {
        let seal = request.route.seals.present();
        return Err(request.with_new_intent(ProblemCode::IntentNotFound, seal, amount?).into());
    };
    let (transfers, head) = match opened.candidates(request, transaction, amount).await {
        Ok(candidates) => candidates,
        Err(rejection) => return Err(opened.unless_consumed(rejection).await),
    };
    let guard = opened.reserve(transfers, head).await?;
    let receipt = Receipt::new(Arc::clone(&request.route.resource), intent, guard.transfer().clone());
    Ok((guard, receipt))
}

/// An intent whose seal opened.
struct Opened<'a> {
    route: &'a Route,
    terms: IntentTerms,
    recipient: Address,
    key: IntentKey,
    seal: &'a RouteSeal,
}

impl<'a> Opened<'a> {
    fn open(route: &'a Route, intent: &IntentId) -> Option<Self> {
        let (terms, recipient, key, seal) = route.seals.open(intent)?;
        Some(Self { route, terms, recipient, key, seal })
    }

    /// Whether the sealed terms count for this request, whose price is `now`.
    fn honours(&self, request: &PricedRequest, now: Amount) -> bool {
        let same_request = match self.terms.digest {
            Some(digest) => request.digest(self.seal) == Some(digest),
            None => !self.route.binds(),
        };
        same_request || !self.route.bind && now <= self.terms.amount
    }

    /// The last block time at which a payment for this intent counts.
    fn pay_until(&self) -> ChainTime {
        ChainTime::from_unix(self.terms.expiry()).after(self.route.merchant.quote_grace)
    }

    /// Past the moment at which even the last payment made in time is too old.
    fn aged_out(&self) -> bool {
        self.route.merchant.clock.unix() > self.pay_until().after(self.route.merchant.max_payment_age).unix()
    }

    /// The transfers of this transaction that may be consumed with this intent, never none, and the chain's head.
    async fn candidates(
        &self,
        request: &PricedRequest,
        transaction: TxHash,
        amount: Result<Amount, Rejection>,
    ) -> Result<(Vec<Transfer>, ChainTime), Rejection> {
        let now = amount?;
        // For the recipient that was paid, if that is a former one.
        let renewed = |code| request.with_new_intent(code, self.route.seals.of(self.recipient), now).into();
        if !self.honours(request, now) {
            return Err(renewed(ProblemCode::IntentNotFound));
        }
        if self.aged_out() {
            return Err(renewed(ProblemCode::IntentExpired));
        }
        let (mut transfers, head) = self.verify(transaction).await?;
        transfers.retain(|transfer| transfer.block_time <= self.pay_until());
        if transfers.is_empty() { Err(renewed(ProblemCode::IntentExpired)) } else { Ok((transfers, head)) }
    }

    /// What to answer where anything before the reservation says no: a consumed intent is consumed whatever else is true.
    async fn unless_consumed(&self, rejection: Rejection) -> Rejection {
        if let Rejection::Fault(_) = rejection {
            return rejection;
        }
        match (self.is_consumed().await, rejection) {
            (Ok(true), _) => ProblemCode::AlreadyConsumed.into(),
            (Err(_), Rejection::Problem(_)) => Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN).into(),
            (_, rejection) => rejection,
        }
    }

    async fn is_consumed(&self) -> Result<bool, LedgerError> {
        ledger_in_time(self.route.merchant.ledger.is_consumed(self.key)).await
    }

    async fn verify(&self, transaction: TxHash) -> Result<(Vec<Transfer>, ChainTime), Problem> {
        let merchant = &self.route.merchant;
        merchant.started().await?;
        let terms = self.route.terms(self.recipient, self.terms.amount);
        let verdict = verifier_in_time(merchant.verifier.verify(&terms, transaction)).await;
        tracing::debug!(intent = %self.key, %transaction, ?verdict, "verified");
        Err(match verdict {
            Ok(Verdict::Paid { mut transfers, head }) => {
                // A verifier that judged by other terms, or another transaction, must not sell here.
                // Nor does what the seller moves from an account of before.
                transfers.retain(|transfer| {
                    let own = merchant.recipients.contains(&transfer.payer);
                    transfer.transaction == transaction && terms.admit(transfer) && !own
                });
                if !transfers.is_empty() {
                    return Ok((transfers, head));
                }
                ProblemCode::TransferNotFound.into()
            }
            Ok(Verdict::NoTransfer) => ProblemCode::TransferNotFound.into(),
            Ok(Verdict::NotConfirmed { retry_after }) => Problem::after(ProblemCode::TxNotConfirmed, retry_after),
            Ok(Verdict::Insufficient { paid }) => {
                Problem { short: Some((paid, self.terms.amount)), ..ProblemCode::InsufficientAmount.into() }
            }
            Ok(Verdict::TooOld) => self.too_old(),
            Err(_) => Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN),
        })
    }

    fn too_old(&self) -> Problem {
        Problem { contact: self.route.merchant.contact.clone(), ..ProblemCode::PaymentTooOld.into() }
    }

    async fn reserve(&self, transfers: Vec<Transfer>, head: ChainTime) -> Result<LeaseGuard, Problem> {
        let merchant = &self.route.merchant;
        let claim = Claim::new(
            Arc::clone(&self.route.resource),
            self.key,
            self.pay_until(),
            transfers,
            head,
            merchant.max_payment_age,
            merchant.lease,
        );
        let reservation = ledger_in_time(PendingReservation::new(&merchant.ledger, claim)).await;
        tracing::debug!(intent = %self.key, ?reservation, "reserved");
        Err(match reservation {
            Ok(ReserveOutcome::Granted(lease)) => return Ok(LeaseGuard::new(Arc::clone(&merchant.ledger), lease)),
            Ok(ReserveOutcome::IntentConsumed) => ProblemCode::AlreadyConsumed.into(),
            Ok(ReserveOutcome::PaymentUsed) => ProblemCode::TxAlreadyUsed.into(),
            // The lease may last long; the handler under it rarely does.
            Ok(ReserveOutcome::Busy { retry_after }) => {
                Problem::after(ProblemCode::RedemptionInProgress, retry_after.min(ASK_AGAIN))
            }
            Ok(ReserveOutcome::TooManyAttempts { retry_after }) => {
                Problem::after(ProblemCode::TooManyAttempts, retry_after)
            }
            Ok(ReserveOutcome::BeforeMemory) => self.too_old(),
            Err(_) => Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN),
        })
    }
}
