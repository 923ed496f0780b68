//! The contract of payment channels: its signers, its settlement calls, and its answers.

mod abi;
mod batch;
mod calls;
#[cfg(test)]
mod events;
mod signers;
#[cfg(test)]
mod tests;
mod views;

pub(crate) use batch::{changes_channels, claim_directly, read_results};
#[cfg(all(feature = "client", feature = "wallet"))]
pub(crate) use calls::{begin_withdrawal, end_withdrawal};
pub(crate) use calls::{claim, deposit, multicall, refund, settle};
#[cfg(test)]
pub(crate) use events::{ChannelEvent, read_event};
pub(crate) use signers::deposit_signer;
pub(crate) use views::{
    Due, channels, pending_withdrawals, read_channel, read_due, read_refund_nonce, read_withdrawal, receivers,
    refund_nonce,
};
