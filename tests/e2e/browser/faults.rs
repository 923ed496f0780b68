//! What goes wrong between page and seller: no payment is lost, and what is no sale is never called one.

use serde_json::{Value, json};
use tower_x402::protocol::{
    Network,
    v2::{Reason, SettleResponse},
};

use super::{
    paying::SIGN,
    shop::{ELSEWHERE, Kind, SELLER, Shop, UNITS},
    visit::Browser,
};

fn text<'a>(told: &'a Value, name: &str) -> &'a str {
    told[name].as_str().unwrap_or_else(|| panic!("no {name} in {told}"))
}

fn html(status: u16, body: &str) -> Value {
    json!({ "status": status, "contentType": "text/html", "body": body })
}

/// What the layer answers where a signed payment bought nothing.
fn refusal(status: u16, code: &str, told: &SettleResponse) -> Value {
    let outcome = told.to_header();
    let headers = json!({ "x402-error": code, "payment-response": outcome.to_str().unwrap() });
    let body = json!({ "error": code, "detail": "It bought nothing." }).to_string();
    json!({ "status": status, "contentType": "application/problem+json", "headers": headers, "body": body })
}

#[tokio::test]
async fn the_payer_of_a_payment_that_is_bound_elsewhere_may_sign() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "bound", &shop.at("/report"), json!({})).await;
    assert!(text(&told, "said").contains("payment_bound"), "{told}");
    assert_eq!((&told["asked"], shop.handler.runs()), (&json!(["personal_sign"]), 1));
    assert!(text(&told, "shown").contains("The report"), "{told}");
}

/// SECURITY row 55.
#[tokio::test]
async fn a_success_without_a_receipt_is_no_sale() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let faults = json!([html(200, "<h1>Down for maintenance</h1>")]);
    let told = browser.visit(&shop, "intercepted", &shop.at("/report"), json!({ "faults": faults })).await;
    let reply = &told["reply"];
    assert!(text(reply, "said").contains("no receipt") && text(reply, "said").contains("is kept"), "{told}");
    assert_ne!(text(reply, "heading"), "Your answer");
    assert_eq!(reply["kept"], json!([1, 1]));
    assert_eq!((&reply["pay"], &reply["elsewhere"]), (&json!(false), &json!(false)));
    assert_eq!(text(&told, "heading"), "Your answer");
    assert!(text(&told, "shown").contains("The report"));
    assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
}

/// SECURITY row 55: a payment that may be made, or is refused, is told in the header of a sale.
#[tokio::test]
async fn a_signed_payment_whose_outcome_is_unknown_is_kept_and_shown_again() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { settles: true, ..Kind::default() }).await;
    let mut unknown = refusal(503, "outcome_unknown", &SettleResponse::pending(None, Network::BASE));
    unknown["headers"]["retry-after"] = json!("2");
    let more = json!({ "press": SIGN, "faults": [unknown] });
    let told = browser.visit(&shop, "postponed", &shop.at("/report"), more).await;
    let meanwhile = &told["meanwhile"];
    assert_eq!((&meanwhile["kept"], &meanwhile["sold"]), (&json!([1, 1]), &json!(false)), "{told}");
    assert_eq!((&meanwhile["pay"], &meanwhile["elsewhere"]), (&json!(false), &json!(false)), "{told}");
    assert_eq!(text(&told, "heading"), "Your answer");
    assert!(text(&told, "shown").contains("The report"), "{told}");
    let signed = told["asked"].as_array().unwrap().iter().filter(|asked| *asked == "eth_signTypedData_v4").count();
    assert_eq!((signed, shop.takings().await, shop.handler.runs()), (1, UNITS, 1));
}

/// SECURITY row 55.
#[tokio::test]
async fn a_signed_payment_that_is_refused_is_no_sale_and_renewed() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { settles: true, ..Kind::default() }).await;
    let failed = SettleResponse::failed(Reason::INSUFFICIENT_FUNDS, Network::BASE);
    let more = json!({ "press": SIGN, "faults": [refusal(402, "authorization_refused", &failed)] });
    let told = browser.visit(&shop, "renewed", &shop.at("/report"), more).await;
    let refused = &told["refused"];
    assert!(text(refused, "said").contains("authorization_refused"), "{told}");
    assert_eq!((&refused["sold"], text(refused, "next")), (&json!(false), "Get a new price"), "{told}");
    assert!(text(&told, "shown").contains("The report"), "{told}");
    assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
}

