//! The last state of the ledger's records that this process knows. They only grow, unless a backup overwrites the file.

use super::{
    super::{
        ReserveOutcome,
        sql::{chain, seconds},
    },
    asked::Asked,
    question::{Answer, MemoryChange, Question},
};

/// The records that were written or seen, and must exist from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The greatest fence.
    fence: i64,
    /// The last sale of this process.
    sale: Option<Sale>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sale {
    pub(super) fence: i64,
    pub(super) chain: i64,
    /// Once the chain's mark has reached this time, the sale may be forgotten and deleted from the book.
    pub(super) block_time: i64,
}

impl Record {
    pub(super) const fn sale(&self) -> Option<Sale> {
        self.sale
    }

    /// Compares the ledger's greatest fence, which is `None` if the last sale is missing. Returns whether nothing is
    /// missing.
    pub(super) fn meets(&mut self, fence: Option<i64>) -> bool {
        let whole = fence.is_some_and(|fence| fence >= self.fence);
        self.fence = self.fence.max(fence.unwrap_or(0));
        whole
    }

    /// Notes the records of an answered and committed batch.
    pub(super) fn grow(&mut self, batch: &[Asked]) {
        for asked in batch {
            match (&asked.question, &asked.answer) {
                (_, Some(Ok(Answer::Reserved(ReserveOutcome::Granted(lease))))) => {
                    self.fence = self.fence.max(lease.fencing_token().cast_signed());
                }
                (Question::Commit(lease, _), Some(Ok(Answer::Sold { only_now: true, .. }))) => {
                    let (fence, paid) = (lease.fencing_token().cast_signed(), lease.payment());
                    self.sale = Some(Sale { fence, chain: chain(paid.network()), block_time: seconds(paid.time()) });
                }
                _ => {}
            }
        }
        // A lowered mark no longer shows whether the sale may be forgotten.
        let lowers = |asked: &Asked| matches!(asked.question, Question::Memory(MemoryChange::Lower(..)));
        if batch.iter().any(lowers) {
            self.sale = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_went_back_or_misses_its_sale_is_not_whole() {
        let mut record = Record::default();
        for (shown, whole) in [
            (Some(0), true),
            (Some(7), true),
            (Some(7), true),
            (None, false),
            (Some(6), false),
            (Some(7), true),
            (Some(9), true),
            (Some(8), false),
        ] {
            assert_eq!(record.meets(shown), whole, "{shown:?}");
        }
    }
}
