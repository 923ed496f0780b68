//! Handles a voucher that the seller does not take. The seller's word decides about no money that could be taken without
//! this client's signature, so it is enough to end a purchase. It is never enough to sign for more than the record
//! explains.

use http::{StatusCode, response::Parts};

use super::{Conversation, Outcome};
use crate::{
    client::{
        ChannelRecord, Failure, JournalPayment, PermitCharge, PurchaseEvent, PurchaseState,
        dialect::reply,
        flow::PurchaseGuard,
        way::channel::{
            correction::{Believed, Correction},
            sign,
        },
    },
    protocol::{ProblemCode, v2::Reason},
};

/// Refusals after which the seller may take the same voucher under a fresh quote.
const OF_THE_QUOTE: [&str; 2] = ["invalid_payment_requirements", "invalid_payload"];
/// Refusals that mean the channel holds too little.
const OF_THE_BALANCE: [&str; 2] =
    ["invalid_batch_settlement_evm_cumulative_exceeds_balance", "invalid_batch_settlement_evm_channel_not_found"];
/// Another request of the channel is in progress, or this one still is: show the same voucher later.
const BUSY: &str = "invalid_batch_settlement_evm_channel_busy";
/// The signature is no longer accepted: a claim published the voucher, so anyone can show it.
const SIGNATURE: &str = "invalid_batch_settlement_evm_voucher_signature";
const MISMATCH: &str = "invalid_batch_settlement_evm_cumulative_amount_mismatch";

