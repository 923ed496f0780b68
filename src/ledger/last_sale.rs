//! `LastSales`: by what a process finds out that its database lost sales.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::Lease;
use crate::protocol::{ChainTime, PaymentId};

/// How many are asked about. Commits that are under way at the same time may be answered in another order than they are
/// in the database's log, so that the last one noted need not be the last one there.
const KNOWN: usize = 4;

/// The last sales that this process recorded. A server without one of them has lost records, such as a promoted standby
/// that lagged or a restored backup, and would sell payments again.
///
/// Charges of accounts are not among them: a call by pass is no sale.
#[derive(Debug, Default)]
pub(super) struct LastSales(Mutex<VecDeque<Recorded>>);

#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    pub(super) payment: PaymentId,
    pub(super) fence: u64,
    /// A mark that has passed this refuses the payment, and the sale may be forgotten.
    pub(super) block_time: ChainTime,
}

impl LastSales {
    /// From the last on, [`KNOWN`] at most.
    pub(super) fn get(&self) -> Vec<Recorded> {
        self.recorded().iter().copied().collect()
    }

    /// The sale is recorded for good.
    pub(super) fn note(&self, lease: &Lease) {
        let paid = lease.settled_since().unwrap_or(lease.payment());
        let sale = Recorded { payment: lease.payment().id(), fence: lease.fencing_token(), block_time: paid.time() };
        let mut last = self.recorded();
        last.retain(|known| known.payment != sale.payment);
        last.push_front(sale);
        last.truncate(KNOWN);
    }

    fn recorded(&self) -> MutexGuard<'_, VecDeque<Recorded>> {
        // A panic leaves whole values behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says why nothing is sold.
pub(super) fn is_unknown() {
    tracing::error!(
        "the ledger's server does not know one of the last sales of this process, as if a standby that lagged behind had been promoted: \
         nothing is sold until its mark is raised"
    );
}
