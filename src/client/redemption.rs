//! The answer: the proof is sent until the seller gives it, or says why not.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, response::Parts};
use http_body::Body;
use rand::Rng as _;
use tokio::time::{Instant, sleep};
use tower_service::Service;

use super::{
    JournalEntry, PayError, ProofIn, PurchaseEvent, PurchaseState, ReplayBody, ResponseBody,
    progress::Progress,
    registry::PurchaseGuard,
    reply::SellerReply,
    seller::{Replied, Seller},
    settings::Settings,
};
use crate::protocol::{ProblemCode, TxHash};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How many fresh intents one call takes: an honest seller needs one, or two where a price changes meanwhile.
const RENEWALS_MAX: u32 = 3;
/// How often a server may fail without a reason before its failure is the answer.
const FAILURES_MAX: u32 = 3;
/// How many calls a seller may end by billing again: then it will not give the answer.
const BILLS_MAX: u32 = 5;
/// The longest pause that is our own choice.
const BACKOFF_MAX: u64 = 15;

/// The conversation with a seller about one payment.
pub(super) struct Redemption<'a> {
    settings: &'a Settings,
    progress: Progress,
    deadline: Instant,
    place: ProofIn,
    renewals: u32,
    failures: u32,
    pauses: u32,
    attempts: u32,
}

/// What redeeming comes to.
pub(super) enum Redeemed<R> {
    /// This is the caller's answer; the journal has the purchase's last state.
    Answered(Parts, ResponseBody<R>),
    /// The seller does not find the transaction: look at the chain again, then go on.
    NotConfirmed,
}

/// What a reply asks for.
enum Next {
    Close(PurchaseState),
    Pause(Option<ProblemCode>, Option<Duration>),
    NotConfirmed(Option<Duration>),
    Renew(String),
    /// With the proof in the header.
    Again,
    Fail(Failing),
}

/// How a redemption ends without an answer.
enum Failing {
    BilledAgain,
    Redirected,
    Refused(ProblemCode),
    /// The payment stays unspent.
    Misunderstood,
    /// A fresh intent too many: nothing is known that was not known before.
    TooManyIntents,
}

impl<'a> Redemption<'a> {
    /// Everything that is waited for has to be over at `deadline`; `attempts` have been made by this call before.
    pub(super) const fn new(
        settings: &'a Settings,
        progress: Progress,
        deadline: Instant,
        place: ProofIn,
        attempts: u32,
    ) -> Self {
        Self { settings, progress, deadline, place, renewals: 0, failures: 0, pauses: 0, attempts }
    }

    /// How often the proof was sent.
    pub(super) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Sends the proof of `transaction` until there is an answer, or a reason why there is none.
    pub(super) async fn run<S, B, R>(
        &mut self,
        seller: &mut Seller<S, B>,
        guard: &mut PurchaseGuard,
        transaction: TxHash,
    ) -> Result<Redeemed<R>, PayError>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        S::Error: Into<BoxError>,
        B: ReplayBody,
        R: Body<Data = Bytes>,
    {
        loop {
            let Some(Replied { parts, reply, body }) = self.present(seller, guard.entry(), transaction).await? else {
                self.pause(transaction, None, None).await?;
                continue;
            };
            match self.next(reply) {
                Next::Close(state) => {
                    close(guard, transaction, state, &parts).await;
                    self.progress.report(PurchaseEvent::Answered(parts.status));
                    return Ok(Redeemed::Answered(parts, body));
                }
                Next::Pause(code, after) => self.pause(transaction, code, after).await?,
                Next::NotConfirmed(after) => {
                    self.pause(transaction, Some(ProblemCode::TxNotConfirmed), after).await?;
                    return Ok(Redeemed::NotConfirmed);
                }
                Next::Renew(intent) => {
                    guard.note(|entry| entry.intent = intent).await;
                    self.progress.report(PurchaseEvent::Renewed);
                }
                Next::Again => {}
                Next::Fail(failing) => return Err(fail(guard, transaction, failing, &parts).await),
            }
        }
    }

    /// Sends the proof once; `None` where no answer came.
    async fn present<S, B, R>(
        &mut self,
        seller: &mut Seller<S, B>,
        entry: &JournalEntry,
        transaction: TxHash,
    ) -> Result<Option<Replied<R>>, PayError>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        S::Error: Into<BoxError>,
        B: ReplayBody,
        R: Body<Data = Bytes>,
    {
        // A body that cannot be had again after all: what was paid is not forgotten.
        let unsent = PayError::Unanswered { transaction, code: None };
        let proven = seller.proven(&entry.intent, transaction, self.place).ok_or(unsent)?;
        self.attempts += 1;
        self.progress.report(PurchaseEvent::Redeeming { transaction, attempt: self.attempts });
        let patience = self.settings.patience_until(self.deadline);
        Ok(seller.present(proven, patience).await)
    }