#[tokio::test]
async fn a_bad_gateway_is_asked_again() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let faults = json!([html(502, "<h1>Bad gateway</h1>"), html(503, ""), html(504, "")]);
    let told = browser.visit(&shop, "retried", &shop.at("/report"), json!({ "faults": faults })).await;
    assert_eq!(text(&told, "heading"), "Your answer");
    assert!(text(&told, "shown").contains("The report"));
}

#[tokio::test]
async fn a_reply_of_the_services_that_costs_nothing_has_a_heading_of_its_own() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "intercepted", &shop.at("/report?as=failure"), json!({ "faults": [] })).await;
    assert!(text(&told["reply"], "said").contains("422"), "{told}");
    assert_ne!(text(&told["reply"], "heading"), "Your answer");
    assert!(text(&told, "shown").contains("The report"));
    assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 2));
}

#[tokio::test]
async fn a_redirect_that_is_sold_is_a_link() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "moved", &shop.at("/report?as=moved"), json!({})).await;
    assert_eq!(told["link"], json!([ELSEWHERE, "noreferrer noopener", "_blank"]), "{told}");
    assert_eq!((&told["complaints"], shop.handler.runs()), (&json!([]), 1));
    let requests = told["requests"].as_array().unwrap();
    assert!(requests.iter().all(|request| !request.as_str().unwrap().contains("files.example")), "{told}");
}

#[tokio::test]
async fn a_plain_transfer_is_warned_of_and_its_payer_may_sign() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "overtaken", &shop.at("/report"), json!({})).await;
    assert!(text(&told, "warning").contains("anyone who sees"), "{told}");
    assert_eq!(told["asked"], json!(["personal_sign"]));
    let told = browser.visit(&shop, "signed", &shop.at("/report"), json!({})).await;
    assert_eq!(told["asked"], json!(["personal_sign"]));
    assert!(text(&told, "shown").contains("The report"), "{told}");
}

/// SECURITY row 55.
#[tokio::test]
async fn two_tabs_keep_their_payments_apart() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { bound_only: true, ..Kind::default() }).await;
    let told = browser.visit(&shop, "tabs", &shop.at("/report"), json!({})).await;
    assert!(text(&told, "shown").contains("The report"), "{told}");
    assert_eq!(told["kept"][1], 0, "what was delivered is not kept: {told}");
    assert_eq!((shop.takings().await, shop.handler.runs()), (2 * UNITS, 2));
}

/// SECURITY row 55.
#[tokio::test]
async fn a_hash_that_the_network_does_not_know_is_replaced() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { bound_only: true, ..Kind::default() }).await;
    let told = browser.visit(&shop, "dead", &shop.at("/report"), json!({})).await;
    assert_eq!(told["form"], true);
    assert!(text(&told, "asks").contains("Forget"), "{told}");
    assert_eq!(told["after"], json!({ "pay": true, "elsewhere": true, "local": 1 }), "the secret stays");
    assert!(text(&told, "shown").contains("The report"), "the secret opens what was paid before: {told}");
    assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
}

#[tokio::test]
async fn a_hash_that_is_typed_again_keeps_what_its_payment_is_bound_to() {
    let Some(browser) = Browser::find().await else { return };
    for capitals in [false, true] {
        let shop = Shop::open(Kind { bound_only: true, ..Kind::default() }).await;
        let told = browser.visit(&shop, "retyped", &shop.at("/report"), json!({ "capitals": capitals })).await;
        assert!(text(&told, "shown").contains("The report"), "{told}");
        assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
    }
}

#[tokio::test]
async fn what_arrives_is_shown_and_kept() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    for broken in [false, true] {
        let url = shop.at(if broken { "/report?as=broken" } else { "/report?as=events" });
        let told = browser.visit(&shop, "arriving", &url, json!({ "broken": broken })).await;
        let early = &told["early"];
        assert!(text(early, "shown").contains("first") && !text(early, "shown").contains("second"), "{told}");
        assert_eq!(early["kept"][1], 1, "kept until all of it is here");
        assert_eq!(told["kept"][1], u8::from(broken), "{told}");
        assert!(text(&told, "shown").contains(if broken { "first" } else { "second" }), "{told}");
        assert_eq!(text(&told, "status").contains("broke off"), broken, "{told}");
    }
    assert_eq!((shop.takings().await, shop.handler.runs()), (2 * UNITS, 2));
}

