//! `PayerError`: the error of a payer.

use crate::{
    client::box_error::BoxError,
    protocol::{Address, Amount, Network},
};

/// The error of a [`Payer`](crate::client::Payer).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayerError {
    /// The payer does not pay on this network.
    #[error("the payment is due on {0}, where the wallet has no nodes: add a wallet on that network")]
    WrongNetwork(Network),
    /// The account holds too little of every accepted asset.
    #[error("{payer} holds too little of the accepted tokens: fund it")]
    Funds {
        /// The account that should have paid.
        payer: Address,
    },
    /// The account allows Permit2 to move less of the token than the payment needs.
    #[error("{0}")]
    Allowance(Box<MissingAllowance>),
    /// The chain's fees are above the payer's limit.
    #[error("the chain's fees exceed the wallet's limit: wait, or raise `max_fee_per_gas`")]
    Fees,
    /// A token's decimals differ from those of its asset.
    #[error("token {token} does not have the decimals that its asset states: check the asset")]
    Decimals {
        /// The token contract.
        token: Address,
    },
    /// The node or custodian did not answer, or not in time.
    #[error("{0}")]
    Unavailable(&'static str),
    /// The node, custodian or signer refused.
    #[error("{0}")]
    Refused(&'static str),
    /// This payer did not prepare the recorded payment.
    #[error(
        "the recorded transfer was not prepared by this payer: use the wallet and the chain that the journal was written with"
    )]
    Foreign,
    /// Any other error. Its text must not contain a key, nor a URL that contains one.
    #[error("the payer failed: see the source of this error")]
    Other(#[source] BoxError),
}

/// An allowance for Permit2 that is too small for a payment. Its text says how to make a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the account allows Permit2 to move {} of token {token}, and the payment takes {needed}: allow it with `buy allow --token {token} --amount {needed}`, or with `WalletPayer::allow_permit2`",
    allowance.to_decimal(*decimals), needed = needed.to_decimal(*decimals)
)]
#[non_exhaustive]
pub struct MissingAllowance {
    /// The token contract.
    pub token: Address,
    /// How much Permit2 may move, in base units.
    pub allowance: Amount,
    /// How much the payment needs, in base units.
    pub needed: Amount,
    /// The decimals of both.
    pub decimals: u8,
}

impl PayerError {
    /// Returns whether the payment belongs to another payer, which time will not change.
    pub(crate) const fn is_of_another_payer(&self) -> bool {
        matches!(self, Self::Foreign | Self::WrongNetwork(_))
    }
}
