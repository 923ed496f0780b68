//! The ways to pay, and what may come in between.

use serde_json::{Value, json};

use super::{
    shop::{Kind, Shop, UNITS},
    visit::Browser,
};

const SEND: &str = "Pay with";
pub const SIGN: &str = "without network fee";

fn text<'a>(told: &'a Value, name: &str) -> &'a str {
    told[name].as_str().unwrap_or_else(|| panic!("no {name} in {told}"))
}

/// Nothing is loaded from elsewhere, and the browser complains of nothing.
fn was_quiet(told: &Value, shop: &Shop) {
    assert_eq!(told["complaints"], json!([]), "{told}");
    assert_eq!(told["dialogs"], 0);
    for request in told["requests"].as_array().unwrap() {
        let address = request.as_str().unwrap().split_once(' ').unwrap().1;
        let ours = [&*shop.url, "blob:", "data:", "about:"].iter().any(|start| address.starts_with(start));
        assert!(ours, "{address}");
    }
}

#[tokio::test]
async fn by_a_transaction_of_the_wallets() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told =
        browser.visit(&shop, "pay", &shop.at("/report?as=html"), json!({ "press": SEND, "redelivered": true })).await;
    assert_eq!((&told["quoted"], &told["again"]["shown"]), (&json!(402), &told["shown"]));
    assert!(text(&told, "shown").contains("The report") && text(&told, "shown").contains("pricing"), "{told}");
    assert_eq!((text(&told, "status"), text(&told, "focus")), ("Paid 0.49 USDC.", "answer"));
    let asked = json!(["eth_chainId", "wallet_switchEthereumChain", "eth_chainId", "eth_call", "eth_sendTransaction"]);
    assert_eq!(told["asked"], asked, "the chain is changed first, and one transaction sent");
    // Delivered, payment and answer are in this tab's memory only.
    assert_eq!((&told["session"], &told["local"]), (&json!(2), &json!(0)));
    assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
    was_quiet(&told, &shop);
}

#[tokio::test]
async fn by_a_signature_without_gas() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { settles: true, ..Kind::default() }).await;
    let more = json!({ "press": SIGN, "redelivered": true });
    let told = browser.visit(&shop, "pay", &shop.at("/report?as=json"), more).await;
    assert!(text(&told, "shown").contains(r#""payer": "json""#), "{told}");
    assert_eq!(
        told["asked"],
        json!(["eth_chainId", "wallet_switchEthereumChain", "eth_chainId", "eth_call", "eth_signTypedData_v4"])
    );
    // Loaded anew, the page shows the same answer, which is kept.
    assert_eq!(told["again"]["shown"], told["shown"]);
    assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
    was_quiet(&told, &shop);
}

/// The main path in another browser: by a signature, and by a transaction.
#[tokio::test]
async fn in_firefox_too() {
    let Some(browser) = Browser::firefox().await else { return };
    for (settles, press) in [(true, SIGN), (false, SEND)] {
        let shop = Shop::open(Kind { settles, ..Kind::default() }).await;
        let more = json!({ "press": press, "redelivered": true });
        let told = browser.visit(&shop, "pay", &shop.at("/report?as=html"), more).await;
        assert!(text(&told, "shown").contains("The report") && text(&told, "shown").contains("pricing"), "{told}");
        assert_eq!((text(&told, "status"), text(&told, "focus")), ("Paid 0.49 USDC.", "answer"));
        assert_eq!((&told["again"]["shown"], &told["local"]), (&told["shown"], &json!(0)));
        assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
        was_quiet(&told, &shop);
    }
}

#[tokio::test]
async fn by_a_wallet_of_the_old_kind() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let more = json!({ "press": "Pay with browser wallet", "legacy": true });
    let told = browser.visit(&shop, "pay", &shop.at("/report?as=text"), more).await;
    assert_eq!(text(&told, "shown"), "a plain\nanswer");
    was_quiet(&told, &shop);
}

#[tokio::test]
async fn by_a_hash_that_is_typed() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "hash", &shop.at("/report"), json!({})).await;
    assert_eq!(told["details"]["amount"], "0.49");
    assert_eq!(told["details"]["recipient"], super::shop::SELLER.to_string());
    assert_eq!(told["invalid"], "true");
    assert_eq!(told["waiting"], json!({ "pay": false, "elsewhere": false }), "nobody is asked to pay again");
    assert!(text(&told, "shown").contains("The report"));
    assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
    was_quiet(&told, &shop);
}

