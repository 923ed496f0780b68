//! `LaterSlices`: asks about a claim with many candidates in slices, one after the other.
//!
//! A transaction's author decides how many payments it has, pays for it once, and may show it any number of times. One
//! question about thousands of candidates would keep every other sale waiting.
//!
//! Slices after the first free candidate are not asked about. If one of their candidates was sold and then mined again
//! later, its sale is not kept for longer. That matters only more than a day after it was first mined
//! ([`Claim::keep_until`]).

use std::{mem::replace, ops::ControlFlow, vec};

use super::{Claim, ReserveOutcome};
use crate::protocol::Payment;

/// The most candidates in one question to a ledger.
const SLICE: usize = 32;

/// The candidates that were not asked about yet, and the refusal of the others.
pub(crate) struct LaterSlices {
    /// Without candidates.
    claim: Claim,
    payments: vec::IntoIter<Payment>,
    refusal: ReserveOutcome,
}

impl Claim {
    /// Keeps the first slice, and returns the later ones, if any.
    pub(crate) fn into_slices(mut self) -> (Self, Option<Box<LaterSlices>>) {
        if self.payments().len() <= SLICE {
            return (self, None);
        }
        let mut payments = self.take_payments().into_iter();
        let first = self.clone().with_payments(payments.by_ref().take(SLICE).collect());
        (first, Some(Box::new(LaterSlices { claim: self, payments, refusal: ReserveOutcome::PaymentUsed })))
    }
}

impl LaterSlices {
    /// Takes the outcome of a slice; returns the next slice, or else the outcome of the whole claim.
    pub(crate) fn after(&mut self, outcome: ReserveOutcome) -> ControlFlow<ReserveOutcome, Claim> {
        use ReserveOutcome::{Granted, IntentConsumed, IntentHeld, PurchaseConsumed};
        if matches!(outcome, Granted(_) | IntentConsumed | PurchaseConsumed | IntentHeld { .. }) {
            return ControlFlow::Break(outcome);
        }
        self.refusal = of_both(replace(&mut self.refusal, ReserveOutcome::PaymentUsed), outcome);
        let next: Vec<_> = self.payments.by_ref().take(SLICE).collect();
        match next.is_empty() {
            true => ControlFlow::Break(self.refusal.clone()),
            false => ControlFlow::Continue(self.claim.clone().with_payments(next)),
        }
    }
}

/// The refusal of two slices without a free candidate: the same as of one slice with the candidates of both.
fn of_both(earlier: ReserveOutcome, later: ReserveOutcome) -> ReserveOutcome {
    use ReserveOutcome::{BeforeMemory, Busy};
    match (earlier, later) {
        (Busy { retry_after: one }, Busy { retry_after: other }) => Busy { retry_after: one.min(other) },
        (busy @ Busy { .. }, _) | (_, busy @ Busy { .. }) => busy,
        (BeforeMemory, _) | (_, BeforeMemory) => BeforeMemory,
        (used, _) => used,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::{
        collection::vec as many,
        prelude::{Just, Strategy, any, proptest},
        prop_assert_eq, prop_oneof,
    };

    use super::*;
    use crate::{
        ledger::decide::{Candidate, Decision, Entry, decide},
        protocol::{ChainTime, IntentKey, Network, Transfer, TxHash},
    };

    const MARK: u64 = 1_000;
    const LEASE: Duration = Duration::from_secs(7);

    fn entry() -> impl Strategy<Value = Option<Entry>> {
        prop_oneof![
            2 => Just(None),
            4 => Just(Some(Entry::Sold)),
            2 => (1..9_u64).prop_map(|left| Some(Entry::Held { left: Duration::from_secs(left) })),
            1 => Just(Some(Entry::Lapsed)),
        ]
    }

    /// Runs of equal candidates, since a slice is long.
    fn candidates() -> impl Strategy<Value = Vec<(Option<Entry>, u64)>> {
        let run = (entry(), prop_oneof![Just(MARK), Just(MARK + 1)], 1..50_usize);
        many(run, 0..6).prop_map(|runs| {
            runs.into_iter().flat_map(|(entry, time, length)| std::iter::repeat_n((entry, time), length)).collect()
        })
    }

    fn paid(position: usize, time: u64) -> Payment {
        let position = u32::try_from(position).unwrap();
        let transfer = Transfer::new(Network::BASE, TxHash::new([1; 32]), position);
        transfer.with_block(1, ChainTime::from_unix(time)).into()
    }

    fn positions(claim: &Claim) -> Vec<u32> {
        claim.payments().iter().filter_map(Payment::position).collect()
    }

    proptest! {
        /// The records of the intent and the candidates, and whether another payment bought the purchase.
        #[test]
        fn slices_are_answered_as_the_whole_claim_is(intent in entry(), all in candidates(), rival in any::<bool>()) {
            let payments: Vec<_> = all.iter().enumerate().map(|(place, (_, time))| paid(place, *time)).collect();
            let claim = Claim::builder("a", IntentKey::new([7; 16])).payments(payments).lease(LEASE).build();
            let decided = |claim: &Claim| {
                let candidates = claim.payments().iter().map(|paid| Candidate {
                    entry: all[paid.position().unwrap() as usize].0,
                    purchase: rival.then_some(Entry::Sold),
                    ..Candidate::new(paid, ChainTime::from_unix(MARK))
                });
                match decide(intent, LEASE, candidates) {
                    Decision::Refused(refusal) => refusal,
                    Decision::Free(free) => ReserveOutcome::Granted(crate::ledger::Lease::new(claim, free.paid, 1)),
                }
            };
            let (whole, places) = (decided(&claim), positions(&claim));
            let (mut slice, mut later) = claim.into_slices();
            let mut asked = Vec::new();
            let outcome = loop {
                prop_assert_eq!(slice.payments().len() <= SLICE, true);
                asked.extend(positions(&slice));
                let outcome = decided(&slice);
                match later.as_mut().map(|later| later.after(outcome.clone())) {
                    Some(ControlFlow::Continue(next)) => slice = next,
                    Some(ControlFlow::Break(outcome)) => break outcome,
                    None => break outcome,
                }
            };
            prop_assert_eq!(outcome, whole);
            prop_assert_eq!(&asked[..], &places[..asked.len()]);
        }
    }
}
