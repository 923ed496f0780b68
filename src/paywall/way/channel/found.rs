//! `Found`: how a voucher pays, and the sale that it pays for.

use super::charging::Charge;
use crate::{
    ledger::Account,
    protocol::{ChainTime, v2::Reason},
    settle::ChannelOnChain,
};

/// A sale, apart from the voucher.
#[derive(Clone, Copy)]
pub(super) struct Sale {
    /// The digest of the request.
    pub(super) request: [u8; 16],
    /// Whether the quote covers the request at the present price.
    pub(super) honoured: bool,
    /// The chain's head.
    pub(super) head: ChainTime,
}

/// The refusal of a voucher that a claim has made public: it no longer proves that its payer wants a request. A correction would not help,
/// since its client has counted right, and would sign the same total again. So the reason differs from that for a wrong total.
pub(super) const IS_PUBLIC: Reason = Reason::INVALID_BATCH_SETTLEMENT_EVM_VOUCHER_SIGNATURE;

/// The result for a voucher.
pub(super) enum Found {
    /// The voucher pays in this way, in a channel of this state.
    Pays(Charge, ChannelOnChain),
    /// The voucher does not continue from the charged total.
    Corrected(Account),
    Refused(Reason),
}
