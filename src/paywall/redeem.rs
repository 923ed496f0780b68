//! Redeeming, up to the handler: seal, chain, ledger, in that order.

use std::{future::Future, sync::Arc, time::Duration};

use http::Response;
use tokio::time::timeout;

use super::{
    body::ResponseBody,
    layer::Route,
    lease::{Asking, LeaseGuard},
    order::{Order, refused},
    pricing::Refusal,
    respond::{ASK_AGAIN, Problem},
};
use crate::{
    ledger::{Claim, LedgerError, Reservation},
    protocol::{
        Address, Amount, ChainTime, IntentId, IntentKey, IntentTerms, ProblemCode, Proof, Receipt, RouteSeal, Transfer,
        TxHash,
    },
    verify::{Verdict, VerifyError},
};

/// How long one question to the ledger may take.
const LEDGER_WAIT: Duration = Duration::from_secs(5);
/// How long a verdict may take, whatever the verifier: one that bounds itself, as it should, is never cut by this.
const VERIFIER_WAIT: Duration = Duration::from_secs(10);

/// Reserves the payment that whoever shows an intent and a transaction may buy this answer with, or tells why not.
pub(crate) async fn admit(
    order: &Order,
    intent: IntentId,
    transaction: TxHash,
    now: Amount,
) -> Result<(LeaseGuard, Receipt), Problem> {
    let Some(opened) = Opened::open(&order.route, &intent) else {
        return Err(order.fresh(ProblemCode::IntentNotFound, now));
    };
    let guard = opened.admit(order, transaction, now).await?;
    let receipt = Receipt::new(Arc::clone(&order.route.resource), intent, guard.transfer().clone());
    Ok((guard, receipt))
}

/// The answer to a redemption of what the service refuses: an intent that is consumed is told so all the same.
pub(crate) async fn refuse<ResB>(order: &Order, intent: &IntentId, refusal: Refusal) -> Response<ResponseBody<ResB>> {
    match Opened::open(&order.route, intent) {
        Some(opened) if opened.is_consumed().await == Ok(true) => order.problem(ProblemCode::AlreadyConsumed),
        Some(_) | None => refused(refusal),
    }
}

/// What to answer to a proof where the price is not to be had: the same goes for an intent that is consumed.
pub(crate) async fn unpriced(order: &Order, proof: &Proof, problem: Problem) -> Problem {
    match proof {
        Proof::Redemption { intent, .. } => match Opened::open(&order.route, intent) {
            Some(opened) => opened.unless_consumed(problem).await,
            None => problem,
        },
        Proof::IntentOnly(_) | Proof::TransactionOnly(_) => problem,
    }
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
    fn honours(&self, order: &Order, now: Amount) -> bool {
        let same_request = match self.terms.digest {
            Some(digest) => order.digest(self.seal) == Some(digest),
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

    async fn is_consumed(&self) -> Result<bool, LedgerError> {
        in_time(self.route.merchant.ledger.is_consumed(self.key)).await
    }

    /// What to answer where the chain, or anything before it, does not say "paid": a consumed intent
    /// is consumed whatever else is true.
    async fn unless_consumed(&self, problem: impl Into<Problem>) -> Problem {
        match self.is_consumed().await {
            Ok(true) => ProblemCode::AlreadyConsumed.into(),
            Ok(false) => problem.into(),
            Err(_) => Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN),
        }
    }

    /// Reserves a payment for this intent, or tells why not.
    async fn admit(&self, order: &Order, transaction: TxHash, now: Amount) -> Result<LeaseGuard, Problem> {
        // For the recipient that was paid, if that is a former one.
        let fresh = |code| order.fresh_for(self.recipient, code, now);
        if !self.honours(order, now) {
            return Err(self.unless_consumed(fresh(ProblemCode::IntentNotFound)).await);
        }
        if self.aged_out() {
            return Err(self.unless_consumed(fresh(ProblemCode::IntentExpired)).await);
        }
        let (mut transfers, head) = match self.verify(transaction).await {
            Ok(paid) => paid,
            Err(problem) => return Err(self.unless_consumed(problem).await),
        };
        transfers.retain(|transfer| transfer.block_time <= self.pay_until());
        if transfers.is_empty() {
            return Err(self.unless_consumed(fresh(ProblemCode::IntentExpired)).await);
        }
        self.reserve(transfers, head).await
    }

    async fn verify(&self, transaction: TxHash) -> Result<(Vec<Transfer>, ChainTime), Problem> {
        let merchant = &self.route.merchant;
        merchant.started().await?;
        let terms = self.route.terms(self.recipient, self.terms.amount);
        let verdict = timeout(VERIFIER_WAIT, merchant.verifier.verify(&terms, transaction))
            .await
            .unwrap_or(Err(VerifyError::unavailable()));
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
        let reservation = in_time(Asking::new(&merchant.ledger, claim)).await;
        tracing::debug!(intent = %self.key, ?reservation, "reserved");
        Err(match reservation {
            Ok(Reservation::Granted(lease)) => return Ok(LeaseGuard::new(Arc::clone(&merchant.ledger), lease)),
            Ok(Reservation::IntentConsumed) => ProblemCode::AlreadyConsumed.into(),
            Ok(Reservation::PaymentUsed) => ProblemCode::TxAlreadyUsed.into(),
            // The lease may last long; the handler under it rarely does.
            Ok(Reservation::Busy { retry_after }) => {
                Problem::after(ProblemCode::RedemptionInProgress, retry_after.min(ASK_AGAIN))
            }
            Ok(Reservation::TooManyAttempts { retry_after }) => {
                Problem::after(ProblemCode::TooManyAttempts, retry_after)
            }
            Ok(Reservation::BeforeMemory) => self.too_old(),
            Err(_) => Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN),
        })
    }
}

/// A ledger that takes too long is a ledger that fails; a grant that comes later is given back.
async fn in_time<T>(question: impl Future<Output = Result<T, LedgerError>>) -> Result<T, LedgerError> {
    let answer = timeout(LEDGER_WAIT, question).await.unwrap_or(Err(LedgerError::Unavailable));
    answer.inspect_err(|error| tracing::warn!(%error, "the ledger did not answer"))
}
