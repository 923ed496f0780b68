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

/// A voucher that a claim has shown to everyone is no longer its payer's word for a request. No correction helps there: its client has counted
/// right, and would sign the same total again. So this is another word than that for a wrong total.
pub(super) const IS_PUBLIC: Reason = Reason::INVALID_BATCH_SETTLEMENT_EVM_VOUCHER_SIGNATURE;

/// What was found.
pub(super) enum Found {
    /// It pays so, in a channel of that state.
    Pays(Charge, ChannelOnChain),
    /// It does not follow on what was charged.
    Corrected(Account),
    Refused(Reason),
}