/// The wallet sent, and the page does not know it. The transfer is tagged with the intent of before.
#[tokio::test]
async fn a_page_that_is_loaded_anew_or_closed_while_the_wallet_asks_loses_nothing() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { bound_only: true, ..Kind::default() }).await;
    for (close, sold) in [(false, 1), (true, 2)] {
        let told = browser.visit(&shop, "interrupted", &shop.at("/report"), json!({ "close": close })).await;
        assert!(text(&told, "shown").contains("The report"), "{told}");
        let tag = tower_x402::protocol::PaymentTag::of(text(&told, "intent"));
        assert!(text(&told, "same").ends_with(&tag.to_string()[2..]));
        assert_eq!((shop.takings().await, shop.handler.runs()), (sold * UNITS, sold as usize));
    }
}

#[tokio::test]
async fn reload_back_and_a_closed_tab_lose_no_payment_that_is_on_its_way() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "pending", &shop.at("/report"), json!({})).await;
    assert_eq!(told["bar"], true);
    for when in ["reloaded", "reopened"] {
        assert_eq!(told[when], json!({ "pay": false, "elsewhere": false }), "{when}: nobody is asked to pay again");
    }
    assert!(text(&told, "shown").contains("The report"));
    assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
}

/// A signed payment is being redeemed when the page is loaded anew, and the browser closes the connection. Nothing is recorded as sold, so
/// the handler is asked once more: at once, or, while the payment is being settled, as soon as that is done.
#[tokio::test]
async fn a_page_that_is_loaded_anew_while_it_is_redeemed_waits_for_the_answer() {
    let Some(browser) = Browser::find().await else { return };
    for (still, kind, shown) in [(true, "text", "a plain\nanswer"), (false, "slow", "worth the wait")] {
        let shop = Shop::open(Kind { settles: true, ..Kind::default() }).await;
        let more = json!({ "press": SIGN, "after": 1_500, "still": still });
        let told = browser.visit(&shop, "reloaded", &shop.at(&format!("/report?as={kind}")), more).await;
        assert_eq!(told["open"], json!({ "pay": false, "elsewhere": false }), "nobody is asked to pay again: {told}");
        assert_eq!((text(&told, "shown"), text(&told, "status")), (shown, "Paid 0.49 USDC."));
        assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 2), "{kind}: {told}");
        if still {
            // Not when its lease runs out, after a minute.
            assert!(told["took"].as_u64().unwrap() < 15_000, "{told}");
            assert!(text(&told, "later").contains("being redeemed by a request that was sent before"), "{told}");
        }
    }
}

#[tokio::test]
async fn a_wallet_that_declines_or_fails_costs_nothing() {
    let Some(browser) = Browser::find().await else { return };
    for (settles, press, said) in [(false, SEND, "do not pay again"), (true, SIGN, "Nothing was sent")] {
        let shop = Shop::open(Kind { settles, ..Kind::default() }).await;
        let told = browser.visit(&shop, "declined", &shop.at("/report"), json!({ "press": press })).await;
        assert_eq!(told["declined"], json!({ "pay": true, "elsewhere": true, "kept": [0, 0] }));
        assert!(text(&told["failed"], "said").contains(said), "{told}");
        assert!(text(&told, "shown").contains("The report"));
        assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
    }
}

#[tokio::test]
async fn payments_that_buy_nothing_are_told_in_words() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "refused", &shop.at("/report"), json!({})).await;
    for (index, words) in
        ["pays 0.489999 USDC, and the price is 0.49 USDC", "does not pay this seller"].into_iter().enumerate()
    {
        let refused = &told["told"][index];
        assert!(text(refused, "said").contains(words), "{refused}");
        assert_eq!((&refused["pay"], &refused["form"]), (&json!(false), &json!(true)));
    }
    assert!(text(&told, "shown").contains("The report"));
}

#[tokio::test]
async fn a_payer_who_is_asked_signs_in_the_page() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { bound_only: true, ..Kind::default() }).await;
    let told = browser.visit(&shop, "proving", &shop.at("/report"), json!({})).await;
    assert_eq!(told["asked"], json!(["personal_sign"]));
    assert!(text(&told, "shown").contains("The report"));
}

#[tokio::test]
async fn the_keyboard_is_enough() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "keyboard", &shop.at("/report"), json!({ "press": SEND })).await;
    for at in told["order"].as_array().unwrap() {
        assert_ne!(at["outline"], "none", "{at} is not seen");
    }
    assert!(text(&told, "shown").contains("The report"));
}