impl Conversation<'_> {
    /// Continues after a refusal.
    pub(super) async fn voucher_refused<R>(
        &mut self,
        guard: &mut PurchaseGuard,
        parts: &Parts,
        code: Option<ProblemCode>,
    ) -> Result<Option<Outcome<R>>, Failure> {
        let purchase = guard.entry().id;
        if let Some(code) = code {
            return Err(self.voucher_lost(guard, code).await);
        }
        let reason = reply::refusal(&parts.headers).filter(|_| parts.status == StatusCode::PAYMENT_REQUIRED);
        let Some(word) = reason.as_ref().map(Reason::as_str) else { return self.failed(guard, None).await };
        if guard.entry().is_sold() {
            // Its charge is already counted, and other vouchers were signed after it.
            return Err(self.voucher_lost(guard, ProblemCode::AlreadyConsumed).await);
        }
        if word == BUSY {
            // Standard servers report it with a 402.
            let after = reply::retry_after(&parts.headers);
            return self.pause(guard.entry(), None, Some(ProblemCode::ChannelBusy), after).await;
        }
        if word == MISMATCH {
            return self.corrected(guard, parts).await;
        }
        // For a Permit2 deposit the chain shows that it was made, but not by which transaction.
        let is_unmade = !guard.entry().is_settled();
        if guard.entry().vouched().is_some_and(|vouched| vouched.deposit().is_some()) && is_unmade {
            // The deposit can be made while it is valid, whatever the seller says.
            return self.refused(guard, parts, None, None).await;
        }
        if OF_THE_QUOTE.contains(&word) && self.renews(guard, parts).await {
            self.progress.report(PurchaseEvent::Renewed);
            return Ok(None);
        }
        // After a made deposit, this call deposits nothing more: the node may lag, or the seller may lie.
        let is_short = is_unmade && OF_THE_BALANCE.contains(&word) && self.is_short(guard).await?;
        let is_public = is_unmade && word == SIGNATURE && self.is_held_by_seller(guard);
        self.end_uncharged(guard, true).await;
        if is_public && let Some(vouched) = guard.entry().vouched() {
            let (key, total) = ((vouched.network, vouched.channel()), vouched.total());
            self.inner.registry.note_channel(key, |record| record.public = Some(total)).await;
        }
        if is_short || is_public { Ok(Some(Outcome::Void)) } else { Err(Failure::VoucherRefused { purchase, reason }) }
    }

    /// Returns whether the seller already had this voucher, whatever it gave for it. Then it gains nothing by a refusal
    /// after which the client pays in another way.
    fn is_held_by_seller(&self, guard: &PurchaseGuard) -> bool {
        let Some(vouched) = guard.entry().vouched() else { return false };
        let (key, total) = ((vouched.network, vouched.channel()), vouched.total());
        let record = self.inner.registry.channel(key);
        let is_held = record.is_some_and(|record| record.shown.contains(&total) && total > record.doubtful);
        is_held && !self.is_shown_again(guard)
    }

    /// Handles an answer that was sold and is not given again. Unless its charge is counted, it may be the whole price.
    async fn voucher_lost(&self, guard: &mut PurchaseGuard, code: ProblemCode) -> Failure {
        let purchase = guard.entry().id;
        if guard.refuse().await {
            Failure::VoucherLost { purchase, code }
        } else {
            Failure::VoucherUnanswered { purchase }
        }
    }

    /// Returns whether this purchase showed the present voucher before its last showing.
    pub(super) const fn is_shown_again(&self, guard: &PurchaseGuard) -> bool {
        self.voucher_shown > 1 || guard.is_resumed() && !self.is_signed_anew
    }

    /// Ends a purchase that the seller says was not charged, and frees the channel for the next one. A deposit that was
    /// made is spent all the same. `may_be_charged`: the seller may still have sold it, and may claim so for the next
    /// voucher with this total.
    pub(super) async fn end_uncharged(&self, guard: &mut PurchaseGuard, may_be_charged: bool) {
        let Some(vouched) = guard.entry().vouched() else { return };
        let (key, purchase) = ((vouched.network, vouched.channel()), guard.entry().id);
        let is_made = guard.entry().is_settled();
        let state = if is_made { PurchaseState::Refused } else { PurchaseState::Void };
        // The purchase first: until its end is recorded, the channel signs no other voucher.
        guard.note(|entry| (entry.state, entry.charged) = (state, Some(PermitCharge::NOTHING))).await;
        let end = if may_be_charged { ChannelRecord::refuse } else { ChannelRecord::decline };
        self.inner.registry.note_channel(key, |record| end(record, purchase)).await;
    }

    /// Returns whether the chain shows less in the channel than the voucher's total. If so, it records the balance.
    async fn is_short(&self, guard: &PurchaseGuard) -> Result<bool, Failure> {
        let Some(vouched) = guard.entry().vouched() else { return Ok(false) };
        let key = (vouched.network, vouched.channel());
        let unanswered = |_| Failure::VoucherUnanswered { purchase: guard.entry().id };
        let signer = self.inner.channel_signer().map_err(unanswered)?;
        let funds = signer.channel_funds(vouched.network, vouched.channel()).await.map_err(unanswered)?;
        let is_short = funds.balance < vouched.total();
        if is_short {
            self.inner.registry.note_channel(key, |record| record.set_balance(funds.balance)).await;
        }
        Ok(is_short)
    }

    /// Signs again on top of the seller's count, once, if that is believed.
    async fn corrected<R>(&mut self, guard: &mut PurchaseGuard, parts: &Parts) -> Result<Option<Outcome<R>>, Failure> {
        let (purchase, at, price) = (guard.entry().id, guard.entry().at, guard.entry().amount);
        let Some(vouched) = guard.entry().vouched().cloned() else { return self.failed(guard, None).await };
        let (channel, key) = (vouched.channel(), (vouched.network, vouched.channel()));
        let record = self.inner.registry.channel(key);
        if record.as_ref().is_some_and(|record| !record.is_open_for(purchase)) {
            // Its charge is already counted or given up. Another request may be open in the channel.
            return Err(self.voucher_lost(guard, ProblemCode::AlreadyConsumed).await);
        }
        // It cannot have been sold before it was first shown, unless the same voucher was shown from a lost journal or
        // by an earlier request.
        let is_shown_elsewhere = |record: &ChannelRecord| record.is_adopted || record.shown.contains(&vouched.total());
        let is_shown_again = self.is_shown_again(guard) || record.as_ref().is_some_and(is_shown_elsewhere);
        let claim = Correction::read(&parts.headers, &vouched).zip(record);
        let is_first = guard.entry().billed == 0;
        let believed = match claim {
            Some((claim, record)) => claim.believed(self.inner, &vouched, &record).await.map_err(|error| {
                tracing::debug!(%error, %purchase, "what a channel holds cannot be read");
                Failure::VoucherUnanswered { purchase }
            })?,
            None => None,
        };
        let believed = believed.filter(|believed| match believed {
            Believed::Before(_) => is_first,
            Believed::Sold(_) => is_shown_again,
        });
        let Some(believed) = believed else {
            tracing::warn!(%purchase, %channel, "the seller's count of a channel is not believed: nothing more is signed for it");
            self.inner.registry.note_channel(key, |record| record.mark_broken()).await;
            self.inner.registry.distrust(&guard.entry().host, &self.inner.budget);
            guard.refuse().await;
            return Err(Failure::NotCorrected { purchase, channel });
        };
        let charged = match believed {
            Believed::Before(charged) => charged,
            Believed::Sold(charged) => {
                // The channel first: if a later step fails, no other voucher builds on a lower count. The chain tells
                // what became of the deposit.
                self.inner.registry.note_channel(key, |record| record.lose(purchase, charged)).await;
                return Err(self.voucher_lost(guard, ProblemCode::AlreadyConsumed).await);
            }
        };
        let unanswered = |_| Failure::VoucherUnanswered { purchase };
        let again = sign::again(self.inner, self.deadline, &vouched, charged, price).await.map_err(unanswered)?;
        // Record both before the voucher is shown.
        let corrected = self.inner.registry.change_channel(key, |record| {
            record.correct(charged);
            record.begin(purchase, at, price);
        });
        corrected.await.map_err(|_| Failure::VoucherUnanswered { purchase })?;
        let recorded = guard.record(|entry| {
            entry.billed += 1;
            entry.payment = JournalPayment::Voucher(Box::new(again));
        });
        recorded.await.map_err(|_| Failure::VoucherUnanswered { purchase })?;
        (self.voucher_shown, self.is_signed_anew) = (0, true);
        self.progress.report(PurchaseEvent::Corrected { charged, decimals: guard.entry().decimals });
        Ok(None)
    }
}
