//! The contract's state of channels.

use alloy::{
    primitives::{B256, U256},
    sol_types::SolCall as _,
};

use super::abi::{account, sol};
use crate::protocol::{Address, channel::ChannelId};

/// The balance of a channel, in base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    /// The total of deposits minus refunds and withdrawals, claimed or not.
    pub(crate) balance: u128,
    pub(crate) total_claimed: u128,
}

/// A withdrawal that the payer began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Withdrawal {
    /// In base units.
    pub(crate) amount: u128,
    /// In chain time, as Unix seconds; zero if no withdrawal was begun.
    pub(crate) initiated_at: u64,
}

/// The claimed total of a receiver over all its channels of a token, in base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) total_claimed: u128,
    pub(crate) total_settled: u128,
}

/// Returns the call data of `channels(id)`.
pub(crate) fn channels(id: ChannelId) -> Vec<u8> {
    sol::channelsCall { channelId: B256::new(*id.as_bytes()) }.abi_encode()
}

/// Parses the answer of `channels`; `None` if it is not two numbers.
pub(crate) fn read_channel(returned: &[u8]) -> Option<Holding> {
    let [balance, total_claimed] = words(returned)?;
    Some(Holding { balance: balance.try_into().ok()?, total_claimed: total_claimed.try_into().ok()? })
}

/// Returns the call data of `pendingWithdrawals(id)`.
pub(crate) fn pending_withdrawals(id: ChannelId) -> Vec<u8> {
    sol::pendingWithdrawalsCall { channelId: B256::new(*id.as_bytes()) }.abi_encode()
}

/// Parses the answer of `pendingWithdrawals`; `None` if it is not two numbers.
pub(crate) fn read_withdrawal(returned: &[u8]) -> Option<Withdrawal> {
    let [amount, initiated_at] = words(returned)?;
    Some(Withdrawal { amount: amount.try_into().ok()?, initiated_at: initiated_at.try_into().ok()? })
}

/// Returns the call data of `refundNonce(id)`.
pub(crate) fn refund_nonce(id: ChannelId) -> Vec<u8> {
    sol::refundNonceCall { channelId: B256::new(*id.as_bytes()) }.abi_encode()
}

/// Parses the answer of `refundNonce`; `None` if it is not a number.
pub(crate) fn read_refund_nonce(returned: &[u8]) -> Option<u64> {
    let [nonce] = words(returned)?;
    nonce.try_into().ok()
}

/// Returns the call data of `receivers(receiver, token)`.
pub(crate) fn receivers(receiver: Address, token: Address) -> Vec<u8> {
    sol::receiversCall { receiver: account(receiver), token: account(token) }.abi_encode()
}

/// Parses the answer of `receivers`; `None` if it is not two numbers.
pub(crate) fn read_due(returned: &[u8]) -> Option<Due> {
    let [total_claimed, total_settled] = words(returned)?;
    Some(Due { total_claimed: total_claimed.try_into().ok()?, total_settled: total_settled.try_into().ok()? })
}

/// Splits the answer into exactly `N` words.
fn words<const N: usize>(returned: &[u8]) -> Option<[U256; N]> {
    let (words, rest) = returned.as_chunks::<32>();
    let words: [[u8; 32]; N] = rest.is_empty().then_some(words)?.try_into().ok()?;
    Some(words.map(U256::from_be_bytes))
}
