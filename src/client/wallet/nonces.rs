//! `Nonces`: what was sent from here, for as long as a lagging node may not know it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// For how long what was sent is believed over what the node counts. Then the node is: were a transaction dropped for
/// good, all after it would otherwise wait for ever.
const BELIEVED_FOR: Duration = Duration::from_secs(60);

/// The nonce after the last one that a node accepted from here.
#[derive(Debug, Default)]
pub(super) struct Nonces {
    next: Mutex<Option<(u64, Instant)>>,
}

impl Nonces {
    /// The nonce to use, where a node counts `pending`.
    pub(super) fn next(&self, pending: u64) -> u64 {
        self.floor().map_or(pending, |floor| floor.max(pending))
    }

    /// A node accepted a transaction with that nonce.
    pub(super) fn used(&self, nonce: u64) {
        let next = nonce.saturating_add(1);
        let next = self.floor().map_or(next, |floor| floor.max(next));
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some((next, Instant::now()));
    }

    fn floor(&self) -> Option<u64> {
        let next = *self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.filter(|(_, at)| at.elapsed() < BELIEVED_FOR).map(|(next, _)| next)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_counts_for_a_minute() {
        let nonces = Nonces::default();
        assert_eq!(nonces.next(3), 3);
        nonces.used(7);
        assert_eq!(nonces.next(3), 8, "a node that lags");
        assert_eq!(nonces.next(9), 9, "somebody else sends, too");
        nonces.used(5);
        assert_eq!(nonces.next(3), 8, "an old one sent again");
        advance(Duration::from_secs(59)).await;
        assert_eq!(nonces.next(3), 8);
        advance(Duration::from_secs(1)).await;
        assert_eq!(nonces.next(3), 3, "dropped: no gap for ever");
        nonces.used(3);
        assert_eq!(nonces.next(3), 4, "what is no longer believed does not come back");
    }
}
