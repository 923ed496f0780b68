//! What the visitor asked, read from the address for people.

use http::Uri;

/// How much of a question is shown, in characters.
const MOST: usize = 120;

/// The values of these parameters of the query, with their names where there are several; `None` where there are none.
///
/// The author of a link chooses them, and they appear beside a price. The page therefore shows one short line, without
/// addresses of accounts or pages.
pub(super) fn question(uri: &Uri, described: &[String]) -> Option<String> {
    let mut pairs: Vec<_> = uri.query()?.split('&').filter_map(pair).collect();
    pairs.retain(|(name, _)| described.contains(name));
    let text = match pairs.as_slice() {
        [] => return None,
        [(_, value)] => on_one_line(value),
        several => {
            let named = several.iter().map(|(name, value)| format!("{name}: {}", on_one_line(value)));
            named.collect::<Vec<_>>().join(" · ")
        }
    };
    let cut = text.char_indices().nth(MOST).map_or(text.len(), |(at, _)| at);
    Some(if cut < text.len() { format!("{}…", &text[..cut]) } else { text })
}

/// The words of a text, with what leads elsewhere left out.
fn on_one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.map(|word| if leads_elsewhere(word) { "…" } else { word }).collect::<Vec<_>>().join(" ")
}

/// Whether a word may be an address: of an account, a page or a mailbox.
fn leads_elsewhere(word: &str) -> bool {
    const ENDS: [&str; 7] = [".com", ".net", ".org", ".io", ".xyz", ".eth", ".app"];
    let word = word.to_ascii_lowercase();
    let longest_name = word.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max().unwrap_or_default();
    word.contains("://")
        || word.contains("0x")
        || word.contains('@')
        || word.contains("www.")
        || ENDS.iter().any(|end| word.contains(end))
        || longest_name > 25
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

    fn shown(address: &str) -> Option<String> {
        let described = ["query", "aggregate", "country", "category"].map(str::to_owned);
        question(&address.parse().unwrap(), &described)
    }

    #[test]
    fn a_question_is_shown_as_it_was_asked() {
        for (address, text) in [
            ("/a", None),
            ("/a?", None),
            ("/a?query", None),
            ("/a?query=", None),
            ("/a?other=send+money", None),
            ("/a?query=What+do+visitors%20say%3F", Some("What do visitors say?")),
            ("/a?query=%F0%9F%8C%8D%zz%2&other=x", Some("🌍%zz%2")),
            ("/a?query=%ff%fe", Some("\u{fffd}\u{fffd}")),
            ("/a?aggregate=agent&country=South+Korea&category=", Some("aggregate: agent · country: South Korea")),
        ] {
            assert_eq!(shown(address).as_deref(), text, "{address}");
        }
        let long = shown(&format!("/a?query={}", "x+".repeat(2_000))).unwrap();
        assert_eq!(long.chars().count(), MOST + 1);
    }

    /// SECURITY row 55.
    #[test]
    fn a_question_sends_no_one_elsewhere() {
        for (query, text) in [
            ("broken%0A%0Dsend%20%200.49+USDC", "broken send 0.49 USDC"),
            ("to+0x1111111111111111111111111111111111111111+now", "to … now"),
            ("see+https://evil.example/pay,+www.evil.example", "see … …"),
            ("evil.com%2Fpay+vitalik.eth+me@evil.example", "… … …"),
            ("bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", "…"),
            ("a%E2%80%A8b%C2%85c", "a b c"),
        ] {
            assert_eq!(shown(&format!("/a?query={query}")).as_deref(), Some(text));
        }
    }
}