    /// Decides what a reply asks for, and counts what is not endless.
    fn next(&mut self, reply: SellerReply) -> Next {
        match reply {
            SellerReply::Sold => Next::Close(PurchaseState::Answered),
            SellerReply::Declined => Next::Close(PurchaseState::Unspent),
            SellerReply::Failed if self.failures + 1 >= FAILURES_MAX => Next::Close(PurchaseState::Redeeming),
            SellerReply::Failed => {
                self.failures += 1;
                Next::Pause(None, None)
            }
            SellerReply::Fresh(intent) if self.renewals < RENEWALS_MAX => {
                self.renewals += 1;
                Next::Renew(intent.as_str().to_owned())
            }
            SellerReply::Fresh(_) => Next::Fail(Failing::TooManyIntents),
            SellerReply::NotConfirmed(after) => Next::NotConfirmed(after),
            SellerReply::Later(code, after) => Next::Pause(code, after),
            // The proof is the same; a route may take it in the header only.
            SellerReply::Elsewhere | SellerReply::Billed if self.place == ProofIn::Body => {
                self.place = ProofIn::Header;
                Next::Again
            }
            SellerReply::Billed => Next::Fail(Failing::BilledAgain),
            SellerReply::Redirected => Next::Fail(Failing::Redirected),
            SellerReply::Refused(code) => Next::Fail(Failing::Refused(code)),
            SellerReply::Misunderstood | SellerReply::Elsewhere => Next::Fail(Failing::Misunderstood),
        }
    }

    /// Waits as long as the seller asks, within bounds, and never much less.
    async fn pause(
        &mut self,
        transaction: TxHash,
        code: Option<ProblemCode>,
        after: Option<Duration>,
    ) -> Result<(), PayError> {
        let own = Duration::from_secs((1 << self.pauses.min(8)).min(BACKOFF_MAX));
        self.pauses += u32::from(after.is_none());
        let floor = Duration::from_millis(500);
        let asked = after.unwrap_or(own).clamp(floor, self.settings.longest_pause.max(floor));
        let pause = asked.mul_f64(rand::rng().random_range(1.0..1.2));
        if Instant::now() + pause > self.deadline {
            return Err(PayError::Unanswered { transaction, code });
        }
        self.progress.report(PurchaseEvent::Waiting { code, pause });
        sleep(pause).await;
        Ok(())
    }
}

/// Records the last state of a purchase that has an answer.
async fn close(guard: &mut PurchaseGuard, transaction: TxHash, state: PurchaseState, parts: &Parts) {
    let delivered = state == PurchaseState::Unspent && parts.status.is_success();
    let close = |entry: &mut JournalEntry| {
        (entry.state, entry.transaction, entry.delivered) = (state, Some(transaction), delivered);
    };
    guard.note(close).await;
}

/// Records what a failed redemption means for the payment, and says it.
async fn fail(guard: &mut PurchaseGuard, transaction: TxHash, failing: Failing, parts: &Parts) -> PayError {
    match failing {
        Failing::BilledAgain => billed_again(guard, transaction).await,
        Failing::Redirected => PayError::Redirected { transaction },
        Failing::Refused(code) => {
            guard.note(|entry| entry.state = PurchaseState::Refused).await;
            PayError::Refused { transaction, code }
        }
        Failing::Misunderstood => {
            guard.note(|entry| entry.state = PurchaseState::Unspent).await;
            PayError::Misunderstood { transaction, status: parts.status }
        }
        Failing::TooManyIntents => PayError::Misunderstood { transaction, status: parts.status },
    }
}

/// Records another bill for what was paid. A purchase that only ever meets bills comes to an end.
async fn billed_again(guard: &mut PurchaseGuard, transaction: TxHash) -> PayError {
    let count = |entry: &mut JournalEntry| {
        entry.billed += 1;
        if entry.billed >= BILLS_MAX {
            entry.state = PurchaseState::Refused;
        }
    };
    guard.note(count).await;
    PayError::BilledAgain { transaction, is_last: !guard.entry().state.is_open() }
}
