//! The document: its size, its policy, and the texts in it.

use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tower_x402::{
    Merchant, MerchantBuilder, X402Layer,
    discovery::Endpoint,
    ledger::MemoryLedger,
    page::Page,
    protocol::{Asset, ChainTime, Network, PaymentTag, SealingKeys},
    testing::{ScriptedSettler, ScriptedVerifier},
};

use super::{data, navigation, text, varying};
use crate::support::{Counter, Shop, ask, echo, layered};

/// A page, with its headers.
async fn shown(
    set: impl FnOnce(MerchantBuilder) -> MerchantBuilder,
    layer: impl FnOnce(&Shop) -> X402Layer,
    uri: &str,
) -> (http::HeaderMap, String) {
    let shop = Shop::open_on(|builder, chain| set(builder.settler(ScriptedSettler::new(chain.clone())))).await;
    let service = layered(&layer(&shop), echo(Counter::default()));
    let (status, headers, page) = text(ask(&service, navigation(uri)).await).await;
    assert_eq!(status, 402);
    (headers, page)
}

async fn usual(page: Page) -> (http::HeaderMap, String) {
    shown(|builder| builder, |shop| shop.layer().page(page), "/answer?query=why").await
}

/// Where a pass counts.
async fn with_a_pass(page: Page) -> (http::HeaderMap, String) {
    let layer = |shop: &Shop| {
        let ten = shop.merchant.pass("ten", "3.90 USDC").unwrap().calls(10).unwrap().at("/pass").unwrap();
        shop.layer().accept_pass(&ten).unwrap().page(page)
    };
    shown(|builder| builder, layer, "/answer").await
}

/// What passes need is inlined where passes count, and nowhere else.
#[tokio::test]
async fn a_page_without_passes_has_nothing_of_them() {
    let (_, without) = usual(Page::new()).await;
    let (_, with) = with_a_pass(Page::new()).await;
    for of_passes in ["x402-pass", "x402p_", "#passes", r#""passes":"#, "Use it for your question", "Your pass is kept"]
    {
        assert!(!without.contains(of_passes), "{of_passes}");
        assert!(with.contains(of_passes), "{of_passes}");
    }
}

/// Where the description says that the answer is JSON.
fn answers_json(shop: &Shop) -> X402Layer {
    shop.layer().describe(Endpoint::get("/answer").output(serde_json::json!({ "type": "object" }))).unwrap()
}

/// The page as it is sent, and what `gzip` makes of it.
fn sizes(page: &str) -> (usize, usize) {
    let mut compressed = GzEncoder::new(Vec::new(), Compression::default());
    compressed.write_all(page.as_bytes()).unwrap();
    (page.len(), compressed.finish().unwrap().len())
}

#[tokio::test]
async fn it_is_at_most_28_kb_and_12_kb_compressed() {
    let page = || Page::new().title("A shop");
    let uri = format!("/answer?query={}", "What+do+visitors+say+about+pricing%3F".repeat(8));
    let (_, json) = shown(|builder| builder, |shop| answers_json(shop).page(page()), &uri).await;
    let (_, any) = shown(|builder| builder, |shop| shop.layer().page(page()), &uri).await;
    let (_, passes) = with_a_pass(page()).await;
    for (page, most, most_compressed) in [(json, 27, 12), (any, 28, 12), (passes, 30, 13)] {
        let (size, compressed) = sizes(&page);
        println!("the page: {size} bytes, {compressed} compressed");
        assert!(size <= most * 1024 && compressed <= most_compressed * 1024, "{size} {compressed}");
    }
}

/// What Markdown, markup and tables need is a script of its own, which the policy names where the answer may be one of them.
#[tokio::test]
async fn a_page_for_json_reads_no_markup() {
    let (of_any, any) = usual(Page::new()).await;
    let (of_json, json) = shown(|builder| builder, |shop| answers_json(shop).page(Page::new()), "/answer").await;
    let (_, elsewhere) = shown(
        |builder| builder,
        |shop| shop.layer().describe(Endpoint::get("/answer")).unwrap().page(Page::new()),
        "/answer",
    )
    .await;
    let asks = r#""readers""#;
    assert!(any.contains(asks) && elsewhere.contains(asks) && !json.contains(asks));
    let shop = Shop::open().await;
    let service = layered(&shop.layer().page(Page::new()), echo(Counter::default()));
    let (_, _, readers) = text(ask(&service, asking("GET", "readers")).await).await;
    let hash = format!("'sha256-{}'", STANDARD.encode(Sha256::digest(&readers)));
    let names_it = |headers: &http::HeaderMap| headers["content-security-policy"].to_str().unwrap().contains(&hash);
    assert!(names_it(&of_any) && !names_it(&of_json));
    for reader in ["text/markdown", "text/csv", "DOMParser"] {
        assert!(readers.contains(reader) && !any.contains(&format!("{reader}\"===")), "{reader}");
    }
}

/// What the page's script asks for by a name.
fn asking(method: &str, name: &str) -> http::Request<axum::body::Body> {
    let request = http::Request::builder().method(method).uri("/answer?query=why").header("x402-page", name);
    request.body(axum::body::Body::empty()).unwrap()
}

/// SECURITY row 55: parts of the page are sent to anyone, sell nothing and quote nothing. Every other request is as ever.
#[tokio::test]
async fn parts_of_the_page_are_sent_where_its_script_asks() {
    let shop = Shop::open().await;
    let handler = Counter::default();
    let service = layered(&shop.layer().page(Page::new()), echo(handler.clone()));
    for (name, media_type, begins) in
        [("readers", "text/javascript; charset=utf-8", "document.currentScript"), ("code", "image/bmp", "BM")]
    {
        let (head, body) = ask(&service, asking("GET", name)).await.into_parts();
        let of = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!((head.status.as_u16(), of("content-type")), (200, Some(media_type)));
        assert_eq!((of("cache-control"), of("x-content-type-options")), (Some("no-store"), Some("nosniff")));
        assert!(!head.headers.contains_key("payment-required") && !head.headers.contains_key("pay"));
        let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body[..60]).trim_start_matches("\"use strict\";").starts_with(begins));
    }
    let without_page = layered(&shop.layer(), echo(handler.clone()));
    for (service, request) in [
        (&service, asking("GET", "others")),
        (&service, asking("GET", "1")),
        (&service, asking("POST", "readers")),
        (&service, asking("HEAD", "readers")),
        (&without_page, asking("GET", "readers")),
    ] {
        assert_eq!(ask(service, request).await.status(), 402);
    }
    assert_eq!(handler.runs(), 0);
    // A payment comes first.
    let intent = crate::support::intent_of(&ask(&service, navigation("/answer?query=why")).await);
    let mut request = asking("GET", "readers");
    let proof = crate::support::proof(&intent, shop.pay(490_000));
    request.headers_mut().insert("x402-payment", proof.parse().unwrap());
    let answer = ask(&service, request).await;
    assert!(answer.headers().contains_key("payment-response"));
    assert_eq!((answer.status().as_u16(), handler.runs()), (200, 1));
}

