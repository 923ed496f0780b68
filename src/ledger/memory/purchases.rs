//! `Purchases`: the payment that holds or bought each purchase that a client named.

use foldhash::HashMap;

use crate::protocol::{CompactPaymentId, PurchaseKey};

/// One payment for each purchase. Payments without a purchase have no entry.
#[derive(Debug, Default)]
pub(super) struct Purchases {
    payments: HashMap<PurchaseKey, CompactPaymentId>,
    /// The inverse, entry for entry.
    purchases: HashMap<CompactPaymentId, PurchaseKey>,
}

impl Purchases {
    /// Returns the payment that holds or bought a purchase.
    pub(super) fn payment(&self, purchase: PurchaseKey) -> Option<CompactPaymentId> {
        self.payments.get(&purchase).copied()
    }

    /// Returns the purchase that a payment holds or bought.
    pub(super) fn of(&self, payment: &CompactPaymentId) -> Option<PurchaseKey> {
        self.purchases.get(payment).copied()
    }

    pub(super) fn begin(&mut self, purchase: PurchaseKey, payment: CompactPaymentId) {
        self.payments.insert(purchase, payment);
        self.purchases.insert(payment, purchase);
    }

    /// Frees the purchase of a payment.
    pub(super) fn end(&mut self, payment: &CompactPaymentId) {
        if let Some(purchase) = self.purchases.remove(payment) {
            self.payments.remove(&purchase);
        }
    }
}
