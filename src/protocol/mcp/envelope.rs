//! `Envelope`: one JSON-RPC message, read so strictly that no other reader can see a different call in it.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    super::{digest::Members, json_text::parse_text},
    strict::{folded, is_own},
};

/// The body of a POST.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    One(Envelope<'a>),
    /// Several at once, which revisions before 2025-06-18 allow.
    Batch(Vec<Envelope<'a>>),
}

/// One message: a request, a notification, or a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Envelope<'a> {
    pub(crate) id: Option<&'a RawValue>,
    pub(crate) method: Option<Cow<'a, str>>,
    pub(crate) params: Option<&'a RawValue>,
}

/// Why a message is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    NotJson,
    /// Another reader may see a different call in it.
    Ambiguous,
    /// A tool call without a tool's name, or with invalid arguments.
    NoCall,
}

/// The method that calls a tool.
const CALL: &str = "tools/call";
/// The members that determine what a message does.
const DECIDING: [&str; 4] = ["jsonrpc", "id", "method", "params"];

impl<'a> Message<'a> {
    /// Reads a body: one JSON value in UTF-8.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(body).map_err(|_| Unreadable::NotJson)?;
        let value: &RawValue = serde_json::from_str(text).map_err(|_| Unreadable::NotJson)?;
        if !value.get().starts_with('[') {
            return Envelope::read(value).map(Self::One);
        }
        let messages: Vec<&RawValue> = serde_json::from_str(value.get()).map_err(|_| Unreadable::NotJson)?;
        messages.into_iter().map(Envelope::read).collect::<Result<_, _>>().map(Self::Batch)
    }
}

impl<'a> Envelope<'a> {
    /// Reads one message, which must be an object: some servers read an object's members from an array, by their
    /// order.
    fn read(value: &'a RawValue) -> Result<Self, Unreadable> {
        if !value.get().starts_with('{') {
            return Err(Unreadable::Ambiguous);
        }
        let mut envelope = Self::default();
        for (name, value) in deciding(value, &DECIDING)? {
            match &*name {
                "id" => envelope.id = Some(value),
                "method" => envelope.method = Some(method(value)?),
                "params" => envelope.params = Some(value).filter(|params| params.get() != "null"),
                _ => {}
            }
        }
        Ok(envelope)
    }

    /// Returns whether the message calls a tool.
    pub(crate) fn calls_tool(&self) -> bool {
        self.method.as_deref() == Some(CALL)
    }

    /// Returns the members of the parameters. Each one that affects the call is given at most once.
    pub(super) fn call_params(&self) -> Result<Vec<(Cow<'a, str>, &'a RawValue)>, Unreadable> {
        let params = self.params.filter(|params| params.get().starts_with('{')).ok_or(Unreadable::NoCall)?;
        deciding(params, &["name", "arguments", "_meta", "task"])
    }

    /// Returns the name of the called tool.
    pub(crate) fn tool(&self) -> Result<Cow<'a, str>, Unreadable> {
        let params = self.call_params()?;
        let name = params.iter().find(|(name, _)| name == "name").ok_or(Unreadable::NoCall)?;
        name_in(name.1)?.ok_or(Unreadable::NoCall)
    }
}

/// Reads the name of a method or a tool; `None` if it is no string. Readers differ about names with half a surrogate
/// pair, and some end a name at a control character; both are ambiguous.
fn name_in(value: &RawValue) -> Result<Option<Cow<'_, str>>, Unreadable> {
    match parse_text(value.get()) {
        Some(name) if name.contains(char::is_control) => Err(Unreadable::Ambiguous),
        None if value.get().starts_with('"') => Err(Unreadable::Ambiguous),
        name => Ok(name),
    }
}

/// Reads the method of a message. Some servers read a number as an index into a list, or an array as its only string,
/// and some may ignore case; all three are ambiguous.
fn method(value: &RawValue) -> Result<Cow<'_, str>, Unreadable> {
    let method = name_in(value)?.ok_or(Unreadable::Ambiguous)?;
    match method != CALL && folded(method.trim()) == CALL {
        true => Err(Unreadable::Ambiguous),
        false => Ok(method),
    }
}

