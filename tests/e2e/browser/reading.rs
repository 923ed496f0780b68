//! Whether everybody can read it: axe-core at both widths and in both schemes.

use serde_json::json;

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
