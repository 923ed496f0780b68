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

/// The parts in the folder `script`, in one function: `bash .ci/page-script/run --write` makes them. First those that show
/// markup, then those for JSON; of both, the one without passes comes first.
const SCRIPTS: [[&str; 2]; 2] = [
    [include_str!("script.min.js"), include_str!("script.passes.min.js")],
    [include_str!("script.json.min.js"), include_str!("script.json.passes.min.js")],
];
/// The readers of markup, for which a script of the first kind asks once an answer needs them.
pub(super) const READERS: &str = include_str!("readers.min.js");
const STYLE: &str = include_str!("style.css");

/// The page that a browser gets instead of the quote's JSON.
///
/// Nothing has to be set. All texts are escaped, and the page loads nothing from anywhere.
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

/// What all answers share.
#[derive(Debug)]
struct Prepared {
    style: String,
    scripts: [[Script; 2]; 2],
}

/// What a page can need beside what every page needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// Passes count or are sold.
    pub(super) passes: bool,
    /// The answer may be markup, Markdown or a table: the script may then ask for their readers.
    pub(super) readers: bool,
}

/// A script of the page, and what follows from it.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    /// What it says: it names each text by its place here.
    pub(super) said: Vec<Text>,
    headers: HeaderMap,
}

impl Script {
    /// A number takes the place of each text's name, `$` and its key.
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
    /// Returns the page as it is unless it is set otherwise.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the shop, above everything else. By default there is none.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets a picture beside the title, by its media type, such as `image/png`, and its bytes. It is sent with every page, so it should be small.
    pub fn logo(mut self, media_type: &str, image: impl AsRef<[u8]>) -> Self {
        self.logo = Some(format!("data:{media_type};base64,{}", STANDARD.encode(image)));
        self.fresh()
    }

    /// Adds style rules behind the page's own. `url(…)` and `@import` load nothing.
    ///
    /// The colours are the variables `--bg`, `--card`, `--ink`, `--soft`, `--line`, `--field`, `--accent`, `--on` (text on the
    /// accent), `--note`, `--good` and `--bad`, each for a light and a dark scheme.
    pub fn css(mut self, css: &str) -> Self {
        self.css.push('\n');
        // Nothing in it ends the element.
        self.css.push_str(&css.replace("</", "<\\/"));
        self.fresh()
    }

    /// The languages that have a translation.
    pub const LANGUAGES: [&str; 7] = SPOKEN;

    /// Sets one language for all visitors, as HTML names it.
    ///
    /// By default, `Accept-Language` chooses among [`LANGUAGES`](Self::LANGUAGES). A language without a translation has the
    /// English texts, until [`texts`](Self::texts) sets others.
    pub fn lang(mut self, lang: impl Into<String>) -> Self {
        self.lang = Some(lang.into());
        self
    }

    /// Every text as it is unless it is set: a line `key = words` for each. This is what a translation begins with.
    ///
    /// Words in braces are replaced. A text with a key that begins with `error.` stands in for the `detail` of a problem of that
    /// code.
    pub const ENGLISH: &str = ENGLISH;

    /// Sets texts, for a translation or for other words: lines `key = words` with keys of [`ENGLISH`](Self::ENGLISH). Empty lines, and
    /// lines that begin with `#`, say nothing.
    ///
    /// They hold in every language: a shop that sets one sentence should also set [`lang`](Self::lang).
    ///
    /// ```
    /// use tower_x402::page::Page;
    /// let page = Page::new().lang("it").texts("buying = Stai acquistando\nsend = Paga con {wallet}")?;
    /// # Ok::<(), tower_x402::protocol::ParseError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ParseError`] if a line is no `key = words`, or if the page has no text of that key.
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

    /// The script of a page with these needs.
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

    /// The language for a visitor with these headers.
    pub(super) fn language(&self, headers: &HeaderMap) -> Language<'_> {
        self.lang.as_deref().map_or_else(|| Language::accepted(headers), Language::of)
    }

    /// The words of a text in a language, with placeholders in braces.
    pub(super) fn words(&self, language: Language<'_>, text: Text) -> &str {
        self.texts.get(&text).map_or(language.text(text), String::as_str)
    }

    /// A document with the headers that guard it and let the script of these needs run.
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

    /// The tool that makes a script could write a name in another way.
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
