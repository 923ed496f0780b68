//! What a builder can refuse: every misconfiguration is one of these before a request is served.

use std::time::Duration;

use crate::protocol::{Address, Network};

/// A configuration that would sell wrongly, and is therefore refused when building.
///
/// No variant carries a key, a URL or text from a node or a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No verifier was given: nobody could tell whether a payment was made.
    #[error("no verifier: call `.verifier(…)`, or nothing can tell whether a payment was made")]
    NoVerifier,
    /// No ledger was given: one payment would buy any number of answers.
    #[error("no ledger: call `.ledger(…)`, or one payment would buy any number of answers")]
    NoLedger,
    /// No sealing keys were given: quotes could be forged.
    #[error("no sealing keys: call `.sealing_keys(…)`, or anyone could forge a quote")]
    NoSealingKeys,
    /// The sealing keys cannot be used.
    #[error(transparent)]
    SealingKeys(#[from] crate::protocol::SealingKeyError),
    /// An address cannot be read.
    #[error(transparent)]
    Address(#[from] crate::protocol::ParseAddressError),
    /// The recipient is the zero address or one of the accepted tokens.
    #[error("the recipient {recipient} cannot be paid: it is zero or a token contract")]
    BadRecipient {
        /// The address that was given.
        recipient: Address,
    },
    /// No token is known for this chain, and none was named.
    #[error("no token is known on {network}: name one with `.asset(…)`")]
    NoAsset {
        /// The chain of the merchant.
        network: Network,
    },
    /// A token stands on another chain than the merchant.
    #[error("token {contract} is on {asset}, the merchant on {merchant}")]
    WrongNetwork {
        /// The token.
        contract: Address,
        /// Where it stands.
        asset: Network,
        /// Where the merchant is paid.
        merchant: Network,
    },
    /// The accepted tokens have different decimals, so that one amount would mean two prices.
    #[error("token {contract} has {found} decimals, the first one {expected}: one amount would mean two prices")]
    MixedDecimals {
        /// The token that differs.
        contract: Address,
        /// The decimals of the first token.
        expected: u8,
        /// The decimals of this one.
        found: u8,
    },
    /// A price is not a positive decimal number with at most the token's decimals.
    #[error("a price is a positive decimal such as `0.49 USDC`, with at most {decimals} decimals")]
    BadPrice {
        /// The decimals of the accepted tokens.
        decimals: u8,
    },
    /// A price names another currency than the merchant accepts.
    #[error("the price is in another currency than {symbol}, which the merchant accepts")]
    WrongSymbol {
        /// What the merchant accepts.
        symbol: String,
    },
    /// A resource, label, realm, symbol or contact is empty, too long, or has control characters.
    #[error("{what} must have 1 to {max} characters, none of them a control character")]
    BadText {
        /// Which setting.
        what: &'static str,
        /// How long it may be.
        max: usize,
    },
    /// One resource name was given two different prices or labels.
    #[error("resource `{resource}` has other terms already: clone its layer, or give this route a name of its own")]
    ConflictingResource {
        /// The name.
        resource: String,
    },
    /// A duration is zero or too long.
    #[error("{what} must be between {min:?} and {max:?}")]
    BadDuration {
        /// Which setting.
        what: &'static str,
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
    },
    /// A limit is zero or otherwise senseless.
    #[error("{what} is out of range")]
    OutOfRange {
        /// Which setting.
        what: &'static str,
    },
    /// The verifier could not vouch for its chain or tokens.
    #[error("the verifier cannot start: {0}")]
    Verifier(#[from] crate::verify::VerifyError),
    /// The ledger could not be started.
    #[error("the ledger cannot start: {0}")]
    Ledger(#[from] crate::ledger::LedgerError),
    /// The chain is before the ledger's mark, and did not reach it within half a minute.
    #[error("{}", HealthError::HeadBehindMark { seconds: *seconds })]
    HeadBehindMark {
        /// How far.
        seconds: u64,
    },
}

impl From<HealthError> for ConfigError {
    fn from(error: HealthError) -> Self {
        match error {
            HealthError::Verifier(error) => Self::Verifier(error),
            HealthError::Ledger(error) => Self::Ledger(error),
            HealthError::HeadBehindMark { seconds } => Self::HeadBehindMark { seconds },
        }
    }
}

/// Why sales cannot be made right now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HealthError {
    /// The chain cannot be asked.
    #[error("payments cannot be verified: {0}")]
    Verifier(#[from] crate::verify::VerifyError),
    /// The ledger cannot be written to.
    #[error("sales cannot be recorded: {0}")]
    Ledger(#[from] crate::ledger::LedgerError),
    /// The chain's head is before the time up to which the ledger refuses payments, as it is for a moment after a ledger has
    /// begun: who paid now might be refused.
    #[error(
        "the chain is {seconds} s before the time up to which the ledger refuses payments, so nothing is sold yet; \
         if that lasts, check this machine's clock and the node, or, for a chain that mines on demand, turn off the \
         verifier's `max_head_age`"
    )]
    HeadBehindMark {
        /// How far.
        seconds: u64,
    },
}
