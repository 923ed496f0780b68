//! When to forget: as the head goes on, and all of it once a minute.
//!
//! Under a snapshot that is kept open, by a dump for hours, the indexes keep deleted rows. A search from their
//! low end steps over all of it; so a search begins where the last one ended.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How often a handle looks at everything, and not only at what became due since it looked last.
const EVERY: Duration = Duration::from_secs(60);

/// What a handle knows of what is to be forgotten.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Nothing that was there when this handle looked last is due before.
    earliest: i64,
    /// When it looked at everything.
    all: Option<Instant>,
}

/// One sweep that is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sweep {
    pub(super) low: i64,
    pub(super) head: i64,
    pub(super) all: bool,
}

impl Sweeps {
    /// Returns the sweep that is due at this head, to one of the callers.
    pub(super) fn due(&self, head: i64) -> Option<Sweep> {
        let mut known = self.known();
        let all = known.all.is_none_or(|at| at.elapsed() >= EVERY);
        if !all && head <= known.earliest {
            return None;
        }
        let low = if all { 0 } else { known.earliest };
        known.earliest = known.earliest.max(head);
        if all {
            known.all = Some(Instant::now());
        }
        Some(Sweep { low, head, all })
    }

    /// The sweep failed, or left something: the next one begins there.
    pub(super) fn again(&self, sweep: Sweep) {
        let mut known = self.known();
        known.earliest = known.earliest.min(sweep.low);
        if sweep.all {
            known.all = None;
        }
    }

    /// There will be something to forget then.
    pub(super) fn note(&self, keep_until: i64) {
        let mut known = self.known();
        known.earliest = known.earliest.min(keep_until);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic leaves whole values behind.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_begins_where_the_last_one_ended() {
        let sweeps = Sweeps::default();
        let first = Sweep { low: 0, head: 100, all: true };
        assert_eq!(sweeps.due(100), Some(first));
        assert_eq!(sweeps.due(100), None, "one caller sweeps, not all of them");
        assert_eq!(sweeps.due(90), None);
        assert_eq!(sweeps.due(102), Some(Sweep { low: 100, head: 102, all: false }));
        sweeps.note(101);
        assert_eq!(sweeps.due(101), None);
        let late = Sweep { low: 101, head: 102, all: false };
        assert_eq!(sweeps.due(102), Some(late));
        sweeps.again(late);
        assert_eq!(sweeps.due(103), Some(Sweep { low: 101, head: 103, all: false }));
        sweeps.again(first);
        assert_eq!(sweeps.due(50), Some(Sweep { low: 0, head: 50, all: true }));
    }
}
