//! The memory ledger's state machine: values in, values out, time a parameter.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, binary_heap::PeekMut},
    sync::Arc,
    time::{Duration, SystemTime},
};

// Keys are hashes and seals already, and each cost its author a payment: no need for a hash that withstands choice.
use foldhash::{HashMap, HashSet};

use super::{
    super::{
        AttemptOutcome, BookedSale, Claim, CommitOutcome, KeptAnswer, Lease, RenewOutcome, ReserveOutcome, Sale,
        Settling,
        decide::{Candidate, Decision, Entry, decide},
    },
    answer_store::AnswerStore,
    attempt_log::{AttemptLog, KEPT},
    settlements::Settlements,
};
use crate::protocol::{ChainTime, CompactPaymentId, IntentKey, Payment, PaymentId};

/// How many records one `reserve` forgets at most: more than it can add, and too few to be noticed.
const BATCH: usize = 16;

/// The events of a ledger, and the number of its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Leases granted.
    pub reserved: u64,
    /// Sales recorded.
    pub consumed: u64,
    /// Leases released.
    pub released: u64,
    /// Leases that ran out and were taken over or forgotten.
    pub expired: u64,
    /// Leases held now, including those that ran out and were not taken over yet.
    pub held: usize,
    /// Sales remembered now.
    pub remembered: usize,
    /// Payments up to this block time are refused. `None` until the ledger has begun.
    pub low_water_mark: Option<ChainTime>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Payments at or below it may have been spent before this memory began, or in what it has forgotten.
    mark: Option<ChainTime>,
    fence: u64,
    /// Sales. Small, and apart from leases: there may be millions, in half-empty tables.
    sales: HashMap<CompactPaymentId, Sold>,
    sold: HashSet<IntentKey>,
    /// Every sale once.
    ages: BinaryHeap<Reverse<Aged>>,
    /// Sales that were mined again later, and are kept longer than `ages` has it.
    prolonged: HashMap<CompactPaymentId, ChainTime>,
    /// Leases. `holders` is the inverse, entry for entry.
    holds: HashMap<CompactPaymentId, Hold>,
    holders: HashMap<IntentKey, CompactPaymentId>,
    settlements: Settlements,
    attempts: AttemptLog,
    pub(super) answers: AnswerStore,
    pub(super) unannounced: HashMap<CompactPaymentId, BookedSale>,
    counts: Counts,
}

#[derive(Debug)]
struct Sold {
    fence: u64,
    /// The latest at which it was shown.
    block_time: ChainTime,
}

/// When a sale is forgotten; ordered by that.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Aged {
    keep_until: ChainTime,
    payment: CompactPaymentId,
    intent: IntentKey,
}

#[derive(Debug)]
struct Hold {
    intent: IntentKey,
    fence: u64,
    until: Duration,
    resource: Arc<str>,
}

impl Hold {
    fn entry(&self, now: Duration) -> Entry {
        match self.until.checked_sub(now).filter(|left| !left.is_zero()) {
            Some(left) => Entry::Held { left },
            None => Entry::Lapsed,
        }
    }
}

impl State {
    pub(super) fn begin(&mut self, now: ChainTime) -> ChainTime {
        *self.mark.get_or_insert(now)
    }

    /// `None` when the memory was never begun.
    pub(super) fn reserve(&mut self, claim: &Claim, now: Duration) -> Option<ReserveOutcome> {
        let _ = self.forget_sales(claim.head());
        self.settlements.forget(claim.head());
        self.answers.forget(now);
        self.forget_attempts(now);
        let mark = self.mark?;
        self.prolong(claim);
        let candidates = claim.payments().iter().map(|paid| self.candidate(claim.intent(), paid, now));
        let intent = self.entry(claim.intent(), now);
        Some(match decide(mark, intent, claim.lease(), candidates) {
            Decision::Refused(reservation) => reservation,
            Decision::Free(candidate) => self.grant(claim, candidate.paid, now),
        })
    }

    pub(super) fn renew(&mut self, lease: &Lease, now: Duration) -> RenewOutcome {
        self.renew_named(lease, &lease.payment().id().compact(), now)
    }

    fn renew_named(&mut self, lease: &Lease, payment: &CompactPaymentId, now: Duration) -> RenewOutcome {
        match self.held(lease, payment) {
            Some(hold) => {
                hold.until = now.saturating_add(lease.length());
                RenewOutcome::Held
            }
            None => RenewOutcome::LeaseLost,
        }
    }

    pub(super) fn settling(&mut self, lease: &Lease, settling: Settling, now: Duration) -> RenewOutcome {
        let payment = lease.payment().id().compact();
        let outcome = self.renew_named(lease, &payment, now);
        if outcome == RenewOutcome::Held {
            self.settlements.begin(lease.intent(), payment, settling, lease.keep_until());
        }
        outcome
    }

