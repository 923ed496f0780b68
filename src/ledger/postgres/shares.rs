//! The share of connections for reservations, so that some remain for commits, settlements, renewals and releases.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::super::LedgerError;

/// Permits to reserve, fewer than there are connections where there are three or more.
///
/// A reservation that was let in waits in the pool before every commit that comes later, so their number is bounded even where all
/// use one connection. One of a payment that was not [mined](super::super::Claim::is_unproven) costs its author nothing: a crowd of them delays
/// its own kind only. A look-up costs its author nothing either: a few at a time are asked, among the reservations of payments that were mined.
pub(super) struct Shares {
    proven: Semaphore,
    unproven: Semaphore,
    look_ups: Semaphore,
}

impl Shares {
    /// Of ten connections five and one: four are left. Two of the five may be used for look-ups.
    pub(super) fn of(connections: u32) -> Self {
        let part = |of: u32| Semaphore::new(usize::try_from((connections / of).max(1)).unwrap_or(1));
        Self { proven: part(2), unproven: part(10), look_ups: part(5) }
    }

    /// Waits until a claim, or a batch of them, may be reserved. The caller sets the time limit.
    pub(super) async fn enter(&self, unproven: bool) -> Result<SemaphorePermit<'_>, LedgerError> {
        let share = if unproven { &self.unproven } else { &self.proven };
        share.acquire().await.map_err(|_| LedgerError::unavailable())
    }

    /// Waits until an amount of an account may be reserved, among the claims on payments that were mined.
    pub(super) async fn enter_draw(&self) -> Result<SemaphorePermit<'_>, LedgerError> {
        self.proven.acquire().await.map_err(|_| LedgerError::unavailable())
    }

    /// Waits until something may be looked up that no lease asks for. Those that wait leave the share of the reservations to these.
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
