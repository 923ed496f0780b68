//! `Conversation`: shows a payment to a seller until there is an answer, or a reason why there is none.
//!
//! It always shows the same payment: a transfer by its transaction, an authorization by its message. [`judgement`]
//! decides the next step after a reply; [`authorization`] has the parts that depend on the chain.

mod answer;
mod authorization;
mod failing;
mod judgement;
mod payer_signature;
mod voucher;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, response::Parts};
use http_body::Body;
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use self::{
    answer::{close, read_ahead},
    failing::{Failing, fail},
    judgement::{Consumed, Next, Presented},
    payer_signature::PayerSignature,
};
use crate::{
    client::{
        Failure, JournalEntry, PermitCharge, ProofIn, PurchaseEvent, PurchaseState, ReplayBody, ResponseBody, Signed,
        box_error::BoxError,
        dialect::{
            SellerReply, TransferProof,
            reply::{self},
            signed_proof,
        },
        flow::{Pacing, Progress, PurchaseGuard, Replied, Seller},
        inner::ClientInner,
        way::{Charged, channel::counting, charge},
    },
    protocol::{ProblemCode, TxHash},
};

/// How many failures without a reason one conversation accepts.
const FAILURES_MAX: u32 = 3;
/// How many broken answers one conversation accepts.
const BREAKS_MAX: u32 = 3;

/// The outcome of a conversation.
pub(crate) enum Outcome<R> {
    /// The caller's answer. The purchase's final state is in the journal.
    Answered(Parts, ResponseBody<R>),
    /// The seller does not find the transaction: check the chain again, then continue.
    NotConfirmed,
    /// The purchase's transaction settled the authorization, and the seller redeems transactions.
    Settled,
    /// The authorization was not used, and never can be.
    Void,
}

/// The conversation with a seller about one payment.
pub(crate) struct Conversation<'a> {
    inner: &'a ClientInner,
    progress: Progress,
    deadline: Instant,
    pacing: Pacing,
    /// Where a transfer's proof travels.
    place: ProofIn,
    signature: PayerSignature<'a>,
    renewals: u32,
    consumed: Consumed,
    failures: u32,
    breaks: u32,
    attempts: u32,
    /// How often this conversation showed the present voucher, and whether it signed that voucher.
    voucher_shown: u32,
    is_signed_anew: bool,
    /// Whether an authorization was shown after the chain reported it as settled.
    shown_settled: bool,
}

impl<'a> Conversation<'a> {
    /// Creates a conversation. All waiting ends at `deadline`; `attempts` is the number of attempts that this call has
    /// already made.
    pub(super) fn new(
        inner: &'a ClientInner,
        progress: Progress,
        deadline: Instant,
        place: ProofIn,
        attempts: u32,
    ) -> Self {
        let (signature, pacing) =
            (PayerSignature::of(&*inner.payer), Pacing::new(deadline, inner.settings.longest_pause));
        let (renewals, failures, breaks, shown_settled) = (0, 0, 0, false);
        Self {
            inner,
            progress,
            deadline,
            pacing,
            place,
            signature,
            renewals,
            consumed: Consumed::Unsaid,
            failures,
            breaks,
            attempts,
            voucher_shown: 0,
            is_signed_anew: false,
            shown_settled,
        }
    }

    /// Returns how often the payment was shown.
    pub(super) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Shows the payment until there is an answer, or a reason why there is none. It shows `transaction` if the seller
    /// redeems transactions, otherwise the signed message.
    pub(super) async fn run<S, B, R>(
        &mut self,
        seller: &mut Seller<S, B>,
        guard: &mut PurchaseGuard,
        transaction: Option<TxHash>,
    ) -> Result<Outcome<R>, Failure>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        S::Error: Into<BoxError>,
        B: ReplayBody,
        R: Body<Data = Bytes>,
    {
        if transaction.is_none()
            && let Some(outcome) = self.ended(guard).await?
        {
            return Ok(outcome);
        }
        loop {
            let ended = match (self.present(seller, guard.entry(), transaction).await?, transaction) {
                (Some(replied), _) => self.act(guard, transaction, replied).await?,
                (None, Some(_)) => self.pause(guard.entry(), transaction, None, None).await?,
                (None, None) => self.failed(guard, None).await?,
            };
            if let Some(outcome) = ended {
                return Ok(outcome);
            }
        }
    }

