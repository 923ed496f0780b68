//! `FacilitatorRequest` and `Supported`: requests to a facilitator, and its capabilities.

use serde::Serialize;

use super::{
    InvalidMessage, JsonObject, PaymentOption, PaymentPayload,
    message::{Version2, json_message},
    object::Object,
    values,
};
use crate::protocol::{Address, Network};

/// The member of an `upto` kind that names the account which settles.
const FACILITATOR: &str = "facilitatorAddress";
/// The scheme of payment channels.
const CHANNELS: &str = "batch-settlement";
/// The member of a `batch-settlement` kind that names the account which signs claims for sellers.
const AUTHORIZER: &str = "receiverAuthorizer";

/// The body of `POST /verify` and `POST /settle`: a payment and its requirements.
///
/// The payment is written from the checked values, so a facilitator judges exactly what this crate judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FacilitatorRequest {
    x402_version: Version2,
    /// The payment.
    pub payment_payload: PaymentPayload,
    /// Its requirements.
    pub payment_requirements: PaymentOption,
}

impl FacilitatorRequest {
    /// Creates a request about this payment.
    #[must_use]
    pub fn new(payment: PaymentPayload, requirements: impl Into<PaymentOption>) -> Self {
        Self { x402_version: Version2, payment_payload: payment, payment_requirements: requirements.into() }
    }

    fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        const PAYMENT: &str = "paymentPayload";
        const REQUIREMENTS: &str = "paymentRequirements";
        let x402_version = Version2::read(object)?;
        let payment = object.object(PAYMENT, PaymentPayload::read)?;
        let requirements = object.object(REQUIREMENTS, |option| PaymentOption::read(option, REQUIREMENTS))?;
        Ok(Self {
            x402_version,
            payment_payload: payment.ok_or(InvalidMessage::member(PAYMENT))?,
            payment_requirements: requirements.ok_or(InvalidMessage::member(REQUIREMENTS))?,
        })
    }
}

/// A facilitator's answer to `GET /supported`: the payments that it can settle.
///
/// ```
/// use tower_x402::protocol::{Network, v2::Supported};
/// let supported = Supported::from_json(
///     r#"{"kinds":[{"x402Version":1,"scheme":"exact","network":"base"},{"x402Version":2,"scheme":"exact","network":"eip155:8453"}]}"#,
/// )?;
/// assert!(supported.settles_exact(Network::BASE) && !supported.settles_exact(Network::BASE_SEPOLIA));
/// # Ok::<(), tower_x402::protocol::v2::InvalidMessage>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Supported {
    /// The payments that it can settle, of every version of the standard.
    pub kinds: Vec<SupportedKind>,
    /// The extensions that it supports.
    pub extensions: Vec<String>,
    /// The accounts that settle, by chain.
    pub signers: JsonObject,
}

/// One scheme on one chain, of one version of the standard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SupportedKind {
    /// The version of the standard.
    pub x402_version: u64,
    /// The scheme.
    pub scheme: String,
    /// The chain; its CAIP-2 name in version 2.
    pub network: String,
    /// The other members that the scheme needs.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub extra: JsonObject,
}

impl SupportedKind {
    /// Returns the scheme `exact` on this chain, of version 2.
    #[must_use]
    pub fn exact(network: Network) -> Self {
        let (scheme, network) = ("exact".to_owned(), network.to_string());
        Self { x402_version: 2, scheme, network, extra: JsonObject::new() }
    }

    /// Returns the scheme `upto` on this chain, of version 2, settled by this account.
    #[must_use]
    pub fn up_to(network: Network, facilitator: Address) -> Self {
        let extra = JsonObject::new().with(FACILITATOR, facilitator.to_string());
        Self { scheme: "upto".to_owned(), extra, ..Self::exact(network) }
    }

    /// Returns the scheme `batch-settlement` on this chain, of version 2. `authorizer`: the account that signs
    /// claims, if the facilitator signs them for sellers.
    #[must_use]
    pub fn channels(network: Network, authorizer: Option<Address>) -> Self {
        let extra = authorizer.map(|authorizer| JsonObject::new().with(AUTHORIZER, authorizer.to_string()));
        Self { scheme: CHANNELS.to_owned(), extra: extra.unwrap_or_default(), ..Self::exact(network) }
    }

    fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let version = object.json("x402Version")?;
        Ok(Self {
            x402_version: version.ok_or(InvalidMessage::member("x402Version"))?,
            scheme: object.required("scheme", |scheme| Some(scheme.to_owned()))?,
            network: object.required("network", |network| Some(network.to_owned()))?,
            extra: JsonObject::of(object, "extra")?,
        })
    }
}

impl Supported {
    /// Adds a kind.
    #[must_use]
    pub fn with(mut self, kind: SupportedKind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Returns whether it settles the scheme `exact`, version 2, on this chain.
    #[must_use]
    pub fn settles_exact(&self, network: Network) -> bool {
        self.kinds_of(network, "exact").next().is_some()
    }

    /// Returns whether it settles the scheme `upto`, version 2, on this chain.
    #[must_use]
    pub fn settles_up_to(&self, network: Network) -> bool {
        self.kinds_of(network, "upto").next().is_some()
    }

    /// Returns whether it supports payment channels, the scheme `batch-settlement` of version 2, on this chain.
    #[must_use]
    pub fn keeps_channels(&self, network: Network) -> bool {
        self.kinds_of(network, CHANNELS).next().is_some()
    }

    /// Returns the account that signs claims of channels on this chain for sellers, if there is one.
    #[must_use]
    pub fn receiver_authorizer(&self, network: Network) -> Option<Address> {
        let told = self.kinds_of(network, CHANNELS).find_map(|kind| kind.extra.text(AUTHORIZER));
        told.and_then(values::address).filter(|authorizer| *authorizer != Address::ZERO)
    }

    /// Returns the accounts that may send a payment of `upto` on this chain: first the one named for the scheme, then
    /// all that settle there.
    #[must_use]
    pub fn facilitators(&self, network: Network) -> Vec<Address> {
        let name = network.to_string();
        let named = self.kinds_of(network, "upto").filter_map(|kind| kind.extra.text(FACILITATOR)).map(str::to_owned);
        let signers =
            [&*name, "eip155:*"].into_iter().filter_map(|chain| self.signers.get(chain)?.as_array()).flatten();
        let signers = signers.filter_map(|signer| signer.as_str()).map(str::to_owned);
        let mut all = Vec::new();
        for address in named.chain(signers).filter_map(|text| values::address(&text)) {
            if !all.contains(&address) {
                all.push(address);
            }
        }
        all
    }

    fn kinds_of(&self, network: Network, scheme: &str) -> impl Iterator<Item = &SupportedKind> {
        let name = network.to_string();
        let known =
            move |kind: &&SupportedKind| kind.x402_version == 2 && kind.scheme == scheme && kind.network == name;
        self.kinds.iter().filter(known)
    }

    fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        if !object.has("kinds") {
            return Err(InvalidMessage::member("kinds"));
        }
        Ok(Self {
            kinds: object.objects("kinds", SupportedKind::read)?,
            extensions: object.json("extensions")?.unwrap_or_default(),
            signers: JsonObject::of(object, "signers")?,
        })
    }
}

json_message!(FacilitatorRequest);
json_message!(Supported);
