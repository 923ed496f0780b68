//! The document: its size, its policy, and the texts in it.

use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tower_x402::{MerchantBuilder, X402Layer, page::Page, protocol::PaymentTag, testing::ScriptedSettler};

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
    for of_passes in ["x402-pass", "x402p_", "#passes", r#""passes":"#, r#""use_pass":"#, r#""pass_kept":"#] {
        assert!(!without.contains(of_passes), "{of_passes}");
        assert!(with.contains(of_passes), "{of_passes}");
    }
}

#[tokio::test]
async fn all_of_it_is_at_most_38_kb_and_15_kb_compressed() {
    let (_, page) = shown(
        |builder| builder,
        |shop| shop.layer().page(Page::new().title("A shop")),
        &format!("/answer?query={}", "What+do+visitors+say+about+pricing%3F".repeat(8)),
    )
    .await;
    let mut compressed = GzEncoder::new(Vec::new(), Compression::default());
    compressed.write_all(page.as_bytes()).unwrap();
    let size = compressed.finish().unwrap().len();
    println!("the page: {} bytes, {size} compressed", page.len());
    assert!(page.len() <= 38 * 1024 && size <= 15 * 1024, "{} {size}", page.len());
}

/// Of an element, the text between its tags.
fn inline<'a>(page: &'a str, begins: &str, ends: &str) -> &'a str {
    page.split_once(begins).unwrap().1.split_once(ends).unwrap().0
}

#[tokio::test]
async fn the_policy_names_the_hashes_of_what_is_inlined_and_nothing_else() {
    let logo = Page::new().logo("image/png", [1, 2, 3]).css("h1 { color: red } </style><script>");
    for shown in [usual(Page::new()).await, usual(logo).await, with_a_pass(Page::new()).await] {
        let (headers, page) = shown;
        let policy = headers["content-security-policy"].to_str().unwrap();
        for (directive, text) in [
            ("script-src", inline(&page, "</script><script>", "</script>")),
            ("style-src", inline(&page, "<style>", "</style>")),
        ] {
            let hash = STANDARD.encode(Sha256::digest(text));
            assert!(policy.contains(&format!("{directive} 'sha256-{hash}';")), "{policy}");
        }
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
        told["chains"][0]["network"]["add"]["rpcUrls"][0], "https://mainnet.base.org",
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
    assert_eq!(told["texts"]["paid"], attack, "and in the data it is itself");
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
    let typed = &told["chains"][0]["signed"]["typed"];
    assert_eq!(typed["message"]["nonce"], tag.to_string());
    assert_eq!(
        (&typed["message"]["value"], &typed["message"]["to"]),
        (&"490000".into(), &recipient.to_string().into())
    );
    assert_eq!((&typed["domain"]["name"], &typed["domain"]["chainId"]), (&"USD Coin".into(), &8453.into()));
    assert!(page.contains("0.49") && page.contains(&recipient.to_string()));
}

#[tokio::test]
async fn it_speaks_another_language() {
    let page = Page::new().lang("de").texts("buying = Sie erwerben\nhash_hint = 0x…").unwrap();
    let (_, page) = usual(page).await;
    assert!(
        page.contains(r#"<html lang="de" dir="ltr">"#) && page.contains("Sie erwerben") && !page.contains("Sie kaufen")
    );
    assert_eq!(data(&page)["texts"]["copy"], "Kopieren", "what the shop does not say is translated");
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
    let chain =
        tower_x402::testing::ScriptedVerifier::new(tower_x402::protocol::ChainTime::from_unix(crate::support::NOW));
    let merchant = tower_x402::Merchant::builder(crate::support::recipient())
        .settler(ScriptedSettler::new(chain))
        .ledger(tower_x402::ledger::MemoryLedger::new())
        .sealing_keys(tower_x402::protocol::SealingKeys::new([7; 32]))
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
