//! Is it paid? The [`Verifier`] asks a chain; it knows nothing of what was spent already.

mod erased;
mod error;
#[cfg(feature = "evm")]
pub mod evm;

use std::{future::Future, time::Duration};

pub(crate) use erased::ErasedVerifier;
pub use error::{VerifyError, VerifyErrorKind};

use crate::protocol::{Amount, Asset, ChainTime, Network, Terms, Transfer, TxHash};

/// Tells whether a transaction pays what some terms ask.
///
/// An `Err` means only that the chain could not be asked; everything the chain says is a [`Verdict`].
/// A verdict holds for the very terms and the very moment it was given for, and must not be cached.
///
/// Dropping a returned future must be harmless. A verifier bounds its own waiting: the layer gives up on a verdict
/// after 10 seconds, as if the chain could not be asked.
pub trait Verifier: Send + Sync + 'static {
    /// Checks, before the first sale, that the chain is the one it is said to be and each token has the
    /// decimals it is said to have.
    fn check(&self, network: Network, assets: &[Asset]) -> impl Future<Output = Result<(), VerifyError>> + Send;

    /// Judges one transaction by these terms, at the present head of the chain.
    fn verify(&self, terms: &Terms, transaction: TxHash) -> impl Future<Output = Result<Verdict, VerifyError>> + Send;

    /// The time of the chain's present head.
    fn head(&self) -> impl Future<Output = Result<ChainTime, VerifyError>> + Send;

    /// A time that no payment has passed which anybody was shown until now: where a ledger's memory
    /// [begins](crate::ledger::Ledger::begin). Nothing is quoted before the head has reached it.
    ///
    /// By default the head's time. That is too early where the node behind it is a block behind the one that showed the last
    /// sale before a restart: a chain that keeps the time of day answers with the later of the two.
    fn horizon(&self) -> impl Future<Output = Result<ChainTime, VerifyError>> + Send {
        self.head()
    }
}

/// What the chain says of one transaction, under one set of terms, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Verdict {
    /// It has these transfers that qualify, each on its own; at least one.
    Paid {
        /// All that qualify, in the order of the receipt.
        transfers: Vec<Transfer>,
        /// The head that they were judged at.
        head: ChainTime,
    },
    /// Unknown, pending, or not deep enough yet.
    NotConfirmed {
        /// When to ask again.
        retry_after: Duration,
    },
    /// Final, without a transfer of an accepted token to the recipient.
    NoTransfer,
    /// Final, with such transfers, the largest of which is below the price.
    Insufficient {
        /// The largest single one.
        paid: Amount,
    },
    /// Final, and mined longer ago than the terms allow.
    TooOld,
}
