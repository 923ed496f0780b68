//! The decision about a claim, from the records of one moment. The ledgers in Rust share this rule; the Redis ledger's
//! script repeats it, and the conformance suite checks all of them against it.

use std::time::Duration;

use super::ReserveOutcome;
use crate::protocol::{ChainTime, Payment};

/// The record of an intent or a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It was sold.
    Sold,
    /// A lease holds it.
    Held {
        /// The time until the lease runs out unless it is renewed.
        left: Duration,
    },
    /// A lease held it and ran out. It may be taken over.
    Lapsed,
}

/// One of a claim's payments, with its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate<'c> {
    /// The payment.
    pub paid: &'c Payment,
    /// The low-water mark of the payment's network.
    pub mark: ChainTime,
    /// The record of the candidate's payment.
    pub entry: Option<Entry>,
    /// Whether the settlement of this payment was [begun](super::Ledger::settling) for another intent, or that of
    /// another payment for the claim's intent.
    pub barred: bool,
    /// The record of the payment that holds or bought the claim's purchase, if it is another payment.
    pub purchase: Option<Entry>,
    /// Whether the settlement of another payment, for another intent, was begun for the claim's purchase.
    pub purchase_begun: bool,
}

impl<'c> Candidate<'c> {
    /// Returns a candidate without a record, on a network with this mark.
    #[must_use]
    pub const fn new(paid: &'c Payment, mark: ChainTime) -> Self {
        Self { paid, mark, entry: None, barred: false, purchase: None, purchase_begun: false }
    }
}

impl Candidate<'_> {
    /// Whether settling the payment could use another intent's payment, or pay twice for one intent. A signature is
    /// public once it is sent to be settled: any reader of the chain could show it under an intent of its own. A
    /// settled payment is proved in another way.
    fn must_not_be_settled(&self) -> bool {
        self.barred && !self.paid.is_settled()
    }
}

/// The decision about a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<'c> {
    /// Refuses the claim.
    Refused(ReserveOutcome),
    /// Reserves this candidate, which is free. If a lease that [ran out](Entry::Lapsed) is on record for the intent,
    /// the payment or the purchase, the reservation ends that lease in the same step.
    Free(Candidate<'c>),
}

/// Decides about a claim from the record of its intent, the length of the requested lease, and the candidates in order,
/// up to the first free one.
///
/// All inputs must be read at one moment. The reservation must be written at the same moment, or by a write that fails
/// if any input has changed. [`ReserveOutcome`] has the order of the refusals.
///
/// ```
/// use std::time::Duration;
/// use tower_x402::{
///     ledger::{
///         ReserveOutcome,
///         rules::{Candidate, Decision, Entry, decide},
///     },
///     protocol::{ChainTime, Network, Payment, Transfer, TxHash},
/// };
/// let (mark, lease) = (ChainTime::from_unix(1_795_280_000), Duration::from_secs(60));
/// let paid = |position| {
///     let transfer = Transfer::new(Network::BASE, TxHash::new([0xab; 32]), position);
///     Payment::from(transfer.with_block(22_000_000, ChainTime::from_unix(1_795_280_400)))
/// };
/// let (first, second) = (paid(0), paid(4));
/// let mut held = Candidate::new(&first, mark);
/// held.entry = Some(Entry::Held { left: Duration::from_secs(12) });
///
/// let decision = decide(None, lease, [held, Candidate::new(&second, mark)]);
/// assert_eq!(decision, Decision::Free(Candidate::new(&second, mark)));
///
/// let busy = ReserveOutcome::Busy { retry_after: Duration::from_secs(12) };
/// assert_eq!(decide(None, lease, [held]), Decision::Refused(busy));
/// assert_eq!(decide(Some(Entry::Sold), lease, [held]), Decision::Refused(ReserveOutcome::IntentConsumed));
/// let intent_held = ReserveOutcome::IntentHeld { retry_after: Duration::from_secs(3) };
/// let own = Some(Entry::Held { left: Duration::from_secs(3) });
/// assert_eq!(decide(own, lease, [held, Candidate::new(&second, mark)]), Decision::Refused(intent_held));
/// ```
pub fn decide<'c>(
    intent: Option<Entry>,
    lease: Duration,
    candidates: impl IntoIterator<Item = Candidate<'c>>,
) -> Decision<'c> {
    if intent == Some(Entry::Sold) {
        return Decision::Refused(ReserveOutcome::IntentConsumed);
    }
    let mut unsold = candidates.into_iter().filter(|candidate| candidate.entry != Some(Entry::Sold)).peekable();
    if unsold.peek().is_none() {
        return Decision::Refused(ReserveOutcome::PaymentUsed);
    }
    if unsold.peek().is_some_and(|candidate| candidate.purchase == Some(Entry::Sold)) {
        return Decision::Refused(ReserveOutcome::PurchaseConsumed);
    }
    if let Some(Entry::Held { left }) = intent {
        return Decision::Refused(ReserveOutcome::IntentHeld { retry_after: left });
    }
    let mut frees_in = None::<Duration>;
    for candidate in unsold {
        let mut held_for = |left: Duration| frees_in = Some(frees_in.map_or(left, |least| least.min(left)));
        match (candidate.entry, candidate.purchase) {
            (_, Some(Entry::Sold)) => return Decision::Refused(ReserveOutcome::PurchaseConsumed),
            (Some(Entry::Held { left }), _) => held_for(left),
            _ if candidate.must_not_be_settled() => held_for(lease),
            (_, Some(Entry::Held { left })) => held_for(left),
            _ if candidate.purchase_begun => held_for(lease),
            _ if candidate.paid.time() <= candidate.mark => {}
            _ => return Decision::Free(candidate),
        }
    }
    Decision::Refused(match frees_in {
        Some(retry_after) => ReserveOutcome::Busy { retry_after },
        None => ReserveOutcome::BeforeMemory,
    })
}

