//! The money: made ready, written down, sent, and followed until it is in a block or never will be.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tower_service::Service;

use super::{
    Declined, Entry, Fate, PayError, PayerError, Payment, Prepared, Proposal, ReplayBody, State, Step,
    book::Claim,
    buy::{Asked, Visit, in_time},
};
use crate::protocol::{Quote, TxHash};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How often a transfer that nobody has is sent again, where sending it is refused.
const REFUSALS_MAX: u32 = 6;
/// How often in a row a payment must be found impossible before it is believed: nodes behind one address disagree.
const IMPOSSIBLE_MIN: u32 = 3;

/// What is known of a payment that is being followed.
#[derive(Default)]
struct Watch {
    /// When it was last sent, or first seen.
    moved: Option<Instant>,
    refusals: u32,
    impossible: u32,
    reason: Option<PayerError>,
}

impl Watch {
    fn is_over(&self, pause: Duration) -> bool {
        self.moved.is_some_and(|moved| moved.elapsed() >= pause)
    }
}

impl<S, B, R> Visit<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: ReplayBody,
    R: Body<Data = Bytes>,
{
    /// Pays for a purchase whose money is set aside.
    pub(super) async fn pay(&mut self, mut claim: Claim, quote: &Quote, proposal: Proposal) -> Result<Claim, PayError> {
        let assets = proposal.assets.iter().cloned();
        let payment = Payment::new(proposal.purchase, quote.network, quote.recipient, quote.amount, assets);
        let payment = payment.tagged(quote.intent.as_str());
        let asked = Instant::now();
        self.shared.budget.approve(proposal).await?;
        // How long a human takes is no matter of patience.
        self.deadline += asked.elapsed();
        let _turn = in_time(self.deadline, "waiting for the payer's other payments", self.shared.payer.turn()).await?;
        self.is_in_time(quote)?;
        // In the turn: whatever was prepared for this intent is in the book by now.
        if self.shared.book.holds(quote.intent.as_str(), claim.entry().id) {
            return Err(Declined::IntentReused.into());
        }
        let prepared = in_time(self.deadline, "preparing the transfer", self.shared.payer.prepare(&payment)).await?;
        let prepared = prepared.map_err(PayError::Payer)?;
        self.is_in_time(quote)?;
        let (payer, transaction) = (prepared.payer, prepared.transaction);
        if payer == quote.recipient {
            return Err(Declined::NoSeller(payer).into());
        }
        let record = |entry: &mut Entry| {
            entry.prepared.push(prepared);
            entry.secret = Some(quote.intent.as_str().to_owned());
        };
        if let Err(error) = claim.record(record).await {
            claim.discard();
            return Err(PayError::Journal(error));
        }
        self.step(Step::Paying { payer, transaction });
        // Whether it went out or not, its fate tells.
        let _ = self.send(&mut claim).await;
        Ok(claim)
    }

    /// Sends what was recorded last.
    async fn send(&mut self, claim: &mut Claim) -> Result<(), PayerError> {
        let Some(prepared) = claim.entry().prepared.last().cloned() else { return Ok(()) };
        match self.shared.payer.send(&prepared).await {
            Ok(transaction) if prepared.transaction.is_none() => {
                let named = |prepared: &mut Prepared| prepared.transaction = Some(transaction);
                claim.note(|entry| entry.prepared.last_mut().map_or((), named)).await;
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "it is not known whether a payment was sent");
                Err(error)
            }
        }
    }

    /// Follows the payment until it is in enough blocks. Sends again what nobody has; bumps what nobody takes.
    pub(super) async fn settle(&mut self, claim: &mut Claim) -> Result<TxHash, PayError> {
        if let (State::Redeeming | State::Unspent, Some(mined)) = (claim.entry().state, claim.entry().transaction) {
            return Ok(mined);
        }
        let (mut watch, pause) = (Watch::default(), self.shared.settings.poll_every);
        loop {
            let fate = self.shared.payer.fate(&claim.entry().prepared).await;
            if let Some(mined) = self.act_on(fate, claim, &mut watch).await? {
                return Ok(mined);
            }
            if Instant::now() + pause > self.deadline {
                return Err(unsettled(claim, watch.reason));
            }
            sleep(pause).await;
        }
    }

    /// Does what a payment's fate asks for; gives the transaction once it is in enough blocks.
    async fn act_on(
        &mut self,
        fate: Result<Fate, PayerError>,
        claim: &mut Claim,
        watch: &mut Watch,
    ) -> Result<Option<TxHash>, PayError> {
        watch.impossible = if matches!(fate, Ok(Fate::Impossible)) { watch.impossible + 1 } else { 0 };
        match fate {
            Ok(Fate::Mined { transaction, confirmations }) => {
                let wanted = self.shared.settings.confirmations;
                self.step(Step::Confirming { transaction, confirmations, wanted });
                if confirmations >= wanted {
                    claim.note(|entry| entry.is_paid_by(transaction)).await;
                    return Ok(Some(transaction));
                }
            }
            Ok(Fate::Pending) if watch.is_over(self.shared.settings.bump_after) => {
                watch.moved = Some(Instant::now());
                // What would be mined too late for its price is not hurried.
                if !self.is_over(claim) || self.renew_quote(claim).await.is_ok() {
                    self.bump(claim).await;
                }
            }
            // The waiting for a bump begins when the transfer was first seen.
            Ok(Fate::Pending) => watch.moved = watch.moved.or_else(|| Some(Instant::now())),
            Ok(Fate::Unknown) if watch.moved.is_none() || watch.is_over(self.shared.settings.resend_after) => {
                watch.moved = Some(Instant::now());
                watch.reason = self.send_again(claim).await?.err();
                watch.refusals += u32::from(watch.reason.is_some());
                if watch.refusals >= REFUSALS_MAX {
                    return Err(unsettled(claim, watch.reason.take()));
                }
            }
            Ok(Fate::Reverted { transaction }) => {
                claim.note(|entry| entry.state = State::Void).await;
                return Err(PayError::Reverted { transaction });
            }
            Ok(Fate::Impossible) if watch.impossible >= IMPOSSIBLE_MIN => {
                claim.note(|entry| entry.state = State::Void).await;
                return Err(PayError::Displaced);
            }
            Ok(_) => {}
            // No time will make it this payer's.
            Err(error @ PayerError::Foreign) => return Err(unsettled(claim, Some(error))),
            Err(error) => watch.reason = Some(error),
        }
        Ok(None)
    }

    /// Sends a transfer that nobody has, if it is still what the seller asks for.
    async fn send_again(&mut self, claim: &mut Claim) -> Result<Result<(), PayerError>, PayError> {
        if self.is_over(claim) {
            self.renew_quote(claim).await?;
        }
        let turn = timeout_at(self.deadline, self.shared.payer.turn());
        let _turn = turn.await.map_err(|_| unsettled(claim, None))?;
        // What is not in the journal for certain is not sent.
        claim.record(|_| {}).await.map_err(|_| unsettled(claim, None))?;
        Ok(self.send(claim).await)
    }

    fn is_over(&self, claim: &Claim) -> bool {
        claim.entry().expiry <= self.shared.clock.unix()
    }

    /// A transfer whose quote is over might be mined too late for its price: asks whether it is still enough.
    async fn renew_quote(&mut self, claim: &mut Claim) -> Result<(), PayError> {
        let patience = self.attempt();
        let Ok(Ok(Asked::Quoted(quote))) = timeout(patience, self.ask()).await else {
            return Err(unsettled(claim, None));
        };
        if self.admit(&quote).is_err() || !claim.entry().pays(&quote) {
            return Err(unsettled(claim, None));
        }
        claim.record(|entry| entry.takes_terms_of(&quote)).await.map_err(|_| unsettled(claim, None))
    }

    /// Offers more for the same place in the chain: at most one of the two can be mined.
    async fn bump(&mut self, claim: &mut Claim) {
        if claim.entry().prepared.len() > self.shared.settings.bumps_max {
            return;
        }
        match self.shared.payer.replace(&claim.entry().prepared).await {
            Ok(Some(dearer)) => {
                let transaction = dearer.transaction;
                if claim.record(|entry| entry.prepared.push(dearer)).await.is_ok() {
                    self.step(Step::Bumping { transaction });
                    let _ = self.send(claim).await;
                }
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "no dearer transaction was made"),
        }
    }
}

fn unsettled(claim: &Claim, reason: Option<PayerError>) -> PayError {
    PayError::Unsettled { transaction: claim.entry().transaction(), reason }
}