    /// Shows the payment once; returns `None` if no answer came.
    async fn present<S, B, R>(
        &mut self,
        seller: &mut Seller<S, B>,
        entry: &JournalEntry,
        transaction: Option<TxHash>,
    ) -> Result<Option<Replied<R>>, Failure>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        S::Error: Into<BoxError>,
        B: ReplayBody,
        R: Body<Data = Bytes>,
    {
        let proof = match transaction {
            Some(transaction) if self.consumed == Consumed::Asking => {
                // In the header, where services have no members of their own.
                TransferProof::of(entry, transaction, None).without_intent().placed(ProofIn::Header)
            }
            Some(transaction) => {
                TransferProof::of(entry, transaction, self.signature.get(entry, transaction)).placed(self.place)
            }
            None => signed_proof::proof(entry.signed().map_or("", Signed::message)),
        };
        if seller.request().has_in_the_way(&proof) {
            let until = entry.valid_before().unwrap_or(entry.expiry);
            return Err(Failure::AuthorizationTaken { left: Some((entry.id, until)) });
        }
        // The body cannot be repeated after all; the payment stays recorded.
        let proven = seller.request().proven(&proof).ok_or_else(|| unanswered(entry, transaction, None))?;
        self.attempts += 1;
        self.voucher_shown += 1;
        let transaction = transaction.or(entry.transaction);
        self.progress.report(PurchaseEvent::Redeeming { transaction, attempt: self.attempts });
        Ok(seller.present(proven, self.inner.settings.patience_until(self.deadline)).await)
    }

    /// Returns the next step after a reply.
    fn next(&self, said: SellerReply, guard: &PurchaseGuard, transaction: Option<TxHash>) -> Next {
        let Some(transaction) = transaction else { return judgement::of_authorization(said) };
        let entry = guard.entry();
        let shown = Presented {
            in_body: self.place == ProofIn::Body,
            signed: self.signature.get(entry, transaction).is_some(),
            renewals: self.renewals,
            consumed: self.consumed,
            // A transaction made elsewhere may contain another transfer with another purpose.
            may_be_unused: !entry.transfers().is_empty() && guard.is_unsold(),
            broke_off: self.breaks > 0,
        };
        judgement::of_transfer(said, shown)
    }

    /// Performs the next step after a reply; returns `None` if the payment is to be shown again.
    async fn act<R: Body<Data = Bytes>>(
        &mut self,
        guard: &mut PurchaseGuard,
        transaction: Option<TxHash>,
        Replied { parts, reply, body }: Replied<R>,
    ) -> Result<Option<Outcome<R>>, Failure> {
        match self.next(reply, guard, transaction) {
            Next::Close(state) => return self.close(guard, state, transaction, parts, body).await,
            Next::Pause(code, after) => return self.pause(guard.entry(), transaction, code, after).await,
            Next::Failed if transaction.is_none() => return self.failed(guard, None).await,
            Next::Failed => {
                self.failures += 1;
                if self.failures >= FAILURES_MAX {
                    return self.close(guard, PurchaseState::Redeeming, transaction, parts, body).await;
                }
                return self.pause(guard.entry(), transaction, None, None).await;
            }
            Next::NotConfirmed(after) => {
                let code = Some(ProblemCode::TxNotConfirmed);
                self.pause::<R>(guard.entry(), transaction, code, after).await?;
                return Ok(Some(Outcome::NotConfirmed));
            }
            Next::AskIntent => {
                tracing::info!(purchase = %guard.entry().id, "the intent was used by another payment; this one asks for its own");
                self.consumed = Consumed::Asking;
            }
            Next::Renew(intent) => {
                self.renewals += 1;
                if self.consumed == Consumed::Asking {
                    self.consumed = Consumed::Renewed;
                }
                guard.note(|entry| intent.as_str().clone_into(&mut entry.intent)).await;
                self.progress.report(PurchaseEvent::Renewed);
            }
            Next::Sign(code) => self.sign(guard, transaction, code, &parts).await?,
            Next::InHeader => self.place = ProofIn::Header,
            Next::AskChain(code, _) if guard.entry().vouched().is_some() => {
                return self.voucher_refused(guard, &parts, code).await;
            }
            Next::AskChain(code, fresh) => return self.refused(guard, &parts, code, fresh).await,
            Next::Fail(failing) => return Err(self.fail(guard, transaction, failing, &parts).await),
        }
        Ok(None)
    }

    async fn close<R: Body<Data = Bytes>>(
        &mut self,
        guard: &mut PurchaseGuard,
        state: PurchaseState,
        transaction: Option<TxHash>,
        parts: Parts,
        body: ResponseBody<R>,
    ) -> Result<Option<Outcome<R>>, Failure> {
        // Before the body is awaited, because the channel's next request builds on this count.
        let counted = match state {
            PurchaseState::Answered => self.counted(guard.entry(), &parts).await,
            _ => None,
        };
        if state == PurchaseState::Unspent && guard.entry().vouched().is_some_and(|vouched| vouched.deposit().is_none())
        {
            if guard.entry().is_sold() {
                guard.refuse().await;
            } else {
                // The seller alone says that there was no charge. An earlier, lost answer may have been charged.
                let may_be_charged = self.is_shown_again(guard);
                self.end_uncharged(guard, may_be_charged).await;
            }
            self.progress.report(PurchaseEvent::Answered(parts.status));
            return Ok(Some(Outcome::Answered(parts, body)));
        }
        let Some(body) = read_ahead(guard, state, body, self.inner.settings.read_ahead).await else {
            return self.broke_off(guard.entry(), transaction).await;
        };
        let (transaction, state) = match transaction {
            Some(_) => (transaction, state),
            None => (reply::settled_by(&parts).or(guard.entry().transaction), guard.entry().closed_as(state)),
        };
        let charged = match state {
            PurchaseState::Answered if counted.is_none() => self.charged(guard.entry(), &parts).await,
            _ => counted,
        };
        close(guard, transaction, state, charged, &parts).await;
        self.progress.report(PurchaseEvent::Answered(parts.status));
        Ok(Some(Outcome::Answered(parts, body)))
    }

