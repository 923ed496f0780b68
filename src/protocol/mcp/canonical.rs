//! The canonical text of a JSON value: equal values have the same text.

use serde_json::{Number, Value};

/// Two to the power of 53: up to here, doubles represent every integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Writes a value by the rules of RFC 8785: members sorted by the UTF-16 units of their names, no white space.
///
/// Integers beyond the precision of doubles keep all their digits; the RFC would make different ones equal.
pub(crate) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                separate(index, out);
                write(element, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (index, (name, member)) in sorted.into_iter().enumerate() {
                separate(index, out);
                write_text(name, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
    }
}

fn separate(index: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
}

fn write_text(text: &str, out: &mut String) {
    // A string always serialises.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

fn write_number(number: &Number, out: &mut String) {
    out.push_str(&plain(number).to_string());
}

/// Returns a number as an integer if it is one: `1.0` equals `1`, and `-0.0` equals `0`.
pub(super) fn plain(number: &Number) -> Number {
    match number.as_f64().filter(|_| number.is_f64()) {
        #[expect(clippy::cast_possible_truncation, reason = "it is an integer, and small enough")]
        Some(double) if double.fract() == 0.0 && double.abs() < EXACT => (double as i64).into(),
        _ => number.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical_text(json: &str) -> String {
        canonical(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn equal_values_have_one_text() {
        for (json, text) in [
            (r#" { "b" : [ 1 , 2.0, -0.0 ], "a" : { } } "#, r#"{"a":{},"b":[1,2,0]}"#),
            (r#"{"\u0061":"\u20ac\/\n","":null}"#, "{\"\":null,\"a\":\"€/\\n\"}"),
            // In UTF-16, surrogates sort before code points that follow them in Unicode.
            (r#"{"\ufb33":1,"\ud83d\ude00":2,"1":3}"#, "{\"1\":3,\"😀\":2,\"\u{fb33}\":1}"),
            ("[1e3,1E3,1000,0.5,5e-1]", "[1000,1000,1000,0.5,0.5]"),
            ("[true,false,null,\"\"]", r#"[true,false,null,""]"#),
        ] {
            assert_eq!(canonical_text(json), text);
        }
    }

    #[test]
    fn different_values_have_different_texts() {
        for (one, other) in [
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551615", "18446744073709551614"),
            ("1", r#""1""#),
            ("[1,2]", "[12]"),
            (r#"{"a":null}"#, "{}"),
            (r#"["a,b"]"#, r#"["a","b"]"#),
            ("0.1", "0.10000000000000002"),
        ] {
            assert_ne!(canonical_text(one), canonical_text(other));
        }
    }
}