/// SECURITY row 55.
#[tokio::test]
async fn an_answer_that_broke_off_in_a_closed_tab_is_asked_for_again_and_not_sold_again() {
    let Some(browser) = Browser::find().await else { return };
    for unkept in [false, true] {
        let shop = Shop::open(Kind { unkept, ..Kind::default() }).await;
        let told = browser.visit(&shop, "cut", &shop.at("/report"), json!({})).await;
        let (cut, next, last) = (&told["cut"], &told["next"], &told["last"]);
        assert!(text(cut, "said").contains("broke off"), "{told}");
        assert_eq!((&cut["local"], &next["pay"]), (&json!(1), &json!(false)), "{told}");
        if unkept {
            assert!(text(next, "said").contains("delivered already"), "{told}");
        } else {
            assert!(text(next, "shown").contains("The report"), "{told}");
        }
        assert_eq!((&next["local"], &last["pay"]), (&json!(0), &json!(true)), "then it is over: {told}");
        assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
    }
}

/// Addresses that `fetch` reads as another host's, or refuses.
#[tokio::test]
async fn odd_addresses_reach_the_seller() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let with_password = shop.at("/report").replace("http://", "http://user:secret@");
    for url in [shop.at("//evil.example/report"), with_password] {
        let told = browser.visit(&shop, "retried", &url, json!({ "faults": [] })).await;
        assert!(text(&told, "shown").contains("The report"), "{told}");
    }
}

#[tokio::test]
async fn a_late_payment_that_is_too_small_is_told_the_price_and_whom_to_write_to() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "late", &shop.at("/report"), json!({})).await;
    let said = text(&told, "said");
    assert!(said.contains("0.48 USDC") && said.contains("0.49 USDC") && said.contains("help@shop.example"), "{told}");
    assert_eq!(told["contact"], "mailto:help@shop.example");
}

#[tokio::test]
async fn what_is_said_is_seen_beside_the_last_of_six_wallets() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { settles: true, ..Kind::default() }).await;
    let told = browser.visit(&shop, "crowded", &shop.at("/report"), json!({})).await;
    let (top, bottom, height) = (told["top"].as_f64(), told["bottom"].as_f64(), told["height"].as_f64());
    assert!(top >= Some(0.0) && bottom <= height, "{told}");
}

#[tokio::test]
async fn an_account_without_the_money_is_asked_for_no_signature() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind { settles: true, ..Kind::default() }).await;
    for press in ["without network fee", "Send a transaction instead"] {
        let more = json!({ "press": press, "account": SELLER.to_string() });
        let told = browser.visit(&shop, "poor", &shop.at("/report"), more).await;
        assert!(text(&told, "said").contains("has 0 USDC"), "{told}");
        assert_eq!(told["asked"].as_array().unwrap().last().unwrap(), "eth_call", "{told}");
        assert_eq!((&told["kept"], &told["pay"]), (&json!([0, 0]), &json!(true)));
    }
}

#[tokio::test]
async fn an_answer_that_is_kept_can_be_bought_again() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "twice", &shop.at("/report"), json!({})).await;
    assert!(text(&told, "kept").contains("The report") && text(&told, "shown").contains("The report"), "{told}");
    assert_eq!((shop.takings().await, shop.handler.runs()), (2 * UNITS, 2));
}

#[tokio::test]
async fn an_answer_is_shown_as_it_was_sold() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    for (kind, shown) in [
        ("exact", "{\n  \"b\": 1e400,\n  \"a\": [\n    1.10,\n    {}\n  ],\n  \"s\": \"{\\\"x\\\": 1}\"\n}"),
        ("latin", "café"),
    ] {
        let told =
            browser.visit(&shop, "retried", &shop.at(&format!("/report?as={kind}")), json!({ "faults": [] })).await;
        assert_eq!(text(&told, "shown"), shown);
    }
}

#[tokio::test]
async fn leaving_while_the_wallet_asks_is_warned_of() {
    let Some(browser) = Browser::find().await else { return };
    let shop = Shop::open(Kind::default()).await;
    let told = browser.visit(&shop, "leaving", &shop.at("/report"), json!({})).await;
    assert_eq!((&told["before"], &told["while"]), (&json!(0), &json!(1)), "{told}");
}
