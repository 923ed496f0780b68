//! The languages of the page's texts, and the choice for a visitor.

use std::{collections::HashMap, sync::LazyLock};

use http::{HeaderMap, header};

use super::text::{self, Text};
use crate::quality::quality;

/// The default language.
const ENGLISH: &str = "en";

/// The translations by language: one line `key = text` for each text.
const TRANSLATIONS: [(&str, &str); 6] = [
    ("ar", include_str!("languages/ar.txt")),
    ("de", include_str!("languages/de.txt")),
    ("es", include_str!("languages/es.txt")),
    ("fr", include_str!("languages/fr.txt")),
    ("ja", include_str!("languages/ja.txt")),
    ("zh", include_str!("languages/zh.txt")),
];

/// Every language that the page has without a translation by the shop.
pub(super) const SPOKEN: [&str; 7] = ["ar", "de", ENGLISH, "es", "fr", "ja", "zh"];

type Texts = HashMap<Text, &'static str>;

static TEXTS: LazyLock<HashMap<&str, Texts>> = LazyLock::new(|| {
    TRANSLATIONS.iter().map(|(language, lines)| (*language, text::read(lines).flatten().collect())).collect()
});

/// The language of one page.
#[derive(Clone, Copy)]
pub(super) struct Language<'a> {
    /// The tag in HTML.
    pub(super) tag: &'a str,
    /// The translation; `None` is English.
    texts: Option<&'static Texts>,
}

impl<'a> Language<'a> {
    /// Returns the language of this tag. A language without a translation has the English texts.
    pub(super) fn of(tag: &'a str) -> Self {
        Self { tag, texts: TEXTS.get(primary(tag).as_str()) }
    }

    /// Returns the best of the visitor's languages that the page has, by `Accept-Language`; English if there is none.
    pub(super) fn accepted(headers: &HeaderMap) -> Language<'static> {
        let lines = headers.get_all(header::ACCEPT_LANGUAGE).iter().filter_map(|line| line.to_str().ok());
        let ranges = lines.flat_map(|line| line.split(',')).filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let tag = primary(parts.next().unwrap_or_default());
            let spoken = SPOKEN.into_iter().find(|spoken| *spoken == tag)?;
            quality(parts).filter(|quality| *quality > 0).map(|quality| (quality, spoken))
        });
        // The first one of equal weight.
        let best = ranges.reduce(|best, next| if next.0 > best.0 { next } else { best });
        Language::of(best.map_or(ENGLISH, |(_, spoken)| spoken))
    }

    pub(super) fn text(self, text: Text) -> &'static str {
        self.texts.and_then(|texts| texts.get(&text).copied()).unwrap_or(text.english())
    }

    /// Returns the direction in which it is written.
    pub(super) fn direction(self) -> &'static str {
        const FROM_THE_RIGHT: [&str; 8] = ["ar", "dv", "fa", "he", "ps", "ur", "ug", "yi"];
        if FROM_THE_RIGHT.contains(&primary(self.tag).as_str()) { "rtl" } else { "ltr" }
    }
}

/// Returns the language of a tag, without script and region (RFC 5646).
fn primary(tag: &str) -> String {
    tag.split(['-', '_']).next().unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::HeaderValue;

    use super::*;

    /// Returns the names in braces.
    fn holes(text: &str) -> BTreeSet<&str> {
        text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).collect()
    }

    #[test]
    fn a_translation_has_every_text_with_the_same_holes() {
        for (language, lines) in TRANSLATIONS {
            assert_eq!(lines.lines().count(), Text::ALL.len(), "{language}");
            for text in Text::ALL {
                let told = TEXTS[language].get(text).unwrap_or_else(|| panic!("{language} lacks {}", text.key()));
                assert!(!told.trim().is_empty(), "{language}: {}", text.key());
                assert_eq!(holes(told), holes(text.english()), "{language}: {}", text.key());
            }
        }
    }

    #[test]
    fn the_visitors_best_language_counts() {
        for (accepted, spoken) in [
            (&[][..], "en"),
            (&["de-CH,de;q=0.9,en;q=0.8"], "de"),
            (&["pt-BR, fr;q=0.4, es;q=0.5"], "es"),
            (&["it, pt"], "en"),
            (&["DE"], "de"),
            (&["zh-Hant-TW"], "zh"),
            (&["en-GB,ja"], "en"),
            (&["en;q=0.1", "ja;q=0.2"], "ja"),
            (&["ar;q=0, en"], "en"),
            (&["ar;q=0"], "en"),
            (&["*"], "en"),
            (&["fr;q=nonsense, ,;=,"], "en"),
        ] {
            let mut headers = HeaderMap::new();
            for line in accepted {
                headers.append(header::ACCEPT_LANGUAGE, HeaderValue::from_static(line));
            }
            assert_eq!(Language::accepted(&headers).tag, spoken, "{accepted:?}");
        }
    }

    #[test]
    fn a_language_without_a_translation_is_english_and_keeps_its_direction() {
        let hebrew = Language::of("he-IL");
        assert_eq!(
            (hebrew.tag, hebrew.direction(), hebrew.text(Text::Buying)),
            ("he-IL", "rtl", Text::Buying.english())
        );
        assert_eq!(Language::of("ar").direction(), "rtl");
        assert_eq!(Language::of("de-AT").text(Text::Copy), "Kopieren");
    }
}
