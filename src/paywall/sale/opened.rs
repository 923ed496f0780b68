//! `Opened`: an intent with a valid seal, and its state in the ledger.

use std::{sync::Arc, time::Duration};

use crate::{
    ledger::{Claim, ClaimBuilder, LedgerError, ReserveOutcome, Sale},
    paywall::{
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection},
        sale::{
            kept_answer::{Shown, sold_before},
            reservation::{LeaseGuard, PendingReservation},
        },
        seller::{
            attempts::Claimed,
            chain::SellingChain,
            route::Route,
            time_limits::{ledger_in_time, verifier_in_time},
        },
    },
    protocol::{
        Address, Amount, ChainTime, IntentId, IntentKey, IntentTerms, Payment, PaymentId, ProblemCode, RouteSeal,
    },
};

/// An intent with a valid seal.
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

    /// The terms for a payment that was signed without a quote.
    pub(crate) fn unquoted(route: &'a Route, terms: IntentTerms, recipient: Address, payment: &PaymentId) -> Self {
        Self { route, terms, recipient, key: IntentKey::of_payment(payment), seal: route.seals.of(recipient) }
    }

    /// The digest of this request, under the seal of the intent.
    pub(crate) fn digest(&self, request: &PricedRequest) -> [u8; 16] {
        *request.digest_as_read(self.seal).as_bytes()
    }

    /// Returns whether the sealed terms are valid for this request at the price `now`.
    pub(crate) fn honours(&self, request: &PricedRequest, now: Amount) -> bool {
        let same_request = match self.terms.digest {
            Some(digest) => request.digest(self.seal) == Some(digest),
            None => !self.route.binds(),
        };
        same_request || !self.route.bind && now <= self.terms.amount
    }

    /// Returns whether the terms are valid for a transfer, which is already paid. Each quote of a route that binds has a digest, so a quote
    /// without one is from a time at which the route bound nothing. If the route became metered since, it binds only because of the charge.
    /// A transfer does not depend on the charge: it is taken in full.
    pub(crate) fn honours_transfer(&self, request: &PricedRequest, now: Amount) -> bool {
        let is_from_fixed_price = self.terms.digest.is_none() && !self.route.bind && self.route.prices.is_metered();
        is_from_fixed_price || self.honours(request, now)
    }

    /// The last block time at which a payment for this intent counts.
    pub(crate) fn pay_until(&self) -> ChainTime {
        ChainTime::from_unix(self.terms.expiry()).after(self.route.merchant.quote_grace)
    }

    /// Returns whether even the last payment made in time is too old now.
    pub(crate) fn aged_out(&self) -> bool {
        self.route.merchant.clock.unix() > self.pay_until().after(self.route.merchant.max_payment_age).unix()
    }

    /// Returns the reply to a refusal before the reservation. A consumed intent takes precedence over any refusal but a fault.
    pub(crate) async fn unless_consumed(&self, shown: Shown, rejection: Rejection) -> Rejection {
        if let Rejection::Fault(_) = rejection {
            return rejection;
        }
        match (self.consumed().await, rejection) {
            (Ok(Some(sale)), _) => sold_before(sale, shown, self.route.redelivery().is_some()),
            (Err(_), Rejection::Problem(_)) => Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN).into(),
            (_, rejection) => rejection,
        }
    }

    /// Returns what this intent bought. If the ledger does not answer, the client may ask again.
    async fn already_consumed(&self, shown: Shown) -> Rejection {
        if self.route.redelivery().is_none() {
            return ProblemCode::AlreadyConsumed.into();
        }
        match self.consumed().await {
            Ok(Some(sale)) => sold_before(sale, shown, self.route.redelivery().is_some()),
            Ok(None) => ProblemCode::AlreadyConsumed.into(),
            Err(_) => Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN).into(),
        }
    }

    /// Returns the reply where the ledger reserved nothing.
    pub(crate) async fn refused(&self, shown: Shown, problem: Problem) -> Rejection {
        match problem.code {
            ProblemCode::AlreadyConsumed => self.already_consumed(shown).await,
            _ => problem.into(),
        }
    }

    /// Checks that the ledger would remember if this payment had bought an answer. In a ledger that was emptied meanwhile, this call sets
    /// the memory's beginning later than every earlier sale.
    pub(crate) async fn is_remembered(&self, chain: &SellingChain, paid: &Payment) -> Result<(), Problem> {
        let Ok(horizon) = verifier_in_time(chain.view.horizon()).await else {
            return Err(Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN));
        };
        match ledger_in_time(self.route.merchant.ledger.begin(paid.network(), horizon)).await {
            Ok(mark) if paid.time() > mark => Ok(()),
            Ok(_) => Err(self.too_old()),
            Err(_) => Err(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN)),
        }
    }

    /// Returns whether this intent bought an answer, as far as the ledger knows.
    pub(crate) async fn is_consumed(&self) -> Result<bool, Problem> {
        let consumed = self.consumed().await.map(|sale| sale.is_some());
        consumed.map_err(|_| Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN))
    }

    async fn consumed(&self) -> Result<Option<Sale>, LedgerError> {
        ledger_in_time(self.route.merchant.ledger.consumed(self.key)).await
    }

    pub(crate) fn too_old(&self) -> Problem {
        Problem { contact: self.route.merchant.contact.clone(), ..ProblemCode::PaymentTooOld.into() }
    }

    /// A claim on this intent, without candidates.
    pub(crate) fn claim(&self, head: ChainTime) -> ClaimBuilder {
        let merchant = &self.route.merchant;
        let answer_kept = self.route.redelivery().map_or(Duration::ZERO, |redelivery| redelivery.keep_for());
        Claim::builder(Arc::clone(&self.route.resource), self.key)
            .pay_until(self.pay_until())
            .head(head)
            .max_payment_age(merchant.max_payment_age)
            .answer_kept(answer_kept)
            .lease(merchant.lease)
    }

    /// Reserves the first free payment of the claim. `claimed` tells who claims it.
    pub(crate) async fn grant(
        &self,
        claim: ClaimBuilder,
        claimed: impl FnOnce(PaymentId) -> Claimed,
    ) -> Result<LeaseGuard, Problem> {
        let (ledger, claim) = (&self.route.merchant.ledger, claim.build());
        // Runs first: a client that leaves after the reservation would leave it without upkeep.
        if let Some(chain) = claim.payments().first().and_then(|paid| self.route.merchant.on(paid.network())) {
            chain.upkeep.beside_reservation(ledger, chain.network, claim.head());
        }
        let reservation = ledger_in_time(PendingReservation::new(ledger, claim)).await;
        tracing::debug!(intent = %self.key, ?reservation, "reserved");
        Err(match reservation {
            Ok(ReserveOutcome::Granted(lease)) => {
                let claimed = claimed(lease.payment().id());
                let guard = LeaseGuard::new(Arc::clone(ledger), lease, claimed, &self.route.merchant.attempts);
                let Some(retry_after) = guard.cooling() else { return Ok(guard) };
                // Boxed: this is rare, and would make every redemption's future larger.
                Box::pin(guard.release()).await;
                Problem::after(ProblemCode::TooManyAttempts, retry_after)
            }
            Ok(ReserveOutcome::IntentConsumed) => ProblemCode::AlreadyConsumed.into(),
            Ok(ReserveOutcome::PaymentUsed) => ProblemCode::TxAlreadyUsed.into(),
            Ok(ReserveOutcome::PurchaseConsumed) => ProblemCode::PaymentIdConflict.into(),
            // The lease may last long, but the handler under it rarely does.
            Ok(ReserveOutcome::IntentHeld { retry_after } | ReserveOutcome::Busy { retry_after }) => {
                Problem::after(ProblemCode::RedemptionInProgress, retry_after.min(ASK_AGAIN))
            }
            Ok(ReserveOutcome::BeforeMemory) => self.too_old(),
            Err(_) => Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN),
        })
    }
}
