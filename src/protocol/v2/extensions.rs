//! `Extensions`: extensions of the standard's messages.

use serde::Serialize;
use serde_json::{Value, json};

use super::{InvalidMessage, JsonObject, object::Object};

/// The extensions of a message, by name. Each has an `info` and may have a `schema`; each extension defines their
/// content.
///
/// ```
/// use tower_x402::protocol::v2::Extensions;
/// let info = serde_json::json!({ "input": { "type": "http", "method": "GET" } });
/// let extensions = Extensions::new().with("bazaar", info.clone(), None);
/// assert_eq!(extensions.info("bazaar"), Some(&info));
/// assert_eq!(extensions.info("payment-identifier"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Extensions(JsonObject);

impl Extensions {
    /// Returns no extensions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an extension.
    #[must_use]
    pub fn with(self, name: impl Into<String>, info: Value, schema: Option<Value>) -> Self {
        let mut extension = json!({ "info": info });
        if let Some((schema, members)) = schema.zip(extension.as_object_mut()) {
            members.insert("schema".to_owned(), schema);
        }
        Self(self.0.with(name, extension))
    }

    /// Returns the `info` of an extension.
    #[must_use]
    pub fn info(&self, name: &str) -> Option<&Value> {
        self.0.get(name)?.get("info")
    }

    /// Returns the `schema` of an extension.
    #[must_use]
    pub fn schema(&self, name: &str) -> Option<&Value> {
        self.0.get(name)?.get("schema")
    }

    /// Returns the names of the extensions, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the member `extensions` of a message.
    pub(super) fn of(message: &Object<'_>) -> Result<Self, InvalidMessage> {
        JsonObject::of(message, "extensions").map(Self)
    }
}
