//! `Flights`: the payments that are being settled now. If one is presented again meanwhile, the call joins its settling
//! task.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::watch;

use super::order::Order;
use crate::{
    protocol::{Address, Amount, TxHash},
    settle::Settlement,
};

/// How many payments may wait for settlement before new ones are refused.
pub(super) const WAITING_MAX: usize = 256;

/// The state of a payment during its settlement.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// The newest transaction that was sent for it.
    pub(super) transaction: Option<TxHash>,
    pub(super) outcome: Option<Settlement>,
}

/// A payment that is being settled.
#[derive(Debug)]
struct Open {
    /// The call that settles it.
    call: Box<[u8]>,
    /// The hash of what was shown, whatever the charge.
    shown: [u8; 32],
    progress: watch::Receiver<Progress>,
    token: Address,
    payer: Address,
    value: Amount,
    /// An increasing number: older settlements have lower ones.
    number: u64,
}

/// Keyed by the name of what was signed.
type ByName = HashMap<Box<[u8]>, Open>;

#[derive(Debug, Default)]
pub(super) struct Flights {
    open: Arc<Mutex<ByName>>,
    numbers: AtomicU64,
}

/// A place among the payments being settled. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Flight {
    open: Arc<Mutex<ByName>>,
    name: Box<[u8]>,
    number: u64,
    progress: watch::Sender<Progress>,
}

impl Flights {
    /// Joins the flight of that call, or starts one, which the caller must complete. Returns `None` if too many are in
    /// progress, or another call under the same name is.
    pub(super) fn enter(&self, order: &Order) -> Option<(watch::Receiver<Progress>, Option<Flight>)> {
        let (name, mut open) = (order.name(), locked(&self.open));
        if let Some(other) = open.get(&name) {
            return (*other.call == *order.input).then(|| (other.progress.clone(), None));
        }
        // A payment that was verified while there was room is still accepted.
        if open.len() >= 2 * WAITING_MAX {
            return None;
        }
        let (sender, receiver) = watch::channel(Progress::default());
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let started = Open {
            call: order.input.clone().into(),
            shown: order.shown,
            progress: receiver.clone(),
            token: order.token,
            payer: order.payer,
            value: order.value,
            number,
        };
        open.insert(name.clone(), started);
        Some((receiver, Some(Flight { open: Arc::clone(&self.open), name, number, progress: sender })))
    }

    /// Returns whether the settlement in progress under this name was shown the same way; `None` if there is none.
    pub(super) fn are_by(&self, order: &Order) -> Option<bool> {
        locked(&self.open).get(&order.name()).map(|other| other.shown == order.shown)
    }

    /// Returns the sum of the payer's payments in this token that are being settled: those before that flight, or all.
    pub(super) fn owed(&self, order: &Order, before: Option<&Flight>) -> Amount {
        let open = locked(&self.open);
        let same = open.values().filter(|open| open.token == order.token && open.payer == order.payer);
        let earlier = same.filter(|open| before.is_none_or(|flight| open.number < flight.number));
        earlier.fold(Amount::ZERO, |sum, open| sum.checked_add(open.value).unwrap_or(Amount::MAX))
    }

    pub(super) fn are_full(&self) -> bool {
        locked(&self.open).len() >= WAITING_MAX
    }
}

impl Flight {
    /// Reports the transaction that was sent last.
    pub(super) fn sent(&self, transaction: TxHash) {
        self.progress.send_modify(|progress| progress.transaction = Some(transaction));
    }

    /// Ends the flight with an outcome.
    pub(super) fn land(self, outcome: Settlement) {
        self.progress.send_modify(|progress| progress.outcome = Some(outcome));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        locked(&self.open).remove(&self.name);
    }
}

