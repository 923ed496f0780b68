//! `Object`: a JSON object whose members are read one by one, so that an error can name the member that it is about.

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::InvalidMessage;
use crate::protocol::json_text::{Text, parse_text};

/// The members of a JSON object, in their order, as they are written.
///
/// A member that is read must not be given twice. `null` and, where a text is read, `""` count as absent.
pub(in crate::protocol) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Parses exactly one JSON object.
    pub(in crate::protocol) fn parse(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Returns all members, with their JSON text.
    pub(in crate::protocol) fn members(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (&**name, value.get()))
    }

    /// Returns whether there is a member of this name, whatever its value.
    pub(in crate::protocol) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Reads a member from its JSON text.
    pub(in crate::protocol) fn json<T: Deserialize<'a>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, InvalidMessage> {
        let read = |json| serde_json::from_str(json).map_err(|_| InvalidMessage::member(name));
        self.written(name)?.map(read).transpose()
    }

    /// Reads a member that is a string.
    pub(in crate::protocol) fn text(&self, name: &'static str) -> Result<Option<Cow<'a, str>>, InvalidMessage> {
        let read = |json| parse_text(json).ok_or(InvalidMessage::member(name));
        let text = self.written(name)?.map(read).transpose()?;
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// Reads a member that is a string.
    pub(in crate::protocol) fn string(&self, name: &'static str) -> Result<Option<String>, InvalidMessage> {
        Ok(self.text(name)?.map(Cow::into_owned))
    }

    /// Reads a member that is a string of a certain form.
    pub(in crate::protocol) fn parsed<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, InvalidMessage> {
        let read = |text: Cow<'_, str>| read(&text).ok_or(InvalidMessage::member(name));
        self.text(name)?.map(read).transpose()
    }

    /// Reads a member that is a string of a certain form, and must be there.
    pub(in crate::protocol) fn required<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, InvalidMessage> {
        self.parsed(name, read)?.ok_or(InvalidMessage::member(name))
    }

    /// Reads a member that is an object. Errors of its members are its own.
    pub(in crate::protocol) fn object<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Object<'a>) -> Result<T, InvalidMessage>,
    ) -> Result<Option<T>, InvalidMessage> {
        let read = |json| read(&Object::parse(json).ok_or(InvalidMessage::member(name))?);
        self.written(name)?.map(read).transpose()
    }

    /// Reads a member that is an array of objects. An absent one is empty.
    pub(in crate::protocol) fn objects<T>(
        &self,
        name: &'static str,
        read: impl Fn(&Object<'a>) -> Result<T, InvalidMessage>,
    ) -> Result<Vec<T>, InvalidMessage> {
        let elements: Vec<&'a RawValue> = self.json(name)?.unwrap_or_default();
        let read = |json: &&'a RawValue| read(&Object::parse(json.get()).ok_or(InvalidMessage::member(name))?);
        elements.iter().map(read).collect()
    }

    /// Returns a member's JSON text.
    fn written(&self, name: &'static str) -> Result<Option<&'a str>, InvalidMessage> {
        let mut values = self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.get());
        match (values.next(), values.next()) {
            (Some(_), Some(_)) => Err(InvalidMessage::member(name)),
            (value, _) => Ok(value.filter(|json| *json != "null")),
        }
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        // As many as most messages have.
        let mut members = Vec::with_capacity(8);
        while let Some(Text(name)) = map.next_key()? {
            members.push((name, map.next_value()?));
        }
        Ok(Object(members))
    }
}
