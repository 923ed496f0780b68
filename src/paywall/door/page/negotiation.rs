//! Decides whether a person reads the answer, in a browser that opens a page, by the request's head.

use http::{HeaderMap, HeaderName, Method, header, request::Parts};

use crate::quality::quality;

const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Returns whether this is a browser that opens a page to read: it asks for the page itself, and prefers HTML to JSON.
pub(crate) fn opens_page(parts: &Parts) -> bool {
    matches!(parts.method, Method::GET | Method::HEAD) && shows_page(&parts.headers)
}

/// Returns whether a person sees the answer, for any method: a form uses POST. A script's `fetch` does not count.
pub(crate) fn shows_page(headers: &HeaderMap) -> bool {
    let mut modes = headers.get_all(SEC_FETCH_MODE).iter();
    modes.all(|mode| mode == "navigate") && prefers_html(headers)
}

/// Returns whether `Accept` prefers HTML to JSON. A client without a preference, like most programs, gets JSON.
fn prefers_html(headers: &HeaderMap) -> bool {
    let (mut html, mut json) = (Wanted::default(), Wanted::default());
    for line in headers.get_all(header::ACCEPT) {
        let Ok(line) = line.to_str() else { return false };
        for range in line.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            // Java's own client accepts this, and HTML first; no browser does.
            if name == "*" {
                return false;
            }
            let Some(quality) = quality(parts) else { continue };
            html.hear(&name, &["text/html"], "text/*", quality);
            json.hear(&name, &["application/json", "application/problem+json"], "application/*", quality);
        }
    }
    html.quality() > json.quality()
}

/// The quality of one media type: the most specific range counts.
#[derive(Default)]
struct Wanted {
    /// The qualities given to its name, to its kind, and to any type.
    said: [Option<u16>; 3],
}

impl Wanted {
    fn hear(&mut self, range: &str, names: &[&str], kind: &str, quality: u16) {
        let closeness = match range {
            "*/*" => 2,
            _ if range == kind => 1,
            _ if names.contains(&range) => 0,
            _ => return,
        };
        let said = &mut self.said[closeness];
        *said = Some(said.unwrap_or_default().max(quality));
    }

    fn quality(&self) -> u16 {
        self.said.iter().flatten().next().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(method: &str, accept: &[&str], mode: Option<&str>) -> Parts {
        let mut request = Request::builder().method(method).uri("/");
        for line in accept {
            request = request.header("accept", *line);
        }
        if let Some(mode) = mode {
            request = request.header("sec-fetch-mode", mode);
        }
        request.body(()).unwrap().into_parts().0
    }

    const CHROME: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7";

    #[test]
    fn what_accept_says_decides() {
        for (accept, page) in [
            (&[CHROME][..], true),
            (&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], true),
            (&["text/html"], true),
            (&["TEXT/HTML; charset=utf-8"], true),
            (&["application/xml", "text/html"], true),
            (&["text/*, application/json;q=0.9"], true),
            (&["application/json;q=0.2, text/html;q=0.3"], true),
            (&["text/html;q=0.9, application/*;q=0.5, */*"], true),
            (&[], false),
            (&["*/*"], false),
            (&["text/html, */*"], false),
            (&["application/json"], false),
            (&["application/json, text/plain, */*"], false),
            (&["application/problem+json, text/html;q=0.9"], false),
            (&["text/html, application/json"], false),
            (&["text/html;q=0"], false),
            (&["text/html;q=0.0, */*;q=0.8"], false),
            (&["text/html;q=2"], false),
            (&["text/html;q=0.1234"], false),
            (&["text/html;q=x"], false),
            (&["text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"], false),
            (&["image/png"], false),
            (&[""], false),
            (&[",;,=;q"], false),
        ] {
            assert_eq!(opens_page(&head("GET", accept, None)), page, "{accept:?}");
        }
        let mut odd = head("GET", &[], None);
        odd.headers.insert("accept", http::HeaderValue::from_bytes(b"text/html\xff").unwrap());
        assert!(!opens_page(&odd));
    }

    #[test]
    fn only_a_page_that_is_opened_gets_one() {
        for (method, mode, page) in [
            ("GET", Some("navigate"), true),
            ("GET", Some("cors"), false),
            ("GET", Some("same-origin"), false),
            ("GET", Some("no-cors"), false),
            ("GET", Some(""), false),
            ("HEAD", Some("navigate"), true),
            ("HEAD", None, true),
            ("POST", None, false),
            ("POST", Some("navigate"), false),
            ("OPTIONS", None, false),
            ("DELETE", None, false),
        ] {
            assert_eq!(opens_page(&head(method, &[CHROME], mode)), page, "{method} {mode:?}");
        }
        // A form's answer is read by a person, too.
        assert!(shows_page(&head("POST", &[CHROME], Some("navigate")).headers));
    }
}
