//! `Page`: the settings of the page, and the parts that are computed once for all answers.

use std::{collections::BTreeMap, fmt, sync::OnceLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};

use super::{
    language::{Language, SPOKEN},
    policy,
    text::{self, ENGLISH, Text},
};
use crate::protocol::ParseError;

/// The parts in the folder `script`, bundled in one function by `bash .ci/page-script/run --write`. The first pair
/// shows markup, the second only JSON; in each pair, the script without passes comes first.
const SCRIPTS: [[&str; 2]; 2] = [
    [include_str!("script.min.js"), include_str!("script.passes.min.js")],
    [include_str!("script.json.min.js"), include_str!("script.json.passes.min.js")],
];
/// The readers of markup. A script of the first pair loads them when an answer needs them.
pub(super) const READERS: &str = include_str!("readers.min.js");
const STYLE: &str = include_str!("style.css");

/// The page that a browser gets instead of the quote's JSON.
///
/// All settings are optional. All texts are escaped, and the page loads nothing from other origins.
///
/// ```
/// use tower_x402::page::Page;
/// let page = Page::new()
///     .title("Weather & Co.")
///     .logo("image/svg+xml", br#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path d="M0 0h1v1z"/></svg>"#)
///     .css(":root { --accent: #7a1fa2; } @media (prefers-color-scheme: dark) { :root { --accent: #d9a3f0; } }");
/// # let _ = page;
/// ```
#[derive(Default)]
#[must_use]
pub struct Page {
    title: Option<String>,
    logo: Option<String>,
    css: String,
    lang: Option<String>,
    texts: BTreeMap<Text, String>,
    prepared: OnceLock<Prepared>,
}

/// The parts that all answers share.
#[derive(Debug)]
struct Prepared {
    style: String,
    scripts: [[Script; 2]; 2],
}

/// The optional parts that a page may need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// Whether passes are accepted or sold.
    pub(super) passes: bool,
    /// Whether the answer may be markup, Markdown or a table, so that the script may load their readers.
    pub(super) readers: bool,
}

/// A script of the page, and the values derived from it.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    /// The texts that it uses; it names each one by its index here.
    pub(super) said: Vec<Text>,
    headers: HeaderMap,
}

