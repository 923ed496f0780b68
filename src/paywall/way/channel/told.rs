//! What is told of a channel: with a sold answer, and where a voucher does not follow on what was charged.

use crate::{
    ledger::Account,
    paywall::{
        refusal::{Correction, Rejection, Requote},
        seller::channels::{
            Channel, Channels,
            record::{ChannelMemo, read_note},
        },
        way::channel::charging::units,
    },
    protocol::{
        Address, Amount, Network, TxHash,
        channel::{ChannelState, VoucherState},
        v2::{Reason, SettleResponse},
    },
    settle::ChannelOnChain,
};

/// The state of a channel after so much was charged in all.
pub(super) fn channel_state(channel: &Channel, state: &ChannelOnChain, charged: u128) -> ChannelState {
    let told = ChannelState::new(channel.id, state.balance, state.total_claimed)
        .with_refund_nonce(state.refund_nonce)
        .with_charged(Amount::from_base_units(charged));
    match state.withdraw_requested_at {
        Some(at) => told.with_withdrawal(at),
        None => told,
    }
}

/// Refuses a voucher of the channel's own signer that does not follow on what was charged: the answer says where to go on.
pub(super) fn correct(requote: Requote, channels: &Channels, channel: &Channel, account: &Account) -> Rejection {
    let nothing = ChannelOnChain::new(account.limit, Amount::ZERO);
    let state = account.claims.as_ref().and_then(|claims| read_note(&claims.note)).unwrap_or(nothing);
    let last = ChannelMemo::read(&account.memo).and_then(|memo| memo.last);
    let correction = Correction {
        state: channel_state(channel, &state, units(account.spent)),
        voucher: last.map(|last| VoucherState::new(last.total, last.signature)),
    };
    requote.correct(channels.network(), channel.config.payer, correction)
}
