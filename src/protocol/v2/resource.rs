//! `ResourceInfo`: a resource, described for payers.

use serde::Serialize;

use super::{InvalidMessage, object::Object};

/// A resource: its URL, and details for payers and indexes.
///
/// The texts may be in any language: messages are written in ASCII, with escapes.
///
/// ```
/// use tower_x402::protocol::v2::ResourceInfo;
/// let resource = ResourceInfo::new("https://shop.example/insights")
///     .with_description("Demand insights")
///     .with_mime_type("application/json");
/// assert_eq!(resource.mime_type.as_deref(), Some("application/json"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceInfo {
    /// The URL that is paid for.
    pub url: String,
    /// What it is, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The content type of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The name of the service. The standard allows 32 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Keywords. The standard allows five.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The URL of a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
}

impl ResourceInfo {
    /// Describes the resource at this URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        let (description, mime_type, service_name, icon_url) = Default::default();
        Self { url: url.into(), description, mime_type, service_name, tags: Vec::new(), icon_url }
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the content type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the name of the service.
    #[must_use]
    pub fn with_service_name(mut self, service_name: impl Into<String>) -> Self {
        self.service_name = Some(service_name.into());
        self
    }

    /// Sets the keywords.
    #[must_use]
    pub fn with_tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the URL of a picture.
    #[must_use]
    pub fn with_icon_url(mut self, icon_url: impl Into<String>) -> Self {
        self.icon_url = Some(icon_url.into());
        self
    }

    pub(super) fn read(object: &Object<'_>) -> Result<Self, InvalidMessage> {
        Ok(Self {
            url: object.required("url", |url| Some(url.to_owned()))?,
            description: object.string("description")?,
            mime_type: object.string("mimeType")?,
            service_name: object.string("serviceName")?,
            tags: object.json("tags")?.unwrap_or_default(),
            icon_url: object.string("iconUrl")?,
        })
    }
}
