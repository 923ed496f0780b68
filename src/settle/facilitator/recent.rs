//! `Recent`: remembers the last payments, as a convenience. The chain is the record of settlements.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::protocol::PaymentId;

/// How many payments are remembered: more than are ever in progress at once.
const REMEMBERED: usize = 4_096;

pub(super) struct Recent<T>(Mutex<Memory<T>>);

struct Memory<T> {
    known: BTreeMap<PaymentId, T>,
    /// Oldest first. It may still contain a forgotten payment.
    order: VecDeque<PaymentId>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::new(Memory { known: BTreeMap::new(), order: VecDeque::new() }))
    }
}

impl<T> fmt::Debug for Recent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recent").finish_non_exhaustive()
    }
}

impl<T: Copy + PartialEq> Recent<T> {
    /// Remembers a payment's state, and returns the previous one.
    pub(super) fn set(&self, payment: PaymentId, value: T) -> Option<T> {
        let mut memory = self.memory();
        let before = memory.known.insert(payment, value);
        if before.is_none() {
            memory.order.push_back(payment);
        }
        while memory.order.len() > REMEMBERED {
            if let Some(oldest) = memory.order.pop_front() {
                memory.known.remove(&oldest);
            }
        }
        before
    }

    pub(super) fn get(&self, payment: PaymentId) -> Option<T> {
        self.memory().known.get(&payment).copied()
    }

    /// Forgets a payment with this state; `false` if its state has changed.
    pub(super) fn forget(&self, payment: PaymentId, value: T) -> bool {
        let mut memory = self.memory();
        let is_so = memory.known.get(&payment).is_none_or(|known| *known == value);
        if is_so {
            memory.known.remove(&payment);
        }
        is_so
    }

    fn memory(&self) -> MutexGuard<'_, Memory<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Address, Network};

    fn payment(n: usize) -> PaymentId {
        let mut nonce = [0; 32];
        nonce[..8].copy_from_slice(&n.to_be_bytes());
        PaymentId::of_authorization(Network::BASE, Address::ZERO, Address::ZERO, nonce)
    }

    #[test]
    fn the_last_are_remembered_and_no_more() {
        let recent = Recent::default();
        for n in 0..=REMEMBERED {
            assert_eq!(recent.set(payment(n), 0), None);
        }
        assert_eq!(recent.set(payment(5), 1), Some(0));
        assert!(!recent.forget(payment(5), 0), "it is another by now");
        assert!(recent.forget(payment(6), 0));
        assert_eq!([0, 1, 5, 6, REMEMBERED].map(|n| recent.get(payment(n))), [None, Some(0), Some(1), None, Some(0)]);
        for _ in 0..3 * REMEMBERED {
            recent.set(payment(6), 2);
            recent.forget(payment(6), 2);
        }
        assert!(recent.memory().order.len() <= REMEMBERED, "it is bounded");
    }
}
