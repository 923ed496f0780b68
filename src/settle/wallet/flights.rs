//! `Flights`: the payments that are being settled now. One that is presented again while it is joins the task that settles it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::{protocol::TxHash, settle::Settlement};

/// How many payments may wait before no further one is taken on.
pub(super) const WAITING_MAX: usize = 256;

/// What is known of a payment that is being settled.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// The newest transaction that was sent for it.
    pub(super) transaction: Option<TxHash>,
    pub(super) outcome: Option<Settlement>,
}

/// By the authorization's name, the call that settles it, and what is known of it.
type ByName = HashMap<Box<[u8]>, (Box<[u8]>, watch::Receiver<Progress>)>;
type Open = Mutex<ByName>;

#[derive(Debug, Default)]
pub(super) struct Flights {
    open: Arc<Open>,
}

/// A place among those that are being settled. It is free again once this is dropped.
#[derive(Debug)]
pub(super) struct Flight {
    open: Arc<Open>,
    name: Box<[u8]>,
    progress: watch::Sender<Progress>,
}

impl Flights {
    /// Joins the flight of that call, or starts it; `None` where too many are under way, or another call under that name. A flight that
    /// was started is for the caller to complete.
    pub(super) fn enter(
        &self,
        name: Box<[u8]>,
        call: Box<[u8]>,
    ) -> Option<(watch::Receiver<Progress>, Option<Flight>)> {
        let mut open = locked(&self.open);
        if let Some((other, progress)) = open.get(&name) {
            return (*other == call).then(|| (progress.clone(), None));
        }
        // What was verified while there was room is taken.
        if open.len() >= 2 * WAITING_MAX {
            return None;
        }
        let (sender, receiver) = watch::channel(Progress::default());
        open.insert(name.clone(), (call, receiver.clone()));
        Some((receiver, Some(Flight { open: Arc::clone(&self.open), name, progress: sender })))
    }

    /// Whether it is this call by which the authorization of that name is being settled now; `None` where it is not being settled.
    pub(super) fn are_by(&self, name: &[u8], call: &[u8]) -> Option<bool> {
        locked(&self.open).get(name).map(|(other, _)| **other == *call)
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

fn locked(open: &Open) -> MutexGuard<'_, ByName> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the end of a flight; what is known of it where its task ended without one.
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

    fn key(byte: u8) -> Box<[u8]> {
        Box::new([byte])
    }

    #[tokio::test]
    async fn a_payment_is_settled_by_one_task_and_told_to_all() {
        let flights = Flights::default();
        let (mut first, flight) = flights.enter(key(1), key(9)).unwrap();
        let (mut second, none) = flights.enter(key(1), key(9)).unwrap();
        assert!(none.is_none() && flights.are_by(&key(1), &key(9)) == Some(true));
        let flight = flight.unwrap();
        let hash = TxHash::new([7; 32]);
        flight.sent(hash);
        assert_eq!(unknown(&second), Settlement::Unknown(Some(hash)));
        flight.land(Settlement::Settled(hash));
        for progress in [&mut first, &mut second] {
            assert_eq!(landed(progress).await, Settlement::Settled(hash));
        }
        assert_eq!(flights.are_by(&key(1), &key(9)), None, "free again");
    }

    /// Both could be sent, and a refusal of the one would say nothing of the other.
    #[test]
    fn one_authorization_is_settled_by_one_call_at_a_time() {
        let flights = Flights::default();
        let first = flights.enter(key(1), key(9));
        assert!(flights.enter(key(1), key(8)).is_none());
        assert_eq!(flights.are_by(&key(1), &key(8)), Some(false));
        assert_eq!(flights.are_by(&key(2), &key(8)), None);
        drop(first);
        assert!(flights.enter(key(1), key(8)).is_some());
    }

    #[tokio::test]
    async fn a_task_that_dies_leaves_what_is_known_and_no_place_taken() {
        let flights = Flights::default();
        let (mut progress, flight) = flights.enter(key(1), key(9)).unwrap();
        let hash = TxHash::new([7; 32]);
        flight.as_ref().unwrap().sent(hash);
        drop(flight);
        assert_eq!(landed(&mut progress).await, Settlement::Unknown(Some(hash)));
        assert!(flights.enter(key(1), key(9)).unwrap().1.is_some());
    }

    #[test]
    fn only_so_many_wait() {
        let flights = Flights::default();
        let enter = |n: usize| flights.enter(n.to_be_bytes().into(), key(9));
        let mut taken: Vec<_> = (0..WAITING_MAX).map(|n| enter(n).unwrap().1.unwrap()).collect();
        assert!(flights.are_full());
        taken.extend((WAITING_MAX..2 * WAITING_MAX).map(|n| enter(n).unwrap().1.unwrap()));
        assert!(enter(2 * WAITING_MAX).is_none(), "no room for another");
        assert!(enter(0).is_some(), "which is under way");
        drop(taken);
        assert!(!flights.are_full());
    }
}
