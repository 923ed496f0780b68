//! Without script: what is to be paid, and a form that redeems.

use serde_json::json;

use super::{
    shop::{Kind, SELLER, Shop, UNITS},
    visit::Browser,
};

#[tokio::test]
async fn without_script_the_form_redeems() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "plain", &shop.at("/report?query=why%3F"), json!({})).await;
    assert_eq!(told["details"]["recipient"], SELLER.to_string());
    assert_eq!(told["visible"], json!({ "pay": false, "elsewhere": true, "form": true, "qr": true }));
    assert_eq!(told["copies"], 0, "what needs script is not shown");
    let refusal = &told["refusal"];
    assert_eq!((&refusal["status"], &refusal["wide"]), (&json!(409), &told["hash"]));
    let words = refusal["text"].as_str().unwrap();
    assert!(words.contains("not confirmed this transaction yet"), "{words}");
    // The answer is the page.
    assert_eq!(told["status"], 200);
    assert!(told["text"].as_str().unwrap().contains("The report"), "{told}");
    assert_eq!(told["complaints"], json!([]));
    assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
}
