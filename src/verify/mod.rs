//! Verification of payments: a [`Verifier`] reads them from a chain. The ledger knows which of them are spent.

mod erased;
mod error;
#[cfg(feature = "evm")]
pub(crate) mod evm;
mod history;
mod signatures;

use std::{future::Future, time::Duration};

pub(crate) use erased::ErasedVerifier;
pub use error::{VerifyError, VerifyErrorKind};
#[cfg(all(feature = "bench-internals", feature = "evm"))]
#[doc(hidden)]
pub use evm::bench;
#[cfg(feature = "evm")]
pub use evm::{EvmVerifier, EvmVerifierBuilder, Finality};
pub use history::{TransferHistory, TransferQuery};
pub use signatures::{NonceState, Signatures};

use crate::protocol::{Amount, Asset, ChainTime, Network, Terms, Transfer, TxHash};

/// Verifies whether a transaction pays what the terms ask.
///
/// An `Err` means that the chain could not be read. Everything that was read from it is a [`Verdict`]. A verdict is valid for its
/// terms, at the moment it is given, and must not be cached.
///
/// Dropping a returned future must be harmless. A verifier sets its own time limits. The layer waits 10 seconds at most, and then
/// answers as for an `Err`.
pub trait Verifier: Send + Sync + 'static {
    /// Checks, before the first sale, that this is the right chain and that each token has the decimals that are configured.
    fn check(&self, network: Network, assets: &[Asset]) -> impl Future<Output = Result<(), VerifyError>> + Send;

    /// Verifies one transaction against these terms, at the current head of the chain.
    fn verify(&self, terms: &Terms, transaction: TxHash) -> impl Future<Output = Result<Verdict, VerifyError>> + Send;

    /// Returns the time of the chain's current head.
    fn head(&self) -> impl Future<Output = Result<ChainTime, VerifyError>> + Send;

    /// Returns a chain time that is not before any payment seen so far. The records of a new ledger
    /// [begin](crate::ledger::Ledger::begin) there, and nothing is quoted until the head has reached it.
    ///
    /// The head's time can be too early after a restart, if the node is a block behind the one that verified the last sale. A verifier
    /// for a chain whose timestamps follow the time of day returns the later of the two; a wrapper asks the inner verifier.
    fn horizon(&self) -> impl Future<Output = Result<ChainTime, VerifyError>> + Send;

    /// Returns the capability to check signatures, `None` by default. Without it this verifier reads transfers alone: a payer cannot
    /// prove a payment by a signature, and a merchant with this verifier and a settler does not build.
    fn signatures(&self) -> Option<&impl Signatures> {
        None::<&signatures::NoSignatures>
    }
}

/// The result of verifying one transaction against one set of terms at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Verdict {
    /// At least one transfer qualifies by itself.
    Paid {
        /// All transfers that qualify, in the order of the receipt.
        transfers: Vec<Transfer>,
        /// The time of the chain's head when they were verified.
        head: ChainTime,
    },
    /// The transaction is unknown, pending, or not deep enough yet.
    NotConfirmed {
        /// When to ask again.
        retry_after: Duration,
    },
    /// The transaction is final and transfers no accepted token to the recipient.
    NoTransfer,
    /// The transaction is final, and its largest such transfer is below the price.
    Insufficient {
        /// The amount of the largest single transfer.
        paid: Amount,
    },
    /// The transaction was mined longer ago than the terms allow.
    TooOld,
}
