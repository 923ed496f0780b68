//! The events in the contract's logs.

use alloy::{primitives::Log, sol_types::SolEventInterface as _};

use super::abi::sol::Channels::ChannelsEvents as Events;
use crate::protocol::{
    Address,
    channel::{BATCH_SETTLEMENT, ChannelId},
};

/// An event of the contract. Amounts are in base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelEvent {
    Deposited {
        channel: ChannelId,
        amount: u128,
        balance: u128,
    },
    Claimed {
        channel: ChannelId,
        amount: u128,
        total: u128,
    },
    /// A payout to a receiver, of all its channels of a token.
    Settled {
        receiver: Address,
        token: Address,
        amount: u128,
    },
    Refunded {
        channel: ChannelId,
        amount: u128,
    },
    /// In chain time, as Unix seconds.
    WithdrawInitiated {
        channel: ChannelId,
        amount: u128,
        finalize_after: u64,
    },
    WithdrawFinalized {
        channel: ChannelId,
        amount: u128,
    },
}

/// Parses a log; `None` if it is not one of these events of the contract.
pub(crate) fn read_event(log: &Log) -> Option<ChannelEvent> {
    if log.address.as_slice() != BATCH_SETTLEMENT.as_bytes() {
        return None;
    }
    let id = |id: alloy::primitives::B256| ChannelId::new(id.0);
    let account = |address: alloy::primitives::Address| Address::new(address.into_array());
    Some(match Events::decode_log(log).ok()?.data {
        Events::Deposited(event) => {
            ChannelEvent::Deposited { channel: id(event.channelId), amount: event.amount, balance: event.newBalance }
        }
        Events::Claimed(event) => {
            let (amount, total) = (event.claimAmount, event.newTotalClaimed);
            ChannelEvent::Claimed { channel: id(event.channelId), amount, total }
        }
        Events::Settled(event) => {
            let [receiver, token] = [event.receiver, event.token].map(account);
            ChannelEvent::Settled { receiver, token, amount: event.amount }
        }
        Events::Refunded(event) => ChannelEvent::Refunded { channel: id(event.channelId), amount: event.amount },
        Events::WithdrawInitiated(event) => {
            let (channel, finalize_after) = (id(event.channelId), event.finalizeAfter.to());
            ChannelEvent::WithdrawInitiated { channel, amount: event.amount, finalize_after }
        }
        Events::WithdrawFinalized(event) => {
            ChannelEvent::WithdrawFinalized { channel: id(event.channelId), amount: event.amount }
        }
    })
}
