//! `Settling`: the record of a signed payment before its settlement.

use std::fmt;

use crate::protocol::{ChainTime, TxHash};

/// Marks the head of a payment that a settler confirmed. No chain time reaches it, and every database can store the
/// sum.
const CONFIRMED: u64 = 1 << 62;

/// The record of a begun settlement. A ledger keeps it durably from [`Ledger::settling`](super::Ledger::settling) on,
/// and returns it with the next lease of the same intent on the same payment.
///
/// ```
/// use tower_x402::{ledger::Settling, protocol::{ChainTime, TxHash}};
/// let begun = Settling::new([7; 16], ChainTime::from_unix(1_795_280_400));
/// let sent = begun.with_transaction(TxHash::new([0xab; 32]));
/// assert_eq!((begun.transaction, sent.request), (None, begun.request));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settling {
    /// The digest of the request that the payment is to buy.
    pub request: [u8; 16],
    /// The time of the chain's head before the first settlement under this intent. If the payment was settled earlier,
    /// others did it.
    pub head: ChainTime,
    /// The transaction that settles the payment, if known.
    pub transaction: Option<TxHash>,
}

impl Settling {
    /// Returns the record of a settlement for the request of this digest, without a transaction yet.
    #[must_use]
    pub const fn new(request: [u8; 16], head: ChainTime) -> Self {
        Self { request, head, transaction: None }
    }

    /// Sets the transaction that settles the payment.
    #[must_use]
    pub const fn with_transaction(mut self, transaction: TxHash) -> Self {
        self.transaction = Some(transaction);
        self
    }

    /// Returns the record of a payment that a settler confirmed at that time, for merchants without a verifier. A
    /// payment that was only sent has an ordinary head.
    pub(crate) const fn confirmed(request: [u8; 16], transaction: TxHash, at: ChainTime) -> Self {
        Self::new(request, ChainTime::from_unix(at.unix() | CONFIRMED)).with_transaction(transaction)
    }

    /// Returns the transaction that a settler confirmed, and when.
    pub(crate) fn confirmed_by(&self) -> Option<(TxHash, ChainTime)> {
        let at = self.head.unix();
        let transaction = self.transaction.filter(|_| at & CONFIRMED != 0)?;
        Some((transaction, ChainTime::from_unix(at & !CONFIRMED)))
    }
}

/// Omits the request's digest, which stands for a request that only its author should know.
impl fmt::Debug for Settling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Settling");
        shown.field("head", &self.head).field("transaction", &self.transaction).finish_non_exhaustive()
    }
}
