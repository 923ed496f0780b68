//! `Opened`: an intent whose seal opened, and what the ledger says of it.

use std::sync::Arc;

use super::{
    claimant::Claimable,
    priced_request::PricedRequest,
    problem::{ASK_AGAIN, Problem, Rejection},
    reservation::{LeaseGuard, PendingReservation},
    route::Route,
    time_limits::ledger_in_time,
};
use crate::{
    ledger::{Claim, LedgerError, ReserveOutcome, Sale},
    protocol::{
        Address, Amount, ChainTime, IntentId, IntentKey, IntentTerms, ProblemCode, ProvedBy, RouteSeal, TxHash,
    },
};

/// An intent whose seal opened.
pub(crate) struct Opened<'a> {
    pub(crate) route: &'a Route,
    pub(crate) terms: IntentTerms,
    pub(crate) recipient: Address,
    pub(crate) key: IntentKey,
    seal: &'a RouteSeal,
}

impl<'a> Opened<'a> {
    pub(crate) fn open(route: &'a Route, intent: &IntentId) -> Option<Self> {
        let (terms, recipient, key, seal) = route.seals.open(intent)?;
        Some(Self { route, terms, recipient, key, seal })
    }

    /// Whether the sealed terms count for this request, whose price is `now`.
    pub(crate) fn honours(&self, request: &PricedRequest, now: Amount) -> bool {
        let same_request = match self.terms.digest {
            Some(digest) => request.digest(self.seal) == Some(digest),
            None => !self.route.binds(),
        };
        same_request || !self.route.bind && now <= self.terms.amount
    }

    /// The last block time at which a payment for this intent counts.
    pub(crate) fn pay_until(&self) -> ChainTime {
        ChainTime::from_unix(self.terms.expiry()).after(self.route.merchant.quote_grace)
    }

    /// Past the moment at which even the last payment made in time is too old.
    pub(crate) fn aged_out(&self) -> bool {
        self.route.merchant.clock.unix() > self.pay_until().after(self.route.merchant.max_payment_age).unix()
    }

    /// What to answer where anything before the reservation says no: a consumed intent is consumed whatever else is true.
    pub(crate) async fn unless_consumed(&self, transaction: TxHash, rejection: Rejection) -> Rejection {
        if let Rejection::Fault(_) = rejection {
            return rejection;
        }
        match (self.consumed().await, rejection) {
            (Ok(Some(sale)), _) => Rejection::sold_before(sale, transaction),
            (Err(_), Rejection::Problem(_)) => Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN).into(),
            (_, rejection) => rejection,
        }
    }

    /// What this very intent bought. Where the ledger does not say it now, it may when it is asked again.
    pub(crate) async fn already_consumed(&self, transaction: TxHash) -> Rejection {
        if self.route.redelivery.is_none() {
            return ProblemCode::AlreadyConsumed.into();
        }
        match self.consumed().await {
            Ok(Some(sale)) => Rejection::sold_before(sale, transaction),
            Ok(None) => ProblemCode::AlreadyConsumed.into(),
            Err(_) => Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN).into(),
        }
    }

    async fn consumed(&self) -> Result<Option<Sale>, LedgerError> {
        ledger_in_time(self.route.merchant.ledger.consumed(self.key)).await
    }

    pub(crate) fn too_old(&self) -> Problem {
        Problem { contact: self.route.merchant.contact.clone(), ..ProblemCode::PaymentTooOld.into() }
    }

    /// Reserves the first of these transfers that is free, and tells how it is shown to be the claimant's.
    pub(crate) async fn reserve(
        &self,
        claimable: Claimable,
        head: ChainTime,
    ) -> Result<(LeaseGuard, ProvedBy), Problem> {
        let merchant = &self.route.merchant;
        let held_for = claimable.held_for;
        let claim = Claim::builder(Arc::clone(&self.route.resource), self.key)
            .pay_until(self.pay_until())
            .head(head)
            .max_payment_age(merchant.max_payment_age)
            .lease(merchant.lease);
        let (claim, proofs) = claimable.add_to(claim);
        let reservation = ledger_in_time(PendingReservation::new(&merchant.ledger, claim.build())).await;
        tracing::debug!(intent = %self.key, ?reservation, "reserved");
        Err(match reservation {
            Ok(ReserveOutcome::Granted(lease)) => {
                let proved_by = proofs.of(lease.transfer().payment_id());
                return Ok((LeaseGuard::new(Arc::clone(&merchant.ledger), lease), proved_by));
            }
            Ok(ReserveOutcome::IntentConsumed) => ProblemCode::AlreadyConsumed.into(),
            // One transfer is left, which is not anyone's yet.
            Ok(ReserveOutcome::PaymentUsed) if held_for.is_some() => {
                Problem { retry_after: held_for, ..ProblemCode::TxNotConfirmed.into() }
            }
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
