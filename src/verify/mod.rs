//! Verification of payments: a [`Verifier`] reads them from a chain. What was spent already is the ledger's to know.

mod erased;
mod error;
#[cfg(feature = "evm")]
pub mod evm;
mod history;

use std::{future::Future, time::Duration};

pub(crate) use erased::ErasedVerifier;
pub use error::{VerifyError, VerifyErrorKind};
pub use history::{TransferHistory, TransferQuery};

use crate::protocol::{
    Address, Amount, Asset, ChainTime, Network, PaymentSignature, Terms, TokenDomain, Transfer, TxHash,
};

/// Verifies whether a transaction pays what some terms ask.
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

    /// Returns the account among `accounts` that signed the message (EIP-191), or `None`.
    ///
    /// A plain account signs with its key: ECDSA over secp256k1, as 65 bytes with a `v` of 0, 1, 27 or 28 or as the 64 bytes of
    /// EIP-2098, with a low `s`. If the signature recovers to none of `accounts`, those with code are asked whether they accept it
    /// (EIP-1271).
    ///
    /// The layer calls this only for redemptions with a signature. An `Err` means that the chain could not be read; it says nothing
    /// about the signature.
    fn signer(
        &self,
        message: &str,
        signature: &PaymentSignature,
        accounts: &[Address],
    ) -> impl Future<Output = Result<Option<Address>, VerifyError>> + Send;

    /// Returns the EIP-712 domain under which authorizations (EIP-3009) of a token are signed, as its contract states it; `None` for a
    /// token without them.
    ///
    /// The layer calls this before the first quote, where a settler is set.
    fn domain(&self, token: Address) -> impl Future<Output = Result<Option<TokenDomain>, VerifyError>> + Send;

    /// Returns whether an authorization's nonce is used, at the chain's current head.
    ///
    /// The transaction is looked for from `since` on. `Unused` is said only where every endpoint that answers says so: the payer is
    /// told to sign anew.
    fn authorization(
        &self,
        token: Address,
        payer: Address,
        nonce: &[u8; 32],
        since: ChainTime,
    ) -> impl Future<Output = Result<NonceState, VerifyError>> + Send;

    /// Returns the time of the chain's current head.
    fn head(&self) -> impl Future<Output = Result<ChainTime, VerifyError>> + Send;

    /// Returns a chain time that is not before any payment seen so far. The records of a new ledger
    /// [begin](crate::ledger::Ledger::begin) there, and nothing is quoted until the head has reached it.
    ///
    /// The default is the head's time. After a restart that can be too early, if the node is a block behind the one that verified the
    /// last sale. Implementations for chains whose timestamps follow the time of day return the later of the two.
    fn horizon(&self) -> impl Future<Output = Result<ChainTime, VerifyError>> + Send {
        self.head()
    }
}

/// What the chain says of an authorization's nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum NonceState {
    /// It is not used. A transaction that is in no block yet may still use it, as long as the authorization is valid.
    Unused,
    /// This transaction used it: to pay someone. Whom, [`Verifier::verify`] tells.
    Used(TxHash),
    /// It is used, and no transaction that paid by it was found: it was cancelled, or used longer ago.
    Spent,
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
