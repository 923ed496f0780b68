//! The datasets service, bought from as its readers would: three questions, three payments, three answers.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{
    datasets::{open, with_proof},
    market::{Market, PRICE, usdc},
    shop::{Answer, CONVERSIONS, GOALS, INSIGHTS, Shop, client},
};

async fn bought(market: &Market, shop: &Shop, path: &str, body: &Value) -> Value {
    let quote = shop.quote_for(path, body).await;
    assert_eq!(quote.amount, usdc(PRICE));
    let proven = with_proof(body, quote.intent.as_str(), market.pay(PRICE).await);
    let answer = shop.post(path, &proven).await;
    assert_eq!(answer.taken()["transaction"], proven["txHash"]);
    shop.post(path, &proven).await.refused("already_consumed");
    answer.body
}

#[tokio::test]
async fn the_three_endpoints_sell_what_they_say() {
    let market = Market::new().await;
    let shop = open(&market).await;

    let chat = bought(&market, &shop, INSIGHTS, &json!({ "query": "What do visitors ask about pricing?" })).await;
    assert_eq!((&chat["resultType"], &chat["schemaVersion"]), (&json!("chat"), &json!("chat/v1")));
    assert!(chat["reply"].as_str().unwrap().starts_with("# "), "{chat}");
    assert_eq!(chat["dataHash"].as_str().unwrap().len(), 64);

    let goals = bought(&market, &shop, GOALS, &json!({ "query": "Who wants to automate support?" })).await;
    assert!(goals["reply"].as_str().unwrap().starts_with("# "), "{goals}");
    assert!(goals["datasetCount"].as_u64().unwrap() >= 1_200);
    assert_ne!(goals["dataHash"], chat["dataHash"]);

    let filters = json!({ "filters": { "aggregate": "agent", "country": "Germany" } });
    let numbers = bought(&market, &shop, CONVERSIONS, &filters).await;
    let version = json!("agent-conversions/v1");
    assert_eq!((&numbers["resultType"], &numbers["schemaVersion"]), (&json!("analytics"), &version));
    assert_eq!(numbers["stats"]["aggregate"], "agent");
    assert!(!numbers["stats"]["rows"].as_array().unwrap().is_empty());

    assert_eq!(market.takings().await, 3 * PRICE);
}

#[tokio::test]
async fn invalid_filters_keep_the_pair_which_then_buys_the_answer() {
    let market = Market::new().await;
    let shop = open(&market).await;
    let quote = shop.quote_for(CONVERSIONS, &json!({ "filters": { "aggregate": "country" } })).await;
    let payment = market.pay(PRICE).await;

    for wrong in [
        json!({ "aggregate": "planet" }),
        json!({ "country": "Atlantis" }),
        json!({ "country": "Germany", "industry": "Retail" }),
        json!({ "colour": "blue" }),
    ] {
        let request = with_proof(&json!({ "filters": wrong }), quote.intent.as_str(), payment);
        let answer = shop.post(CONVERSIONS, &request).await;
        assert_eq!((answer.status, answer.code()), (400, "invalid_filters"), "{wrong}");
        for header in ["pay", "payment-response", "x-price-intent"] {
            assert!(!answer.headers.contains_key(header), "{header}");
        }
    }
    // A question that was not the quoted one, at the quoted price.
    let right = json!({ "filters": { "aggregate": "industry", "country": "Germany" } });
    let right = with_proof(&right, quote.intent.as_str(), payment);
    let answer = shop.post(CONVERSIONS, &right).await;
    let _ = answer.taken();
    assert_eq!(answer.body["stats"]["aggregate"], "industry");
    shop.post(CONVERSIONS, &right).await.refused("already_consumed");
    // Also where the filters are wrong again.
    let wrong = json!({ "filters": { "aggregate": "planet" } });
    let wrong = with_proof(&wrong, quote.intent.as_str(), payment);
    shop.post(CONVERSIONS, &wrong).await.refused("already_consumed");
}

#[tokio::test]
async fn an_empty_question_is_neither_quoted_nor_sold() {
    let market = Market::new().await;
    let shop = open(&market).await;
    let unfit = shop.post(INSIGHTS, &json!({ "query": "  " })).await;
    assert_eq!((unfit.status, unfit.code()), (400, "invalid_query"));
    assert!(!unfit.headers.contains_key("x-price-intent"));

    let question = json!({ "query": "pricing" });
    let intent = shop.quote_for(INSIGHTS, &question).await.intent;
    let payment = market.pay(PRICE).await;
    let unfit = shop.post(INSIGHTS, &with_proof(&json!({ "query": "" }), intent.as_str(), payment)).await;
    assert_eq!((unfit.status, unfit.code()), (400, "invalid_query"));
    let _ = shop.post(INSIGHTS, &with_proof(&question, intent.as_str(), payment)).await.taken();
}

#[tokio::test]
async fn the_proof_may_stand_in_the_header_and_the_question_in_the_body() {
    let market = Market::new().await;
    let shop = open(&market).await;
    let question = json!({ "query": "What do visitors ask about pricing?" });
    let intent = shop.quote_for(INSIGHTS, &question).await.intent;
    let payment = market.pay(PRICE).await;
    let proof = json!({ "intentId": intent.as_str(), "txHash": payment.to_string() }).to_string();
    let ask = || client().post(shop.url(INSIGHTS)).json(&question);
    let answer = Answer::to(ask().header("x402-payment", URL_SAFE_NO_PAD.encode(&proof))).await;
    assert_eq!(answer.taken()["amount"], "490000");
    Answer::to(ask().header("x402-payment", &proof)).await.refused("already_consumed");
}

#[tokio::test]
async fn one_payment_does_not_buy_from_two_endpoints() {
    let market = Market::new().await;
    let shop = open(&market).await;
    let question = json!({ "query": "support" });
    let intents = [shop.quote_for(INSIGHTS, &question).await.intent, shop.quote_for(GOALS, &question).await.intent];
    let payment = market.pay(PRICE).await;
    // A quote is for the endpoint that gave it.
    shop.post(GOALS, &with_proof(&question, intents[0].as_str(), payment)).await.refused("intent_not_found");
    let _ = shop.post(INSIGHTS, &with_proof(&question, intents[0].as_str(), payment)).await.taken();
    shop.post(GOALS, &with_proof(&question, intents[1].as_str(), payment)).await.refused("tx_already_used");
    let _ = shop.post(GOALS, &with_proof(&question, intents[1].as_str(), market.pay(PRICE).await)).await.taken();
}

#[tokio::test]
async fn what_is_free_stays_free() {
    let market = Market::new().await;
    let shop = open(&market).await;
    let free = Answer::to(client().get(shop.url("/developer/analytics-filters"))).await;
    assert_eq!(free.status, 200);
    for list in ["aggregates", "countries", "categories", "industries"] {
        assert!(!free.body[list].as_array().unwrap().is_empty(), "{list}");
    }
    assert!(!free.headers.contains_key("payment-response"));
}
