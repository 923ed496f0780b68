//! `Reason`: the standard's codes for why a payment is refused.

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Serialize, Serializer};

use crate::protocol::ParseError;

/// The maximum length of a [`Reason`], in characters.
const REASON_MAX: usize = 128;

const INVALID: ParseError =
    ParseError::new("invalid reason: it has 1 to 128 of the characters A to Z, a to z, 0 to 9, _ - . and :");

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
        /// A code of the standard for why a payment is refused, or not settled yet.
        ///
        /// The set is open: facilitators have codes besides the constants here. A reason is a single word, so a
        /// foreign one can be passed on without passing on foreign prose.
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

            /// All codes that have a constant here.
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
    /// The requirements were not offered.
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
    /// The amount to charge is zero.
    PERMIT2_INVALID_AMOUNT = "permit2_invalid_amount";
    /// Permit2 or the scheme's proxy is not deployed on that chain.
    PERMIT2_PROXY_NOT_DEPLOYED = "permit2_proxy_not_deployed";
    /// The call that settles the permit fails, for an unstated reason.
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
    /// The charge exceeds the permit's amount.
    INVALID_UPTO_EVM_PAYLOAD_SETTLEMENT_EXCEEDS_AMOUNT = "invalid_upto_evm_payload_settlement_exceeds_amount";
    /// The account that signs as receiver authorizer is not the channel's.
    INVALID_BATCH_SETTLEMENT_EVM_AUTHORIZER_ADDRESS_MISMATCH = "invalid_batch_settlement_evm_authorizer_address_mismatch";
    /// No key is configured for the channel's receiver authorizer.
    INVALID_BATCH_SETTLEMENT_EVM_AUTHORIZER_NOT_CONFIGURED = "invalid_batch_settlement_evm_authorizer_not_configured";
    /// Another request is using the channel.
    INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_BUSY = "invalid_batch_settlement_evm_channel_busy";
    /// The channel's id is not of the scheme's form.
    INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_ID_INVALID = "invalid_batch_settlement_evm_channel_id_invalid";
    /// The channel's id is not that of its config.
    INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_ID_MISMATCH = "invalid_batch_settlement_evm_channel_id_mismatch";
    /// The channel holds no deposit.
    INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_NOT_FOUND = "invalid_batch_settlement_evm_channel_not_found";
    /// The charge exceeds the voucher's total.
    INVALID_BATCH_SETTLEMENT_EVM_CHARGE_EXCEEDS_SIGNED_CUMULATIVE = "invalid_batch_settlement_evm_charge_exceeds_signed_cumulative";
    /// The claim fails, for an unstated reason.
    INVALID_BATCH_SETTLEMENT_EVM_CLAIM_SIMULATION_FAILED = "invalid_batch_settlement_evm_claim_simulation_failed";
    /// The transaction of the claim failed on the chain.
    INVALID_BATCH_SETTLEMENT_EVM_CLAIM_TRANSACTION_FAILED = "invalid_batch_settlement_evm_claim_transaction_failed";
    /// The voucher's total is not the charged total plus the price.
    INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_AMOUNT_MISMATCH = "invalid_batch_settlement_evm_cumulative_amount_mismatch";
    /// The voucher's total is less than the claimed total.
    INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_BELOW_CLAIMED = "invalid_batch_settlement_evm_cumulative_below_claimed";
    /// The voucher's total is more than the channel holds.
    INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_EXCEEDS_BALANCE = "invalid_batch_settlement_evm_cumulative_exceeds_balance";
    /// The deposit is less than the seller's minimum.
    INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_BELOW_MIN_DEPOSIT = "invalid_batch_settlement_evm_deposit_below_min_deposit";
    /// The deposit fails, for an unstated reason.
    INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_SIMULATION_FAILED = "invalid_batch_settlement_evm_deposit_simulation_failed";
    /// The transaction of the deposit failed on the chain.
    INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_TRANSACTION_FAILED = "invalid_batch_settlement_evm_deposit_transaction_failed";
    /// The allowance that was sent along is over another amount than the deposit.
    INVALID_BATCH_SETTLEMENT_EVM_EIP2612_AMOUNT_MISMATCH = "invalid_batch_settlement_evm_eip2612_amount_mismatch";
    /// The allowance that was sent along is of another token.
    INVALID_BATCH_SETTLEMENT_EVM_EIP2612_ASSET_MISMATCH = "invalid_batch_settlement_evm_eip2612_asset_mismatch";
    /// The allowance that was sent along is no longer valid.
    INVALID_BATCH_SETTLEMENT_EVM_EIP2612_DEADLINE_EXPIRED = "invalid_batch_settlement_evm_eip2612_deadline_expired";
    /// The allowance that was sent along is of another account.
    INVALID_BATCH_SETTLEMENT_EVM_EIP2612_OWNER_MISMATCH = "invalid_batch_settlement_evm_eip2612_owner_mismatch";
    /// The allowance that was sent along is for another contract than Permit2.
    INVALID_BATCH_SETTLEMENT_EVM_EIP2612_SPENDER_MISMATCH = "invalid_batch_settlement_evm_eip2612_spender_mismatch";
    /// The payer's account would be deployed by a factory that is not accepted.
    INVALID_BATCH_SETTLEMENT_EVM_EIP6492_FACTORY_NOT_ALLOWED = "invalid_batch_settlement_evm_eip6492_factory_not_allowed";
    /// The approval that was sent along cannot be used.
    INVALID_BATCH_SETTLEMENT_EVM_ERC20_APPROVAL_UNAVAILABLE = "invalid_batch_settlement_evm_erc20_approval_unavailable";
    /// The deposit has no EIP-3009 authorization.
    INVALID_BATCH_SETTLEMENT_EVM_ERC3009_AUTHORIZATION_REQUIRED = "invalid_batch_settlement_evm_erc3009_authorization_required";
    /// The payer has less than the deposit.
    INVALID_BATCH_SETTLEMENT_EVM_INSUFFICIENT_BALANCE = "invalid_batch_settlement_evm_insufficient_balance";
    /// The seller has no record of the channel.
    INVALID_BATCH_SETTLEMENT_EVM_MISSING_CHANNEL = "invalid_batch_settlement_evm_missing_channel";
    /// The requirements omit the token's domain.
    INVALID_BATCH_SETTLEMENT_EVM_MISSING_EIP712_DOMAIN = "invalid_batch_settlement_evm_missing_eip712_domain";
    /// The payment is for another chain.
    INVALID_BATCH_SETTLEMENT_EVM_NETWORK_MISMATCH = "invalid_batch_settlement_evm_network_mismatch";
    /// Everything claimed is paid out already.
    INVALID_BATCH_SETTLEMENT_EVM_NOTHING_TO_SETTLE = "invalid_batch_settlement_evm_nothing_to_settle";
    /// The deposit is not valid yet.
    INVALID_BATCH_SETTLEMENT_EVM_PAYLOAD_AUTHORIZATION_VALID_AFTER = "invalid_batch_settlement_evm_payload_authorization_valid_after";
    /// The deposit is no longer valid, or not long enough to be settled.
    INVALID_BATCH_SETTLEMENT_EVM_PAYLOAD_AUTHORIZATION_VALID_BEFORE = "invalid_batch_settlement_evm_payload_authorization_valid_before";
    /// The payload's type is unknown.
    INVALID_BATCH_SETTLEMENT_EVM_PAYLOAD_TYPE = "invalid_batch_settlement_evm_payload_type";
    /// The payer has not allowed Permit2 to move so much of the token.
    INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_ALLOWANCE_REQUIRED = "invalid_batch_settlement_evm_permit2_allowance_required";
    /// The permit is over another amount than the deposit.
    INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_AMOUNT_MISMATCH = "invalid_batch_settlement_evm_permit2_amount_mismatch";
    /// The deposit has no Permit2 authorization.
    INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_AUTHORIZATION_REQUIRED = "invalid_batch_settlement_evm_permit2_authorization_required";
    /// The permit is no longer valid, or not long enough to be settled.
    INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_DEADLINE_EXPIRED = "invalid_batch_settlement_evm_permit2_deadline_expired";
    /// The signature is not the payer's over this permit.
    INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_INVALID_SIGNATURE = "invalid_batch_settlement_evm_permit2_invalid_signature";
    /// The permit is for another contract than the collector.
    INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_INVALID_SPENDER = "invalid_batch_settlement_evm_permit2_invalid_spender";
    /// The signature is not the payer's over this deposit.
    INVALID_BATCH_SETTLEMENT_EVM_RECEIVE_AUTHORIZATION_SIGNATURE = "invalid_batch_settlement_evm_receive_authorization_signature";
    /// The channel has another receiver authorizer than the one that was offered.
    INVALID_BATCH_SETTLEMENT_EVM_RECEIVER_AUTHORIZER_MISMATCH = "invalid_batch_settlement_evm_receiver_authorizer_mismatch";
    /// The channel pays another account.
    INVALID_BATCH_SETTLEMENT_EVM_RECEIVER_MISMATCH = "invalid_batch_settlement_evm_receiver_mismatch";
    /// The refund's amount is invalid.
    INVALID_BATCH_SETTLEMENT_EVM_REFUND_AMOUNT_INVALID = "invalid_batch_settlement_evm_refund_amount_invalid";
    /// Nothing is left in the channel.
    INVALID_BATCH_SETTLEMENT_EVM_REFUND_NO_BALANCE = "invalid_batch_settlement_evm_refund_no_balance";
    /// The refund is not of the scheme's form.
    INVALID_BATCH_SETTLEMENT_EVM_REFUND_PAYLOAD = "invalid_batch_settlement_evm_refund_payload";
    /// The refund fails, for an unstated reason.
    INVALID_BATCH_SETTLEMENT_EVM_REFUND_SIMULATION_FAILED = "invalid_batch_settlement_evm_refund_simulation_failed";
    /// The transaction of the refund failed on the chain.
    INVALID_BATCH_SETTLEMENT_EVM_REFUND_TRANSACTION_FAILED = "invalid_batch_settlement_evm_refund_transaction_failed";
    /// The chain could not be read.
    INVALID_BATCH_SETTLEMENT_EVM_RPC_READ_FAILED = "invalid_batch_settlement_evm_rpc_read_failed";
    /// The scheme is not the one that was offered.
    INVALID_BATCH_SETTLEMENT_EVM_SCHEME = "invalid_batch_settlement_evm_scheme";
    /// Paying out fails, for an unstated reason.
    INVALID_BATCH_SETTLEMENT_EVM_SETTLE_SIMULATION_FAILED = "invalid_batch_settlement_evm_settle_simulation_failed";
    /// The transaction that pays out failed on the chain.
    INVALID_BATCH_SETTLEMENT_EVM_SETTLE_TRANSACTION_FAILED = "invalid_batch_settlement_evm_settle_transaction_failed";
    /// The payer's account could not be deployed.
    INVALID_BATCH_SETTLEMENT_EVM_SMART_WALLET_DEPLOYMENT_FAILED = "invalid_batch_settlement_evm_smart_wallet_deployment_failed";
    /// The channel is of another token.
    INVALID_BATCH_SETTLEMENT_EVM_TOKEN_MISMATCH = "invalid_batch_settlement_evm_token_mismatch";
    /// The known state of the channel is too old, and cannot be refreshed now.
    INVALID_BATCH_SETTLEMENT_EVM_VERIFICATION_STATE_UNAVAILABLE = "invalid_batch_settlement_evm_verification_state_unavailable";
    /// The signature is not the payer authorizer's over this voucher, or the contract rejects it.
    INVALID_BATCH_SETTLEMENT_EVM_VOUCHER_SIGNATURE = "invalid_batch_settlement_evm_voucher_signature";
    /// The channel has another withdraw delay than the one that was offered.
    INVALID_BATCH_SETTLEMENT_EVM_WITHDRAW_DELAY_MISMATCH = "invalid_batch_settlement_evm_withdraw_delay_mismatch";
    /// The channel has a withdraw delay that the contract does not allow.
    INVALID_BATCH_SETTLEMENT_EVM_WITHDRAW_DELAY_OUT_OF_RANGE = "invalid_batch_settlement_evm_withdraw_delay_out_of_range";
    /// The transaction failed on the chain.
    INVALID_TRANSACTION_STATE = "invalid_transaction_state";
    /// Verifying failed, for an unstated reason.
    UNEXPECTED_VERIFY_ERROR = "unexpected_verify_error";
    /// Settling failed, for an unstated reason.
    UNEXPECTED_SETTLE_ERROR = "unexpected_settle_error";
    /// Not final: whether the payment settles is still unknown.
    SETTLEMENT_PENDING = "settlement_pending";
    /// The payment was settled before.
    DUPLICATE_SETTLEMENT = "duplicate_settlement";
}

impl Reason {
    /// Returns the code.
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
