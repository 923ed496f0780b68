//! `SettleError`: why nothing can be settled. It contains no URL, no key, and no text from a facilitator or a node.

use crate::protocol::{Address, Network};

/// An error of a [`Settler`](super::Settler): nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct SettleError {
    kind: SettleErrorKind,
}

/// The kind of a [`SettleError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettleErrorKind {
    /// No facilitator or node gave a usable answer in time.
    #[error("no facilitator or RPC endpoint answered in time; check that one is reachable")]
    Unavailable,
    /// The settling account has too little ether for gas.
    #[error("the settling account {account} has too little ether for gas; send it some")]
    OutOfGas {
        /// The account.
        account: Address,
    },
    /// Settling the payment would cost more gas than the allowed share of it.
    #[error(
        "gas costs more than the allowed share of the payment; wait until it is cheaper, or raise the price or `max_gas_share`"
    )]
    GasAbovePrice,
    /// Too many payments wait to be settled.
    #[error("too many payments wait to be settled; ask again")]
    Overloaded,
    /// The facilitator refused the request itself, because of its authorization or address.
    #[error("the facilitator refused the request (HTTP {status}); check its address and authorization")]
    Denied {
        /// The HTTP status.
        status: u16,
    },
    /// No facilitator or endpoint was named, or one has an unusable address.
    #[error("name at least one address, each an https URL, or http on loopback")]
    InvalidEndpoint,
    /// A setting is out of range.
    #[error("{what} is out of range; see its documentation")]
    InvalidSetting {
        /// The name of the setting.
        what: &'static str,
    },
    /// The key cannot be used.
    #[error("the key cannot be used; it is `0x` and 64 hexadecimal digits")]
    InvalidKey,
    /// The settler works only on other chains.
    #[error("payments on {network} are not settled there; name a facilitator or endpoint of that chain")]
    WrongChain {
        /// The chain of the merchant.
        network: Network,
    },
    /// A token states another domain than the configured one.
    #[error("token {token} states another EIP-712 domain than the one that is configured; leave it to be read")]
    WrongDomain {
        /// The token.
        token: Address,
    },
}

impl SettleError {
    /// Creates an error of this kind.
    #[must_use]
    pub const fn new(kind: SettleErrorKind) -> Self {
        Self { kind }
    }

    /// Creates an error of kind [`Unavailable`](SettleErrorKind::Unavailable).
    #[must_use]
    pub const fn unavailable() -> Self {
        Self::new(SettleErrorKind::Unavailable)
    }

    /// Returns the kind of this error.
    #[must_use]
    pub const fn kind(&self) -> &SettleErrorKind {
        &self.kind
    }

    /// Returns whether the error may pass by itself or after an operator's action, without a change of settings.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            SettleErrorKind::Unavailable
                | SettleErrorKind::OutOfGas { .. }
                | SettleErrorKind::GasAbovePrice
                | SettleErrorKind::Overloaded
        )
    }
}
