//! `JsonObject`: JSON that the standard does not define.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{error::InvalidMessage, object::Object};

/// A JSON object with members that the standard leaves open: `extra`, extensions, and payloads of unknown schemes.
///
/// No member is given twice. `Debug` shows the names only.
///
/// ```
/// use tower_x402::protocol::v2::JsonObject;
/// let extra = JsonObject::new().with("name", "USDC").with("version", "2");
/// assert_eq!(extra.text("name"), Some("USDC"));
/// assert!(extra.with("intentId", "AUbX-9_k").contains(&JsonObject::new().with("version", "2")));
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct JsonObject(Map<String, Value>);

impl JsonObject {
    /// Returns an object without members.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a member.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Returns the member of this name, unless it is `null`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Returns the member of this name if it is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// Returns the members, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        let mut members: Vec<_> = self.0.iter().map(|(name, value)| (name.as_str(), value)).collect();
        members.sort_unstable_by_key(|(name, _)| *name);
        members.into_iter()
    }

    /// Returns whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether every member of `declared` is a member of this object too, with the same value.
    #[must_use]
    pub fn contains(&self, declared: &Self) -> bool {
        declared.0.iter().all(|(name, value)| self.0.get(name) == Some(value))
    }

    /// Removes the members that `keep` rejects, and those that are `null`, which count as absent.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|name, value| keep(name) && !value.is_null());
    }

    /// Sets a member to the JSON of a value, which always serialises.
    pub(in crate::protocol) fn with_written(self, name: &str, value: &impl Serialize) -> Self {
        self.with(name, serde_json::to_value(value).unwrap_or_default())
    }

    /// Reads a member that is an object of a certain form.
    pub(super) fn read_member<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Object<'_>) -> Result<T, InvalidMessage>,
    ) -> Option<T> {
        let json = self.get(name)?.to_string();
        read(&Object::parse(&json)?).ok()
    }

    /// Reads a member that is an object with open members. An absent one is empty.
    pub(in crate::protocol) fn of(message: &Object<'_>, name: &'static str) -> Result<Self, InvalidMessage> {
        let read = |object: &Object<'_>| Self::read(object).ok_or(InvalidMessage::member(name));
        Ok(message.object(name, read)?.unwrap_or_default())
    }

    /// Reads all members. Returns `None` if one is given twice, or if no Rust type can hold its value (`1e999`, half
    /// a surrogate pair).
    pub(super) fn read(object: &Object<'_>) -> Option<Self> {
        let mut members = Map::new();
        for (name, member) in object.members() {
            let before = members.insert(name.to_owned(), member.value()?);
            before.is_none().then_some(())?;
        }
        Some(Self(members))
    }
}

impl fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
