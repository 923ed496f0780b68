//! The memory ledger's state machine. It has no clock: time is a parameter.

use std::{
    cell::Cell,
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque, binary_heap::PeekMut},
    ptr,
    sync::Arc,
    time::{Duration, SystemTime},
};

// Keys are hashes and seals, and each cost its author a payment, so the hash function need not resist chosen keys.
use foldhash::{HashMap, HashSet};

use super::{
    super::{
        BookedSale, Claim, CommitOutcome, KeptAnswer, Lease, RenewOutcome, ReserveOutcome, Sale, Settling,
        decide::{Candidate, Decision, Entry, decide},
    },
    accounts::Accounts,
    answer_store::AnswerStore,
    purchases::Purchases,
    settlements::Settlements,
};
use crate::protocol::{ChainTime, CompactPaymentId, IntentKey, Network, Payment, PaymentId, PurchaseKey};

/// The most records that one `reserve` forgets: more than it can add, and too few to be noticed.
const BATCH: usize = 16;
/// How long an expired lease is remembered.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// If more grants than this wait to be checked for expiry, they are checked earlier.
const MOST_DUE: usize = 1 << 16;

/// The events of a ledger, and the number of its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerCounts {
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
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// The networks on which the ledger has begun; only a few.
    memories: Vec<(Network, Memory)>,
    fence: u64,
    /// Sales, kept small and apart from leases: there may be millions, in half-empty tables.
    sales: HashMap<CompactPaymentId, Sold>,
    sold: HashSet<IntentKey>,
    /// Sales that were mined again later, and are kept longer than `ages` says.
    prolonged: HashMap<CompactPaymentId, ChainTime>,
    /// Leases. `holders` is the inverse, entry for entry.
    holds: HashMap<CompactPaymentId, Hold>,
    holders: HashMap<IntentKey, CompactPaymentId>,
    settlements: Settlements,
    purchases: Purchases,
    /// Every lease, and when it may have to be forgotten.
    due: VecDeque<(Duration, CompactPaymentId)>,
    pub(super) answers: AnswerStore,
    pub(super) accounts: Accounts,
    pub(super) unannounced: HashMap<CompactPaymentId, BookedSale>,
    counts: LedgerCounts,
}

/// The records of one network, in its chain time.
#[derive(Debug)]
struct Memory {
    /// Payments at or below it may have been spent before this memory began, or in sales that it has forgotten.
    mark: ChainTime,
    /// Each sale once.
    ages: BinaryHeap<Reverse<Aged>>,
}

#[derive(Debug)]
struct Sold {
    fence: u64,
    /// The latest block time at which it was shown.
    block_time: ChainTime,
}

