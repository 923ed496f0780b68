//! `UpToRequirements`: how to pay by the scheme `upto` on an EVM chain.

use serde::Serialize;

use super::{InvalidMessage, JsonObject, flow::PERMIT2, object::Object, requirements::common_requirements, values};
use crate::protocol::{Address, Amount, Asset, Network};

/// The only scheme of these requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Scheme {
    #[serde(rename = "upto")]
    UpTo,
}

/// A demand by the scheme `upto` on an EVM chain, with Permit2: one entry of `accepts`, and the accepted entry in a
/// payment. The seller charges the cost of the answer, at most the amount.
///
/// ```
/// use tower_x402::protocol::{Address, Amount, Asset, v2::{PaymentOption, PaymentRequired, UpToRequirements}};
/// let facilitator: Address = "0x90F79bf6EB2c4f870365E785982E1f101E93b906".parse()?;
/// let pay_to = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse()?;
/// let offered = UpToRequirements::new(&Asset::USDC_BASE_SEPOLIA, Amount::from_base_units(10_000), pay_to, 60)
///     .with_token_domain("USDC", "2")
///     .with_facilitator(facilitator);
/// let quote = PaymentRequired::from_json(PaymentRequired::new(offered.clone()).to_json())?;
/// let PaymentOption::UpTo(read) = &quote.accepts[0] else { return Err("another scheme".into()) };
/// assert!(read.echoes(&offered));
/// assert_eq!(read.facilitator(), Some(facilitator));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpToRequirements {
    scheme: Scheme,
    /// The chain.
    pub network: Network,
    /// The maximum, in base units: a permit must be over exactly this amount. In a request to a facilitator's
    /// `/settle`, the charge.
    pub amount: Amount,
    /// The token contract.
    pub asset: Address,
    /// The account to pay.
    pub pay_to: Address,
    /// How long a payer's permit must be valid, in seconds.
    pub max_timeout_seconds: u64,
    /// The other members that the method needs.
    pub extra: JsonObject,
}

impl UpToRequirements {
    /// Demands permission to charge up to this amount of a token, for this account, by Permit2.
    #[must_use]
    pub fn new(token: &Asset, maximum: Amount, pay_to: Address, max_timeout_seconds: u64) -> Self {
        let (network, asset) = (token.network(), token.contract());
        let extra = JsonObject::new().with(METHOD, PERMIT2);
        Self { scheme: Scheme::UpTo, network, amount: maximum, asset, pay_to, max_timeout_seconds, extra }
    }

    /// Sets `extra.facilitatorAddress`: the account that will send the permit. Clients sign none without it.
    #[must_use]
    pub fn with_facilitator(self, facilitator: Address) -> Self {
        self.with_extra(FACILITATOR, facilitator.to_string())
    }

    /// Returns the account that will send the permit, if `extra` names one.
    #[must_use]
    pub fn facilitator(&self) -> Option<Address> {
        self.extra.text(FACILITATOR).and_then(values::address)
    }

    /// Returns whether an option of the scheme uses Permit2, the only method that this crate knows.
    pub(super) fn is_known(object: &Object<'_>) -> bool {
        JsonObject::of(object, "extra").is_ok_and(|extra| extra.text(METHOD) == Some(PERMIT2))
    }

    /// Reads requirements of the scheme `upto`.
    pub(super) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let seconds = object.json("maxTimeoutSeconds")?;
        Ok(Self {
            scheme: Scheme::UpTo,
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
const FACILITATOR: &str = "facilitatorAddress";

common_requirements!(UpToRequirements);