/// Of an element, the text between its tags.
fn inline<'a>(page: &'a str, begins: &str, ends: &str) -> &'a str {
    page.split_once(begins).unwrap().1.split_once(ends).unwrap().0
}

#[tokio::test]
async fn the_policy_names_the_hashes_of_what_is_inlined_and_nothing_else() {
    let logo = Page::new().logo("image/png", [1, 2, 3]).css("h1 { color: red } </style><script>");
    let json = shown(|builder| builder, |shop| answers_json(shop).page(Page::new()), "/answer").await;
    for (headers, page) in [usual(Page::new()).await, usual(logo).await, with_a_pass(Page::new()).await, json] {
        let policy = headers["content-security-policy"].to_str().unwrap();
        for (directive, text) in [
            ("script-src", inline(&page, "</script><script>", "</script>")),
            ("style-src", inline(&page, "<style>", "</style>")),
        ] {
            let hash = STANDARD.encode(Sha256::digest(text));
            assert!(policy.contains(&format!("{directive} 'sha256-{hash}'")), "{policy}");
        }
        // The page's script and the readers of markup, and the style.
        assert_eq!(policy.matches("'sha256-").count(), if page.contains("\"readers\"") { 3 } else { 2 }, "{policy}");
        for rule in [
            "default-src 'none';",
            "connect-src 'self';",
            "img-src 'self' blob: data:;",
            "form-action 'self';",
            "base-uri 'none';",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(rule), "{rule} in {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        // What stands in a style is no markup until the style ends.
        let (_, behind) = page.split_once("</style>").unwrap();
        assert_eq!(behind.matches("<script").count(), 2, "the data and the script");
        assert!(!behind.contains("</style>"));
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin-allow-popups"),
        ] {
            assert_eq!(headers[name], value);
        }
    }
}

