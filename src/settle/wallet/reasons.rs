//! `Method` and `Reasons`: what was signed, and in which words of the standard such a payment is refused.

use crate::protocol::v2::Reason;

/// What was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// An authorization of the token itself (EIP-3009).
    Authorization,
    /// A permit of Permit2. Whether an allowance for Permit2 is sent along.
    Permit { sponsored: bool },
}

/// The words of one method.
#[derive(Debug)]
pub(super) struct Reasons {
    /// The signature is not the payer's.
    pub(super) signature: Reason,
    /// The payer has too little.
    pub(super) funds: Reason,
    /// It is too late.
    pub(super) expired: Reason,
    /// It is too early.
    pub(super) early: Reason,
    /// The call fails for another reason.
    pub(super) fails: Reason,
    /// The contract that keeps the nonces does not answer for them.
    pub(super) no_keeper: Reason,
}

static OF_AUTHORIZATIONS: Reasons = Reasons {
    signature: Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE,
    funds: Reason::INSUFFICIENT_FUNDS,
    expired: Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALID_BEFORE,
    early: Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALID_AFTER,
    fails: Reason::INVALID_TRANSACTION_STATE,
    no_keeper: Reason::INVALID_PAYMENT_REQUIREMENTS,
};

static OF_PERMITS: Reasons = Reasons {
    signature: Reason::INVALID_PERMIT2_SIGNATURE,
    funds: Reason::PERMIT2_INSUFFICIENT_BALANCE,
    expired: Reason::PERMIT2_DEADLINE_EXPIRED,
    early: Reason::PERMIT2_NOT_YET_VALID,
    fails: Reason::PERMIT2_SIMULATION_FAILED,
    no_keeper: Reason::PERMIT2_PROXY_NOT_DEPLOYED,
};

impl Reasons {
    pub(super) const fn of(method: Method) -> &'static Self {
        match method {
            Method::Authorization => &OF_AUTHORIZATIONS,
            Method::Permit { .. } => &OF_PERMITS,
        }
    }
}
