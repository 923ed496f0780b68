//! `PaymentOption`: one way to pay, known to this crate or not.

use serde::Serialize;

use super::{
    ChannelRequirements, InvalidMessage, JsonObject, PaymentRequirements, UpToRequirements, object::Object, values,
};

/// One entry of `accepts`: a way to pay.
///
/// ```
/// use tower_x402::protocol::v2::{PaymentOption, PaymentRequired};
/// let required = PaymentRequired::from_json(
///     r#"{"x402Version":2,"accepts":[{"scheme":"upto","network":"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp","payTo":"CmGg"}]}"#,
/// )?;
/// assert!(matches!(&required.accepts[0], PaymentOption::Other(other) if other.scheme() == "upto"));
/// # Ok::<(), tower_x402::protocol::v2::InvalidMessage>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum PaymentOption {
    /// The scheme `exact` on an EVM chain.
    Exact(PaymentRequirements),
    /// The scheme `upto` on an EVM chain, by Permit2.
    UpTo(UpToRequirements),
    /// The scheme `batch-settlement` on an EVM chain.
    Channel(ChannelRequirements),
    /// Another scheme, or a chain of another kind.
    Other(OtherRequirements),
}

/// Requirements of an unknown scheme or kind of chain, kept as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct OtherRequirements {
    json: JsonObject,
}

impl PaymentOption {
    /// Returns the requirements, if this is `exact` on an EVM chain.
    #[must_use]
    pub const fn exact(&self) -> Option<&PaymentRequirements> {
        match self {
            Self::Exact(requirements) => Some(requirements),
            Self::UpTo(_) | Self::Channel(_) | Self::Other(_) => None,
        }
    }

    /// Returns the requirements, if this is `upto` on an EVM chain by Permit2.
    #[must_use]
    pub const fn up_to(&self) -> Option<&UpToRequirements> {
        match self {
            Self::UpTo(requirements) => Some(requirements),
            Self::Exact(_) | Self::Channel(_) | Self::Other(_) => None,
        }
    }

    /// Returns the requirements, if this is `batch-settlement` on an EVM chain.
    #[must_use]
    pub const fn channel(&self) -> Option<&ChannelRequirements> {
        match self {
            Self::Channel(requirements) => Some(requirements),
            Self::Exact(_) | Self::UpTo(_) | Self::Other(_) => None,
        }
    }

    /// Reads an option from the message's member `name`.
    pub(super) fn read(object: &Object<'_>, name: &'static str) -> Result<Self, InvalidMessage> {
        let known = ["exact", "upto", "batch-settlement"];
        let [exact, up_to, channel] = object.required("scheme", |scheme| Some(known.map(|known| scheme == known)))?;
        let evm = object.required("network", |network| values::namespace(network).map(|name| name == "eip155"))?;
        if exact && evm {
            return PaymentRequirements::read_exact(object).map(Self::Exact);
        }
        if up_to && evm && UpToRequirements::is_known(object) {
            return UpToRequirements::read(object).map(Self::UpTo);
        }
        if channel && evm && ChannelRequirements::is_known(object) {
            return ChannelRequirements::read(object).map(Self::Channel);
        }
        let json = JsonObject::read(object).ok_or(InvalidMessage::member(name))?;
        Ok(Self::Other(OtherRequirements { json }))
    }
}

impl From<PaymentRequirements> for PaymentOption {
    fn from(requirements: PaymentRequirements) -> Self {
        Self::Exact(requirements)
    }
}

impl From<ChannelRequirements> for PaymentOption {
    fn from(requirements: ChannelRequirements) -> Self {
        Self::Channel(requirements)
    }
}

impl From<UpToRequirements> for PaymentOption {
    fn from(requirements: UpToRequirements) -> Self {
        Self::UpTo(requirements)
    }
}

impl OtherRequirements {
    /// Returns the scheme.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.json.text("scheme").unwrap_or_default()
    }

    /// Returns the CAIP-2 name of the chain.
    #[must_use]
    pub fn network(&self) -> &str {
        self.json.text("network").unwrap_or_default()
    }

    /// Returns all members.
    #[must_use]
    pub const fn json(&self) -> &JsonObject {
        &self.json
    }
}
