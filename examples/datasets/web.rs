//! Pages for people: what browsers get instead of JSON.

use std::{fmt::Write as _, sync::LazyLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::analytics::{Aggregate, Allowed};

const STYLE: &str = include_str!("web.css");

/// Allows this style only, and forms that lead to this service.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// Returns whether HTML is accepted, and named before JSON.
pub(crate) fn wants_html(headers: &HeaderMap) -> bool {
    first_of(headers, ["text/html", "application/json"]) == Some("text/html")
}

/// Returns whether plain text is accepted by name, and named before HTML.
pub(crate) fn wants_text(headers: &HeaderMap) -> bool {
    first_of(headers, ["text/plain", "text/html"]) == Some("text/plain")
}

/// Returns which of these types is named first.
fn first_of<'a>(headers: &'a HeaderMap, names: [&str; 2]) -> Option<&'a str> {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let mut types =
        accept.flat_map(|line| line.split(',')).map(|range| range.split(';').next().unwrap_or_default().trim());
    types.find(|name| names.contains(name))
}

/// Returns a whole page. `body` is HTML.
pub(crate) fn page(title: &str, body: &str) -> Response<Bytes> {
    let title = escaped(title);
    let text = format!(
        r#"<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>{title}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>"#
    );
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, POLICY.clone()),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::VARY, HeaderValue::from_static("Accept")),
    ];
    let mut response = Response::new(Bytes::from(text));
    response.headers_mut().extend(headers);
    response
}

/// Escapes a text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Converts a Markdown answer to HTML. Markup in it becomes text, links lead only to the web, and pictures become
/// their descriptions.
pub(crate) fn markdown(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let events = Parser::new_ext(text, options).map(|event| match event {
        Event::Html(markup) | Event::InlineHtml(markup) => Event::Text(markup),
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            Event::Start(Tag::Link { link_type, dest_url: safe(dest_url), title, id })
        }
        Event::Start(Tag::Image { .. }) => Event::Start(Tag::Emphasis),
        Event::End(pulldown_cmark::TagEnd::Image) => Event::End(pulldown_cmark::TagEnd::Emphasis),
        other => other,
    });
    let mut out = String::new();
    pulldown_cmark::html::push_html(&mut out, events);
    out
}

