//! [`fold`]: makes texts equal that some service treats as the same.

use std::borrow::Cow;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{CanonicalCombiningClass, DefaultIgnorableCodePoint},
};

/// Removes letter case, accents, compatibility forms and invisible characters. Services ignore some of these when
/// they compare texts; databases may ignore all.
pub(super) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let decomposed: Cow<'_, str> = const { DecomposingNormalizerBorrowed::new_nfkd() }.normalize(text);
    // Upper case first, because it turns `ſ`, `ı` and `ς` into common letters.
    let upper = decomposed.chars().filter(|c| is_shown(*c)).flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

fn is_shown(c: char) -> bool {
    let class = CodePointMapData::<CanonicalCombiningClass>::new().get(c);
    class == CanonicalCombiningClass::NotReordered && !CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_some_service_takes_for_the_same_become_equal() {
        for (text, same) in [
            ("Insights", "insights"),
            ("in\u{17f}ights", "insights"),
            ("\u{130}nsights", "insights"),
            ("\u{131}ns\u{131}ghts", "insights"),
            ("íñsïghts", "insights"),
            ("i\u{301}nsights", "insights"),
            ("ins\u{ad}ights\u{200b}", "insights"),
            ("ｉｎｓｉｇｈｔｓ", "insights"),
            ("\u{212a}elvin", "kelvin"),
            ("Straße", "STRASSE"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
            ("ЙОД", "иод"),
        ] {
            assert_eq!(fold(text), fold(same), "{text}");
        }
    }

    #[test]
    fn other_words_stay_other_words() {
        for (text, other) in [("insight", "insights"), ("दिल", "दल"), ("诗", "师"), ("a-b", "ab"), ("a+b", "a b")]
        {
            assert_ne!(fold(text), fold(other), "{text}");
        }
    }
}
