//! The share of connections for reservations, so that some remain for commits, settlements, renewals and releases.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::super::LedgerError;

/// Permits for reservations. There are fewer permits than connections if there are at least three connections.
///
/// A reservation that was let in waits in the pool ahead of every later commit, so the number of reservations is
/// bounded even if all share one connection. A reservation of an [unproven](super::super::Claim::is_unproven) payment
/// costs its author nothing: a crowd of them delays only its own kind. A look-up costs its author nothing either: only
/// a few run at a time, within the share of reservations of settled payments.
pub(super) struct Shares {
    proven: Semaphore,
    unproven: Semaphore,
    look_ups: Semaphore,
}

impl Shares {
    /// Of ten connections, five for proven reservations and one for unproven ones: four are left. Look-ups may use two
    /// of the five.
    pub(super) fn of(connections: u32) -> Self {
        let part = |of: u32| Semaphore::new(usize::try_from((connections / of).max(1)).unwrap_or(1));
        Self { proven: part(2), unproven: part(10), look_ups: part(5) }
    }

    /// Waits for a permit to reserve a claim, or a batch of claims. The caller sets the time limit.
    pub(super) async fn enter(&self, unproven: bool) -> Result<SemaphorePermit<'_>, LedgerError> {
        let share = if unproven { &self.unproven } else { &self.proven };
        share.acquire().await.map_err(|_| LedgerError::unavailable())
    }

    /// Waits for a permit to reserve an amount of an account, from the share of settled payments.
    pub(super) async fn enter_draw(&self) -> Result<SemaphorePermit<'_>, LedgerError> {
        self.proven.acquire().await.map_err(|_| LedgerError::unavailable())
    }

    /// Waits for permits to look something up without a lease. Waiting look-ups take nothing from the share of the
    /// reservations.
    pub(super) async fn enter_look_up(&self) -> Result<[SemaphorePermit<'_>; 2], LedgerError> {
        let own = self.look_ups.acquire().await.map_err(|_| LedgerError::unavailable())?;
        Ok([own, self.enter(false).await?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_leave_connections_to_what_is_held() {
        for connections in 1..=100 {
            let shares = Shares::of(connections);
            let [proven, unproven] = [&shares.proven, &shares.unproven].map(Semaphore::available_permits);
            assert!(proven > 0 && unproven > 0, "each can be reserved, over {connections}");
            let left = connections as usize >= 3;
            assert!(!left || proven + unproven < connections as usize, "some are left of {connections}");
            let look_ups = shares.look_ups.available_permits();
            assert!(look_ups > 0 && look_ups <= proven, "look-ups are among the reservations, over {connections}");
            assert!(connections < 4 || look_ups < proven, "and leave some to these, over {connections}");
        }
    }
}
