//! The visitor's question, read from the address for people.

use http::Uri;

/// How many characters of a question are shown.
const MOST: usize = 120;

/// Returns the values of these query parameters, with names if there are several; `None` if there are none.
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

/// Returns the words of a text on one line, leaving out those that lead elsewhere.
fn on_one_line(text: &str) -> String {
    let text = text.replace(is_invisible, "");
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.map(|word| if leads_elsewhere(word) { "…" } else { word }).collect::<Vec<_>>().join(" ")
}

/// Returns whether a character is invisible and could split or reverse an address: those that Unicode declares
/// ignorable.
const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Returns whether a word may be the address of an account, a page or a mailbox.
fn leads_elsewhere(word: &str) -> bool {
    let longest_name = word.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max().unwrap_or_default();
    word.contains(['/', '@']) || word.contains("0x") || word.contains("0X") || names_a_host(word) || longest_name > 25
}

/// Returns whether a dot separates a name from what may be the end of a host: two letters or more, as in `evil.shop`
/// but not in `1.5` or `e.g.`. Browsers accept Chinese and Japanese dots as well. In those languages they end
/// sentences, so Latin letters must follow.
fn names_a_host(word: &str) -> bool {
    word.char_indices().any(|(at, dot)| {
        let is_of_an_end: fn(char) -> bool = match dot {
            '.' => char::is_alphanumeric,
            '\u{3002}' | '\u{ff0e}' | '\u{ff61}' => |c| c.is_ascii_alphanumeric(),
            _ => return false,
        };
        let (before, after) = (&word[..at], &word[at + dot.len_utf8()..]);
        before.ends_with(|c: char| c.is_alphanumeric() || !c.is_ascii())
            && after.starts_with(char::is_alphabetic)
            && after.chars().take_while(|c| is_of_an_end(*c)).nth(1).is_some()
    })
}

fn pair(encoded: &str) -> Option<(String, String)> {
    let (name, value) = encoded.split_once('=')?;
    let value = decoded(value);
    (!value.trim().is_empty()).then(|| (decoded(name), value))
}

/// Decodes percent-encoding as far as it is valid.
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
            (
                "/a?query=1.5+e.g.+U.S.+v2.0+p.m.+wait...what%3F+3.14kg+end.",
                Some("1.5 e.g. U.S. v2.0 p.m. wait...what? 3.14kg end."),
            ),
            ("/a?query=%E4%BB%B7%E6%A0%BC%E3%80%82%E5%A4%9A%E5%B0%91", Some("价格。多少")),
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
            ("bit.ly/shop-pay+t.me/shop+pay.evil.dev+evil.shop", "… … … …"),
            ("EVIL.Shop+%28evil.shop%29+at:evil.shop:8080+evil.com.+evil.com,+1.evil.xn--p1ai", "… … … … … …"),
            (
                "%D0%BF%D1%80%D0%B8%D0%BC%D0%B5%D1%80.%D1%80%D1%84+%F0%9F%92%A9.la+evil%E3%80%82com+evil%EF%BC%8Ecom",
                "… … … …",
            ),
            // Split by characters that no reader sees: zero width, soft hyphen, filler; and reversed.
            ("to+0%E2%80%8Bx1111%E2%80%8B1111+bc1qar0srrr7xfkv%C2%ADy5l643lydnw9re59%E3%85%A4gtzzwf5mdq", "to … …"),
            ("evil%E2%81%A0.%EF%B8%8Fs%E2%80%8Bhop+%E2%80%AEpohs.live%E2%80%AC", "… …"),
            ("a%E2%80%AEbc%E2%80%AC", "abc"),
        ] {
            assert_eq!(shown(&format!("/a?query={query}")).as_deref(), Some(text));
        }
    }
}
