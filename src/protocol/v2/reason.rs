//! `Reason`: the standard's words for why a payment is refused.

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Serialize, Serializer};

use crate::protocol::ParseError;

/// The maximum length of a [`Reason`], in characters.
const REASON_MAX: usize = 128;

const INVALID: ParseError =
    ParseError::new("invalid reason: it has 1 to 128 of the characters A to Z, a to z, 0 to 9, _ - . and :");

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
        /// A word of the standard for why a payment is refused, or not settled yet.
        ///
        /// The words are open: facilitators have others beside the constants here. A reason is a single word, so that a foreign one can be
        /// passed on without passing on foreign prose.
        ///
        /// ```
        /// use tower_x402::protocol::v2::Reason;
        /// assert_eq!("insufficient_funds".parse(), Ok(Reason::INSUFFICIENT_FUNDS));
        /// assert_eq!("of_a_later_version".parse::<Reason>()?.as_str(), "of_a_later_version");
        /// assert!("connect to http://10.0.0.7 failed".parse::<Reason>().is_err());
        /// # Ok::<(), tower_x402::protocol::ParseError>(())
        /// ```
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub struct Reason(Cow<'static, str>);

        impl Reason {
            $($(#[$doc])* pub const $name: Self = Self(Cow::Borrowed($text));)+

            /// Every word that has a constant here.
            pub const KNOWN: &[Self] = &[$(Self::$name),+];
        }
    };
}

reasons! {
    /// The payer has less than the amount.
    INSUFFICIENT_FUNDS = "insufficient_funds";
    /// The signature is not the payer's over this authorization.
    INVALID_EXACT_EVM_PAYLOAD_SIGNATURE = "invalid_exact_evm_payload_signature";
    /// The authorization pays another account.
    INVALID_EXACT_EVM_PAYLOAD_RECIPIENT_MISMATCH = "invalid_exact_evm_payload_recipient_mismatch";
    /// The authorization is not valid yet.
    INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALID_AFTER = "invalid_exact_evm_payload_authorization_valid_after";
    /// The authorization is no longer valid, or not long enough to be settled.
    INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALID_BEFORE = "invalid_exact_evm_payload_authorization_valid_before";
    /// The authorization is not about exactly the amount.
    INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALUE_MISMATCH = "invalid_exact_evm_payload_authorization_value_mismatch";
    /// The authorization's nonce is used already.
    INVALID_EXACT_EVM_NONCE_ALREADY_USED = "invalid_exact_evm_nonce_already_used";
    /// The chain is not accepted.
    INVALID_NETWORK = "invalid_network";
    /// The payload is not what the scheme demands.
    INVALID_PAYLOAD = "invalid_payload";
    /// The requirements are none that were offered.
    INVALID_PAYMENT_REQUIREMENTS = "invalid_payment_requirements";
    /// The scheme is not the one that was offered.
    INVALID_SCHEME = "invalid_scheme";
    /// The scheme is not known.
    UNSUPPORTED_SCHEME = "unsupported_scheme";
    /// The message is of another version of the standard.
    INVALID_X402_VERSION = "invalid_x402_version";
    /// The signature is not the payer's over this permit.
    INVALID_PERMIT2_SIGNATURE = "invalid_permit2_signature";
    /// The permit is for another contract than the scheme's proxy.
    INVALID_PERMIT2_SPENDER = "invalid_permit2_spender";
    /// The permit pays another account.
    INVALID_PERMIT2_RECIPIENT_MISMATCH = "invalid_permit2_recipient_mismatch";
    /// The permit is no longer valid, or not long enough to be settled.
    PERMIT2_DEADLINE_EXPIRED = "permit2_deadline_expired";
    /// The permit is not valid yet.
    PERMIT2_NOT_YET_VALID = "permit2_not_yet_valid";
    /// The permit is not about exactly the amount.
    PERMIT2_AMOUNT_MISMATCH = "permit2_amount_mismatch";
    /// The permit is of another token.
    PERMIT2_TOKEN_MISMATCH = "permit2_token_mismatch";
    /// The payer has not allowed Permit2 to move so much of the token.
    PERMIT2_ALLOWANCE_REQUIRED = "permit2_allowance_required";
    /// The payer has less than the amount.
    PERMIT2_INSUFFICIENT_BALANCE = "permit2_insufficient_balance";
    /// The permit's nonce is used already.
    PERMIT2_INVALID_NONCE = "permit2_invalid_nonce";
    /// Nothing is to be charged.
    PERMIT2_INVALID_AMOUNT = "permit2_invalid_amount";
    /// Permit2 or the scheme's proxy is not on that chain.
    PERMIT2_PROXY_NOT_DEPLOYED = "permit2_proxy_not_deployed";
    /// The call that settles the permit fails, for a reason that is not told.
    PERMIT2_SIMULATION_FAILED = "permit2_simulation_failed";
    /// The allowance that was sent along is over another amount than the permit.
    PERMIT2_2612_AMOUNT_MISMATCH = "permit2_2612_amount_mismatch";
    /// The allowance that was sent along is of another account.
    EIP2612_FROM_MISMATCH = "eip2612_from_mismatch";
    /// The allowance that was sent along is of another token.
    EIP2612_ASSET_MISMATCH = "eip2612_asset_mismatch";
    /// The allowance that was sent along is for another contract than Permit2.
    EIP2612_SPENDER_NOT_PERMIT2 = "eip2612_spender_not_permit2";
    /// The allowance that was sent along is no longer valid, or not long enough to be used.
    EIP2612_DEADLINE_EXPIRED = "eip2612_deadline_expired";
    /// The allowance that was sent along is not of the extension's form.
    INVALID_EIP2612_EXTENSION_FORMAT = "invalid_eip2612_extension_format";
    /// The permit names another facilitator than the one that settles.
    UPTO_FACILITATOR_MISMATCH = "upto_facilitator_mismatch";
    /// More is to be charged than the permit allows.
    INVALID_UPTO_EVM_PAYLOAD_SETTLEMENT_EXCEEDS_AMOUNT = "invalid_upto_evm_payload_settlement_exceeds_amount";
    /// The transaction failed on the chain.
    INVALID_TRANSACTION_STATE = "invalid_transaction_state";
    /// Verifying failed for a reason that is not told.
    UNEXPECTED_VERIFY_ERROR = "unexpected_verify_error";
    /// Settling failed for a reason that is not told.
    UNEXPECTED_SETTLE_ERROR = "unexpected_settle_error";
    /// Not final: whether the payment settles is not known yet.
    SETTLEMENT_PENDING = "settlement_pending";
    /// The payment was settled before.
    DUPLICATE_SETTLEMENT = "duplicate_settlement";
}

impl Reason {
    /// Returns the word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads a foreign reason; prose becomes `otherwise`.
    pub(super) fn or(otherwise: Self) -> impl FnOnce(&str) -> Option<Self> {
        |text| Some(text.parse().unwrap_or(otherwise))
    }
}

impl FromStr for Reason {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
        let fits = (1..=REASON_MAX).contains(&text.len()) && text.bytes().all(plain);
        fits.then(|| Self(Cow::Owned(text.to_owned()))).ok_or(INVALID)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
