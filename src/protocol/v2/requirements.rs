//! `PaymentRequirements`: how to pay by the scheme `exact` on an EVM chain.

use serde::Serialize;

use super::{
    InvalidMessage, JsonObject,
    flow::{PERMIT2, PaymentFlow, TransferMethod},
    object::Object,
    values,
};
use crate::protocol::{Address, Amount, Asset, Network, TokenDomain};

/// The members of `extra` that offers have: the token's EIP-712 domain, and the intent of the quote.
pub(in crate::protocol) const NAME: &str = "name";
pub(in crate::protocol) const VERSION: &str = "version";
pub(in crate::protocol) const INTENT_ID: &str = "intentId";

/// The methods that requirements of every scheme on an EVM chain share: for `extra`, and for comparing an echo.
macro_rules! common_requirements {
    ($name:ident) => {
        impl $name {
            /// Sets `extra.name` and `extra.version`: the token's EIP-712 domain, without which no client can sign for the token.
            #[must_use]
            pub fn with_token_domain(self, name: &str, version: &str) -> Self {
                self.with_extra($crate::protocol::v2::requirements::NAME, name)
                    .with_extra($crate::protocol::v2::requirements::VERSION, version)
            }

            /// Sets `extra.intentId`: the intent of the quote, which clients echo.
            #[must_use]
            pub fn with_intent(self, intent: &$crate::protocol::IntentId) -> Self {
                self.with_extra($crate::protocol::v2::requirements::INTENT_ID, intent.as_str())
            }

            /// Sets a member of `extra`.
            #[must_use]
            pub fn with_extra(mut self, name: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
                self.extra = self.extra.with(name, value);
                self
            }

            /// Returns the intent of the quote, if `extra` has one.
            ///
            /// # Errors
            /// Returns [`ParseError`](crate::protocol::ParseError) if `extra.intentId` is present but cannot be an
            /// intent id.
            pub fn intent(&self) -> Result<Option<$crate::protocol::IntentId>, $crate::protocol::ParseError> {
                let text =
                    |value: &serde_json::Value| $crate::protocol::IntentId::new(value.as_str().unwrap_or_default());
                self.extra.get($crate::protocol::v2::requirements::INTENT_ID).map(text).transpose()
            }

            /// Returns whether these requirements echo the offered ones: all members are equal, and `extra` contains
            /// all of the offered one.
            #[must_use]
            pub fn echoes(&self, offered: &Self) -> bool {
                let terms = |of: &Self| (of.network, of.amount, of.asset, of.pay_to, of.max_timeout_seconds);
                terms(self) == terms(offered) && self.extra.contains(&offered.extra)
            }
        }
    };
}

pub(super) use common_requirements;

/// The only scheme of these requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Scheme {
    #[serde(rename = "exact")]
    Exact,
}

/// A demand by the scheme `exact` on an EVM chain: one entry of `accepts`, and the accepted entry in a payment.
///
/// ```
/// use tower_x402::protocol::{Amount, Asset, v2::PaymentRequirements};
/// let pay_to = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse()?;
/// let offered = PaymentRequirements::new(&Asset::USDC_BASE_SEPOLIA, Amount::from_base_units(10_000), pay_to, 60)
///     .with_token_domain("USDC", "2");
/// // Clients echo what they accepted, and may add to `extra`.
/// assert!(offered.clone().with_extra("note", "mine").echoes(&offered));
/// let mut cheaper = offered.clone();
/// cheaper.amount = Amount::ZERO;
/// assert!(!cheaper.echoes(&offered));
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PaymentRequirements {
    scheme: Scheme,
    /// The chain.
    pub network: Network,
    /// The price, in base units. An authorization must be over exactly this amount.
    pub amount: Amount,
    /// The token contract.
    pub asset: Address,
    /// The account to pay.
    pub pay_to: Address,
    /// How long a payer's authorization must be valid, in seconds.
    pub max_timeout_seconds: u64,
    /// The other members that the method needs.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub extra: JsonObject,
}

impl PaymentRequirements {
    /// Demands this amount of a token, for this account.
    #[must_use]
    pub fn new(token: &Asset, amount: Amount, pay_to: Address, max_timeout_seconds: u64) -> Self {
        let (network, asset, extra) = (token.network(), token.contract(), JsonObject::new());
        Self { scheme: Scheme::Exact, network, amount, asset, pay_to, max_timeout_seconds, extra }
    }

    /// Demands a Permit2 transfer, for tokens without EIP-3009.
    #[must_use]
    pub fn by_permit2(self) -> Self {
        self.with_extra("assetTransferMethod", PERMIT2)
    }

    /// Demands an ordinary transfer that the payer sends itself and proves: the client-submitted family, method
    /// `txid`.
    #[must_use]
    pub fn with_client_submitted_transfer(self) -> Self {
        self.with_extra("assetTransferMethod", "txid")
            .with_extra("paymentFlow", "upfront")
            .with_extra("binding", vec!["tag", "nonce", "signature"])
    }

    /// Returns whether `extra` names this token's EIP-712 domain, as an offer does.
    pub(crate) fn names_domain(&self, domain: &TokenDomain) -> bool {
        self.extra.text(NAME) == Some(&*domain.name) && self.extra.text(VERSION) == Some(&*domain.version)
    }

    /// Removes everything from `extra` that an offer to pay by EIP-3009 does not have.
    pub(crate) fn into_offered(mut self) -> Self {
        self.extra.retain(|name| [NAME, VERSION, INTENT_ID].contains(&name));
        self
    }

    /// Returns how the tokens move.
    #[must_use]
    pub fn transfer_method(&self) -> TransferMethod {
        TransferMethod::of(&self.extra)
    }

    /// Returns when the payment is settled.
    #[must_use]
    pub fn payment_flow(&self) -> PaymentFlow {
        PaymentFlow::of(&self.extra)
    }

    /// Reads requirements of the scheme `exact`.
    pub(super) fn read_exact(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let seconds = object.json("maxTimeoutSeconds")?;
        Ok(Self {
            scheme: Scheme::Exact,
            network: object.required("network", values::network)?,
            amount: object.required("amount", values::amount)?,
            asset: object.required("asset", values::address)?,
            pay_to: object.required("payTo", values::address)?,
            max_timeout_seconds: seconds.ok_or(InvalidMessage::member("maxTimeoutSeconds"))?,
            extra: JsonObject::of(object, "extra")?,
        })
    }
}

common_requirements!(PaymentRequirements);
