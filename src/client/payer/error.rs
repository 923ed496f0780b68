//! `PayerError`: why a payer could not do as it was asked.

use crate::protocol::{Address, Network};

/// Why a payer could not do as it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayerError {
    /// The payer is on another chain.
    #[error("the wallet is on {wallet}, the payment is due on {asked}")]
    WrongNetwork {
        /// Where the payment is due.
        asked: Network,
        /// Where the wallet pays.
        wallet: Network,
    },
    /// No asset of the payment is there in that amount.
    #[error("{payer} has too little of the accepted tokens")]
    Funds {
        /// The account that should have paid.
        payer: Address,
    },
    /// The chain asks more for a transaction than the payer is allowed to spend on it.
    #[error("the chain's fees are above what the wallet may spend on them")]
    Fees,
    /// A token does not have the decimals that its asset says.
    #[error("{token} does not have the decimals that were expected of it")]
    Decimals {
        /// The token contract.
        token: Address,
    },
    /// Whoever was to be asked (a node, a custodian) did not answer, or not in time.
    #[error("{0}")]
    Unavailable(&'static str),
    /// Whoever was asked refused.
    #[error("{0}")]
    Refused(&'static str),
    /// What was recorded is none of this payer's.
    #[error("the recorded payment cannot be read: was it prepared by another kind of payer?")]
    Foreign,
    /// Anything else. Its text must hold no key and no URL that holds one.
    #[error("the payer failed")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}
