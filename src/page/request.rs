//! What the visitor asked, read from the address for people.

use http::Uri;

/// How much of a question is shown, in characters.
const MOST: usize = 400;

/// The values of the query, a line each, with their names where there are several; `None` where there are none.
pub(super) fn question(uri: &Uri) -> Option<String> {
    let pairs: Vec<_> = uri.query()?.split('&').filter_map(pair).collect();
    let lines: Vec<String> = match pairs.as_slice() {
        [] => return None,
        [(_, value)] => vec![value.clone()],
        several => several.iter().map(|(name, value)| format!("{name}: {value}")).collect(),
    };
    let text = lines.join("\n");
    let cut = text.char_indices().nth(MOST).map_or(text.len(), |(at, _)| at);
    Some(if cut < text.len() { format!("{}…", &text[..cut]) } else { text })
}

fn pair(encoded: &str) -> Option<(String, String)> {
    let (name, value) = encoded.split_once('=')?;
    let value = decoded(value);
    (!value.trim().is_empty()).then(|| (decoded(name), value))
}

/// Without its percent-encoding, as far as that can be read.
fn decoded(encoded: &str) -> String {
    let bytes = encoded.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let digit = |offset: usize| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
        match (byte, digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or_default());
                at += 2;
            }
            (b'+', ..) => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_shown_as_it_was_asked() {
        for (address, shown) in [
            ("/a", None),
            ("/a?", None),
            ("/a?x", None),
            ("/a?x=", None),
            ("/a?query=What+do+visitors%20say%3F", Some("What do visitors say?")),
            ("/a?query=%F0%9F%8C%8D%zz%2", Some("🌍%zz%2")),
            ("/a?query=%ff%fe", Some("\u{fffd}\u{fffd}")),
            ("/a?aggregate=agent&country=South+Korea&category=", Some("aggregate: agent\ncountry: South Korea")),
        ] {
            assert_eq!(question(&address.parse().unwrap()).as_deref(), shown, "{address}");
        }
        let long = question(&format!("/a?query={}", "x".repeat(2_000)).parse().unwrap()).unwrap();
        assert_eq!(long.chars().count(), MOST + 1);
    }
}
