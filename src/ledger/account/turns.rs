//! `Turns`: the tasks of a process take turns at one account, so that few compare-and-sets fail.

use tokio::sync::{Mutex, MutexGuard};

use super::id::AccountId;

/// How many accounts can be asked about at once, at least almost: two may share a turn.
const STRIPES: usize = 64;

/// One lock for each stripe of accounts. A courtesy: the database decides.
#[derive(Debug)]
pub(crate) struct Turns([Mutex<()>; STRIPES]);

impl Default for Turns {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }
}

impl Turns {
    /// Waits for its turn; the caller sets the time limit.
    #[expect(clippy::indexing_slicing, reason = "the remainder is less than the number of stripes")]
    pub(crate) async fn of(&self, id: AccountId) -> MutexGuard<'_, ()> {
        self.0[usize::from(id.as_bytes()[0]) % STRIPES].lock().await
    }
}
