//! What a payer is told about a channel: with a sold answer, and if a voucher does not continue from the charged total.

use crate::{
    ledger::Account,
    paywall::{
        refusal::{Rejection, Requote},
        seller::channels::{
            Channel, Channels,
            record::{ChannelMemo, read_note},
        },
        way::channel::{shown::Vouched, units::units},
    },
    protocol::{
        Address, Amount, Network, TxHash,
        channel::{ChannelConfig, ChannelState, Correction, Voucher, VoucherState},
        v2::SettleResponse,
    },
    settle::ChannelOnChain,
};

/// Returns the state of a channel after `charged` in total.
pub(super) fn channel_state(channel: &Channel, state: &ChannelOnChain, charged: u128) -> ChannelState {
    let told = ChannelState::new(channel.id, state.balance, state.total_claimed)
        .with_refund_nonce(state.refund_nonce)
        .with_charged(Amount::from_base_units(charged));
    match state.withdraw_requested_at {
        Some(at) => told.with_withdrawal(at),
        None => told,
    }
}

/// Refuses a voucher of the channel's own signer that does not continue from the charged total. The reply states where to continue.
pub(super) fn correct(requote: Requote, channels: &Channels, vouched: &Vouched<'_>, account: &Account) -> Rejection {
    corrected(requote, channels, (&vouched.channel, vouched.voucher.max_claimable), account)
}

/// Refuses a voucher over the total `shown` in the same way.
pub(super) fn corrected(
    requote: Requote,
    channels: &Channels,
    (channel, shown): (&Channel, u128),
    account: &Account,
) -> Rejection {
    let nothing = ChannelOnChain::new(account.limit, Amount::ZERO);
    let state = account.claims.as_ref().and_then(|claims| read_note(&claims.note)).unwrap_or(nothing);
    let memo = ChannelMemo::read(&account.memo);
    let (network, ChannelConfig { payer, token, .. }) = (channels.network(), channel.config);
    // A voucher that a claim has shown is public, so a client that shows such a voucher learns of no later one.
    let last = memo.filter(|memo| !is_public(memo, &state, shown)).and_then(|memo| memo.last);
    let voucher = last.map(|last| VoucherState::from(&Voucher::new(channel.id, last.total, last.signature)));
    let state = channel_state(channel, &state, units(account.spent));
    let correction = Correction::new(network, token, &state, voucher.as_ref());
    requote.correct(network, payer, correction)
}

/// Returns whether a claim has shown a voucher over this total, so that anyone may hold it.
pub(super) fn is_public(memo: &ChannelMemo, state: &ChannelOnChain, shown: u128) -> bool {
    let claimed = units(state.claimed_at_most);
    memo.is_public(shown) || claimed > 0 && shown <= claimed
}

/// Returns the reply with a sold answer: its charge, the channel's state after it, and the deposit that was made for it.
pub(super) fn sold(
    network: Network,
    payer: Address,
    (charge, state): (u128, ChannelState),
    deposit: Option<(TxHash, u128)>,
) -> SettleResponse {
    let charge = Amount::from_base_units(charge);
    let told = match deposit {
        Some((transaction, amount)) => SettleResponse::settled(transaction, network)
            .with_amount(Amount::from_base_units(amount))
            .with_charge(charge)
            .with_channel_state(&state),
        None => SettleResponse::charged_to_channel(charge, &state, network),
    };
    told.with_payer(payer)
}
