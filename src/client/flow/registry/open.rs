//! `OpenPurchases`: the unfinished purchases, indexed by request, by seller and price, and by age.

use std::collections::{BTreeSet, HashMap};

use crate::{
    client::{JournalEntry, PurchaseId, PurchaseState},
    protocol::{Address, Amount, ChainTime, Quote},
};

/// The order in which purchases are resumed: oldest first, because the seller stops accepting that one first.
type Place = (ChainTime, PurchaseId);
/// The properties that a payment must share with a quote to match it exactly.
type Terms = (String, Address, Amount);

/// The open purchases. Each is in `records`, and in the indexes that refer to it.
#[derive(Default)]
pub(super) struct OpenPurchases {
    records: HashMap<PurchaseId, Record>,
    by_request: HashMap<String, BTreeSet<Place>>,
    by_secret: HashMap<String, BTreeSet<Place>>,
    unspent: HashMap<Terms, BTreeSet<Place>>,
    /// Those that only wait for the same request, ordered by the time from which they count.
    idle_by_age: BTreeSet<Place>,
}

pub(super) struct Record {
    entry: JournalEntry,
    /// What works on it, if anything.
    claim: Option<Claim>,
    /// The part that survives replacement of the entry.
    aside: Aside,
}

/// What works on a purchase.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    Call,
    Cancellation,
}

/// The part of a purchase that is not in the journal.
#[derive(Default)]
struct Aside {
    /// Its final state, while the caller reads its answer.
    sold: Option<JournalEntry>,
    /// The number of callers that are reading its answer.
    readers: u32,
    /// The number of callers that are about to write its final state.
    closings: u32,
    /// Whether the journal may lack its present state; then nothing may be shown.
    unwritten: bool,
}

impl OpenPurchases {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Inserts a purchase in its current state.
    pub(super) fn enter(&mut self, entry: JournalEntry, claim: Option<Claim>) {
        let aside = self.close(entry.id).map_or_else(Aside::default, |before| before.aside);
        let place = place(&entry);
        self.by_request.entry(entry.fingerprint.clone()).or_default().insert(place);
        if let Some(secret) = &entry.secret {
            self.by_secret.entry(secret.clone()).or_default().insert(place);
        }
        if entry.state == PurchaseState::Unspent {
            self.unspent.entry(terms(&entry)).or_default().insert(place);
        }
        if entry.is_idle() {
            self.idle_by_age.insert((entry.counts_from(), entry.id));
        }
        self.records.insert(entry.id, Record { entry, claim, aside });
    }

    pub(super) fn has(&self, id: PurchaseId) -> bool {
        self.records.contains_key(&id)
    }

    pub(super) fn has_request(&self, fingerprint: &str) -> bool {
        self.by_request.contains_key(fingerprint)
    }

    /// Notes the final state of a purchase whose answer the caller is reading.
    pub(super) fn sold(&mut self, last: JournalEntry) {
        if let Some(record) = self.records.get_mut(&last.id) {
            record.aside.sold = Some(last);
        }
    }

    /// Returns whether its answer was sold and handed to a caller.
    pub(super) fn is_sold(&self, id: PurchaseId) -> bool {
        self.records.get(&id).is_some_and(|record| record.aside.sold.is_some())
    }

    /// Returns whether its next state may be recorded: it is unfinished, and no final state is being written.
    pub(super) fn is_going_on(&self, id: PurchaseId) -> bool {
        self.records.get(&id).is_some_and(|record| record.aside.closings == 0)
    }

    /// Sets whether the journal may lack its present state.
    pub(super) fn set_unwritten(&mut self, id: PurchaseId, unwritten: bool) {
        if let Some(record) = self.records.get_mut(&id) {
            record.aside.unwritten = unwritten;
        }
    }

    pub(super) fn is_unwritten(&self, id: PurchaseId) -> bool {
        self.records.get(&id).is_some_and(|record| record.aside.unwritten)
    }

    /// Updates the number of writers of its final state.
    pub(super) fn closed_by(&mut self, id: PurchaseId, count: impl FnOnce(u32) -> u32) {
        if let Some(record) = self.records.get_mut(&id) {
            record.aside.closings = count(record.aside.closings);
        }
    }

    /// Returns the final state of a purchase after its caller has the answer; `None` if no answer was sold.
    pub(super) fn answered(&self, id: PurchaseId) -> Option<JournalEntry> {
        let Record { entry, aside, .. } = self.records.get(&id)?;
        // After a restart only the journal shows that it was paid.
        let paid = || (entry.state == PurchaseState::Redeeming || entry.is_sold()).then(|| entry.clone());
        let last = aside.sold.clone().or_else(paid)?;
        Some(JournalEntry { state: PurchaseState::Answered, ..last })
    }

