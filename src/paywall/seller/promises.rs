//! `Promises`: what payers have promised by signed payments that are accepted and not settled yet.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::protocol::{Address, Amount};

/// How many payments of one payer may be reserved and unsettled at once.
const UNSETTLED_MAX: usize = 32;

/// What payers have promised. Clones share one record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promises {
    made: Arc<Mutex<HashMap<Account, Vec<Amount>>>>,
}

/// Whose promises, and in which token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    pub(crate) token: Address,
    pub(crate) payer: Address,
    /// Whether the payer's key certainly signed. Payments that others sign in its name do not count against it.
    pub(crate) is_signed: bool,
}

/// An accepted payment. It no longer counts once this is dropped.
#[derive(Debug)]
pub(crate) struct Promise {
    promises: Promises,
    account: Account,
    amount: Amount,
    /// The sum promised before it.
    pub(crate) others: Amount,
}

impl Promises {
    /// Accepts one more payment; `None` if this payer has too many.
    pub(crate) fn take_on(&self, account: Account, amount: Amount) -> Option<Promise> {
        let mut made = self.made();
        let of_payer = made.entry(account).or_default();
        if of_payer.len() >= UNSETTLED_MAX {
            return None;
        }
        let others = of_payer.iter().fold(Amount::ZERO, |sum, one| sum.checked_add(*one).unwrap_or(Amount::MAX));
        of_payer.push(amount);
        Some(Promise { promises: self.clone(), account, amount, others })
    }

    fn made(&self) -> MutexGuard<'_, HashMap<Account, Vec<Amount>>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let mut made = self.promises.made();
        let Some(of_payer) = made.get_mut(&self.account) else { return };
        if let Some(index) = of_payer.iter().position(|one| *one == self.amount) {
            of_payer.swap_remove(index);
        }
        if of_payer.is_empty() {
            made.remove(&self.account);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_add_up_by_payer_and_end_with_their_payments() {
        let promises = Promises::default();
        let [token, payer] = [1, 2].map(|byte| Address::new([byte; 20]));
        let account = Account { token, payer, is_signed: true };
        let units = Amount::from_base_units;
        let first = promises.take_on(account, units(3)).unwrap();
        let second = promises.take_on(account, units(4)).unwrap();
        let forged = promises.take_on(Account { is_signed: false, ..account }, units(9)).unwrap();
        assert_eq!([&first, &second, &forged].map(|promise| promise.others), [0, 3, 0].map(units));
        drop(second);
        let third = promises.take_on(account, units(5)).unwrap();
        assert_eq!(third.others, units(3));
        let more: Vec<_> = (2..UNSETTLED_MAX).map(|_| promises.take_on(account, units(1)).unwrap()).collect();
        assert!(promises.take_on(account, units(1)).is_none(), "too many");
        assert!(promises.take_on(Account { payer: token, ..account }, units(1)).is_some());
        drop((first, third, forged, more));
        assert!(promises.made().is_empty());
    }
}