/// Nothing is loaded, from nowhere: the only addresses in it are the namespaces and the chains' own.
#[tokio::test]
async fn no_foreign_origin_is_in_it() {
    let (_, page) = usual(Page::new()).await;
    assert_eq!(page.matches(" src=").count(), page.matches(r#" src="data:image/bmp;base64,"#).count());
    for attribute in ["url(", "@import", "<link", "<iframe", "<base", "style="] {
        assert!(!page.contains(attribute), "{attribute}");
    }
    let told = data(&page);
    let script = inline(&page, "</script><script>", "</script>");
    let hosts: Vec<_> = script.split("https://").skip(1).filter_map(|rest| rest.split('/').next()).collect();
    assert_eq!(
        hosts,
        ["metamask.app.link", "go.cb-w.com", "link.trustwallet.com"],
        "links that the visitor may follow"
    );
    let markup = page.replace(inline(&page, r#"id="data">"#, "</script>"), "").replace(script, "");
    assert!(!markup.contains("://"), "{}", &markup[markup.find("://").unwrap_or(0)..][..40]);
    assert_eq!(
        (&told["chains"][0]["rpc"], &told["chains"][0]["explorer"]),
        (&"https://mainnet.base.org".into(), &"https://basescan.org".into()),
        "which the wallet is told"
    );
}

/// SECURITY row 55.
#[tokio::test]
async fn every_text_is_escaped() {
    let attack = r#""'><script>alert(1)</script><img src=x onerror=alert(1)>&lt;"#;
    let page = Page::new()
        .title(attack)
        .lang(attack)
        .texts(&format!("buying = {attack}\nholds = {attack}\npaid = {attack}"))
        .unwrap()
        .logo(attack, "x");
    let uri = "/answer?query=%22%27%3E%3Cscript%3Ealert(1)%3C/script%3E&%3Cb%3E=%3Ci%3E";
    let (_, page) = shown(|builder| builder, |shop| shop.layer().label(attack).unwrap().page(page), uri).await;
    assert_eq!(page.matches("<script").count(), 2, "the data and the script");
    for markup in ["<img src=x", "<i>", "<b>", "<script>alert", "\"'>"] {
        let script = inline(&page, "</script><script>", "</script>");
        assert!(!page.replace(script, "").contains(markup), "{markup}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    let told = data(&page);
    assert!(told["texts"].as_array().unwrap().contains(&attack.into()), "and in the data it is itself");
}

#[tokio::test]
async fn the_payments_in_it_are_bound_to_its_intent() {
    let (_, page) = usual(Page::new()).await;
    let told = data(&page);
    let tag = PaymentTag::of(told["intent"].as_str().unwrap());
    let call = told["chains"][0]["transfer"]["data"].as_str().unwrap();
    let recipient = crate::support::recipient();
    let words = format!("{:0>64}{:0>64x}", &format!("{recipient:x}")[2..], 490_000);
    assert_eq!(call, format!("0xa9059cbb{words}78343032{}", &tag.to_string()[2..]));
    assert_eq!(told["chains"][0]["transfer"]["to"], "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913");
    let signed = &told["chains"][0]["signed"];
    assert_eq!(signed["nonce"], tag.to_string());
    let accepted = &signed["accepted"];
    assert_eq!((&accepted["amount"], &accepted["payTo"]), (&"490000".into(), &recipient.to_string().into()));
    assert_eq!((&accepted["extra"]["name"], &told["chains"][0]["id"]), (&"USD Coin".into(), &8453.into()));
    assert!(page.contains("0.49") && page.contains(&recipient.to_string()));
}

#[tokio::test]
async fn it_speaks_another_language() {
    let page = Page::new().lang("de").texts("buying = Sie erwerben\nhash_hint = 0x…").unwrap();
    let (_, page) = usual(page).await;
    assert!(
        page.contains(r#"<html lang="de" dir="ltr">"#) && page.contains("Sie erwerben") && !page.contains("Sie kaufen")
    );
    let told = data(&page);
    assert!(told["texts"].as_array().unwrap().contains(&"Kopieren".into()), "what the shop does not say is translated");
}

/// The best of the languages that the visitor's browser names.
#[tokio::test]
async fn it_speaks_the_visitors_language() {
    let shop = Shop::open().await;
    let spoken = layered(&shop.layer().page(Page::new()), echo(Counter::default()));
    let fixed = layered(&shop.layer().page(Page::new().lang("es")), echo(Counter::default()));
    for (service, accepted, tag, direction, words, varies) in [
        (&spoken, "de-CH,de;q=0.9,en;q=0.8", "de", "ltr", "Sie kaufen", true),
        (&spoken, "ar,en;q=0.5", "ar", "rtl", "أنت تشتري", true),
        (&spoken, "pt-BR", "en", "ltr", "You are buying", true),
        (&fixed, "de", "es", "ltr", "Está comprando", false),
    ] {
        let mut request = navigation("/answer");
        request.headers_mut().insert("accept-language", accepted.parse().unwrap());
        let (_, headers, page) = text(ask(service, request).await).await;
        assert!(
            page.contains(&format!(r#"<html lang="{tag}" dir="{direction}">"#)) && page.contains(words),
            "{accepted}"
        );
        assert_eq!(varying(&headers), if varies { vec!["Accept-Language", "Accept"] } else { vec!["Accept"] });
    }
}

/// Without a verifier no transfer is taken: none is asked for.
#[tokio::test]
async fn a_seller_of_signed_payments_alone_asks_for_no_transfer() {
    let chain = ScriptedVerifier::new(ChainTime::from_unix(crate::support::NOW));
    let merchant = Merchant::builder(crate::support::recipient())
        .settler(ScriptedSettler::new(chain))
        .ledger(MemoryLedger::new())
        .sealing_keys(SealingKeys::new([7; 32]))
        .build()
        .await
        .unwrap();
    let service = layered(&merchant.charge("answer", "0.49 USDC").unwrap().page(Page::new()), echo(Counter::default()));
    let (status, _, page) = text(ask(&service, navigation("/answer")).await).await;
    assert_eq!(status, 402);
    assert_eq!(data(&page)["chains"][0]["transfer"], Value::Null);
    assert!(data(&page)["chains"][0]["signed"].is_object());
    for part in ["<form", "QR code: pay", "c-recipient"] {
        assert!(!page.contains(part), "{part}");
    }
    assert!(page.contains("This seller takes signed payments: you need script"));
}

/// Several tokens: each contract has the name of its token beside it, and the price the first one's.
#[tokio::test]
async fn each_token_of_a_transfer_has_its_name() {
    let tokens = |builder: MerchantBuilder| builder.asset(Asset::USDC_BASE).asset(Asset::USDBC_BASE);
    let (_, page) = shown(tokens, |shop| shop.layer().page(Page::new()), "/answer").await;
    let named = |index: usize| {
        let row = inline(&page, &format!(r#"<dt id="c-token-{index}-name">"#), "</dd>");
        row.split_once("</dt>").unwrap().1
    };
    for (index, token) in [Asset::USDC_BASE, Asset::USDBC_BASE].into_iter().enumerate() {
        let row = named(index);
        assert!(row.contains(&format!(r#"<code id="c-token-{index}">{}</code>"#, token.contract())), "{row}");
        assert!(row.contains(&format!("<span>{}</span>", token.symbol())), "{row}");
    }
    assert!(!page.contains("c-token-2") && page.contains("· 0.49 USDC"));
    let (_, one) = usual(Page::new()).await;
    let row = inline(&one, r#"<dt id="c-token-0-name">"#, "</dd>");
    assert!(!row.contains("USDC") && !one.contains("c-token-1"), "one token needs no name: {row}");
}

/// A test network: a badge says that its money is worth nothing, in the visitor's language, and no dollars are named.
#[tokio::test]
async fn the_money_of_a_test_network_is_said_to_be_worthless() {
    const BADGE: &str = r#"<p class="badge">"#;
    for (lang, words) in [
        ("en", "TESTNET · This is a test network: its money has no value."),
        ("de", "TESTNET · Dies ist ein Testnetz: Das Geld hat keinen Wert."),
    ] {
        let chain = ScriptedVerifier::on(Network::BASE_SEPOLIA, ChainTime::from_unix(crate::support::NOW));
        let merchant = Merchant::builder(crate::support::recipient())
            .network(Network::BASE_SEPOLIA)
            .verifier(chain)
            .ledger(MemoryLedger::new())
            .sealing_keys(SealingKeys::new([7; 32]))
            .build()
            .await
            .unwrap();
        let layer = merchant.charge("answer", "0.49 USDC").unwrap().page(Page::new().lang(lang));
        let (_, _, page) = text(ask(&layered(&layer, echo(Counter::default())), navigation("/answer")).await).await;
        assert_eq!(inline(&page, BADGE, "</p>"), words);
        assert!(!page.contains("$0.49") && page.contains("Base Sepolia"));
    }
    let (_, real) = usual(Page::new()).await;
    assert!(!real.contains(BADGE) && real.contains("$0.49"));
}
