//! `Inquiries`: limits how many payments are checked at once. Settling does not wait here, so it takes precedence over
//! checks.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::order::Order;
use crate::protocol::Address;

/// How many payments signed by their payers' keys are checked at once, and how many others, which cost their sender
/// nothing.
const BY_KEY: usize = 16;
const OTHERS: usize = 4;
/// How many checks of each kind may be in progress or waiting; the shares limit one payer to an eighth or a quarter of
/// them.
const BY_KEY_MAX: usize = 256;
const OTHERS_MAX: usize = 32;
const BY_KEY_SHARE: usize = 32;
const OTHERS_SHARE: usize = 8;

#[derive(Debug)]
pub(super) struct Inquiries {
    by_key: Line,
    others: Line,
}

/// Checks of one kind: the concurrent places, and the number of running and waiting checks for each payer.
#[derive(Debug)]
struct Line {
    places: Semaphore,
    most: usize,
    /// How many checks one payer may have.
    share: usize,
    entered: Mutex<HashMap<Address, usize>>,
}

/// A check that is in progress or waiting. Dropping it frees its place.
#[derive(Debug)]
pub(super) struct Inquiry<'a> {
    line: &'a Line,
    payer: Address,
    _place: Option<SemaphorePermit<'a>>,
}

impl Default for Inquiries {
    fn default() -> Self {
        Self {
            by_key: Line::new(BY_KEY, BY_KEY_MAX, BY_KEY_SHARE),
            others: Line::new(OTHERS, OTHERS_MAX, OTHERS_SHARE),
        }
    }
}

impl Inquiries {
    /// Waits until this payment may be checked; returns `None` if too many wait.
    pub(super) async fn enter(&self, order: &Order) -> Option<Inquiry<'_>> {
        // A forged signature can name any payer, so it takes no place from real signers.
        let line = if order.is_by_key { &self.by_key } else { &self.others };
        line.enter(order.payer).await
    }
}

impl Line {
    fn new(places: usize, most: usize, share: usize) -> Self {
        Self { places: Semaphore::new(places), most, share, entered: Mutex::default() }
    }

    async fn enter(&self, payer: Address) -> Option<Inquiry<'_>> {
        let mut inquiry = self.queue(payer)?;
        inquiry._place = Some(self.places.acquire().await.ok()?);
        Some(inquiry)
    }

    fn queue(&self, payer: Address) -> Option<Inquiry<'_>> {
        let mut entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = entered.values().sum::<usize>() >= self.most;
        let of_payer = entered.get(&payer).copied().unwrap_or_default();
        if is_full || of_payer >= self.share {
            return None;
        }
        entered.insert(payer, of_payer + 1);
        Some(Inquiry { line: self, payer, _place: None })
    }
}

impl Drop for Inquiry<'_> {
    fn drop(&mut self) {
        let mut entered = self.line.entered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = entered.get_mut(&self.payer) {
            *count -= 1;
            if *count == 0 {
                entered.remove(&self.payer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn payer(byte: u8) -> Address {
        Address::new([byte; 20])
    }

    #[test]
    fn one_payer_leaves_places_to_others() {
        let Inquiries { by_key, others } = Inquiries::default();
        for line in [by_key, others] {
            let taken: Vec<_> = std::iter::from_fn(|| line.queue(payer(1))).collect();
            assert!(taken.len() <= line.most / 4, "{} of {}", taken.len(), line.most);
            assert!(line.queue(payer(2)).is_some());
        }
    }

    #[tokio::test]
    async fn one_payer_takes_a_part_of_the_places_and_leaves_none_behind() {
        let line = Line::new(1, 3, 2);
        let mut taken: Vec<_> = (0..2).map(|_| line.queue(payer(1)).unwrap()).collect();
        assert!(line.queue(payer(1)).is_none(), "as many as one payer may have");
        taken.push(line.queue(payer(2)).unwrap());
        assert!(line.queue(payer(3)).is_none(), "as many as there may be");
        drop(taken);
        assert!(line.entered.lock().unwrap().is_empty());
        let first = line.enter(payer(1)).await.unwrap();
        let mut second = Box::pin(line.enter(payer(2)));
        assert!(futures_util::FutureExt::now_or_never(&mut second).is_none(), "one at a time");
        drop(first);
        assert!(second.await.is_some());
    }
}
