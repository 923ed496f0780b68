//! Whether everybody can read it: axe-core at both widths and in both schemes.

use serde_json::{Value, json};

use super::{
    shop::{Kind, Shop},
    visit::Browser,
};

#[tokio::test]
async fn axe_finds_nothing_in_any_state() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { settles: true, ..Kind::default() }).await;
    let url = shop.at("/report?query=What+do+visitors+ask+about+pricing%3F");
    let told = browser.visit(&shop, "accessible", &url, json!({ "more": { "no-wallet": url } })).await;
    assert_eq!(told["found"], json!([]), "{told}");
}

/// Texts of a list.
fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_wallet_has_one_button_and_the_last_one_comes_first() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { settles: true, ..Kind::default() }).await;
    let told = browser.visit(&shop, "laid", &shop.at("/report"), json!({})).await;
    let buttons = |name: &str| json!([format!("Pay with {name}, without network fee"), "Send a transaction instead"]);
    assert_eq!(told["before"], json!([buttons("One"), buttons("One 1")]), "{told}");
    assert_eq!(told["after"], json!([buttons("One 1"), buttons("One")]), "{told}");
    assert!(told["will"].as_str().unwrap().starts_with("Your wallet will show 0.49 USDC to 0x5e5E"), "{told}");
    assert_eq!((&told["icons"], &told["folded"]), (&json!(2), &json!([false, false])), "{told}");
    let at = |width: &str, part: &str, edge: &str| told[width][part][edge].as_f64().unwrap();
    assert!(at("wide", "sum", "right") <= at("wide", "way", "left"), "beside each other: {told}");
    assert!(told["wide"]["all"].as_f64().unwrap() <= 800.0, "on one screen: {told}");
    assert!(at("narrow", "sum", "bottom") <= at("narrow", "way", "top"), "below each other: {told}");
    assert_eq!((&told["first"], &told["complaints"]), (&json!(true), &json!([])), "{told}");
    assert!(told["title"].as_str().unwrap().starts_with("✓ The report"), "{told}");
    let receipt = texts(&told["receipt"]);
    for line in ["Seller", "Purchase", "The report", "Amount", "0.49 USDC on Base", "Date", "Payer", "Transaction"] {
        assert!(receipt.contains(&line), "{line}: {receipt:?}");
    }
    assert!(receipt.iter().any(|line| line.eq_ignore_ascii_case(&shop.buyer().to_string())), "{receipt:?}");
}

#[tokio::test]
async fn without_a_wallet_the_page_opens_where_there_is_one() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let url = shop.at("/report?query=a%20b");
    let told = browser.visit(&shop, "walletless", &url, json!({})).await;
    let apps = texts(&told["apps"]);
    assert_eq!(apps[0], url.replace("http://", "https://metamask.app.link/dapp/"));
    assert_eq!(apps[1], format!("https://go.cb-w.com/dapp?cb_url={}", encoded(&url)));
    assert_eq!(apps[2], format!("https://link.trustwallet.com/open_url?coin_id=60&url={}", encoded(&url)));
    assert_eq!((&told["code"], &told["folded"]), (&json!({"wide": true, "narrow": false}), &json!([true, true])));
}

/// As `encodeURIComponent` has it, of the characters in these addresses.
fn encoded(url: &str) -> String {
    let named = [("%", "%25"), (":", "%3A"), ("/", "%2F"), ("?", "%3F"), ("=", "%3D")];
    named.into_iter().fold(url.to_owned(), |url, (plain, encoded)| url.replace(plain, encoded))
}
