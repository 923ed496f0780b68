//! Which answer a claim gets, decided by what a ledger has on record at one moment. One rule for the ledgers in Rust; the script
//! of the Redis ledger states it once more, and the conformance suite holds all of them to it.

use std::time::Duration;

use super::ReserveOutcome;
use crate::protocol::{ChainTime, Transfer};

/// What is on record for an intent or a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Sold,
    /// A lease with so much time left.
    Held {
        left: Duration,
    },
    /// A lease that ran out, and may be taken over: by its own intent, and by any other for a payment that is settled.
    Lapsed,
}

/// One of the claim's transfers, with what is on record for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate<'c> {
    pub(super) transfer: &'c Transfer,
    pub(super) entry: Option<Entry>,
    /// The entry is a lease of the claim's own intent.
    pub(super) own: bool,
    /// How long the claim's intent and this transfer have to cool down.
    pub(super) cooling: Option<Duration>,
}

impl Candidate<'_> {
    /// Whether a lease that ran out keeps this payment for its intent. A signature is public once it is settled: whoever reads it
    /// on the chain could show it under an intent of their own, where a holder died between settling and commit.
    fn is_anothers(&self) -> bool {
        self.entry == Some(Entry::Lapsed) && !self.own && !self.transfer.is_settled()
    }

    /// Whether it would be settled beside another that may have been, for one intent.
    fn is_a_second(&self, keeps: bool) -> bool {
        keeps && !self.own && !self.transfer.is_settled()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision<'c> {
    Refused(ReserveOutcome),
    /// This one is free: reserve it.
    Free(Candidate<'c>),
}

/// Decides by the low-water mark, the entry of the claim's intent, whether that keeps a payment that was not settled when it was
/// granted, the length of the claim's lease, and the candidates in the claim's order, which are read up to the first free one.
/// [`ReserveOutcome`] has the order of the refusals.
pub(super) fn decide<'c>(
    mark: ChainTime,
    intent: Option<Entry>,
    keeps: bool,
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
    if let Some(Entry::Held { left }) = intent {
        return Decision::Refused(ReserveOutcome::Busy { retry_after: left });
    }
    let mut frees_in = None::<Duration>;
    for candidate in unsold {
        let mut held_for = |left: Duration| frees_in = Some(frees_in.map_or(left, |least| least.min(left)));
        match candidate.entry {
            Some(Entry::Held { left }) => held_for(left),
            _ if candidate.is_anothers() || candidate.is_a_second(keeps) => held_for(lease),
            _ if candidate.transfer.block_time <= mark => {}
            _ => {
                return match candidate.cooling {
                    Some(retry_after) => Decision::Refused(ReserveOutcome::TooManyAttempts { retry_after }),
                    None => Decision::Free(candidate),
                };
            }
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
    use crate::protocol::{Address, Amount, Network, TxHash};

    const MARK: u64 = 1_000;
    const LEASE: Duration = Duration::from_secs(7);
    const SOLD: Option<Entry> = Some(Entry::Sold);
    const LAPSED: Option<Entry> = Some(Entry::Lapsed);

    fn paid(block_time: u64) -> Transfer {
        Transfer::new(Network::BASE, TxHash::new([1; 32]), 0)
            .with_token(Address::ZERO)
            .with_payer(Address::ZERO)
            .with_recipient(Address::ZERO)
            .with_amount(Amount::from_base_units(1))
            .with_block(1, ChainTime::from_unix(block_time))
    }

    fn held(seconds: u64) -> Option<Entry> {
        Some(Entry::Held { left: Duration::from_secs(seconds) })
    }

    fn busy(seconds: u64) -> ReserveOutcome {
        ReserveOutcome::Busy { retry_after: Duration::from_secs(seconds) }
    }

    /// Decides about candidates given as block time, entry and cool-down; returns which one is free, or the refusal.
    fn decided(intent: Option<Entry>, candidates: &[(u64, Option<Entry>, u64)]) -> Result<usize, ReserveOutcome> {
        let transfers: Vec<_> = candidates.iter().map(|(block_time, ..)| paid(*block_time)).collect();
        decided_of(intent, false, candidates, &transfers, false)
    }

    fn decided_of(
        intent: Option<Entry>,
        keeps: bool,
        candidates: &[(u64, Option<Entry>, u64)],
        transfers: &[Transfer],
        own: bool,
    ) -> Result<usize, ReserveOutcome> {
        let all = transfers.iter().zip(candidates).map(|(transfer, (_, entry, cooling))| Candidate {
            transfer,
            entry: *entry,
            own,
            cooling: Some(Duration::from_secs(*cooling)).filter(|span| !span.is_zero()),
        });
        match decide(ChainTime::from_unix(MARK), intent, keeps, LEASE, all) {
            Decision::Refused(reservation) => Err(reservation),
            Decision::Free(chosen) => {
                Ok(transfers.iter().position(|transfer| std::ptr::eq(transfer, chosen.transfer)).unwrap())
            }
        }
    }

    #[test]
    fn of_several_refusals_the_first_in_order_is_given() {
        let free = (MARK + 1, None, 0);
        let of_all = [(MARK + 1, SOLD, 0), (MARK + 1, held(9), 0), (MARK, None, 0)];
        assert_eq!(decided(SOLD, &[free]), Err(ReserveOutcome::IntentConsumed));
        assert_eq!(decided(SOLD, &[]), Err(ReserveOutcome::IntentConsumed));
        assert_eq!(decided(held(5), &[(MARK + 1, SOLD, 0)]), Err(ReserveOutcome::PaymentUsed));
        assert_eq!(decided(None, &[]), Err(ReserveOutcome::PaymentUsed));
        assert_eq!(decided(held(5), &of_all), Err(busy(5)), "the intent's own lease before the payment's");
        assert_eq!(decided(None, &of_all), Err(busy(9)), "a held payment before one at the mark");
        assert_eq!(decided(None, &[(MARK + 1, SOLD, 0), (MARK, None, 0)]), Err(ReserveOutcome::BeforeMemory));
        assert_eq!(decided(None, &[(MARK + 1, held(9), 0), (MARK + 1, held(4), 0)]), Err(busy(4)), "the first to end");
    }

    #[test]
    fn the_first_free_transfer_is_chosen() {
        for passed_over in [(MARK + 1, SOLD, 0), (MARK + 1, held(9), 0), (MARK, None, 0), (MARK, LAPSED, 0)] {
            for free in [(MARK + 1, None, 0), (MARK + 1, LAPSED, 0)] {
                assert_eq!(decided(None, &[passed_over, free, free]), Ok(1));
                assert_eq!(decided(LAPSED, &[passed_over, free]), Ok(1), "a lease that ran out is no obstacle");
            }
        }
    }

    #[test]
    fn what_cools_down_is_refused_rather_than_given_the_next_customers_payment() {
        let cooling = Err(ReserveOutcome::TooManyAttempts { retry_after: Duration::from_secs(60) });
        assert_eq!(decided(None, &[(MARK + 1, None, 60), (MARK + 1, None, 0)]), cooling);
        assert_eq!(
            decided(None, &[(MARK, None, 60), (MARK + 1, None, 0)]),
            Ok(1),
            "one at the mark is none to cool down for"
        );
        assert_eq!(decided(None, &[(MARK + 1, held(9), 60), (MARK + 1, None, 0)]), Ok(1));
    }

    #[test]
    #[allow(clippy::result_large_err, reason = "read at once")]
    fn a_lease_that_ran_out_keeps_an_unsettled_payment_for_its_own_intent() {
        let unsettled = |block_time| Transfer { transaction: TxHash::NONE, ..paid(block_time) };
        let lapsed = (MARK + 1, LAPSED, 0);
        #[allow(clippy::result_large_err, reason = "read at once")]
        let decided = |candidates: &[(u64, Option<Entry>, u64)], own| {
            let transfers: Vec<_> = candidates.iter().map(|(block_time, ..)| unsettled(*block_time)).collect();
            decided_of(None, false, candidates, &transfers, own)
        };
        assert_eq!(decided(&[lapsed], true), Ok(0));
        assert_eq!(decided(&[lapsed], false), Err(busy(7)), "as long as the claim's own lease");
        assert_eq!(decided(&[(MARK, LAPSED, 0)], false), Err(busy(7)), "as for a held payment, before the mark");
        assert_eq!(decided(&[(MARK + 1, LAPSED, 60)], false), Err(busy(7)), "and before a pause");
        assert_eq!(decided(&[lapsed, (MARK + 1, None, 0)], false), Ok(1));
        assert_eq!(decided(&[lapsed, (MARK + 1, held(4), 0)], false), Err(busy(4)), "the first to end");
        assert_eq!(decided(&[lapsed, (MARK + 1, held(9), 0)], false), Err(busy(7)));
        // A settled one beside it is taken over, whoever's it was.
        let transfers = [unsettled(MARK + 1), paid(MARK + 1)];
        assert_eq!(decided_of(None, false, &[lapsed, lapsed], &transfers, false), Ok(1));
    }

    #[test]
    fn an_intent_that_keeps_a_payment_gets_no_other_that_is_not_settled() {
        let unsettled = Transfer { transaction: TxHash::NONE, ..paid(MARK + 1) };
        let free = (MARK + 1, None, 0);
        let decided = |keeps, candidates: &[(u64, Option<Entry>, u64)], transfers: &[Transfer], own| {
            decided_of(LAPSED, keeps, candidates, transfers, own)
        };
        let one = std::slice::from_ref(&unsettled);
        assert_eq!(decided(true, &[free], one, false), Err(busy(7)), "as long as the claim's own lease");
        assert_eq!(decided(true, &[(MARK, None, 60)], one, false), Err(busy(7)), "before the mark, and a pause");
        assert_eq!(decided(true, &[(MARK + 1, held(4), 0)], one, false), Err(busy(4)));
        assert_eq!(decided(true, &[(MARK + 1, LAPSED, 0)], one, true), Ok(0), "the one that it keeps");
        assert_eq!(decided(false, &[free], one, false), Ok(0), "it keeps none");
        assert_eq!(decided(true, &[free, free], &[unsettled.clone(), paid(MARK + 1)], false), Ok(1), "a settled one");
    }
}
