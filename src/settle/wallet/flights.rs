//! `Flights`: the payments that are being settled now. One that is presented again while it is joins the task that settles it.

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

/// How many payments may wait; a further one is refused.
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
    /// What was shown, whatever is charged of it.
    shown: [u8; 32],
    progress: watch::Receiver<Progress>,
    token: Address,
    payer: Address,
    value: Amount,
    /// Counts up: those that are being settled for longer have lower ones.
    number: u64,
}

/// By the name of what was signed.
type ByName = HashMap<Box<[u8]>, Open>;

#[derive(Debug, Default)]
pub(super) struct Flights {
    open: Arc<Mutex<ByName>>,
    numbers: AtomicU64,
}

/// A place among those that are being settled. It is free again once this is dropped.
#[derive(Debug)]
pub(super) struct Flight {
    open: Arc<Mutex<ByName>>,
    name: Box<[u8]>,
    number: u64,
    progress: watch::Sender<Progress>,
}

impl Flights {
    /// Joins the flight of that call, or starts it; `None` where too many are under way, or another call under that name. A flight that
    /// was started is for the caller to complete.
    pub(super) fn enter(&self, order: &Order) -> Option<(watch::Receiver<Progress>, Option<Flight>)> {
        let (name, mut open) = (order.name(), locked(&self.open));
        if let Some(other) = open.get(&name) {
            return (*other.call == *order.input).then(|| (other.progress.clone(), None));
        }
        // A payment that was verified while there was room is accepted.
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

    /// Whether what is settled under this name now was shown as this was; `None` if nothing is.
    pub(super) fn are_by(&self, order: &Order) -> Option<bool> {
        locked(&self.open).get(&order.name()).map(|other| other.shown == order.shown)
    }

    /// The sum of the payer's payments in this token that are being settled: before that flight, or in all.
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
    /// Says which transaction was sent last.
    pub(super) fn sent(&self, transaction: TxHash) {
        self.progress.send_modify(|progress| progress.transaction = Some(transaction));
    }

    /// Ends the flight.
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

/// That a flight has not ended.
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

    /// Both could be sent, and a refusal of the one would say nothing of the other.
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