/// Returns the members of an object if no deciding name is given twice, not even in another case: some readers ignore
/// case. Names with U+0000 are refused, since some readers end them there. So are `serde_json`'s private names, for
/// which some readers substitute another object.
fn deciding<'a>(object: &'a RawValue, names: &[&str]) -> Result<Vec<(Cow<'a, str>, &'a RawValue)>, Unreadable> {
    let Members(members) = serde_json::from_str(object.get()).map_err(|_| Unreadable::NotJson)?;
    for (index, (name, _)) in members.iter().enumerate() {
        let folded = folded(name);
        let decides = names.contains(&&*folded);
        if name.contains('\0')
            || is_own(name)
            || decides && (folded != **name || members.iter().skip(index + 1).any(|(other, _)| other == name))
        {
            return Err(Unreadable::Ambiguous);
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(body: &str) -> Result<Option<String>, Unreadable> {
        match Message::read(body.as_bytes())? {
            Message::One(envelope) if envelope.calls_tool() => envelope.tool().map(|name| Some(name.into_owned())),
            _ => Ok(None),
        }
    }

    #[test]
    fn a_call_is_read_in_one_way_only() {
        let search = Ok(Some("search".to_owned()));
        for (body, read) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}"#, search.clone()),
            (r#"{"m\u0065thod":"tools\/call","params":{"n\u0061me":"\u0073earch"}}"#, search),
            (r#"{"method":"ping"}"#, Ok(None)),
            (r#"{"id":1,"result":{"method":"tools/call"}}"#, Ok(None)),
            ("[]", Ok(None)),
            ("7", Err(Unreadable::Ambiguous)),
            (r#"{"method":7}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":null}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":"Tools/Call"}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":" tools/call"}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":["tools/call"]}"#, Err(Unreadable::Ambiguous)),
            (r#"["2.0",1,"tools/call",{"name":"search"}]"#, Err(Unreadable::Ambiguous)),
            (r#"[{"name":"search"},"tools/call"]"#, Err(Unreadable::Ambiguous)),
            (r#"[["2.0",1,"tools/call",{"name":"search"}]]"#, Err(Unreadable::Ambiguous)),
            ("", Err(Unreadable::NotJson)),
            ("{", Err(Unreadable::NotJson)),
            ("\u{feff}{}", Err(Unreadable::NotJson)),
            (r#"{"method":"ping",}"#, Err(Unreadable::NotJson)),
            (r#"{} {}"#, Err(Unreadable::NotJson)),
            (r#"{"method":"ping","method":"tools/call","params":{"name":"search"}}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":"ping","m\u0065thod":"tools/call"}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":"ping","Method":"tools/call"}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":"tools/call","params":{"name":"a"},"param\u017f":{"name":"b"}}"#, Err(Unreadable::Ambiguous)),
            (r#"{"id":1,"ID":2,"method":"ping"}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":"tools/call","params":{"name":"a","name":"b"}}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":"tools/call","params":{"name":"a","NAME":"b"}}"#, Err(Unreadable::Ambiguous)),
            (
                r#"{"method":"tools/call","params":{"name":"a","arguments":{},"Arguments":{}}}"#,
                Err(Unreadable::Ambiguous),
            ),
            (r#"{"method\u0000":"tools/call","method":"ping"}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":"tools/call\u0000"}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":"tools/call\ud800"}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":"tools/call","params":{"name":"a\u0000"}}"#, Err(Unreadable::Ambiguous)),
            (r#"{"method":"tools/call","params":{"name":"a","name\u0000":"b"}}"#, Err(Unreadable::Ambiguous)),
            (
                r#"{"$serde_json::private::RawValue":"{\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}"}"#,
                Err(Unreadable::Ambiguous),
            ),
            (r#"{"method":{"$serde_json::private::RawValue":"\"tools/call\""}}"#, Err(Unreadable::Ambiguous)),
            (
                r#"{"method":"tools/call","params":{"$serde_json::private::RawValue":"{\"name\":\"a\"}"}}"#,
                Err(Unreadable::Ambiguous),
            ),
            (
                r#"{"method":"tools/call","params":{"name":{"$serde_json::private::RawValue":"\"a\""}}}"#,
                Err(Unreadable::NoCall),
            ),
            (r#"{"method":"tools/call"}"#, Err(Unreadable::NoCall)),
            (r#"{"method":"tools/call","params":["search"]}"#, Err(Unreadable::NoCall)),
            (r#"{"method":"tools/call","params":{"name":7}}"#, Err(Unreadable::NoCall)),
            (r#"{"method":"tools/call","params":{}}"#, Err(Unreadable::NoCall)),
        ] {
            assert_eq!(tool(body), read, "{body}");
        }
    }

    #[test]
    fn a_batch_is_read_message_by_message() {
        let body = br#"[{"method":"ping"},{"id":7,"result":{}},{"method":"tools/call","params":{"name":"a"}}]"#;
        let Ok(Message::Batch(messages)) = Message::read(body) else { panic!() };
        assert_eq!(messages.iter().map(Envelope::calls_tool).collect::<Vec<_>>(), [false, false, true]);
        assert!(Message::read(br#"[{"method":"a","method":"b"}]"#).is_err());
    }
}
