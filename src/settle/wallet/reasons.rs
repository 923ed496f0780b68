//! `Method` and `Reasons`: the kind of signature, and the standard's refusal reasons for it.

use crate::protocol::v2::Reason;

/// The kind of signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// An authorization of the token itself (EIP-3009).
    Authorization,
    /// A permit of Permit2. `sponsored`: an allowance for Permit2 is sent along.
    Permit {
        sponsored: bool,
    },
    /// A deposit into a channel, by an authorization of the token.
    Deposit,
    /// A deposit into a channel, by a permit of Permit2.
    PermitDeposit,
    /// Signed by the settling account itself, for channels.
    Claim,
    Sweep,
    Refund,
}

impl Method {
    /// Returns whether a payer signed it, whose money it moves.
    pub(super) const fn is_payers(self) -> bool {
        !matches!(self, Self::Claim | Self::Sweep | Self::Refund)
    }
}

/// The refusal reasons of one method.
#[derive(Debug)]
pub(super) struct Reasons {
    /// The signature is not the payer's.
    pub(super) signature: Reason,
    /// The payer has too little.
    pub(super) funds: Reason,
    /// It has expired.
    pub(super) expired: Reason,
    /// It is not valid yet.
    pub(super) early: Reason,
    /// The call fails for another reason.
    pub(super) fails: Reason,
    /// The contract that should keep the nonces does not answer.
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

static OF_DEPOSITS: Reasons = Reasons {
    signature: Reason::INVALID_BATCH_SETTLEMENT_EVM_RECEIVE_AUTHORIZATION_SIGNATURE,
    funds: Reason::INVALID_BATCH_SETTLEMENT_EVM_INSUFFICIENT_BALANCE,
    expired: Reason::INVALID_BATCH_SETTLEMENT_EVM_PAYLOAD_AUTHORIZATION_VALID_BEFORE,
    early: Reason::INVALID_BATCH_SETTLEMENT_EVM_PAYLOAD_AUTHORIZATION_VALID_AFTER,
    fails: Reason::INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_SIMULATION_FAILED,
    no_keeper: Reason::INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_SIMULATION_FAILED,
};

static OF_PERMIT_DEPOSITS: Reasons = Reasons {
    signature: Reason::INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_INVALID_SIGNATURE,
    funds: Reason::INVALID_BATCH_SETTLEMENT_EVM_INSUFFICIENT_BALANCE,
    expired: Reason::INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_DEADLINE_EXPIRED,
    early: Reason::INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_SIMULATION_FAILED,
    fails: Reason::INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_SIMULATION_FAILED,
    no_keeper: Reason::INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_SIMULATION_FAILED,
};

/// One reason for every case.
macro_rules! all {
    ($word:ident) => {
        Reasons {
            signature: Reason::$word,
            funds: Reason::$word,
            expired: Reason::$word,
            early: Reason::$word,
            fails: Reason::$word,
            no_keeper: Reason::$word,
        }
    };
}

static OF_CLAIMS: Reasons = all!(INVALID_BATCH_SETTLEMENT_EVM_CLAIM_SIMULATION_FAILED);
static OF_SWEEPS: Reasons = all!(INVALID_BATCH_SETTLEMENT_EVM_SETTLE_SIMULATION_FAILED);
static OF_REFUNDS: Reasons = all!(INVALID_BATCH_SETTLEMENT_EVM_REFUND_SIMULATION_FAILED);

impl Reasons {
    pub(super) const fn of(method: Method) -> &'static Self {
        match method {
            Method::Authorization => &OF_AUTHORIZATIONS,
            Method::Permit { .. } => &OF_PERMITS,
            Method::Deposit => &OF_DEPOSITS,
            Method::PermitDeposit => &OF_PERMIT_DEPOSITS,
            Method::Claim => &OF_CLAIMS,
            Method::Sweep => &OF_SWEEPS,
            Method::Refund => &OF_REFUNDS,
        }
    }
}