#[cfg(test)]
#[allow(clippy::result_large_err, reason = "read at once")]
mod tests {
    use super::*;
    use crate::protocol::{Address, Amount, Network, SignedTransfer, Transfer, TxHash};

    const MARK: u64 = 1_000;
    const LEASE: Duration = Duration::from_secs(7);
    const SOLD: Option<Entry> = Some(Entry::Sold);
    const LAPSED: Option<Entry> = Some(Entry::Lapsed);

    fn paid(block_time: u64) -> Payment {
        Transfer::new(Network::BASE, TxHash::new([1; 32]), 0)
            .with_token(Address::ZERO)
            .with_payer(Address::ZERO)
            .with_recipient(Address::ZERO)
            .with_amount(Amount::from_base_units(1))
            .with_block(1, ChainTime::from_unix(block_time))
            .into()
    }

    fn signed(shown: u64) -> SignedTransfer {
        SignedTransfer::new(Network::BASE, Address::ZERO, Address::ZERO, [1; 32])
            .with_amount(Amount::from_base_units(1))
            .with_shown(ChainTime::from_unix(shown))
    }

    fn held(seconds: u64) -> Option<Entry> {
        Some(Entry::Held { left: Duration::from_secs(seconds) })
    }

    fn intent_held(seconds: u64) -> ReserveOutcome {
        ReserveOutcome::IntentHeld { retry_after: Duration::from_secs(seconds) }
    }

    fn busy(seconds: u64) -> ReserveOutcome {
        ReserveOutcome::Busy { retry_after: Duration::from_secs(seconds) }
    }

    /// Decides about candidates given as block time and entry; returns the index of the free one, or the refusal.
    fn decided(intent: Option<Entry>, candidates: &[(u64, Option<Entry>)]) -> Result<usize, ReserveOutcome> {
        let transfers: Vec<_> = candidates.iter().map(|(block_time, _)| paid(*block_time)).collect();
        decided_of(intent, candidates, &transfers, false)
    }

    fn decided_of(
        intent: Option<Entry>,
        candidates: &[(u64, Option<Entry>)],
        transfers: &[Payment],
        barred: bool,
    ) -> Result<usize, ReserveOutcome> {
        let all = transfers.iter().zip(candidates).map(|(paid, (_, entry))| Candidate {
            entry: *entry,
            barred,
            ..Candidate::new(paid, ChainTime::from_unix(MARK))
        });
        match decide(intent, LEASE, all) {
            Decision::Refused(reservation) => Err(reservation),
            Decision::Free(chosen) => Ok(transfers.iter().position(|paid| std::ptr::eq(paid, chosen.paid)).unwrap()),
        }
    }

    #[test]
    fn of_several_refusals_the_first_in_order_is_given() {
        let free = (MARK + 1, None);
        let of_all = [(MARK + 1, SOLD), (MARK + 1, held(9)), (MARK, None)];
        assert_eq!(decided(SOLD, &[free]), Err(ReserveOutcome::IntentConsumed));
        assert_eq!(decided(SOLD, &[]), Err(ReserveOutcome::IntentConsumed));
        assert_eq!(decided(held(5), &[(MARK + 1, SOLD)]), Err(ReserveOutcome::PaymentUsed));
        assert_eq!(decided(None, &[]), Err(ReserveOutcome::PaymentUsed));
        assert_eq!(decided(held(5), &of_all), Err(intent_held(5)), "the intent's own lease before the payment's");
        assert_eq!(decided(None, &of_all), Err(busy(9)), "a held payment before one at the mark");
        assert_eq!(decided(None, &[(MARK + 1, SOLD), (MARK, None)]), Err(ReserveOutcome::BeforeMemory));
        assert_eq!(decided(None, &[(MARK + 1, held(9)), (MARK + 1, held(4))]), Err(busy(4)), "the first to end");
    }

