//! `Settlements`: settlements that were begun and not finished, with their intents.

use std::collections::BTreeSet;

use foldhash::HashMap;

use super::super::Settling;
use crate::protocol::{ChainTime, CompactPaymentId, IntentKey, Network, PurchaseKey};

/// At most one settlement for each payment and for each intent.
#[derive(Debug, Default)]
pub(super) struct Settlements {
    begun: HashMap<CompactPaymentId, Begun>,
    /// The inverse, entry for entry.
    payments: HashMap<IntentKey, CompactPaymentId>,
    /// The payments whose settlement was begun for a purchase.
    purchases: HashMap<PurchaseKey, CompactPaymentId>,
    /// For each network, the chain times until which settlements are kept.
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
    /// Records a settlement. Replaces any other of this intent or this payment.
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

    /// Returns the settlement of this payment for this intent.
    pub(super) fn of(&self, intent: IntentKey, payment: &CompactPaymentId) -> Option<Settling> {
        self.begun.get(payment).filter(|begun| begun.intent == intent).map(|begun| begun.settling)
    }

    /// Returns the payment that is being settled for this intent, and its settlement.
    pub(super) fn of_intent(&self, intent: IntentKey) -> Option<(CompactPaymentId, Settling)> {
        let payment = self.payments.get(&intent)?;
        self.begun.get(payment).map(|begun| (*payment, begun.settling))
    }

    /// Whether this payment is being settled for another intent, or another payment for this intent.
    pub(super) fn bar(&self, intent: IntentKey, payment: &CompactPaymentId) -> bool {
        self.begun.get(payment).is_some_and(|begun| begun.intent != intent)
            || self.payments.get(&intent).is_some_and(|other| other != payment)
    }

    /// Returns the purchase for which this payment is being settled, or else the one for which this intent is.
    pub(super) fn purchase(&self, intent: IntentKey, payment: &CompactPaymentId) -> Option<PurchaseKey> {
        let of = |payment: &CompactPaymentId| self.begun.get(payment)?.purchase;
        of(payment).or_else(|| self.payments.get(&intent).and_then(of))
    }

    /// Whether another payment is being settled for this purchase and another intent.
    pub(super) fn is_begun_for(&self, purchase: PurchaseKey, intent: IntentKey, payment: &CompactPaymentId) -> bool {
        let other = self.purchases.get(&purchase).filter(|other| *other != payment);
        other.and_then(|other| self.begun.get(other)).is_some_and(|begun| begun.intent != intent)
    }

    /// Ends the settlements of this intent and of this payment.
    pub(super) fn end(&mut self, intent: IntentKey, payment: CompactPaymentId) {
        let other = self.payments.get(&intent).copied();
        [Some(payment), other].into_iter().flatten().for_each(|payment| self.remove(payment));
    }

    /// Forgets settlements whose payments age keeps from coming back.
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