    /// Reads the charge of a permit from the answer. After an impossible statement, nothing more is paid to the host.
    async fn charged(&self, entry: &JournalEntry, parts: &Parts) -> Option<PermitCharge> {
        entry.permitted()?;
        // Boxed, so that other payments do not carry its state.
        let Charged { charge, is_plausible } = Box::pin(charge::read(self.inner, entry, parts)).await?;
        self.believe(entry, is_plausible);
        Some(charge)
    }

    /// Reads the charge of a channel from the answer, and advances the channel's count.
    async fn counted(&self, entry: &JournalEntry, parts: &Parts) -> Option<PermitCharge> {
        let Charged { charge, is_plausible } = Box::pin(counting::count(self.inner, entry, parts)).await?;
        self.believe(entry, is_plausible);
        Some(charge)
    }

    /// Stops payments to the host if its statement is impossible.
    fn believe(&self, entry: &JournalEntry, is_plausible: bool) {
        if is_plausible {
            return;
        }
        tracing::warn!(purchase = %entry.id, "the seller states a charge that cannot be true: nothing more is paid to it");
        self.inner.registry.distrust(&entry.host, &self.inner.budget);
        let (maximum, decimals) = (entry.amount, entry.decimals);
        self.progress.report(PurchaseEvent::Mischarged { maximum, decimals });
    }

    /// Asks the payer to sign for its transfer.
    async fn sign(
        &mut self,
        guard: &mut PurchaseGuard,
        transaction: Option<TxHash>,
        code: ProblemCode,
        parts: &Parts,
    ) -> Result<(), Failure> {
        let (entry, Some(transaction)) = (guard.entry(), transaction) else { return Ok(()) };
        self.progress.report(PurchaseEvent::Signing);
        let purchase = entry.id;
        let late = Failure::Unanswered { purchase, transaction, code: Some(code) };
        let signed = timeout_at(self.deadline, self.signature.sign(entry, transaction)).await.map_err(|_| late)?;
        match signed {
            Ok(true) => Ok(()),
            Ok(false) => Err(fail(guard, transaction, Failing::Unproven { code, signed: false }, parts).await),
            Err(reason) => Err(Failure::Unproven { purchase, transaction, code, signed: false, reason: Some(reason) }),
        }
    }

    async fn fail(
        &self,
        guard: &mut PurchaseGuard,
        transaction: Option<TxHash>,
        failing: Failing,
        parts: &Parts,
    ) -> Failure {
        match transaction {
            Some(transaction) => fail(guard, transaction, failing, parts).await,
            None => unanswered(guard.entry(), None, None),
        }
    }

    /// Waits before a lost answer is requested again. It was sold, so the payment is not shown for another one.
    async fn broke_off<R>(
        &mut self,
        entry: &JournalEntry,
        transaction: Option<TxHash>,
    ) -> Result<Option<Outcome<R>>, Failure> {
        tracing::warn!(purchase = %entry.id, "the answer broke off after it was sold");
        self.breaks += 1;
        if self.breaks >= BREAKS_MAX {
            return Err(unanswered(entry, transaction, None));
        }
        self.pause(entry, transaction, None, None).await
    }

    /// Waits as long as the seller asks, within bounds.
    async fn pause<R>(
        &mut self,
        entry: &JournalEntry,
        transaction: Option<TxHash>,
        code: Option<ProblemCode>,
        after: Option<Duration>,
    ) -> Result<Option<Outcome<R>>, Failure> {
        let pause = self.pacing.next(after).ok_or_else(|| unanswered(entry, transaction, code))?;
        self.progress.report(PurchaseEvent::Waiting { code, pause });
        Pacing::wait(pause).await;
        Ok(None)
    }
}

/// Returns the error of a purchase that has no answer yet.
pub(super) fn unanswered(entry: &JournalEntry, transaction: Option<TxHash>, code: Option<ProblemCode>) -> Failure {
    let purchase = entry.id;
    match transaction.or(entry.transaction) {
        Some(transaction) => Failure::Unanswered { purchase, transaction, code },
        None if entry.vouched().is_some() => Failure::VoucherUnanswered { purchase },
        None => Failure::Unsettled { purchase, transaction: None, reason: None },
    }
}
