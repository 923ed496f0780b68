//! Why a merchant or a layer cannot be built, and why a merchant cannot sell.

use std::time::Duration;

use crate::{
    ledger::LedgerError,
    protocol::{Address, Network, ParseError, SealingKeyError, channel::ChannelId},
    settle::SettleError,
    verify::VerifyError,
};

/// An error of [`Merchant`](crate::Merchant), [`MerchantBuilder`](crate::MerchantBuilder) and
/// [`X402Layer`](crate::X402Layer): a configuration that would sell wrongly, or a backend that does not answer.
///
/// [`is_transient`](Self::is_transient) separates an outage, after which building can be tried again, from a configuration that
/// must change. No variant carries a key, a URL, or text from a node or a database.
///
/// ```
/// # #[cfg(feature = "test-util")]
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use tower_x402::{BuildError, HealthError, Merchant, ledger::MemoryLedger};
/// # use tower_x402::{protocol::SealingKeys, testing::ScriptedVerifier, protocol::ChainTime, verify::VerifyError};
/// # let verifier = ScriptedVerifier::new(ChainTime::from_unix(1_795_280_000));
/// # verifier.outage(VerifyError::unavailable());
///
/// let merchant = Merchant::builder("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?)
///     .verifier(verifier)
///     .ledger(MemoryLedger::new())
///     .sealing_keys(SealingKeys::random()?);
/// match merchant.build().await {
///     Ok(merchant) => drop(merchant),
///     Err(error) if error.is_transient() => {
///         // Wait, and try again: here the verifier's node is down.
///         assert!(matches!(error, BuildError::Health(HealthError::Verifier(_))));
///     }
///     Err(error) => panic!("change the configuration: {error}"),
/// }
/// # Ok::<(), BuildError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Neither verifier nor settler was set, so nothing could tell whether a payment was made.
    #[error("no verifier: call `.verifier(…)`, `.settler(…)` or both, or nothing can tell whether a payment was made")]
    NoVerifier,
    /// [`accept_submitted_transfers`](crate::MerchantBuilder::accept_submitted_transfers) was set without a verifier, so nothing could see
    /// a transfer.
    #[error(
        "no verifier: with `.accept_submitted_transfers()` call `.verifier(…)` too, or nothing can see the transfers that are shown"
    )]
    NoVerifierForTransfers,
    /// A settler of [permits](crate::MerchantBuilder::permit_settler) was set without a verifier that checks signatures, so nothing could
    /// see what used a permit.
    #[error(
        "no verifier: with `.permit_settler(…)` call `.verifier(…)` too, with a verifier that checks signatures, or nothing can see whether a permit was used"
    )]
    NoVerifierForPermits,
    /// A settler of [channels](crate::MerchantBuilder::channel_settler) was set without a verifier that checks signatures, so nothing could
    /// tell under which domain a deposit is signed.
    #[error(
        "no verifier: with `.channel_settler(…)` call `.verifier(…)` too, with a verifier that checks signatures, or nothing can tell how a deposit is signed"
    )]
    NoVerifierForChannels,
    /// A settler was set beside a verifier that checks no [signatures](crate::verify::Verifier::signatures), so nothing could see whether
    /// a signed payment was used.
    #[error(
        "no signatures: with `.settler(…)` the verifier must check signatures, or nothing can see whether one was used"
    )]
    NoSignatures,
    /// Tools of MCP are paid for by the x402 standard, and this merchant takes no payment by it.
    #[error(
        "no payment by x402: with `.tools()` call `.settler(…)` or `.accept_submitted_transfers()` on the merchant's builder, or no client could pay for a call"
    )]
    NoStandard,
    /// A settler was set, and clients would be asked to make their signatures valid for so short a time that none could be settled.
    #[error(
        "no time to settle: clients would sign for {valid_for:?}, and {least:?} are needed at least; with `.settler(…)`, raise `max_payment_age` or `quote_ttl`"
    )]
    NoTimeToSettle {
        /// How long they would be valid.
        valid_for: Duration,
        /// How long they must be valid.
        least: Duration,
    },
    /// No ledger was set, so one payment would buy any number of answers.
    #[error("no ledger: call `.ledger(…)`, or one payment would buy any number of answers")]
    NoLedger,
    /// A route has a hook of [`on_sold`](crate::X402Layer::on_sold), and the ledger has no
    /// [announcements](crate::ledger::Ledger::announcements), so a crash between a sale and the hook would leave the sale unannounced.
    #[error("no announcements: `.on_sold(…)` needs a ledger that marks unannounced sales, as those of this crate do")]
    NoAnnouncements,
    /// A pass or channels were set up, and the ledger has no [accounts](crate::ledger::Ledger::accounts), so nothing could count what is
    /// used of them.
    #[error(
        "no accounts: passes and channels need a ledger that counts what is used of them, as those of this crate do"
    )]
    NoAccounts,
    /// A route was to accept a pass of another merchant, which may have another ledger and other keys.
    #[error("foreign pass: `{name}` is of another merchant; define it with the merchant of the route")]
    ForeignPass {
        /// The name of the pass.
        name: String,
    },
    /// No sealing keys were set, so quotes could be forged.
    #[error("no sealing keys: call `.sealing_keys(…)`, or anyone could forge a quote")]
    NoSealingKeys,
    /// The sealing keys cannot be used.
    #[error(transparent)]
    SealingKeys(#[from] SealingKeyError),
    /// An address or another text cannot be read.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// A recipient is the zero address or one of the accepted tokens.
    #[error(
        "invalid recipient {recipient}: the zero address or a token contract cannot be paid; use the seller's address"
    )]
    InvalidRecipient {
        /// The address.
        recipient: Address,
    },
    /// No token is known on this network, and none was set.
    #[error("no token: none is known on {network}; set one with `.asset(…)`")]
    NoAsset {
        /// The network of the merchant.
        network: Network,
    },
    /// A token is on another network than the merchant.
    #[error(
        "wrong network: token {contract} is on {asset} and the merchant on {merchant}; use a token of that network"
    )]
    WrongNetwork {
        /// The token.
        contract: Address,
        /// The network of the token.
        asset: Network,
        /// The network of the merchant.
        merchant: Network,
    },
    /// The accepted tokens have different decimals, so that one amount would mean two prices.
    #[error(
        "mixed decimals: token {contract} has {found}, the first one {expected}, and one amount would mean two prices; \
             accept tokens of the same decimals"
    )]
    MixedDecimals {
        /// The token that differs.
        contract: Address,
        /// The decimals of the first token.
        expected: u8,
        /// The decimals of this one.
        found: u8,
    },
    /// Two chains of a merchant have the same network.
    #[error("{network} is set twice: give each network one chain, with all of its tokens")]
    NetworkTwice {
        /// The network.
        network: Network,
    },
    /// A price is not a positive decimal number with at most the token's decimals.
    #[error("invalid price: it must be a positive decimal such as `0.49 USDC`, with at most {decimals} decimals")]
    InvalidPrice {
        /// The decimals of the accepted tokens.
        decimals: u8,
    },
    /// A price is in a currency that the merchant does not accept.
    #[error("wrong currency: this merchant accepts {symbol}; write the price in it")]
    WrongSymbol {
        /// The currency that the merchant accepts.
        symbol: String,
    },
    /// A resource, label, realm, symbol or contact is empty, too long, or has control characters.
    #[error("invalid text: {what} must have 1 to {max} characters, none of them a control character")]
    InvalidText {
        /// The setting.
        what: &'static str,
        /// The largest number of characters.
        max: usize,
    },
    /// One resource name was given two different prices or labels.
    #[error(
        "conflicting resource: `{resource}` has other terms already; clone its layer, or give this route another name"
    )]
    ConflictingResource {
        /// The name.
        resource: String,
    },
    /// An endpoint has a path that does not begin with `/` or contains more than plain ASCII and whole segments `{name}`, or a method that
    /// no document can have.
    #[error(
        "invalid endpoint `{path}`: give the path that is requested, such as `/reports/{{id}}`, and a method of HTTP"
    )]
    InvalidEndpoint {
        /// The path.
        path: String,
    },
    /// One endpoint was described for two resources.
    #[error(
        "conflicting endpoint: `{path}` is described for another resource already; one method and path sell one thing"
    )]
    ConflictingEndpoint {
        /// The path.
        path: String,
    },
    /// A duration is too short or too long.
    #[error("invalid duration: {what} must be between {min:?} and {max:?}")]
    InvalidDuration {
        /// The setting.
        what: &'static str,
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// A limit is zero, or otherwise out of range.
    #[error("invalid setting: {what} is out of range; see its documentation")]
    OutOfRange {
        /// The setting.
        what: &'static str,
    },
    /// The merchant cannot start: a backend does not answer, or contradicts the settings.
    /// [`is_transient`](Self::is_transient) tells the two apart.
    #[error(transparent)]
    Health(#[from] HealthError),
}

impl BuildError {
    /// Returns whether this is an outage, which may pass while every setting stays as it is.
    ///
    /// All other errors call for another configuration.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Health(error) if error.is_transient())
    }
}

