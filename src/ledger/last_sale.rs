//! `LastSales`: detects that the database has lost sales.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::Lease;
use crate::protocol::{ChainTime, PaymentId};

/// How many sales are checked. Concurrent commits may be confirmed in another order than the database's log has them,
/// so the last one noted here need not be the last one there.
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
    /// Once the network's mark has reached this time, the mark refuses the payment, and the sale may be forgotten.
    pub(super) block_time: ChainTime,
}

impl LastSales {
    /// Returns at most [`KNOWN`] sales, the latest first.
    pub(super) fn get(&self) -> Vec<Recorded> {
        self.recorded().iter().copied().collect()
    }

    /// Notes a sale that is durably recorded.
    pub(super) fn note(&self, lease: &Lease) {
        let paid = lease.settled_since().unwrap_or(lease.payment());
        let sale = Recorded { payment: lease.payment().id(), fence: lease.fencing_token(), block_time: paid.time() };
        let mut last = self.recorded();
        last.retain(|known| known.payment != sale.payment);
        last.push_front(sale);
        last.truncate(KNOWN);
    }

    fn recorded(&self) -> MutexGuard<'_, VecDeque<Recorded>> {
        // A panic cannot leave a partial value behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs why nothing is sold.
pub(super) fn is_unknown() {
    tracing::error!(
        "the ledger's server does not know one of the last sales of this process, as if a standby that lagged behind had been promoted: \
         nothing is sold until its mark is raised"
    );
}
