//! `PaymentRequired`: the standard's quote.

use serde::Serialize;

use super::{
    Extensions, InvalidMessage, PaymentOption, Reason, ResourceInfo,
    message::{Version2, header_message},
    object::Object,
};

/// The content of `PAYMENT-REQUIRED`, on a 402: the resource, and the ways to pay for it.
///
/// ```
/// use http::HeaderMap;
/// use tower_x402::protocol::{Amount, Asset, headers, v2::{PaymentRequired, PaymentRequirements, ResourceInfo}};
///
/// let pay_to = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse()?;
/// let price = PaymentRequirements::new(&Asset::USDC_BASE, Amount::from_cents(49, 6), pay_to, 60)
///     .with_token_domain("USD Coin", "2");
/// let required = PaymentRequired::new(price)
///     .with_resource(ResourceInfo::new("https://shop.example/insights").with_description("Nachfrage für heute"));
///
/// let mut answer = HeaderMap::new();
/// answer.insert(headers::PAYMENT_REQUIRED, required.to_header());
/// assert_eq!(PaymentRequired::from_headers(&answer)?, Some(required));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PaymentRequired {
    x402_version: Version2,
    /// Why the shown payment is refused, if one was shown: a [`Reason`], or prose of a foreign seller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceInfo>,
    /// The ways to pay: at least one. One payment is enough.
    pub accepts: Vec<PaymentOption>,
    /// The extensions.
    #[serde(skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
}

const ACCEPTS: &str = "accepts";

impl PaymentRequired {
    /// Demands payment by this way.
    #[must_use]
    pub fn new(accepts: impl Into<PaymentOption>) -> Self {
        let accepts = vec![accepts.into()];
        Self { x402_version: Version2, error: None, resource: None, accepts, extensions: Extensions::new() }
    }

    /// Accepts another way as well.
    #[must_use]
    pub fn or(mut self, accepts: impl Into<PaymentOption>) -> Self {
        self.accepts.push(accepts.into());
        self
    }

    /// Sets the resource.
    #[must_use]
    pub fn with_resource(mut self, resource: ResourceInfo) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Sets the reason why the shown payment is refused.
    #[must_use]
    pub fn with_error(mut self, reason: &Reason) -> Self {
        self.error = Some(reason.as_str().to_owned());
        self
    }

    /// Sets the extensions.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        let x402_version = Version2::read(object)?;
        let accepts = object.objects(ACCEPTS, |option| PaymentOption::read(option, ACCEPTS))?;
        if accepts.is_empty() {
            return Err(InvalidMessage::member(ACCEPTS));
        }
        Ok(Self {
            x402_version,
            error: object.string("error")?,
            resource: object.object("resource", ResourceInfo::read)?,
            accepts,
            extensions: Extensions::of(object)?,
        })
    }
}

header_message!(PaymentRequired, PAYMENT_REQUIRED);
