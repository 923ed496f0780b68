//! `Strict`: JSON in which no object has a member twice, nor a name that some readers mistake for another one. All
//! readers that respect the case of names read it alike.

use std::{collections::HashSet, fmt};

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::canonical::plain;

/// The prefix of `serde_json`'s private names: it represents some values as objects with such a member.
const OWN: &str = "$serde_json::private::";

/// Returns whether readers differ about an object with a member of this name. Programs built on `serde_json` may
/// parse the member's text as JSON and use that instead of the object: they read
/// `{"$serde_json::private::RawValue":"7"}` as 7, all others as an object.
pub(super) fn is_own(name: &str) -> bool {
    name.starts_with(OWN)
}

/// Folds a name as readers that ignore case compare it.
pub(crate) fn folded(name: &str) -> String {
    name.to_uppercase().to_lowercase()
}

/// Returns whether an object in it has two members whose names differ only in case.
pub(crate) fn has_twins(members: &Map<String, Value>) -> bool {
    let mut names = HashSet::with_capacity(members.len());
    members.iter().any(|(name, value)| !names.insert(folded(name)) || holds_twins(value))
}

fn holds_twins(value: &Value) -> bool {
    match value {
        Value::Object(members) => has_twins(members),
        Value::Array(elements) => elements.iter().any(holds_twins),
        _ => false,
    }
}

/// Any JSON value. Integral numbers become integers, however they are written.
pub(super) struct Strict(pub(super) Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON that has one meaning")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number out of range"))?;
        Ok(Value::Number(plain(&number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(Strict(element)) = sequence.next_element()? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if is_own(&name) {
                return map.next_value().map(|HandedOn(number)| Value::Number(plain(&number)));
            }
            if name.contains('\0') {
                return Err(A::Error::custom("a name that ends early"));
            }
            let Strict(value) = map.next_value()?;
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member is given twice"));
            }
        }
        Ok(Value::Object(members))
    }
}

/// A number in the form in which `serde_json` passes it on if another crate enables `arbitrary_precision`: an object
/// with an owned text. Texts that come from the JSON are borrowed, so no message can forge such a number.
struct HandedOn(Number);

impl<'de> Deserialize<'de> for HandedOn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_string(HandedOnVisitor).map(Self)
    }
}

struct HandedOnVisitor;

impl Visitor<'_> for HandedOnVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Number, E> {
        Err(E::custom("a name that readers differ about"))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Number, E> {
        serde_json::from_str(&text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_readers_differ_about_is_not_read() {
        for json in [
            r#"{"a":1,"a":2}"#,
            r#"[{"a":{"b":1,"b":1}}]"#,
            r#"{"pages\u0000":1}"#,
            r#"{"$serde_json::private::RawValue":"7"}"#,
            r#"{"$serde_json::private::RawValue":7}"#,
            r#"{"$serde_json::private::Number":"7"}"#,
            r#"{"$serde_json::private\u003a:Numb\u0065r":"\u0037"}"#,
            r#"[{"a":1,"$serde_json::private::RawValue":{}}]"#,
            r#"{"$serde_json::private::":null}"#,
            "1e999",
            r#""\ud800""#,
        ] {
            assert!(serde_json::from_str::<Strict>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn names_that_differ_in_case_are_twins() {
        for (json, twins) in [
            (r#"{"pages":0,"Pages":3000}"#, true),
            (r#"{"x":[7,{"a":{"price\u017f":1,"prices":1}}]}"#, true),
            (r#"{"a":{"b":1},"b":{"a":1},"c":["A","a"]}"#, false),
        ] {
            assert_eq!(has_twins(&serde_json::from_str(json).unwrap()), twins, "{json}");
        }
    }

    #[test]
    fn a_value_is_read_as_it_is_and_an_integer_as_one() {
        let Strict(value) =
            serde_json::from_str(r#"{"a":[3.0,-0.0,1e3,0.5,-7,null,true],"$serde":{"b":"c"}}"#).unwrap();
        assert_eq!(value, json!({ "a": [3, 0, 1000, 0.5, -7, null, true], "$serde": { "b": "c" } }));
    }
}
