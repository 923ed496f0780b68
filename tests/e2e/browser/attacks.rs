//! SECURITY row 55: texts that try to be more than text, and a page in somebody else's frame.

use serde_json::json;

use super::{
    shop::{Kind, Shop},
    visit::Browser,
};

/// Markup, ends of elements and attributes, and what is no markup until it is decoded once more.
const TEXTS: [&str; 9] = [
    "<script>__pwned()</script>",
    "</script><script>__pwned()</script>",
    "\"><img src=x onerror=__pwned()>",
    "' onmouseover='__pwned()' x='",
    "</title></style><svg onload=__pwned()>",
    "{{constructor.constructor('__pwned()')()}} ${__pwned()}",
    "<!--<script>",
    "&lt;img src=x onerror=__pwned()&gt;",
    "javascript:__pwned()",
];

#[tokio::test]
async fn no_text_becomes_more_than_text() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { labels: TEXTS.map(str::to_owned).into(), ..Kind::default() }).await;
    let addresses: Vec<String> = TEXTS
        .iter()
        .enumerate()
        .map(|(number, text)| {
            let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            shop.at(&format!("/{number}?query={encoded}#{}", text.replace(' ', "%20")))
        })
        .collect();
    let told = browser.visit(&shop, "attacked", &addresses[0], json!({ "addresses": addresses })).await;
    for (number, text) in TEXTS.iter().enumerate() {
        let told = &told["told"][number];
        assert_eq!((&told["pwned"], &told["strange"], &told["dialogs"]), (&json!(0), &json!(0), &json!(0)), "{text}");
        // Of the question, what may be an address is left out.
        let leads = |word: &str| word.contains('/') || word.contains("constructor.");
        let words = text.split(' ').map(|word| if leads(word) { "…" } else { word });
        let asked = format!("“{}”", words.collect::<Vec<_>>().join(" "));
        assert_eq!(told["texts"], json!({ "h1": text.trim(), "asked": asked }));
        assert_eq!((&told["foreign"], &told["complaints"]), (&json!([]), &json!([])), "{text}");
    }
}

/// The answer is the seller's, and still nothing in it runs in the page.
#[tokio::test]
async fn an_answers_markup_is_read_and_not_run() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let url = shop.at("/report?as=hostile");
    let told = browser.visit(&shop, "attacked", &url, json!({ "addresses": [url], "buy": true })).await;
    let told = &told["told"][0];
    assert!(told["answer"].as_str().unwrap().contains("The report"), "{told}");
    assert_eq!((&told["pwned"], &told["markup"]), (&json!(0), &json!(0)), "{told}");
    assert_eq!(told["foreign"], json!([]));
}

/// Markdown is shown as people read it, and what else stands in it stays text.
#[tokio::test]
async fn an_answer_in_markdown_is_read_and_not_run() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "rendered", &shop.at("/report?as=markdown"), json!({ "press": "Pay with" })).await;
    let markup = told["markup"].as_str().unwrap();
    let rest = r#"<h1>The <em>report</em></h1><p>What visitors <strong>say</strong>, and <a href="https://example.org/a?b=1&amp;c" class="" rel="noreferrer noopener" target="_blank">more</a>.</p><ul><li>one <code>&lt;b&gt;</code></li><li>two more</li></ul><ol start="3"><li>third</li></ol><blockquote><p>quoted <strong>twice</strong></p></blockquote><table><tbody><tr><th>Theme</th><th>Chats</th></tr><tr><td>pricing</td><td>12</td></tr></tbody></table><pre>&lt;script&gt;__pwned()&lt;/script&gt;</pre><hr><p>&lt;img src=x onerror=__pwned()&gt; [bad](javascript:__pwned()) snake_case_name 2 * 3 * 4</p>"#;
    assert_eq!(markup, rest, "{told}");
    assert_eq!((&told["complaints"], &told["dialogs"]), (&json!([]), &json!(0)));
}

#[tokio::test]
async fn an_answer_in_comma_separated_values_is_a_table() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "rendered", &shop.at("/report?as=csv"), json!({ "press": "Pay with" })).await;
    let rows = r#"<tr><td>Theme</td><td>Chats</td></tr><tr><td>pricing, "all" &lt;b&gt;</td><td>12</td></tr>"#;
    assert_eq!(told["markup"], format!("<table><tbody>{rows}</tbody></table>"), "{told}");
}

/// The readers of markup run only with their own hash. Without them the answer is there, as text.
#[tokio::test]
async fn an_answer_whose_readers_do_not_come_is_shown_as_text() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    for (status, media_type) in [(200, "text/javascript"), (200, "text/html"), (503, "text/plain")] {
        let readers = json!({ "status": status, "contentType": media_type, "body": "document.title = 'pwned'" });
        let more = json!({ "press": "Pay with", "readers": readers });
        let told = browser.visit(&shop, "rendered", &shop.at("/report?as=csv"), more).await;
        assert_eq!(told["markup"], "<pre>Theme,Chats\r\n\"pricing, \"\"all\"\" &lt;b&gt;\",12\r\n</pre>", "{told}");
        assert!(told["title"].as_str().unwrap().starts_with("✓ The report"), "{told}");
    }
}

#[tokio::test]
async fn no_other_page_frames_it() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "framed", &shop.url, json!({ "frame": shop.at("/frame") })).await;
    let inside: Vec<_> = told["inside"].as_array().unwrap().iter().filter_map(|text| text.as_str()).collect();
    assert!(inside.contains(&"not guarded"), "what lets itself be framed is seen: {told}");
    assert!(inside.iter().all(|text| !text.contains("The report") && !text.contains("0.49")), "{told}");
}