/// When a sale is forgotten. Ordered by that time.
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
    pub(super) fn begin(&mut self, network: Network, now: ChainTime) -> ChainTime {
        if let Some(memory) = self.memory(network) {
            return memory.mark;
        }
        self.memories.push((network, Memory { mark: now, ages: BinaryHeap::new() }));
        now
    }

    fn memory(&mut self, network: Network) -> Option<&mut Memory> {
        self.memories.iter_mut().find(|(begun, _)| *begun == network).map(|(_, memory)| memory)
    }

    /// Returns `None` if the memory was never begun on the network of a candidate.
    pub(super) fn reserve(&mut self, claim: &Claim, now: Duration) -> Option<ReserveOutcome> {
        if let Some(paid) = claim.payments().first() {
            let _ = self.forget_sales(paid.network(), claim.head());
            self.settlements.forget(paid.network(), claim.head());
        }
        self.answers.forget(now);
        self.forget_leases(now);
        self.prolong(claim);
        let has_begun = |paid: &Payment| self.memories.iter().any(|(begun, _)| *begun == paid.network());
        if !claim.payments().iter().all(has_begun) {
            return None;
        }
        // Naming a payment can take a hash, so the last key is kept: the candidate that was examined last is usually
        // the granted one.
        let last = Cell::new(None);
        let candidates = claim.payments().iter().filter_map(|paid| {
            let key = paid.id().compact();
            last.set(Some((paid, key)));
            self.candidate(claim, (paid, key), now)
        });
        let intent = self.entry(claim.intent(), now);
        Some(match decide(intent, claim.lease(), candidates) {
            Decision::Refused(reservation) => reservation,
            Decision::Free(Candidate { paid, .. }) => {
                let named = last.get().filter(|(last, _)| ptr::eq(*last, paid));
                self.grant(claim, named.unwrap_or_else(|| (paid, paid.id().compact())), now)
            }
        })
    }

    pub(super) fn renew(&mut self, lease: &Lease, now: Duration) -> RenewOutcome {
        match self.held(lease).and_then(|payment| self.holds.get_mut(&payment)) {
            Some(hold) => {
                hold.until = now.saturating_add(lease.length());
                RenewOutcome::Held
            }
            None => RenewOutcome::LeaseLost,
        }
    }

    pub(super) fn settling(&mut self, lease: &Lease, settling: Settling, now: Duration) -> RenewOutcome {
        let outcome = self.renew(lease, now);
        if let Some(payment) = self.held(lease) {
            let purchase = self.purchases.of(&payment);
            self.settlements.begin(lease.intent(), payment, purchase, settling, lease.keep_until());
        }
        outcome
    }

    pub(super) fn begun(&self, intent: IntentKey, payment: PaymentId) -> Option<Settling> {
        self.settlements.of(intent, &payment.compact())
    }

    pub(super) fn begun_among(&self, intent: IntentKey, payments: &[PaymentId]) -> Option<(PaymentId, Settling)> {
        let (begun, settling) = self.settlements.of_intent(intent)?;
        payments.iter().find(|payment| payment.compact() == begun).map(|payment| (*payment, settling))
    }

    pub(super) fn not_settled(&mut self, lease: &Lease) {
        let Some(payment) = self.held(lease) else { return };
        if self.settlements.of(lease.intent(), &payment).is_some() {
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
        let Some((key, hold)) = self.take(lease) else {
            let sold = self.sales.get(&lease.payment().id().compact());
            let by_this = sold.is_some_and(|sold| sold.fence == lease.fencing_token());
            return if by_this { CommitOutcome::Done } else { CommitOutcome::LeaseLost };
        };
        self.settlements.end(hold.intent, key);
        self.sales.insert(key, Sold { fence: hold.fence, block_time: lease.payment().time() });
        self.sold.insert(hold.intent);
        if let Some(answer) = answer {
            self.answers.keep(hold.intent, answer, now);
        }
        if lease.is_to_announce() {
            let sale = BookedSale::new(&*hold.resource, lease.payment(), sold_at).with_maximum(lease.maximum());
            self.unannounced.insert(key, sale);
        }
        // If the payment was settled since, the lease has its settled form and time.
        let aged = Aged { keep_until: lease.keep_until(), payment: key, intent: hold.intent };
        if let Some(memory) = self.memory(lease.payment().network()) {
            memory.ages.push(Reverse(aged));
        }
        self.counts.consumed += 1;
        CommitOutcome::Done
    }

    pub(super) fn release(&mut self, lease: &Lease) {
        if let Some((payment, _)) = self.take(lease) {
            self.purchases.end(&payment);
            self.counts.released += 1;
        }
    }

    pub(super) fn consumed(&mut self, intent: IntentKey, now: Duration) -> Option<Sale> {
        self.answers.forget(now);
        self.sold.contains(&intent).then(|| Sale::new().with_answer(self.answers.get(intent)))
    }

    pub(super) fn counts(&self) -> LedgerCounts {
        LedgerCounts { held: self.holds.len(), remembered: self.sales.len(), ..self.counts }
    }

    /// Moves the mark of a memory that has begun, and returns it.
    pub(super) fn move_mark(&mut self, network: Network, to: impl FnOnce(ChainTime) -> ChainTime) -> Option<ChainTime> {
        let memory = self.memory(network)?;
        memory.mark = to(memory.mark);
        Some(memory.mark)
    }

    /// Forgets every record that may be forgotten, and returns the number of sales.
    pub(super) fn sweep(&mut self, network: Network, head: ChainTime, now: Duration) -> usize {
        let before = self.sales.len();
        while self.forget_sales(network, head) > 0 {}
        self.settlements.forget(network, head);
        self.answers.forget(now);
        // One pass over all leases. If many are held, a step re-queues them.
        for _ in 0..=self.due.len() / BATCH {
            self.forget_leases(now);
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

    fn candidate<'c>(
        &self,
        claim: &Claim,
        (paid, key): (&'c Payment, CompactPaymentId),
        now: Duration,
    ) -> Option<Candidate<'c>> {
        let intent = claim.intent();
        let (_, Memory { mark, .. }) = self.memories.iter().find(|(begun, _)| *begun == paid.network())?;
        let mark = *mark;
        if self.sales.contains_key(&key) {
            return Some(Candidate { entry: Some(Entry::Sold), ..Candidate::new(paid, mark) });
        }
        let entry = self.holds.get(&key).map(|hold| hold.entry(now));
        let barred = self.settlements.bar(intent, &key);
        let candidate = Candidate { entry, barred, ..Candidate::new(paid, mark) };
        Some(match self.purchase(claim, &key) {
            Some(purchase) => Candidate {
                purchase: self.purchase_entry(purchase, &key, now),
                purchase_begun: self.settlements.is_begun_for(purchase, intent, &key),
                ..candidate
            },
            None => candidate,
        })
    }

    /// The purchase for a claim on this payment. The purchase of a begun settlement takes precedence.
    fn purchase(&self, claim: &Claim, payment: &CompactPaymentId) -> Option<PurchaseKey> {
        self.settlements.purchase(claim.intent(), payment).or(claim.purchase())
    }

    /// The record of a purchase, if another payment holds or bought it.
    fn purchase_entry(&self, purchase: PurchaseKey, payment: &CompactPaymentId, now: Duration) -> Option<Entry> {
        let other = self.purchases.payment(purchase).filter(|other| other != payment)?;
        match self.sales.contains_key(&other) {
            true => Some(Entry::Sold),
            false => self.holds.get(&other).map(|hold| hold.entry(now)),
        }
    }

    /// Grants a payment. Neither the payment nor the intent has a live lease.
    fn grant(&mut self, claim: &Claim, (paid, key): (&Payment, CompactPaymentId), now: Duration) -> ReserveOutcome {
        let intent = claim.intent();
        if let Some(other) = self.holders.get(&intent).copied() {
            self.expire(&other);
        }
        self.expire(&key);
        if let Some(purchase) = self.purchase(claim, &key) {
            if let Some(other) = self.purchases.payment(purchase) {
                self.expire(&other);
            }
            self.purchases.begin(purchase, key);
        }
        self.fence += 1;
        let lease = Lease::new(claim, paid, self.fence).with_settling(self.settlements.of(intent, &key));
        let until = now.saturating_add(claim.lease());
        let resource = claim.shared_resource();
        self.holds.insert(key, Hold { intent, fence: self.fence, until, resource });
        self.holders.insert(intent, key);
        self.due.push_back((until.saturating_add(KEPT), key));
        self.counts.reserved += 1;
        ReserveOutcome::Granted(lease)
    }

    /// The payment that this lease still holds, regardless of the clock. Looked up by its intent, because naming a
    /// payment can take a hash.
    fn held(&self, lease: &Lease) -> Option<CompactPaymentId> {
        let payment = self.holders.get(&lease.intent())?;
        self.holds.get(payment).filter(|hold| hold.fence == lease.fencing_token()).map(|_| *payment)
    }

    /// Ends the hold of this lease, regardless of the clock.
    fn take(&mut self, lease: &Lease) -> Option<(CompactPaymentId, Hold)> {
        let payment = self.held(lease)?;
        let hold = self.holds.remove(&payment)?;
        self.holders.remove(&hold.intent);
        Some((payment, hold))
    }

    /// Ends an expired hold.
    fn expire(&mut self, payment: &CompactPaymentId) {
        let Some(hold) = self.holds.remove(payment) else { return };
        self.holders.remove(&hold.intent);
        self.purchases.end(payment);
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

    /// Forgets sales that age keeps from coming back, and raises the mark over each. Returns how many it examined.
    fn forget_sales(&mut self, network: Network, head: ChainTime) -> usize {
        let Some((_, memory)) = self.memories.iter_mut().find(|(begun, _)| *begun == network) else { return 0 };
        for looked in 0..BATCH {
            let Some(oldest) = memory.ages.peek_mut().filter(|oldest| oldest.0.keep_until < head) else {
                return looked;
            };
            let Reverse(sale) = PeekMut::pop(oldest);
            if let Some(keep_until) = self.prolonged.remove(&sale.payment).filter(|until| *until > sale.keep_until) {
                memory.ages.push(Reverse(Aged { keep_until, ..sale }));
                continue;
            }
            self.sold.remove(&sale.intent);
            self.answers.remove(sale.intent);
            self.purchases.end(&sale.payment);
            let sold = self.sales.remove(&sale.payment);
            memory.mark = sold.map_or(memory.mark, |sold| memory.mark.max(sold.block_time));
        }
        BATCH
    }

    /// Forgets leases that expired long ago. The mark stays, because they are no sales.
    fn forget_leases(&mut self, now: Duration) {
        for _ in 0..BATCH {
            let is_full = self.due.len() > MOST_DUE;
            let Some((_, payment)) = self.due.pop_front_if(|(due, _)| *due <= now || is_full) else { return };
            let end = self.holds.get(&payment).map(|hold| hold.until.saturating_add(KEPT));
            match end {
                Some(end) if end > now => self.due.push_back((end, payment)),
                Some(_) => self.expire(&payment),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
impl State {
    /// The size of the tables, from their capacities.
    pub(super) fn bytes(&self) -> usize {
        fn table<T>(capacity: usize) -> usize {
            // Each entry has one control byte; at most seven of eight places are used.
            (capacity * 8 / 7).next_power_of_two() * (size_of::<T>() + 1)
        }
        table::<(CompactPaymentId, Sold)>(self.sales.capacity())
            + table::<IntentKey>(self.sold.capacity())
            + self.memories.iter().map(|(_, memory)| memory.ages.capacity() * size_of::<Aged>()).sum::<usize>()
            + table::<(CompactPaymentId, ChainTime)>(self.prolonged.capacity())
            + table::<(CompactPaymentId, Hold)>(self.holds.capacity())
            + table::<(IntentKey, CompactPaymentId)>(self.holders.capacity())
            + self.due.capacity() * size_of::<(Duration, CompactPaymentId)>()
    }
}