    /// Removes a purchase.
    pub(super) fn close(&mut self, id: PurchaseId) -> Option<Record> {
        let record = self.records.remove(&id)?;
        let entry = &record.entry;
        let place = place(entry);
        take(&mut self.by_request, &entry.fingerprint, place);
        if let Some(secret) = &entry.secret {
            take(&mut self.by_secret, secret, place);
        }
        if entry.state == PurchaseState::Unspent {
            take(&mut self.unspent, &terms(entry), place);
        }
        if entry.is_idle() {
            self.idle_by_age.remove(&(entry.counts_from(), entry.id));
        }
        Some(record)
    }

    /// Claims a purchase; returns `None` if it is unknown or already claimed.
    pub(super) fn claim(&mut self, id: PurchaseId, claim: Claim) -> Option<JournalEntry> {
        let record = self.records.get_mut(&id).filter(|record| record.claim.is_none())?;
        record.claim = Some(claim);
        Some(record.entry.clone())
    }

    /// Releases the claim on a purchase.
    pub(super) fn leave(&mut self, id: PurchaseId) {
        if let Some(record) = self.records.get_mut(&id) {
            record.claim = None;
        }
    }

    /// Returns a purchase of that request that is being cancelled.
    pub(super) fn cancelled(&self, fingerprint: &str) -> Option<&JournalEntry> {
        let mut records = self.by_request.get(fingerprint)?.iter().filter_map(|(_, id)| self.records.get(id));
        records.find(|record| record.claim == Some(Claim::Cancellation)).map(|record| &record.entry)
    }

    pub(super) fn first_of_request(
        &self,
        fingerprint: &str,
        fits: impl Fn(&JournalEntry) -> bool,
    ) -> Option<PurchaseId> {
        self.first(self.by_request.get(fingerprint)?, fits)
    }

    pub(super) fn first_unspent(
        &self,
        host: &str,
        quote: &Quote,
        fits: impl Fn(&JournalEntry) -> bool,
    ) -> Option<PurchaseId> {
        self.first(self.unspent.get(&(host.to_owned(), quote.recipient, quote.amount))?, fits)
    }

    pub(super) fn is_paid_for(&self, secret: &str, except: PurchaseId) -> bool {
        let moves = |record: &Record| matches!(record.entry.state, PurchaseState::Paying | PurchaseState::Redeeming);
        let others = self.by_secret.get(secret).into_iter().flatten().filter(|(_, id)| *id != except);
        others.filter_map(|(_, id)| self.records.get(id)).any(moves)
    }

    /// Returns the oldest unclaimed purchase from before `moment` whose answer no caller reads.
    pub(super) fn idle_before(&self, moment: ChainTime, fits: impl Fn(&JournalEntry) -> bool) -> Option<PurchaseId> {
        let old = self.idle_by_age.range(..(moment, PurchaseId::new([0; 16])));
        let fits = |record: &Record| record.claim.is_none() && record.aside.readers == 0 && fits(&record.entry);
        old.map(|(_, id)| *id).find(|id| self.records.get(id).is_some_and(fits))
    }

    /// Returns whether a caller is reading its answer.
    pub(super) fn is_read(&self, id: PurchaseId) -> bool {
        self.records.get(&id).is_some_and(|record| record.aside.readers > 0)
    }

    /// Updates the number of readers of its answer.
    pub(super) fn read_by(&mut self, id: PurchaseId, count: impl FnOnce(u32) -> u32) {
        if let Some(record) = self.records.get_mut(&id) {
            record.aside.readers = count(record.aside.readers);
        }
    }

    pub(super) fn free(&self, id: PurchaseId) -> Option<PurchaseId> {
        self.records.get(&id).is_some_and(|record| record.claim.is_none()).then_some(id)
    }

    /// Returns all open purchases, oldest first.
    pub(super) fn entries(&self) -> Vec<JournalEntry> {
        let mut open: Vec<JournalEntry> = self.records.values().map(|record| record.entry.clone()).collect();
        open.sort_by_key(place);
        open
    }

    fn first(&self, places: &BTreeSet<Place>, fits: impl Fn(&JournalEntry) -> bool) -> Option<PurchaseId> {
        let fits = |record: &Record| record.claim.is_none() && fits(&record.entry);
        places.iter().map(|(_, id)| *id).find(|id| self.records.get(id).is_some_and(fits))
    }
}

fn place(entry: &JournalEntry) -> Place {
    (entry.at, entry.id)
}

fn terms(entry: &JournalEntry) -> Terms {
    (entry.host.clone(), entry.recipient, entry.amount)
}

fn take<K: std::hash::Hash + Eq>(index: &mut HashMap<K, BTreeSet<Place>>, key: &K, place: Place) {
    if let Some(places) = index.get_mut(key) {
        places.remove(&place);
        if places.is_empty() {
            index.remove(key);
        }
    }
}
