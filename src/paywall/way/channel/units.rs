//! What the files of this way share: amounts as the contract has them, and the answer where a channel is in use.

use crate::{
    paywall::refusal::{ASK_AGAIN, Problem},
    protocol::{Amount, ProblemCode},
};

/// Another request of this channel is under way.
pub(super) fn busy() -> Problem {
    Problem::after(ProblemCode::ChannelBusy, ASK_AGAIN)
}

/// An amount of a channel: 128 bits, as the contract has it. What is more covers nothing more.
pub(super) fn units(amount: Amount) -> u128 {
    amount.to_u128().unwrap_or(u128::MAX)
}
