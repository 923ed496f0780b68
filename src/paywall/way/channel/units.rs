//! Shared by the files of this way: amounts as the contract counts them, the time at which a voucher counts as shown, and the reply if a channel
//! is busy.

use crate::{
    paywall::refusal::{ASK_AGAIN, Problem},
    protocol::{Amount, ChainTime, ProblemCode},
};

/// Returns the problem if another request of this channel is under way.
pub(super) fn busy() -> Problem {
    Problem::after(ProblemCode::ChannelBusy, ASK_AGAIN)
}

/// Converts an amount to the contract's 128 bits. A larger amount becomes the maximum, as it would cover nothing more.
pub(super) fn units(amount: Amount) -> u128 {
    amount.to_u128().unwrap_or(u128::MAX)
}

/// Returns a time in a future block, and so after everything that the ledger has forgotten.
pub(super) const fn after_all_that_is_forgotten(head: ChainTime) -> ChainTime {
    ChainTime::from_unix(head.unix() + 1)
}
