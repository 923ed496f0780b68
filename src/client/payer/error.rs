//! `PayerError`: why a payer could not do as it was asked.

use crate::{
    client::box_error::BoxError,
    protocol::{Address, Network},
};

/// The error of a [`Payer`](crate::client::Payer).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayerError {
    /// The payer is on another chain.
    #[error("the wallet is on {wallet}, and the payment is due on {asked}: use a wallet on that chain")]
    WrongNetwork {
        /// Where the payment is due.
        asked: Network,
        /// Where the wallet pays.
        wallet: Network,
    },
    /// The account holds too little of every accepted asset.
    #[error("{payer} holds too little of the accepted tokens: fund it")]
    Funds {
        /// The account that should have paid.
        payer: Address,
    },
    /// The chain's fees are above the payer's limit.
    #[error("the chain's fees exceed the wallet's limit: wait, or raise `max_fee_per_gas`")]
    Fees,
    /// A token does not have the decimals that its asset says.
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
