//! `ChannelRequirements`: how to pay by the scheme `batch-settlement` on an EVM chain.

use serde::Serialize;
use serde_json::Value;

use super::{
    InvalidMessage, JsonObject,
    flow::{PERMIT2, TransferMethod},
    object::Object,
    requirements::common_requirements,
    values,
};
use crate::protocol::{
    Address, Amount, Asset, Network,
    channel::{ChannelConfig, ChannelState, ChannelTerms, VoucherState},
};

/// The only scheme of these requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Scheme {
    #[serde(rename = "batch-settlement")]
    BatchSettlement,
}

/// A demand by the scheme `batch-settlement` on an EVM chain: one entry of `accepts`, and the accepted entry in a
/// payment. The seller charges the cost of the answer, at most the amount, to a [channel](crate::protocol::channel).
///
/// ```
/// use tower_x402::protocol::{Amount, Asset, channel::ChannelTerms, v2::{ChannelRequirements, PaymentOption, PaymentRequired}};
/// let terms = ChannelTerms::new("0x90F79bf6EB2c4f870365E785982E1f101E93b906".parse()?, 900);
/// let pay_to = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse()?;
/// let offered = ChannelRequirements::new(&Asset::USDC_BASE_SEPOLIA, Amount::from_base_units(10_000), pay_to, 60, &terms)
///     .with_token_domain("USDC", "2");
/// let quote = PaymentRequired::from_json(PaymentRequired::new(offered.clone()).to_json())?;
/// let PaymentOption::Channel(read) = &quote.accepts[0] else { return Err("another scheme".into()) };
/// assert!(read.echoes(&offered));
/// assert_eq!(read.terms(), Some(terms));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChannelRequirements {
    scheme: Scheme,
    /// The chain.
    pub network: Network,
    /// The maximum cost of one answer, in base units: a voucher's total is exactly the total charged before plus this
    /// amount.
    pub amount: Amount,
    /// The token contract.
    pub asset: Address,
    /// The account to pay: the channel's receiver.
    pub pay_to: Address,
    /// How long a payment must be valid, in seconds.
    pub max_timeout_seconds: u64,
    /// The other members that the scheme needs.
    pub extra: JsonObject,
}

impl ChannelRequirements {
    /// Demands permission to charge up to this amount of a token, for this account, to a channel of these terms.
    #[must_use]
    pub fn new(
        token: &Asset,
        maximum: Amount,
        pay_to: Address,
        max_timeout_seconds: u64,
        terms: &ChannelTerms,
    ) -> Self {
        let extra =
            JsonObject::new().with(AUTHORIZER, terms.receiver_authorizer.to_string()).with(DELAY, terms.withdraw_delay);
        let extra = match terms.min_deposit {
            Some(least) => extra.with(MIN_DEPOSIT, least.to_string()),
            None => extra,
        };
        let (scheme, network, asset) = (Scheme::BatchSettlement, token.network(), token.contract());
        Self { scheme, network, amount: maximum, asset, pay_to, max_timeout_seconds, extra }
    }

    /// Demands deposits by Permit2, for tokens without EIP-3009.
    #[must_use]
    pub fn by_permit2(self) -> Self {
        self.with_extra(METHOD, PERMIT2)
    }

    /// Returns how the tokens of a deposit move.
    #[must_use]
    pub fn transfer_method(&self) -> TransferMethod {
        TransferMethod::of(&self.extra)
    }

    /// Returns the terms for the channel; `None` if a part is missing or malformed, or if the receiver authorizer is
    /// zero.
    #[must_use]
    pub fn terms(&self) -> Option<ChannelTerms> {
        let authorizer = self.extra.text(AUTHORIZER).and_then(values::address).filter(|key| *key != Address::ZERO)?;
        let delay = self.extra.get(DELAY).and_then(Value::as_u64).and_then(|delay| delay.try_into().ok())?;
        let terms = ChannelTerms::new(authorizer, delay);
        match self.extra.get(MIN_DEPOSIT) {
            Some(least) => Some(terms.with_min_deposit(least.as_str().and_then(values::amount)?)),
            None => Some(terms),
        }
    }

    /// Returns the channel that matches these requirements for a payer that signs its vouchers itself, with this
    /// salt; `None` if [`terms`](Self::terms) returns `None`.
    #[must_use]
    pub fn channel_of(&self, payer: Address, salt: [u8; 32]) -> Option<ChannelConfig> {
        let terms = self.terms()?;
        let config = ChannelConfig::new(payer, self.pay_to, self.asset)
            .with_receiver_authorizer(terms.receiver_authorizer)
            .with_withdraw_delay(terms.withdraw_delay)
            .with_salt(salt);
        Some(config)
    }

    /// Returns the channel's state from a corrective 402, if it is present and well-formed.
    #[must_use]
    pub fn channel_state(&self) -> Option<ChannelState> {
        self.extra.read_member("channelState", ChannelState::read)
    }

    /// Returns the voucher from a corrective 402, if it is present and well-formed.
    #[must_use]
    pub fn voucher_state(&self) -> Option<VoucherState> {
        self.extra.read_member("voucherState", VoucherState::read)
    }

    /// Returns whether this crate knows the transfer method of an option of the scheme.
    pub(super) fn is_known(object: &Object<'_>) -> bool {
        JsonObject::of(object, "extra")
            .is_ok_and(|extra| matches!(TransferMethod::of(&extra), TransferMethod::Eip3009 | TransferMethod::Permit2))
    }

    /// Reads requirements of the scheme `batch-settlement`.
    pub(super) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let seconds = object.json("maxTimeoutSeconds")?;
        Ok(Self {
            scheme: Scheme::BatchSettlement,
            network: object.required("network", values::network)?,
            amount: object.required("amount", values::amount)?,
            asset: object.required("asset", values::address)?,
            pay_to: object.required("payTo", values::address)?,
            max_timeout_seconds: seconds.ok_or(InvalidMessage::member("maxTimeoutSeconds"))?,
            extra: JsonObject::of(object, "extra")?,
        })
    }
}

const METHOD: &str = "assetTransferMethod";
const AUTHORIZER: &str = "receiverAuthorizer";
const DELAY: &str = "withdrawDelay";
const MIN_DEPOSIT: &str = "minDeposit";

common_requirements!(ChannelRequirements);