    pub(super) fn begun(&self, intent: IntentKey, payment: PaymentId) -> Option<Settling> {
        self.settlements.of(intent, &payment.compact())
    }

    pub(super) fn not_settled(&mut self, lease: &Lease) {
        let payment = lease.payment().id().compact();
        if self.held(lease, &payment).is_some() && self.settlements.of(lease.intent(), &payment).is_some() {
            self.settlements.end(lease.intent(), payment);
        }
    }

    pub(super) fn commit(
        &mut self,
        lease: &Lease,
        answer: Option<&KeptAnswer>,
        now: Duration,
        sold_at: SystemTime,
    ) -> CommitOutcome {
        let key = lease.payment().id().compact();
        if self.sales.get(&key).is_some_and(|sold| sold.fence == lease.fencing_token()) {
            return CommitOutcome::Done;
        }
        let Some(hold) = self.take(lease, &key) else { return CommitOutcome::LeaseLost };
        self.attempts.sold(&(hold.intent, key));
        self.settlements.end(hold.intent, key);
        self.sales.insert(key, Sold { fence: hold.fence, block_time: lease.payment().time() });
        self.sold.insert(hold.intent);
        if let Some(answer) = answer {
            self.answers.keep(hold.intent, answer, now);
        }
        if lease.is_to_announce() {
            let sale = BookedSale::new(&*hold.resource, lease.payment(), sold_at);
            self.unannounced.insert(key, sale);
        }
        // Where it was settled since, by that paid.
        self.ages.push(Reverse(Aged { keep_until: lease.keep_until(), payment: key, intent: hold.intent }));
        self.counts.consumed += 1;
        CommitOutcome::Done
    }

    pub(super) fn release(&mut self, lease: &Lease, handler: AttemptOutcome, now: Duration) {
        let key = lease.payment().id().compact();
        let Some(hold) = self.take(lease, &key) else { return };
        let pair = (hold.intent, key);
        match handler {
            AttemptOutcome::Started => self.attempts.ended(&pair, now),
            AttemptOutcome::NotStarted => self.attempts.unused(&pair),
        }
        self.counts.released += 1;
    }

    pub(super) fn consumed(&mut self, intent: IntentKey, now: Duration) -> Option<Sale> {
        self.answers.forget(now);
        self.sold.contains(&intent).then(|| Sale::new().with_answer(self.answers.get(intent)))
    }

    pub(super) fn counts(&self) -> Counts {
        Counts { held: self.holds.len(), remembered: self.sales.len(), low_water_mark: self.mark, ..self.counts }
    }

    /// Moves the mark of a memory that has begun, and tells it.
    pub(super) fn move_mark(&mut self, to: impl FnOnce(ChainTime) -> ChainTime) -> Option<ChainTime> {
        self.mark = self.mark.map(to);
        self.mark
    }

    /// Forgets everything that may be forgotten; tells how many sales.
    pub(super) fn sweep(&mut self, head: ChainTime, now: Duration) -> usize {
        let before = self.sales.len();
        while self.forget_sales(head) > 0 {}
        self.settlements.forget(head);
        self.answers.forget(now);
        // Once round: what is held is looked at again and again where it is more than the log wants to keep.
        for _ in 0..=self.attempts.due() / BATCH {
            self.forget_attempts(now);
        }
        before - self.sales.len()
    }

    /// The record of an intent.
    fn entry(&self, intent: IntentKey, now: Duration) -> Option<Entry> {
        if self.sold.contains(&intent) {
            return Some(Entry::Sold);
        }
        let hold = self.holders.get(&intent).and_then(|payment| self.holds.get(payment));
        hold.map(|hold| hold.entry(now))
    }

