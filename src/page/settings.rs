//! `Page`: the settings of the page, and the parts that are computed once for all answers.

use std::{collections::BTreeMap, fmt, sync::OnceLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Response};

use super::{policy, text::Text};

/// The script, a part for each of its subjects, in one function.
const SCRIPT: &str = concat!(
    include_str!("script/begin.js"),
    include_str!("script/memory.js"),
    include_str!("script/view.js"),
    include_str!("script/wallets.js"),
    include_str!("script/redeem.js"),
    include_str!("script/answer.js"),
    include_str!("script/end.js"),
);
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
    script: String,
    style: String,
    headers: HeaderMap,
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

    /// Sets the language of the texts, as HTML names it; `en` by default.
    pub fn lang(mut self, lang: impl Into<String>) -> Self {
        self.lang = Some(lang.into());
        self
    }

    /// Sets one text, for a translation or for other words.
    pub fn text(mut self, text: Text, words: impl Into<String>) -> Self {
        self.texts.insert(text, words.into());
        self
    }

    fn fresh(mut self) -> Self {
        self.prepared = OnceLock::new();
        self
    }

    fn prepared(&self) -> &Prepared {
        self.prepared.get_or_init(|| {
            let script = shorter(SCRIPT);
            let style = format!("{}{}", shorter(STYLE), self.css);
            let headers = policy::headers(&script, &style);
            Prepared { script, style, headers }
        })
    }

    pub(super) fn script(&self) -> &str {
        &self.prepared().script
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

    pub(super) fn shown_lang(&self) -> &str {
        self.lang.as_deref().unwrap_or("en")
    }

    /// The direction in which the language of the texts is written.
    pub(super) fn direction(&self) -> &'static str {
        const FROM_THE_RIGHT: [&str; 8] = ["ar", "dv", "fa", "he", "ps", "ur", "ug", "yi"];
        let language = self.shown_lang().split('-').next().unwrap_or_default();
        if FROM_THE_RIGHT.iter().any(|known| known.eq_ignore_ascii_case(language)) { "rtl" } else { "ltr" }
    }

    /// The words of a text, with placeholders in braces.
    pub(super) fn words(&self, text: Text) -> &str {
        self.texts.get(&text).map_or(text.english(), String::as_str)
    }

    /// A document with the headers that guard it.
    pub(super) fn sent(&self, document: String) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(document));
        response.headers_mut().clone_from(&self.prepared().headers);
        response
    }
}

/// Without indentation and lines that are comments. Neither script nor style has a text of several lines.
fn shorter(source: &str) -> String {
    let lines = source.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.fold(String::with_capacity(source.len()), |all, line| all + line + "\n")
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
