//! `LastSale`: by what a process finds out that its database lost sales.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Lease;
use crate::protocol::{ChainTime, PaymentId};

/// The last sale that this process recorded. A server without it has lost records, such as a promoted standby that
/// lagged or a restored backup, and would sell payments again.
#[derive(Debug, Default)]
pub(super) struct LastSale(Mutex<Option<Recorded>>);

#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    pub(super) payment: PaymentId,
    pub(super) fence: u64,
    /// A mark that has passed this refuses the payment, and the sale may be forgotten.
    pub(super) block_time: ChainTime,
}

impl LastSale {
    pub(super) fn get(&self) -> Option<Recorded> {
        *self.recorded()
    }

    /// The sale is recorded for good.
    pub(super) fn note(&self, lease: &Lease) {
        let paid = lease.settled_since().unwrap_or(lease.payment());
        let sale = Recorded { payment: lease.payment().id(), fence: lease.fencing_token(), block_time: paid.time() };
        let mut last = self.recorded();
        // Of commits that end at the same time the later fence counts.
        if last.is_none_or(|last| last.fence < sale.fence) {
            *last = Some(sale);
        }
    }

    fn recorded(&self) -> MutexGuard<'_, Option<Recorded>> {
        // A panic leaves a whole value behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says why nothing is sold.
pub(super) fn is_unknown() {
    tracing::error!(
        "the ledger's server does not know the last sale of this process, as if a standby that lagged behind had been promoted: \
         nothing is sold until its mark is raised"
    );
}
