//! `Turns`: the tasks of a process take turns at an account, so that few compare-and-set operations fail.

use tokio::sync::{Mutex, MutexGuard};

use super::id::AccountId;

/// The number of locks. Accounts that share a lock wait for each other.
const STRIPES: usize = 64;

/// One lock for each stripe of accounts. It only avoids conflicts; the database decides.
#[derive(Debug)]
pub(crate) struct Turns([Mutex<()>; STRIPES]);

impl Default for Turns {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }
}

impl Turns {
    /// Waits for the account's turn; the caller sets the time limit.
    #[expect(clippy::indexing_slicing, reason = "the remainder is less than the number of stripes")]
    pub(crate) async fn of(&self, id: AccountId) -> MutexGuard<'_, ()> {
        self.0[usize::from(id.as_bytes()[0]) % STRIPES].lock().await
    }
}