fn safe(address: CowStr<'_>) -> CowStr<'_> {
    let begins = |scheme: &str| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if begins("https://") || begins("http://") { address } else { "#".into() }
}

/// Returns an answer in words as a page, with the hash of its dataset.
pub(crate) fn reply(title: &str, answer: &Value) -> Response<Bytes> {
    let text = answer["reply"].as_str().unwrap_or_default();
    let hash = escaped(answer["dataHash"].as_str().unwrap_or_default());
    page(title, &format!("{}<footer><p>SHA-256 of the dataset: <code>{hash}</code></p></footer>", markdown(text)))
}

/// Returns an answer in numbers as a table.
pub(crate) fn numbers(title: &str, answer: &Value) -> Response<Bytes> {
    let stats = &answer["stats"];
    let by = escaped(stats["aggregate"].as_str().unwrap_or_default());
    let mut body = format!(
        r#"<h1>{}</h1><table><thead><tr><th scope="col">{by}</th><th scope="col">Conversions</th><th scope="col">Visitors</th><th scope="col">Rate</th></tr></thead><tbody>"#,
        escaped(title)
    );
    for row in stats["rows"].as_array().into_iter().flatten() {
        let rate = row["rate"].as_f64().unwrap_or_default() * 100.0;
        // Writing to a String cannot fail.
        let _ = write!(
            body,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{rate:.2} %</td></tr>",
            escaped(row["group"].as_str().unwrap_or_default()),
            row["conversions"],
            row["visitors"],
        );
    }
    body.push_str("</tbody></table>");
    page(title, &body)
}

/// Returns a refusal for a visitor who sent a form.
pub(crate) fn refusal(title: &str, detail: &str) -> Response<Bytes> {
    page(
        title,
        &format!(
            r#"<h1>{}</h1><p>{}</p><p><a href="/">Back to the questions</a></p>"#,
            escaped(title),
            escaped(detail)
        ),
    )
}

/// Returns the start page: the offers, and a form for each. Its links are relative, since the service may be mounted
/// under a prefix.
pub(crate) fn welcome(price: &str, symbol: &str, allowed: &Allowed) -> Response<Bytes> {
    let price = escaped(&format!("{price} {symbol}"));
    let mut body = format!(
        r#"<h1>Answers from three datasets</h1><p>Ask a question and see its price: <strong>{price}</strong> an answer, paid with a wallet in this browser or with any other. No account is needed, and nothing is charged before you pay.</p>"#
    );
    let question = |id: &str, title: &str, about: &str, path: &str, example: &str| {
        format!(
            r#"<section><h2>{title}</h2><p>{about}</p><form action="{path}" method="get"><label for="{id}">Your question</label><input id="{id}" name="query" required maxlength="2000" autocomplete="off" value="{example}"><button>See the price</button></form></section>"#
        )
    };
    body.push_str(&question(
        "insights",
        "Demand insights",
        "What visitors say in anonymized chats: themes, quotations, and what they mean for messaging, pricing and go-to-market.",
        "demand-insights",
        "What do visitors say about pricing?",
    ));
    body.push_str(&question(
        "goals",
        "Goals of early adopters of AI",
        "What people who were early to use AI want to reach with it.",
        "ai-early-adopters-goals",
        "Who wants to automate customer support?",
    ));
    body.push_str(&conversions(allowed));
    body.push_str(
        "<footer><p>Programs POST JSON to the same addresses, and GET <a href=\"developer/analytics-filters\">the values that filters may have</a>.</p></footer>",
    );
    page("Answers from three datasets", &body)
}

fn conversions(allowed: &Allowed) -> String {
    let mut form = String::from(
        r#"<section><h2>Agent conversions</h2><p>Visitors and conversions of a marketplace for agents, added up by group.</p><form action="analytics/agent-conversions" method="get">"#,
    );
    let mut choice = |name: &str, title: &str, any: Option<&str>, values: &mut dyn Iterator<Item = &str>| {
        let _ = write!(form, r#"<label for="{name}">{title}</label><select id="{name}" name="{name}">"#);
        if let Some(any) = any {
            let _ = write!(form, r#"<option value="">{any}</option>"#);
        }
        for value in values {
            let _ = write!(form, "<option>{}</option>", escaped(value));
        }
        form.push_str("</select>");
    };
    choice("aggregate", "One row for each", None, &mut Aggregate::ALL.iter().map(|aggregate| aggregate.name()));
    choice("country", "Only this country", Some("all countries"), &mut allowed.countries.iter().map(String::as_str));
    form.push_str("<button>See the price</button></form></section>");
    form
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_an_answer_is_text_and_links_lead_to_the_web() {
        let html = markdown(
            "# a <b>b</b>\n\n<script>alert(1)</script>\n\n[x](javascript:alert(1)) [y](https://example.org) ![z](https://example.org/a.png)\n\n| a | b |\n|---|---|\n| 1 | 2 |",
        );
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && html.contains("&lt;b&gt;"), "{html}");
        assert!(html.contains(r##"<a href="#">x</a>"##) && html.contains(r#"<a href="https://example.org">y</a>"#));
        assert!(html.contains("<table>") && !html.contains("<img") && !html.contains("<script"), "{html}");
    }

    #[test]
    fn html_is_for_those_who_ask_for_it_first() {
        for (accept, html) in [
            ("text/html,application/xhtml+xml,*/*;q=0.8", true),
            ("text/html,application/json;q=0.9", true),
            ("application/json, text/html", false),
            ("*/*", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(wants_html(&headers), html, "{accept}");
        }
        assert!(!wants_html(&HeaderMap::new()));
    }
}
