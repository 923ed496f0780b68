//! Shared by the files of this way: amounts as the contract counts them, and the reply if a channel is busy.

use crate::{
    paywall::refusal::{ASK_AGAIN, Problem},
    protocol::{Amount, ProblemCode},
};

/// Returns the problem if another request of this channel is under way.
pub(super) fn busy() -> Problem {
    Problem::after(ProblemCode::ChannelBusy, ASK_AGAIN)
}

/// Converts an amount to the contract's 128 bits. A larger amount becomes the maximum, as it would cover nothing more.
pub(super) fn units(amount: Amount) -> u128 {
    amount.to_u128().unwrap_or(u128::MAX)
}
