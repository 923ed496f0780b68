//! The ordinary ways to an answer.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use serde_json::json;
use tower_x402::protocol::Network;

use super::{
    market::{Market, PRICE, SELLER, usdc},
    shop::{CONVERSIONS, GOALS, INSIGHTS},
};

#[tokio::test]
async fn each_endpoint_sells_its_answer_for_a_payment_of_its_own() {
    let market = Market::new().await;
    let shop = market.shop().await;
    for (buyer, path) in [INSIGHTS, GOALS, CONVERSIONS].into_iter().enumerate() {
        let quote = shop.quote(path).await;
        assert_eq!((quote.recipient, quote.network, quote.amount), (SELLER, Network::BASE, usdc(PRICE)));
        assert_eq!((quote.decimals, quote.symbol.as_str()), (6, "USDC"));
        assert_eq!(quote.contracts, [market.chain.usdc()]);
        assert_eq!(quote.expiry.unix(), market.now().await + 900);

        let payment = market.send(market.buyer(buyer), PRICE).await;
        market.block().await;
        let answer = shop.redeem(path, quote.intent.as_str(), payment).await.sold();
        let expected = json!({
            "resource": &path[1..],
            "intent": quote.intent.as_str(),
            "payer": market.buyer(buyer).to_string(),
            "recipient": SELLER.to_string(),
            "token": market.chain.usdc().to_string(),
            "amount": "490000",
            "network": "eip155:8453",
            "transaction": payment.to_string(),
            "position": 0,
            "blockTime": market.now().await,
            "blockNumber": market.chain.block_number().await.unwrap(),
        });
        assert_eq!(answer, expected);
        assert_eq!(shop.runs(), buyer + 1);
        assert_eq!(market.takings().await, PRICE * (buyer as u128 + 1));
    }
}

#[tokio::test]
async fn a_proof_in_the_header_counts_in_every_spelling() {
    let market = Market::new().await;
    let shop = market.shop().await;
    type Spell = fn(&str) -> String;
    let spellings: [(&str, Spell); 5] = [
        ("JSON", str::to_owned),
        ("standard", |json| STANDARD.encode(json)),
        ("standard, no padding", |json| STANDARD_NO_PAD.encode(json)),
        ("URL-safe", |json| URL_SAFE.encode(json)),
        ("URL-safe, no padding", |json| URL_SAFE_NO_PAD.encode(json)),
    ];
    for (name, spell) in spellings {
        let intent = shop.intent(INSIGHTS).await;
        let payment = market.pay(PRICE).await;
        // The note brings in the letters in which the alphabets differ, and a length that needs padding.
        let proof = (0..3)
            .map(|n| format!(r#"{{"note":"{}>>>???","intentId":"{intent}","txHash":"{payment}"}}"#, "-".repeat(n)))
            .find(|proof| {
                let text = STANDARD.encode(proof);
                text.ends_with('=') && text.contains('/') && text.contains('+')
            })
            .expect("one of three lengths");
        let answer = shop.post_with(INSIGHTS, &spell(&proof)).await.sold();
        assert_eq!(answer["transaction"], payment.to_string(), "{name}");
        shop.redeem(INSIGHTS, &intent, payment).await.refused("already_consumed");
    }
    assert_eq!(shop.runs(), 5);
}

#[tokio::test]
async fn the_letters_of_a_hash_may_be_large_and_it_is_the_same_hash() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let payment = market.pay(PRICE).await;
    let large = format!("0x{}", payment.to_string()[2..].to_uppercase());
    let redeem = async |hash: &str| {
        let intent = shop.intent(INSIGHTS).await;
        shop.post(INSIGHTS, &json!({ "query": "why", "intentId": intent, "txHash": hash })).await
    };
    assert_eq!(redeem(&large).await.sold()["transaction"], payment.to_string());
    redeem(&payment.to_string()).await.refused("tx_already_used");
    redeem(&large).await.refused("tx_already_used");
    redeem(&large.replacen("0x", "0X", 1)).await.refused("invalid_redemption");
}

#[tokio::test]
async fn who_knows_the_price_pays_first_and_asks_for_a_quote_later() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let payment = market.pay(PRICE).await;
    market.block().await;
    shop.buy_with(payment).await.sold();
    assert_eq!((shop.runs(), market.takings().await), (1, PRICE));
}

#[tokio::test]
async fn who_has_a_hash_and_no_intent_is_given_one_without_a_bill() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let payment = market.pay(PRICE).await;

    let asked = shop.post(INSIGHTS, &json!({ "query": "why", "txHash": payment.to_string() })).await;
    let intent = asked.refused("intent_required").fresh_intent();
    shop.post(INSIGHTS, &json!({ "query": "why", "intentId": intent })).await.refused("tx_required");
    shop.redeem(INSIGHTS, &intent, payment).await.sold();
    assert_eq!(shop.runs(), 1);
}

#[tokio::test]
async fn a_request_that_the_service_refuses_leaves_the_pair_for_a_better_one() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let intent = shop.intent(CONVERSIONS).await;
    let payment = market.pay(PRICE).await;
    for _ in 0..3 {
        shop.redeem_in_vain(CONVERSIONS, &intent, payment).await;
    }
    shop.redeem(CONVERSIONS, &intent, payment).await.sold();
    assert_eq!(shop.runs(), 4);
    shop.redeem(CONVERSIONS, &intent, payment).await.refused("already_consumed");
}

/// The same payment, with another intent than the one whose request was refused.
#[tokio::test]
async fn a_refused_request_leaves_the_payment_for_another_intent() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let (first, second) = (shop.intent(CONVERSIONS).await, shop.intent(INSIGHTS).await);
    let payment = market.pay(PRICE).await;
    shop.redeem_in_vain(CONVERSIONS, &first, payment).await;
    shop.redeem(INSIGHTS, &second, payment).await.sold();
    shop.redeem(CONVERSIONS, &first, payment).await.refused("tx_already_used");
    // And the first intent buys with the next payment.
    shop.redeem(CONVERSIONS, &first, market.pay(PRICE).await).await.sold();
}

#[tokio::test]
#[cfg(unix)]
async fn a_node_that_stands_still_costs_the_payer_nothing() {
    use std::time::Duration;

    use super::shop::Shop;

    let market = Market::new().await;
    let patience = Duration::from_millis(300);
    let verifier = market.verifier().call_timeout(patience).total_timeout(patience).connect().await.unwrap();
    let shop = Shop::open(market.merchant().await.verifier(verifier)).await;
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.pay(PRICE).await;

    signal(&market, "-STOP");
    // A busy machine takes a moment to stop all its threads.
    while tokio::time::timeout(Duration::from_millis(100), market.chain.block_number()).await.is_ok() {}
    let stuck = shop.redeem(INSIGHTS, &intent, payment).await;
    signal(&market, "-CONT");
    stuck.refused("verification_unavailable");
    assert_eq!(shop.runs(), 0);
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let answer = shop.redeem(INSIGHTS, &intent, payment).await;
        if answer.status == 200 {
            answer.sold();
            break;
        }
        answer.refused("verification_unavailable");
        assert!(std::time::Instant::now() < deadline, "the node answers again");
    }
    assert_eq!(shop.runs(), 1);
}

#[cfg(unix)]
fn signal(market: &Market, signal: &str) {
    let process = market.chain.process_id().to_string();
    assert!(std::process::Command::new("kill").args([signal, &process]).status().unwrap().success());
}
