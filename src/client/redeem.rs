//! The answer: the proof is sent until the seller gives it, or says why not.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, response::Parts};
use http_body::Body;
use rand::Rng as _;
use tokio::time::{Instant, sleep, timeout};
use tower_service::Service;

use super::{
    Entry, PayError, ProofIn, Purchase, ReplayBody, ResponseBody, State, Step,
    answer::{self, Said},
    book::Claim,
    buy::Visit,
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

/// The present state of the conversation.
struct Talk {
    transaction: TxHash,
    place: ProofIn,
    renewals: u32,
    failures: u32,
    pauses: u32,
}

impl<S, B, R> Visit<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: ReplayBody,
    R: Body<Data = Bytes>,
{
    /// Redeems a payment that is in a block.
    pub(super) async fn redeem(
        &mut self,
        mut claim: Claim,
        transaction: TxHash,
    ) -> Result<Response<ResponseBody<R>>, PayError> {
        let in_body = self.shared.settings.proof_in == ProofIn::Body && self.order.takes_proof_in_body();
        let place = if in_body { ProofIn::Body } else { ProofIn::Header };
        let mut talk = Talk { transaction, place, renewals: 0, failures: 0, pauses: 0 };
        loop {
            let Some((parts, said, body)) = self.present(&claim, &talk).await? else {
                self.pause(&mut talk, None, None).await?;
                continue;
            };
            let transaction = talk.transaction;
            match said {
                Said::Sold => return Ok(self.closed(claim, transaction, State::Answered, parts, body).await),
                Said::Declined => return Ok(self.closed(claim, transaction, State::Unspent, parts, body).await),
                Said::Failed if talk.failures + 1 >= FAILURES_MAX => {
                    return Ok(self.closed(claim, transaction, State::Redeeming, parts, body).await);
                }
                Said::Failed => {
                    talk.failures += 1;
                    self.pause(&mut talk, None, None).await?;
                }
                Said::Fresh(intent) if talk.renewals < RENEWALS_MAX => {
                    talk.renewals += 1;
                    claim.note(|entry| entry.intent = intent.as_str().to_owned()).await;
                    self.step(Step::Renewed);
                }
                Said::NotConfirmed(after) => {
                    self.pause(&mut talk, Some(ProblemCode::TxNotConfirmed), after).await?;
                    // A reorganisation may have put another of the recorded transactions into its place.
                    talk.transaction = self.look_again(&mut claim, transaction).await?;
                }
                Said::Later(code, after) => self.pause(&mut talk, code, after).await?,
                // The proof is the same; a route may take it in the header only.
                Said::Elsewhere | Said::Billed if talk.place == ProofIn::Body => talk.place = ProofIn::Header,
                Said::Billed => return Err(billed_again(claim, transaction).await),
                Said::Redirected => return Err(PayError::Redirected { transaction }),
                Said::Refused(code) => {
                    claim.note(|entry| entry.state = State::Refused).await;
                    return Err(PayError::Refused { transaction, code });
                }
                Said::Misunderstood | Said::Elsewhere => {
                    claim.note(|entry| entry.state = State::Unspent).await;
                    return Err(PayError::Misunderstood { transaction, status: parts.status });
                }
                Said::Fresh(_) => {
                    return Err(PayError::Misunderstood { transaction, status: parts.status });
                }
            }
        }
    }

    /// Sends the proof once; `None` where no answer came.
    async fn present(
        &mut self,
        claim: &Claim,
        talk: &Talk,
    ) -> Result<Option<(Parts, Said, ResponseBody<R>)>, PayError> {
        let intent = &claim.entry().intent;
        // A body that cannot be had again after all: what was paid is not forgotten.
        let unsent = PayError::Unanswered { transaction: talk.transaction, code: None };
        let request = self.order.redeeming(intent, talk.transaction, talk.place).ok_or(unsent)?;
        self.attempts += 1;
        self.step(Step::Redeeming { transaction: talk.transaction, attempt: self.attempts });
        let patience = self.attempt();
        let exchange = async { answer::read(self.send_request(request).await.ok()?).await.ok() };
        let Ok(Some((parts, code, body))) = timeout(patience, exchange).await else { return Ok(None) };
        let said = answer::judge(parts.status, &parts.headers, code);
        Ok(Some((parts, said, body)))
    }

    async fn look_again(&mut self, claim: &mut Claim, transaction: TxHash) -> Result<TxHash, PayError> {
        if claim.entry().prepared.is_empty() {
            return Ok(transaction);
        }
        match self.shared.payer.fate(&claim.entry().prepared).await {
            Ok(super::Fate::Mined { transaction, .. }) => Ok(transaction),
            // Without word from the chain the seller is asked on.
            Err(_) => Ok(transaction),
            Ok(_) => {
                claim.note(|entry| entry.state = State::Paying).await;
                self.settle(claim).await
            }
        }
    }

    /// Waits as long as the seller asks, within bounds, and never much less.
    async fn pause(
        &mut self,
        talk: &mut Talk,
        code: Option<ProblemCode>,
        after: Option<Duration>,
    ) -> Result<(), PayError> {
        let own = Duration::from_secs((1 << talk.pauses.min(8)).min(BACKOFF_MAX));
        talk.pauses += u32::from(after.is_none());
        let floor = Duration::from_millis(500);
        let asked = after.unwrap_or(own).clamp(floor, self.shared.settings.longest_pause.max(floor));
        let pause = asked.mul_f64(rand::rng().random_range(1.0..1.2));
        if Instant::now() + pause > self.deadline {
            return Err(PayError::Unanswered { transaction: talk.transaction, code });
        }
        self.step(Step::Waiting { code, pause });
        sleep(pause).await;
        Ok(())
    }

    /// The response for the caller, and the journal's last word.
    async fn closed(
        &mut self,
        mut claim: Claim,
        transaction: TxHash,
        state: State,
        parts: Parts,
        body: ResponseBody<R>,
    ) -> Response<ResponseBody<R>> {
        let delivered = state == State::Unspent && parts.status.is_success();
        let close = |entry: &mut Entry| {
            (entry.state, entry.transaction, entry.delivered) = (state, Some(transaction), delivered);
        };
        claim.note(close).await;
        self.step(Step::Answered(parts.status));
        self.took.redeem = self.lap();
        let entry = claim.entry();
        let prepared = entry.prepared.iter().find(|one| one.transaction == Some(transaction)).or(entry.prepared.last());
        let purchase = Purchase {
            id: entry.id,
            state,
            confirmed: answer::confirms(&parts.headers, transaction),
            recipient: entry.recipient,
            network: entry.network,
            token: prepared.map(|prepared| prepared.token),
            payer: prepared.map(|prepared| prepared.payer),
            amount: entry.amount,
            decimals: entry.decimals,
            transaction,
            sent: entry.prepared.len(),
            attempts: self.attempts,
            took: self.took,
        };
        let mut response = Response::from_parts(parts, body);
        response.extensions_mut().insert(purchase);
        response
    }
}

/// Another bill for what was paid. A purchase that only ever meets bills comes to an end.
async fn billed_again(mut claim: Claim, transaction: TxHash) -> PayError {
    let count = |entry: &mut Entry| {
        entry.billed += 1;
        if entry.billed >= BILLS_MAX {
            entry.state = State::Refused;
        }
    };
    claim.note(count).await;
    PayError::BilledAgain { transaction, is_last: !claim.entry().state.is_open() }
}
