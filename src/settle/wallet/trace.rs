//! `Trace`: the effect of a settling call on the chain, which shows whether the call has happened.

use crate::{
    evm::{channel, eip3009, permit2},
    protocol::{
        Address,
        channel::{BATCH_SETTLEMENT, ChannelId},
        permit2::PERMIT2,
    },
    settle::questions,
};

/// The effect of a call on the chain. No call reverses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trace {
    /// The token has used this nonce of the payer.
    Authorization { token: Address, payer: Address, nonce: [u8; 32] },
    /// Permit2 has used this nonce of the payer.
    Permit { payer: Address, nonce: [u8; 32] },
    /// This total is claimed of each channel.
    Claims(Vec<(ChannelId, u128)>),
    /// The channel's refund with this nonce is made.
    Refund { channel: ChannelId, nonce: u64 },
    /// This total was swept to the receiver.
    Sweep { receiver: Address, token: Address, total: u128 },
}

impl Trace {
    /// Returns the contract that knows.
    pub(super) const fn keeper(&self) -> Address {
        match self {
            Self::Authorization { token, .. } => *token,
            Self::Permit { .. } => PERMIT2,
            Self::Claims(_) | Self::Refund { .. } | Self::Sweep { .. } => BATCH_SETTLEMENT,
        }
    }

    /// Returns the call that asks it.
    pub(super) fn question(&self) -> Vec<u8> {
        match self {
            Self::Authorization { payer, nonce, .. } => eip3009::authorization_state(*payer, nonce),
            Self::Permit { payer, nonce } => permit2::nonce_bitmap(*payer, nonce),
            Self::Claims(rows) => questions::claimed_of(rows.iter().map(|(channel, _)| *channel)),
            Self::Refund { channel, .. } => channel::refund_nonce(*channel),
            Self::Sweep { receiver, token, .. } => channel::receivers(*receiver, *token),
        }
    }

    /// Reads its answer: whether the effect is there; `None` if the answer is malformed.
    pub(super) fn read(&self, returned: &[u8]) -> Option<bool> {
        match self {
            Self::Authorization { .. } => eip3009::read_flag(returned),
            Self::Permit { nonce, .. } => permit2::read_used(returned, nonce),
            Self::Claims(rows) => {
                let claimed = questions::read_claimed_of(returned).filter(|claimed| claimed.len() == rows.len())?;
                Some(rows.iter().zip(claimed).all(|((_, total), claimed)| claimed >= *total))
            }
            Self::Refund { nonce, .. } => channel::read_refund_nonce(returned).map(|next| next > *nonce),
            Self::Sweep { total, .. } => channel::read_due(returned).map(|due| due.total_settled >= *total),
        }
    }
}
