//! `Found`: what a voucher pays by, and the sale that it is for.

use super::charging::Charge;
use crate::{
    ledger::Account,
    protocol::{ChainTime, v2::Reason},
    settle::ChannelOnChain,
};

/// What is sold, apart from the voucher.
#[derive(Clone, Copy)]
pub(super) struct Sale {
    /// The digest of the request.
    pub(super) request: [u8; 16],
    /// Whether the quote covers the request at the present price.
    pub(super) honoured: bool,
    /// The chain's head.
    pub(super) head: ChainTime,
}

/// What was found.
pub(super) enum Found {
    /// It pays so, in a channel of that state.
    Pays(Charge, ChannelOnChain),
    /// It does not follow on what was charged.
    Corrected(Account),
    Refused(Reason),
}