    fn candidate<'c>(&self, intent: IntentKey, paid: &'c Payment, now: Duration) -> Candidate<'c> {
        let key = paid.id().compact();
        if self.sales.contains_key(&key) {
            return Candidate { paid, entry: Some(Entry::Sold), barred: false, cooling: None };
        }
        let hold = self.holds.get(&key);
        let own = hold.filter(|hold| hold.intent == intent);
        let cooling = self.attempts.cooling(&(intent, key), own.map(|hold| hold.until), now);
        let barred = self.settlements.bar(intent, &key);
        Candidate { paid, entry: hold.map(|hold| hold.entry(now)), barred, cooling }
    }

    /// Grants a paid on which there is no live lease, as there is none on the intent.
    fn grant(&mut self, claim: &Claim, paid: &Payment, now: Duration) -> ReserveOutcome {
        let (intent, key) = (claim.intent(), paid.id().compact());
        if let Some(other) = self.holders.get(&intent).copied() {
            self.expire(&other);
        }
        self.expire(&key);
        self.fence += 1;
        let lease = Lease::new(claim, paid, self.fence).with_settling(self.settlements.of(intent, &key));
        let until = now.saturating_add(claim.lease());
        let resource = claim.shared_resource();
        self.holds.insert(key, Hold { intent, fence: self.fence, until, resource });
        self.holders.insert(intent, key);
        self.attempts.granted((intent, key), now);
        self.counts.reserved += 1;
        ReserveOutcome::Granted(lease)
    }

    /// The hold of this lease, independent of the clock.
    fn held(&mut self, lease: &Lease, payment: &CompactPaymentId) -> Option<&mut Hold> {
        self.holds.get_mut(payment).filter(|hold| hold.fence == lease.fencing_token())
    }

    /// Ends the hold of this lease, independent of the clock.
    fn take(&mut self, lease: &Lease, payment: &CompactPaymentId) -> Option<Hold> {
        self.holds.get(payment).filter(|hold| hold.fence == lease.fencing_token())?;
        let hold = self.holds.remove(payment)?;
        self.holders.remove(&hold.intent);
        Some(hold)
    }

    /// Ends a hold that ran out: its attempt ended when it did.
    fn expire(&mut self, payment: &CompactPaymentId) {
        let Some(hold) = self.holds.remove(payment) else { return };
        self.holders.remove(&hold.intent);
        self.attempts.ended(&(hold.intent, *payment), hold.until);
        self.counts.expired += 1;
    }

    /// Keeps a sale by its latest known block time: a reorganisation can move the payment. An unsettled payment has no
    /// block.
    fn prolong(&mut self, claim: &Claim) {
        for paid in claim.payments().iter().filter(|paid| paid.is_settled()) {
            let key = paid.id().compact();
            let Some(sold) = self.sales.get_mut(&key).filter(|sold| sold.block_time < paid.time()) else {
                continue;
            };
            sold.block_time = paid.time();
            let keep_until = self.prolonged.entry(key).or_insert(claim.keep_until(paid));
            *keep_until = claim.keep_until(paid).max(*keep_until);
        }
    }

    /// Forgets sales that age keeps from coming back, and raises the mark over each. Tells how many it looked at.
    fn forget_sales(&mut self, head: ChainTime) -> usize {
        for looked in 0..BATCH {
            let Some(oldest) = self.ages.peek_mut().filter(|oldest| oldest.0.keep_until < head) else { return looked };
            let Reverse(sale) = PeekMut::pop(oldest);
            if let Some(keep_until) = self.prolonged.remove(&sale.payment).filter(|until| *until > sale.keep_until) {
                self.ages.push(Reverse(Aged { keep_until, ..sale }));
                continue;
            }
            self.sold.remove(&sale.intent);
            self.answers.remove(sale.intent);
            let sold = self.sales.remove(&sale.payment);
            self.mark = self.mark.max(sold.map(|sold| sold.block_time));
        }
        BATCH
    }

    /// Forgets old attempts and long expired leases. The mark stays, because they are no sales.
    fn forget_attempts(&mut self, now: Duration) {
        for _ in 0..BATCH {
            let Some(pair @ (intent, payment)) = self.attempts.next_due(now) else { return };
            match self.holds.get(&payment).filter(|hold| hold.intent == intent) {
                Some(hold) if hold.until.saturating_add(KEPT) > now => self.attempts.later(pair, now),
                Some(_) => {
                    self.expire(&payment);
                    self.attempts.sold(&pair);
                }
                None => self.attempts.forget(pair, now),
            }
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
impl State {
    /// What the tables take, from their capacities.
    pub(super) fn bytes(&self) -> usize {
        fn table<T>(capacity: usize) -> usize {
            // One byte of control beside each entry; seven of eight places are used at most.
            (capacity * 8 / 7).next_power_of_two() * (size_of::<T>() + 1)
        }
        table::<(CompactPaymentId, Sold)>(self.sales.capacity())
            + table::<IntentKey>(self.sold.capacity())
            + self.ages.capacity() * size_of::<Aged>()
            + table::<(CompactPaymentId, ChainTime)>(self.prolonged.capacity())
            + table::<(CompactPaymentId, Hold)>(self.holds.capacity())
            + table::<(IntentKey, CompactPaymentId)>(self.holders.capacity())
            + self.attempts.bytes(table::<((IntentKey, CompactPaymentId), [u64; 3])>)
    }

    pub(super) fn tried(&self) -> (usize, usize) {
        self.attempts.sizes()
    }
}