/// For `?` while a merchant is built.
impl From<VerifyError> for BuildError {
    fn from(error: VerifyError) -> Self {
        Self::Health(error.into())
    }
}

/// For `?` while a merchant is built.
impl From<SettleError> for BuildError {
    fn from(error: SettleError) -> Self {
        Self::Health(error.into())
    }
}

/// For `?` while a merchant is built.
impl From<LedgerError> for BuildError {
    fn from(error: LedgerError) -> Self {
        Self::Health(error.into())
    }
}

/// The reason why sales cannot be made right now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HealthError {
    /// The verifier does not answer, or contradicts the settings.
    #[error("payments cannot be verified: {0}")]
    Verifier(#[from] VerifyError),
    /// Signed payments cannot be settled; transfers may be taken all the same.
    #[error("signed payments cannot be settled: {0}")]
    Settler(#[from] SettleError),
    /// The ledger does not answer, or cannot be used.
    #[error("sales cannot be recorded: {0}")]
    Ledger(#[from] LedgerError),
    /// The chain's head is before the time up to which the ledger refuses payments, as it is for a moment after a ledger has
    /// begun: a payment made now might be refused.
    #[error(
        "the chain is {} s before the time up to which the ledger refuses payments, so nothing is sold yet; \
         if that lasts, check this machine's clock and the node, or, for a chain that mines on demand, turn off the \
         verifier's `max_head_age`",
        by.as_secs()
    )]
    HeadBehindMark {
        /// How far the head is behind.
        by: Duration,
    },
    /// The merchant does not sell on the network that was asked for.
    #[error("nothing is sold on {network}: name one of the merchant's networks, or add it with `.chain(…)`")]
    NotSoldOn {
        /// The network.
        network: Network,
    },
    /// Sales in a channel have been unclaimed for half of its delay, counted from the first of them, or from when its payer began to
    /// withdraw.
    #[error(
        "what was sold in channel {channel} is not claimed, and may be lost: run `Merchant::claimer()`, see that its settler has ether, and read its log"
    )]
    ChannelAtRisk {
        /// The channel.
        channel: ChannelId,
    },
    /// One of the merchant's several [networks](crate::MerchantBuilder::chain) cannot sell. The others may.
    #[error("on {network}: {error}")]
    Network {
        /// The network.
        network: Network,
        /// What is wrong there.
        error: Box<HealthError>,
    },
}

impl HealthError {
    /// Returns whether this is an outage, which may pass while every setting stays as it is.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Verifier(error) => error.is_transient(),
            Self::Ledger(error) => error.is_transient(),
            Self::Settler(error) => error.is_transient(),
            Self::HeadBehindMark { .. } | Self::ChannelAtRisk { .. } => true,
            Self::NotSoldOn { .. } => false,
            Self::Network { error, .. } => error.is_transient(),
        }
    }
}
