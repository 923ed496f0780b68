//! `Settlements`: which settlements were begun, for which intent, and not finished.

use std::collections::BTreeSet;

use foldhash::HashMap;

use super::super::Settling;
use crate::protocol::{ChainTime, CompactPaymentId, IntentKey, Network, PurchaseKey};

/// One for each payment, and for each intent.
#[derive(Debug, Default)]
pub(super) struct Settlements {
    begun: HashMap<CompactPaymentId, Begun>,
    /// The other way round, entry for entry.
    payments: HashMap<IntentKey, CompactPaymentId>,
    /// Those that were begun for a purchase.
    purchases: HashMap<PurchaseKey, CompactPaymentId>,
    /// By network, and the chain time until which each is kept.
    ends: HashMap<Network, BTreeSet<(ChainTime, CompactPaymentId)>>,
}

#[derive(Debug)]
struct Begun {
    intent: IntentKey,
    purchase: Option<PurchaseKey>,
    settling: Settling,
    keep_until: ChainTime,
}

impl Settlements {
    /// Records a settlement, instead of every other of this intent or this payment.
    pub(super) fn begin(
        &mut self,
        intent: IntentKey,
        payment: CompactPaymentId,
        purchase: Option<PurchaseKey>,
        settling: Settling,
        keep_until: ChainTime,
    ) {
        self.end(intent, payment);
        self.begun.insert(payment, Begun { intent, purchase, settling, keep_until });
        self.payments.insert(intent, payment);
        self.purchases.extend(purchase.map(|purchase| (purchase, payment)));
        self.ends.entry(payment.network()).or_default().insert((keep_until, payment));
    }

    /// The settlement of this payment for this intent.
    pub(super) fn of(&self, intent: IntentKey, payment: &CompactPaymentId) -> Option<Settling> {
        self.begun.get(payment).filter(|begun| begun.intent == intent).map(|begun| begun.settling)
    }

    /// The payment that is settled for this intent, and its settlement.
    pub(super) fn of_intent(&self, intent: IntentKey) -> Option<(CompactPaymentId, Settling)> {
        let payment = self.payments.get(&intent)?;
        self.begun.get(payment).map(|begun| (*payment, begun.settling))
    }

    /// Whether this payment is settled for another intent, or another payment for this intent.
    pub(super) fn bar(&self, intent: IntentKey, payment: &CompactPaymentId) -> bool {
        self.begun.get(payment).is_some_and(|begun| begun.intent != intent)
            || self.payments.get(&intent).is_some_and(|other| other != payment)
    }

    /// The purchase for which this payment, or else this intent, is settled.
    pub(super) fn purchase(&self, intent: IntentKey, payment: &CompactPaymentId) -> Option<PurchaseKey> {
        let of = |payment: &CompactPaymentId| self.begun.get(payment)?.purchase;
        of(payment).or_else(|| self.payments.get(&intent).and_then(of))
    }

    /// Whether the purchase is settled by another payment for another intent.
    pub(super) fn is_begun_for(&self, purchase: PurchaseKey, intent: IntentKey, payment: &CompactPaymentId) -> bool {
        let other = self.purchases.get(&purchase).filter(|other| *other != payment);
        other.and_then(|other| self.begun.get(other)).is_some_and(|begun| begun.intent != intent)
    }

    /// Ends the settlement of this intent, or of this payment.
    pub(super) fn end(&mut self, intent: IntentKey, payment: CompactPaymentId) {
        let other = self.payments.get(&intent).copied();
        [Some(payment), other].into_iter().flatten().for_each(|payment| self.remove(payment));
    }

    /// Forgets those whose payments age keeps from coming back.
    pub(super) fn forget(&mut self, network: Network, head: ChainTime) {
        while let Some(&(keep_until, payment)) = self.ends.get(&network).and_then(BTreeSet::first)
            && keep_until < head
        {
            self.remove(payment);
        }
    }

    fn remove(&mut self, payment: CompactPaymentId) {
        if let Some(begun) = self.begun.remove(&payment) {
            self.payments.remove(&begun.intent);
            if let Some(purchase) = begun.purchase {
                self.purchases.remove(&purchase);
            }
            if let Some(ends) = self.ends.get_mut(&payment.network()) {
                ends.remove(&(begun.keep_until, payment));
            }
        }
    }
}