    #[test]
    fn the_first_free_transfer_is_chosen() {
        for passed_over in [(MARK + 1, SOLD), (MARK + 1, held(9)), (MARK, None), (MARK, LAPSED)] {
            for free in [(MARK + 1, None), (MARK + 1, LAPSED)] {
                assert_eq!(decided(None, &[passed_over, free, free]), Ok(1));
                assert_eq!(decided(LAPSED, &[passed_over, free]), Ok(1), "a lease that ran out is no obstacle");
            }
        }
    }

    #[test]
    fn a_settlement_that_was_begun_bars_what_is_not_settled() {
        let unsettled = |block_time| Payment::from(signed(block_time));
        let barred = |candidates: &[(u64, Option<Entry>)]| {
            let transfers: Vec<_> = candidates.iter().map(|(block_time, _)| unsettled(*block_time)).collect();
            decided_of(LAPSED, candidates, &transfers, true)
        };
        for entry in [None, LAPSED] {
            let candidate = (MARK + 1, entry);
            assert_eq!(barred(&[candidate]), Err(busy(7)), "as long as the claim's own lease");
            assert_eq!(barred(&[(MARK, entry)]), Err(busy(7)), "as for a held payment, before the mark");
            assert_eq!(barred(&[candidate, (MARK + 1, held(4))]), Err(busy(4)), "the first to end");
            assert_eq!(barred(&[candidate, (MARK + 1, held(9))]), Err(busy(7)));
            // A settled payment beside it is free.
            let transfers = [unsettled(MARK + 1), paid(MARK + 1)];
            assert_eq!(decided_of(LAPSED, &[candidate, candidate], &transfers, true), Ok(1));
            // An expired lease alone bars nothing.
            assert_eq!(decided_of(LAPSED, &[candidate], &transfers[..1], false), Ok(0));
        }
    }

    #[test]
    fn a_purchase_of_another_payment_is_told_behind_intent_and_payment() {
        let (free, held_payment, below) = ((MARK + 1, None), (MARK + 1, held(9)), (MARK, None));
        let sold_payment = (MARK + 1, SOLD);
        let conflict = Err(ReserveOutcome::PurchaseConsumed);
        for (intent, candidate, purchase, begun, expected) in [
            (SOLD, free, SOLD, false, Err(ReserveOutcome::IntentConsumed)),
            (None, sold_payment, SOLD, false, Err(ReserveOutcome::PaymentUsed)),
            // This refusal precedes all that depend on undecided claims.
            (held(3), free, SOLD, false, conflict.clone()),
            (None, held_payment, SOLD, false, conflict.clone()),
            (LAPSED, below, SOLD, false, conflict.clone()),
            (None, free, SOLD, false, conflict),
            (held(3), free, held(4), true, Err(intent_held(3))),
            (None, free, held(4), false, Err(busy(4))),
            (None, free, held(4), true, Err(busy(4))),
            (LAPSED, (MARK + 1, LAPSED), held(4), false, Err(busy(4))),
            (None, held_payment, held(4), false, Err(busy(9))),
            // A dead process left a settlement behind: busy for the length of the claim's own lease.
            (None, free, None, true, Err(busy(7))),
            (None, free, LAPSED, true, Err(busy(7))),
            (None, below, held(4), false, Err(busy(4))),
            (None, below, LAPSED, false, Err(ReserveOutcome::BeforeMemory)),
            // An expired lease alone is no obstacle.
            (None, free, LAPSED, false, Ok(0)),
            (LAPSED, free, None, false, Ok(0)),
        ] {
            let paid = paid(candidate.0);
            let claimed = Candidate {
                entry: candidate.1,
                purchase,
                purchase_begun: begun,
                ..Candidate::new(&paid, ChainTime::from_unix(MARK))
            };
            let decision = match decide(intent, LEASE, [claimed]) {
                Decision::Refused(refusal) => Err(refusal),
                Decision::Free(_) => Ok(0),
            };
            assert_eq!(decision, expected, "{intent:?} {claimed:?}");
        }
    }

    #[test]
    fn a_payment_that_is_settled_waits_for_its_purchase_too() {
        // Two payments of one purchase: the first may have been settled, the second is settled.
        let paid = paid(MARK + 1);
        let waits = Candidate { purchase_begun: true, ..Candidate::new(&paid, ChainTime::from_unix(MARK)) };
        assert_eq!(decide(None, LEASE, [waits]), Decision::Refused(busy(7)));
    }
}