impl Script {
    /// Creates a script in which an index replaces each text's name, `$` and its key.
    fn new(source: &str, readers: Option<&str>, style: &str) -> Self {
        let name = |text: Text| format!(r#""${}""#, text.key());
        let said: Vec<_> = Text::ALL.iter().copied().filter(|text| source.contains(&name(*text))).collect();
        let numbered =
            |script: String, (number, text): (usize, &Text)| script.replace(&name(*text), &format!(r#""{number}""#));
        let text = said.iter().enumerate().fold(source.to_owned(), numbered);
        let headers = policy::headers(&text, readers, style);
        Self { text, said, headers }
    }
}

impl Page {
    /// Returns the page with its default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the shop, shown at the top. By default there is none.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets a picture beside the title, by its media type, such as `image/png`, and its bytes. It is sent with every
    /// page, so it should be small.
    pub fn logo(mut self, media_type: &str, image: impl AsRef<[u8]>) -> Self {
        self.logo = Some(format!("data:{media_type};base64,{}", STANDARD.encode(image)));
        self.fresh()
    }

    /// Adds style rules after the page's own. `url(…)` and `@import` load nothing.
    ///
    /// The colours are the variables `--bg`, `--card`, `--ink`, `--soft`, `--line`, `--field`, `--accent`, `--on` (text on the
    /// accent), `--note`, `--good` and `--bad`, each for a light and a dark scheme.
    pub fn css(mut self, css: &str) -> Self {
        self.css.push('\n');
        // No part of it can end the element.
        self.css.push_str(&css.replace("</", "<\\/"));
        self.fresh()
    }

    /// The languages that have a translation.
    pub const LANGUAGES: [&str; 7] = SPOKEN;

    /// Sets one language for all visitors, by its HTML tag.
    ///
    /// By default, `Accept-Language` chooses among [`LANGUAGES`](Self::LANGUAGES). A language without a translation has the
    /// English texts, until [`texts`](Self::texts) sets others.
    pub fn lang(mut self, lang: impl Into<String>) -> Self {
        self.lang = Some(lang.into());
        self
    }

    /// The default of every text: a line `key = words` for each, as a start for a translation.
    ///
    /// Words in braces are replaced. A text whose key begins with `error.` replaces the `detail` of a problem of that
    /// code.
    pub const ENGLISH: &str = ENGLISH;

    /// Sets texts, for a translation or for other wording: lines `key = words` with keys of
    /// [`ENGLISH`](Self::ENGLISH). Empty lines and lines that begin with `#` are ignored.
    ///
    /// They apply in every language: a shop that sets one sentence should also set [`lang`](Self::lang).
    ///
    /// ```
    /// use tower_x402::page::Page;
    /// let page = Page::new().lang("it").texts("buying = Stai acquistando\nsend = Paga con {wallet}")?;
    /// # Ok::<(), tower_x402::protocol::ParseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ParseError`] if a line is not `key = words`, or if the page has no text with that key.
    pub fn texts(mut self, lines: &str) -> Result<Self, ParseError> {
        for line in text::read(lines) {
            let (text, words) = line?;
            self.texts.insert(text, words.to_owned());
        }
        Ok(self)
    }

    fn fresh(mut self) -> Self {
        self.prepared = OnceLock::new();
        self
    }

    fn prepared(&self) -> &Prepared {
        self.prepared.get_or_init(|| {
            let style = format!("{}{}", STYLE.replace('\n', ""), self.css);
            let [reading, json] = SCRIPTS;
            let reading = reading.map(|script| Script::new(script, Some(READERS), &style));
            let scripts = [reading, json.map(|script| Script::new(script, None, &style))];
            Prepared { style, scripts }
        })
    }

    /// Returns the script of a page with these needs.
    pub(super) fn script(&self, needs: Needs) -> &Script {
        let [reading, json] = &self.prepared().scripts;
        let [without_passes, with_passes] = if needs.readers { reading } else { json };
        if needs.passes { with_passes } else { without_passes }
    }

    pub(super) fn style(&self) -> &str {
        &self.prepared().style
    }

    pub(super) fn shown_title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    pub(super) fn shown_logo(&self) -> Option<&str> {
        self.logo.as_deref()
    }

    /// Returns the language for a visitor with these headers.
    pub(super) fn language(&self, headers: &HeaderMap) -> Language<'_> {
        self.lang.as_deref().map_or_else(|| Language::accepted(headers), Language::of)
    }

    /// Returns a text in a language, with placeholders in braces.
    pub(super) fn words(&self, language: Language<'_>, text: Text) -> &str {
        self.texts.get(&text).map_or(language.text(text), String::as_str)
    }

    /// Returns a document with the headers that guard it and allow the script for these needs.
    pub(super) fn sent(&self, document: String, needs: Needs) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(document));
        response.headers_mut().clone_from(&self.script(needs).headers);
        if self.lang.is_none() {
            response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Language"));
        }
        response
    }
}

impl Clone for Page {
    fn clone(&self) -> Self {
        let Self { title, logo, css, lang, texts, prepared: _ } = self;
        let (title, logo, css) = (title.clone(), logo.clone(), css.clone());
        Self { title, logo, css, lang: lang.clone(), texts: texts.clone(), prepared: OnceLock::new() }
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("title", &self.title).field("lang", &self.lang).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tool that makes a script could write the names differently.
    #[test]
    fn a_script_names_its_texts_by_their_places() {
        for source in SCRIPTS.as_flattened() {
            let Script { text, said, .. } = Script::new(source, None, "");
            let last = said.len() - 1;
            assert!(last > 40 && text.contains(&format!("\"{last}\"")));
            for known in Text::ALL {
                assert!(!text.contains(&format!("${}", known.key())), "{known:?}");
            }
        }
    }
}
