//! `Object`: a JSON object that is read member by member, so that an error can name the member.

use std::borrow::Cow;

use serde::de::{Deserialize, value::BorrowedStrDeserializer};
use serde_json::value::RawValue;

use super::error::InvalidMessage;
use crate::protocol::{
    headers::HEADER_MAX,
    json_text::{JsonCursor, Written, parse_text},
};

/// The members of a JSON object in their order, each as written.
///
/// Reading fails if the member is given twice. `null` and, for texts, `""` count as absent.
pub(in crate::protocol) struct Object<'a>(Vec<(Cow<'a, str>, Member<'a>)>);

/// A member's value, as far as the single pass over the text has parsed it.
pub(in crate::protocol) enum Member<'a> {
    /// A string without escapes: the text between its quotes.
    Plain(&'a str),
    /// An object, and its JSON text.
    Object(Object<'a>, &'a str),
    /// Valid JSON of any kind.
    Json(&'a str),
}

/// How deep nested objects are parsed in one pass, in a text that fits a header. Deeper ones are parsed on demand:
/// parsed objects take many times the memory of their text.
const DEPTH: u32 = 4;

impl<'a> Object<'a> {
    /// Parses exactly one JSON object.
    pub(in crate::protocol) fn parse(json: &'a str) -> Option<Self> {
        let mut cursor = JsonCursor::new(json);
        let depth = if json.len() <= HEADER_MAX { DEPTH } else { 0 };
        let object = Self::read(&mut cursor, depth)?;
        cursor.is_at_end().then_some(object)
    }

    fn read(cursor: &mut JsonCursor<'a>, depth: u32) -> Option<Self> {
        cursor.takes(b'{').then_some(())?;
        if cursor.takes(b'}') {
            return Some(Self(Vec::new()));
        }
        // The capacity suffices for most messages.
        let mut members = Vec::with_capacity(8);
        loop {
            let name = cursor.string()?;
            cursor.takes(b':').then_some(())?;
            members.push((name, Member::read(cursor, depth)?));
            if !cursor.takes(b',') {
                return cursor.takes(b'}').then_some(Self(members));
            }
        }
    }

    /// Returns all members.
    pub(in crate::protocol) fn members(&self) -> impl Iterator<Item = (&str, &Member<'a>)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns whether there is a member of this name, with any value.
    pub(in crate::protocol) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Reads a member from its JSON text.
    pub(in crate::protocol) fn json<T: Deserialize<'a>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, InvalidMessage> {
        let read = |member: &Member<'a>| match member {
            Member::Plain(text) => T::deserialize(BorrowedStrDeserializer::<serde_json::Error>::new(text)).ok(),
            Member::Object(_, json) | Member::Json(json) => serde_json::from_str(json).ok(),
        };
        self.written(name)?.map(|member| read(member).ok_or(InvalidMessage::member(name))).transpose()
    }

    /// Reads a member that is a string.
    pub(in crate::protocol) fn text(&self, name: &'static str) -> Result<Option<Cow<'a, str>>, InvalidMessage> {
        let read = |member: &Member<'a>| member.text().ok_or(InvalidMessage::member(name));
        let text = self.written(name)?.map(read).transpose()?;
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// Reads a member that is a string.
    pub(in crate::protocol) fn string(&self, name: &'static str) -> Result<Option<String>, InvalidMessage> {
        Ok(self.text(name)?.map(Cow::into_owned))
    }

    /// Reads a string and parses it.
    pub(in crate::protocol) fn parsed<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, InvalidMessage> {
        let read = |text: Cow<'_, str>| read(&text).ok_or(InvalidMessage::member(name));
        self.text(name)?.map(read).transpose()
    }

    /// Reads a required string and parses it.
    pub(in crate::protocol) fn required<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, InvalidMessage> {
        self.parsed(name, read)?.ok_or(InvalidMessage::member(name))
    }

    /// Reads a member that is an object. Errors name the members of that object.
    pub(in crate::protocol) fn object<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Object<'a>) -> Result<T, InvalidMessage>,
    ) -> Result<Option<T>, InvalidMessage> {
        match self.written(name)? {
            None => Ok(None),
            Some(Member::Object(object, _)) => read(object).map(Some),
            // Deeper than the pass went.
            Some(Member::Json(json)) => read(&Object::parse(json).ok_or(InvalidMessage::member(name))?).map(Some),
            Some(Member::Plain(_)) => Err(InvalidMessage::member(name)),
        }
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

    /// Returns a member, unless it is `null`.
    fn written(&self, name: &'static str) -> Result<Option<&Member<'a>>, InvalidMessage> {
        let mut values = self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value);
        match (values.next(), values.next()) {
            (Some(_), Some(_)) => Err(InvalidMessage::member(name)),
            (value, _) => Ok(value.filter(|member| !matches!(member, Member::Json("null")))),
        }
    }
}

impl<'a> Member<'a> {
    fn read(cursor: &mut JsonCursor<'a>, depth: u32) -> Option<Self> {
        if let (Some(deeper), true) = (depth.checked_sub(1), cursor.is_at(b'{')) {
            let start = cursor.position();
            let object = Object::read(cursor, deeper)?;
            return Some(Self::Object(object, cursor.since(start)));
        }
        Some(match cursor.value()? {
            Written::Plain(text) => Self::Plain(text),
            Written::Json(json) => Self::Json(json),
        })
    }

    /// Returns the text of a string.
    fn text(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Plain(text) => Some(Cow::Borrowed(text)),
            Self::Json(json) => parse_text(json),
            Self::Object(..) => None,
        }
    }

    /// Returns the value, or `None` if no Rust type can hold it.
    pub(super) fn value(&self) -> Option<serde_json::Value> {
        match self {
            Self::Plain(text) => Some((*text).into()),
            Self::Object(_, json) | Self::Json(json) => serde_json::from_str(json).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parses(json: &str) -> bool {
        Object::parse(json).is_some()
    }

    /// serde_json's judgement, without reading the values of the object.
    fn expected(json: &str) -> bool {
        json.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{')
            && serde_json::from_str::<std::collections::HashMap<String, &RawValue>>(json).is_ok()
    }

    #[test]
    fn what_is_an_object_serde_json_decides() {
        let deep = format!("{}{}", r#"{"a":"#.repeat(9), "}".repeat(9));
        let nested = deep.replace(":}", ":1}");
        for (json, is_object) in [
            (" { } ", true),
            ("\r\n{\t\"a\" : \"b\" ,\"c\":{ \"d\" : [ 1 , {} ] } }", true),
            (r#"{"a":1e999,"b":"\ud800","c":-0.5e-7,"d":null}"#, true),
            (r#"{"\u0061":"\"","a":"é"}"#, true),
            (&nested, true),
            (&deep, false),
            ("", false),
            ("[]", false),
            ("{", false),
            ("{}}", false),
            ("{},", false),
            ("{,}", false),
            (r#"{"a"}"#, false),
            (r#"{"a":}"#, false),
            (r#"{"a":1,}"#, false),
            (r#"{"a":1 "b":2}"#, false),
            (r#"{"a":01}"#, false),
            (r#"{"a":1x}"#, false),
            (r#"{"a":{"b":tru}}"#, false),
            (r#"{"a":"b}"#, false),
            (r#"{"a":"\x"}"#, false),
            (r#"{"\ud800":1}"#, false),
            ("{\"a\":\"\n\"}", false),
            ("{\"\t\":1}", false),
            ("{a:1}", false),
            ("{1:1}", false),
            ("\u{a0}{}", false),
        ] {
            assert_eq!((parses(json), expected(json)), (is_object, is_object), "{json}");
        }
    }

    #[test]
    fn what_is_too_long_for_a_header_reads_the_same() {
        let long = format!(r#"{{"z":"{}","a":{{"b":{{"c":"text"}}}}}}"#, "p".repeat(HEADER_MAX));
        let text = |object: &Object<'_>| object.string("c");
        let read = |json: &str| Object::parse(json).unwrap().object("a", |a| a.object("b", text));
        assert_eq!(read(&long).unwrap(), Some(Some(Some("text".to_owned()))));
        assert_eq!(read(&long.replace('p', "")).unwrap(), Some(Some(Some("text".to_owned()))));
    }

    proptest! {
        #[test]
        fn any_text_is_an_object_if_it_is_one_to_serde_json(json in r#"\{("[a\\"u0{:,]{0,4}"|[ \n{}\[\]:,"\\0-9a-z\.-]){0,12}\}"#) {
            prop_assert_eq!(parses(&json), expected(&json), "{}", json);
        }
    }
}
