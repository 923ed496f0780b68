//! `Upkeep`: lets the ledger forget old records in the background, and not within requests.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, time::Instant};

use crate::{
    ledger::ErasedLedger,
    protocol::{ChainTime, Network},
};

/// How often the ledger is swept while there are reservations.
const EVERY: Duration = Duration::from_secs(60);
/// After this many reservations the next sweep comes earlier, which bounds what they leave behind.
const RESERVATIONS: usize = 1_024;

/// When the ledger's old records of a network are swept.
#[derive(Default)]
pub(crate) struct Upkeep(Arc<Mutex<Schedule>>);

#[derive(Default)]
struct Schedule {
    /// When the last sweep began.
    last: Option<Instant>,
    /// Reservations since then.
    reservations: usize,
    sweeps: bool,
}

impl Upkeep {
    /// Notes that a reservation is asked for, at this head. Sweeps the ledger in a task of its own if it is time, and no task is sweeping.
    pub(crate) fn beside_reservation(&self, ledger: &Arc<dyn ErasedLedger>, network: Network, head: ChainTime) {
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.begins() {
            return;
        }
        let (ledger, ends) = (Arc::clone(ledger), Ends(Arc::clone(&self.0)));
        drop(runtime.spawn(async move {
            let _ends = ends;
            if ledger.sweep(network, head).await.is_err() {
                tracing::debug!("the ledger did not forget what it may; it will later");
            }
        }));
    }

    fn begins(&self) -> bool {
        let mut schedule = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        schedule.reservations += 1;
        let is_time = schedule.last.is_none_or(|last| last.elapsed() >= EVERY);
        if schedule.sweeps || !(is_time || schedule.reservations >= RESERVATIONS) {
            return false;
        }
        *schedule = Schedule { last: Some(Instant::now()), reservations: 0, sweeps: true };
        true
    }
}

/// Ends a sweep, even one that panics or whose runtime ends.
struct Ends(Arc<Mutex<Schedule>>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sweeps = false;
    }
}
