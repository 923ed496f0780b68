//! Passes on the page: bought from a link, kept in the browser, and shown where the visitor wants it.

use serde_json::json;

use super::{
    shop::{Kind, Shop},
    visit::Browser,
};

#[tokio::test]
async fn a_pass_that_is_bought_on_the_page_pays_until_it_is_used_up() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { passes: true, settles: true, ..Kind::default() }).await;
    let told =
        browser.visit(&shop, "pass", &shop.at("/report?as=text"), json!({ "press": "without network fee" })).await;
    assert_eq!(told["found"], json!([]), "axe-core, and what is too wide: {told}");
    assert_eq!(told["offered"], json!(["Two <answers> · 0.9 USDC"]), "{told}");
    assert_eq!(told["bought"], "Your pass is kept in this browser. It pays on the pages of this seller.");
    assert_eq!(told["back"], "/report?as=text");
    for (visit, left) in [("first", "1"), ("reloaded", "1"), ("second", "0")] {
        let seen = &told[visit];
        assert_eq!(
            (&seen["shown"], &seen["status"]),
            (&json!("a plain\nanswer"), &json!("Your pass paid for this answer."))
        );
        assert_eq!(seen["left"], left, "{visit}: {told}");
    }
    assert_eq!(told["third"], json!({ "pay": true, "kept": 0 }), "used up, the page asks for a payment");
    assert_eq!((&told["complaints"], &told["dialogs"]), (&json!([]), &json!(0)), "{told}");
    assert_eq!((shop.takings().await, shop.handler.runs()), (900_000, 2));
}

/// A pass that the seller refuses was paid for, perhaps: it is kept, and shown no more. The page asks for a payment.
#[tokio::test]
async fn a_pass_that_is_refused_is_kept_and_not_shown_again() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { passes: true, ..Kind::default() }).await;
    let refused = r#"{"name":"two","pass":"x402p_AAAA","left":2,"refused":true}"#;
    for (pass, kept, shown) in [
        (r#"{"pass":"x402p_AAAA","left":2}"#, refused, 1),
        (r#"{"pass":"<script>","left":2}"#, r#"{"pass":"<script>","left":2}"#, 0),
        ("no JSON", "no JSON", 0),
    ] {
        let more = json!({ "pass": pass, "uses": shown == 1 });
        let told = browser.visit(&shop, "refused_pass", &shop.at("/report"), more).await;
        assert_eq!(
            (&told["pay"], &told["kept"], &told["shown"]),
            (&json!(true), &json!(kept), &json!(shown)),
            "{told}"
        );
        assert_eq!(told["offers"], "", "{told}");
        assert_eq!((&told["complaints"], &told["dialogs"]), (&json!([]), &json!(0)), "{told}");
    }
    assert_eq!(shop.handler.runs(), 0);
}

/// SECURITY row 72: each call may be charged. A reply that is lost is asked for again only by the visitor, who is told.
#[tokio::test]
async fn a_lost_reply_to_a_pass_is_not_asked_for_again_by_itself() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { passes: true, ..Kind::default() }).await;
    let told = browser.visit(&shop, "lost_pass", &shop.at("/report?as=text"), json!({ "press": "Pay with" })).await;
    assert_eq!(told["lost"]["times"], 1, "{told}");
    assert!(told["lost"]["said"].as_str().unwrap().contains("your pass may have paid for it"), "{told}");
    assert_eq!((&told["status"], &told["left"]), (&json!("Your pass paid for this answer."), &json!("0")), "{told}");
    assert_eq!((&told["times"], shop.handler.runs()), (&json!(2), 2), "{told}");
}

/// SECURITY row 72: anyone can write a link, and a page may be loaded anew without its visitor. Where the shop leads, the pass pays at once.
#[tokio::test]
async fn a_strangers_link_does_not_charge_the_visitors_pass() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { passes: true, ..Kind::default() }).await;
    let told = browser.visit(&shop, "linked_pass", &shop.at("/report?as=text"), json!({ "press": "Pay with" })).await;
    let asks = json!({ "said": "Your pass is kept in this browser. It pays on the pages of this seller.", "times": 0 });
    assert_eq!((&told["linked"], &told["reloaded"]), (&asks, &asks), "{told}");
    assert_eq!((&told["first"]["left"], &told["second"]["left"]), (&json!("1"), &json!("0")), "{told}");
    assert_eq!(shop.handler.runs(), 2);
}