fn locked(open: &Mutex<ByName>) -> MutexGuard<'_, ByName> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the end of a flight; returns the last state if its task ended without an outcome.
pub(super) async fn landed(progress: &mut watch::Receiver<Progress>) -> Settlement {
    let ended = progress.wait_for(|progress| progress.outcome.is_some()).await;
    if let Ok(Some(outcome)) = ended.map(|progress| progress.outcome.clone()) {
        return outcome;
    }
    unknown(progress)
}

/// Returns the settlement of a flight that has not ended.
pub(super) fn unknown(progress: &watch::Receiver<Progress>) -> Settlement {
    Settlement::Unknown(progress.borrow().transaction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settle::wallet::order::tests::order;

    #[tokio::test]
    async fn a_payment_is_settled_by_one_task_and_told_to_all() {
        let flights = Flights::default();
        let (mut first, flight) = flights.enter(&order(1, 9)).unwrap();
        let (mut second, none) = flights.enter(&order(1, 9)).unwrap();
        assert!(none.is_none() && flights.are_by(&order(1, 9)) == Some(true));
        let flight = flight.unwrap();
        let hash = TxHash::new([7; 32]);
        flight.sent(hash);
        assert_eq!(unknown(&second), Settlement::Unknown(Some(hash)));
        flight.land(Settlement::Settled(hash));
        for progress in [&mut first, &mut second] {
            assert_eq!(landed(progress).await, Settlement::Settled(hash));
        }
        assert_eq!(flights.are_by(&order(1, 9)), None, "free again");
    }

    /// Otherwise both calls could be sent, and a refusal of one would say nothing about the other.
    #[test]
    fn one_authorization_is_settled_by_one_call_at_a_time() {
        let flights = Flights::default();
        let first = flights.enter(&order(1, 9));
        assert!(flights.enter(&order(1, 8)).is_none());
        assert_eq!(flights.are_by(&order(1, 8)), Some(false));
        assert_eq!(flights.are_by(&order(2, 8)), None);
        drop(first);
        assert!(flights.enter(&order(1, 8)).is_some());
    }

    #[tokio::test]
    async fn a_task_that_dies_leaves_what_is_known_and_no_place_taken() {
        let flights = Flights::default();
        let (mut progress, flight) = flights.enter(&order(1, 9)).unwrap();
        let hash = TxHash::new([7; 32]);
        flight.as_ref().unwrap().sent(hash);
        drop(flight);
        assert_eq!(landed(&mut progress).await, Settlement::Unknown(Some(hash)));
        assert!(flights.enter(&order(1, 9)).unwrap().1.is_some());
    }

    #[test]
    fn only_so_many_wait() {
        let flights = Flights::default();
        let enter = |n: usize| flights.enter(&order(n, 9));
        let mut taken: Vec<_> = (0..WAITING_MAX).map(|n| enter(n).unwrap().1.unwrap()).collect();
        assert!(flights.are_full());
        taken.extend((WAITING_MAX..2 * WAITING_MAX).map(|n| enter(n).unwrap().1.unwrap()));
        assert!(enter(2 * WAITING_MAX).is_none(), "no room for another");
        assert!(enter(0).is_some(), "which is under way");
        drop(taken);
        assert!(!flights.are_full());
    }

    #[test]
    fn what_one_payer_owes_is_counted_for_each_flight_by_those_before_it() {
        let flights = Flights::default();
        let [first, second] = [1, 2].map(|nonce| flights.enter(&order(nonce, 9)).unwrap().1.unwrap());
        let units = Amount::from_base_units;
        assert_eq!(flights.owed(&order(1, 9), Some(&first)), units(0));
        assert_eq!(flights.owed(&order(2, 9), Some(&second)), units(10));
        assert_eq!(flights.owed(&order(3, 9), None), units(20));
        let mut other = order(3, 9);
        other.payer = Address::new([9; 20]);
        assert_eq!(flights.owed(&other, None), units(0));
        drop(first);
        assert_eq!(flights.owed(&order(2, 9), Some(&second)), units(0));
    }
}
