//! The tools of `datasets` on a local chain: one ledger with the routes of HTTP, and a process that dies.

use std::time::Duration;

use serde_json::{Value, json};
use tower_x402::{
    client::{Budget, FileJournal, Money, PaidTools, PayLayer, WalletPayer},
    protocol::Asset,
    testing::DevChain,
};

use super::place::{PRICE, Place, message, say};
use crate::served::shop::{Answer, client};

fn question() -> Value {
    json!({ "query": "pricing" })
}

#[tokio::test]
async fn one_payment_buys_from_a_tool_or_from_a_route() {
    let place = Place::open().await;
    let payment = place.pays(&place.offer("demand_insights", question()).await).await;
    let sold = place.call("demand_insights", question(), Some(&payment)).await;
    assert_eq!(sold["_meta"]["x402/payment-response"]["success"], true, "{sold}");
    assert!(sold["structuredContent"]["reply"].as_str().unwrap().starts_with("# "));
    // The route has the same answer, and does not give it for that payment.
    let shown = client().post(place.app.insights()).json(&question()).header("payment-signature", payment.to_header());
    let answer = Answer::to(shown).await;
    assert_ne!((answer.status, answer.status), (200, 402), "{}", answer.body);
    assert!(matches!(answer.status, 404 | 409), "{} {}", answer.status, answer.body);
    // Nor does another tool, nor the same one with another question.
    for (tool, arguments) in
        [("ai_early_adopters_goals", question()), ("demand_insights", json!({ "query": "support" }))]
    {
        let refused = place.call(tool, arguments, Some(&payment)).await;
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(!refused.to_string().contains("accepts"), "{refused}");
    }
    // Bought from a route, it does not buy from a tool.
    let quote = client().post(place.app.insights()).json(&question()).send().await.unwrap();
    let required = tower_x402::protocol::v2::PaymentRequired::from_headers(quote.headers()).unwrap().unwrap();
    let payment = place.pays(required.accepts[0].exact().unwrap()).await;
    let shown = client().post(place.app.insights()).json(&question()).header("payment-signature", payment.to_header());
    assert_eq!(Answer::to(shown).await.status, 200);
    let refused = place.call("demand_insights", question(), Some(&payment)).await;
    assert!(!refused.to_string().contains("accepts") && refused["isError"] == true, "{refused}");
    assert_eq!(place.takings().await, 2 * PRICE);
}

/// `kill -9` between settlement and result, then the same call again: one charge, the same result.
#[tokio::test]
async fn a_server_that_dies_between_settlement_and_result_charges_once() {
    let place = Place::on(DevChain::builder().mine_every(None)).await;
    let payment = place.pays(&place.offer("demand_insights", question()).await).await;
    let call = message("demand_insights", question(), Some(&payment));
    let calling = tokio::spawn({
        let (url, call) = (place.mcp(), call.clone());
        async move { say(&url, &call).await }
    });
    // Its transaction is sent, and in no block yet.
    let pending = json!({ "jsonrpc": "2.0", "id": 1, "method": "txpool_status", "params": [] });
    loop {
        let status = client().post(place.chain.rpc_url()).json(&pending).send().await.unwrap();
        let status: Value = status.json().await.unwrap();
        if status["result"]["pending"] == "0x1" {
            break;
        }
        assert!(!calling.is_finished(), "it waits for a block");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let place = place.dies_and_lives_again().await;
    drop(calling);
    // It may have been mined while the server started.
    place.chain.mine(1).await.unwrap();
    assert_eq!(place.takings().await, PRICE);
    let mut result = json!(null);
    for _ in 0..60 {
        result = place.call("demand_insights", question(), Some(&payment)).await;
        if result["isError"] != true {
            break;
        }
        // Its lease runs out by the machine's clock.
        assert!(!result.to_string().contains("accepts"), "{result}");
        place.chain.mine(1).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(result["_meta"]["x402/payment-response"]["success"], true, "{result}");
    assert!(result["structuredContent"]["reply"].as_str().unwrap().starts_with("# "));
    let again = place.call("demand_insights", question(), Some(&payment)).await;
    assert_eq!(again["structuredContent"]["error"], "already_consumed");
    assert_eq!(place.takings().await, PRICE);
}

/// Our own client, by rmcp: the tool's result, its budget, and its journal.
#[tokio::test]
async fn our_own_client_buys_each_tool_within_its_budget() {
    let place = Place::open().await;
    let key = place.chain.accounts()[9].private_key();
    let wallet = || WalletPayer::builder().key(key).endpoint(place.chain.rpc_url()).connect();
    let journal = place.folder.path().join("purchases.jsonl");
    let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment("0.50").per_day("1.00").build().unwrap();
    let journal = FileJournal::open(journal).await.unwrap();
    let layer = PayLayer::builder(wallet().await.unwrap(), budget, journal).build().await.unwrap();
    let session = std::sync::Arc::new({
        let transport = rmcp::transport::StreamableHttpClientTransport::from_uri(&*place.mcp());
        rmcp::ServiceExt::serve((), transport).await.unwrap()
    });
    let tools = PaidTools::new(&layer, &place.mcp(), move |params: Value| {
        let session = std::sync::Arc::clone(&session);
        async move { Ok(serde_json::to_value(session.call_tool(serde_json::from_value(params)?).await?)?) }
    })
    .unwrap();
    let free = tools.call("analytics_filters", json!({})).await.unwrap();
    assert!(free.purchase.is_none() && free.result["structuredContent"]["countries"].is_array());
    for tool in ["demand_insights", "ai_early_adopters_goals"] {
        let called = tools.call(tool, question()).await.unwrap();
        let purchase = called.purchase.unwrap();
        assert_eq!(purchase.amount.to_decimal(purchase.decimals), "0.49");
        assert!(called.result["structuredContent"]["reply"].as_str().unwrap().starts_with("# "));
    }
    let declined = tools.call("agent_conversions", json!({})).await.unwrap_err();
    assert!(declined.to_string().contains("0.49 would exceed the daily limit of 1"), "{declined}");
    assert_eq!(declined.money(), Money::Untouched);
    // What the tool refuses costs nothing.
    let refused = tools.call("demand_insights", json!({ "query": "" })).await.unwrap();
    assert_eq!((refused.result["isError"].as_bool(), refused.purchase.is_none()), (Some(true), true));
    assert_eq!(place.takings().await, 2 * PRICE);
}

#[tokio::test]
async fn the_example_sells_to_the_example() {
    let place = Place::open().await;
    let merchant = {
        let verifier = tower_x402::verify::EvmVerifier::connect([place.chain.rpc_url()]).await.unwrap();
        let settler = tower_x402::settle::WalletSettler::builder();
        let settler = settler.key(place.chain.accounts()[4].private_key()).endpoint(place.chain.rpc_url());
        tower_x402::Merchant::builder(tower_x402::protocol::Address::new([0x5f; 20]))
            .verifier(verifier)
            .settler(settler.connect().await.unwrap())
            .ledger(tower_x402::ledger::MemoryLedger::new())
            .sealing_keys(tower_x402::protocol::SealingKeys::new([7; 32]))
            .build()
            .await
            .unwrap()
    };
    let url = crate::served::shop::serve(crate::example::router(&merchant).unwrap()).await + "/mcp";
    let wallet = WalletPayer::builder().key(place.chain.accounts()[9].private_key()).endpoint(place.chain.rpc_url());
    let journal = place.folder.path().join("agent.jsonl");
    let wallet = wallet.connect().await.unwrap();
    let said = crate::example_agent::call(wallet, &url, "reverse", r#"{"text":"hello"}"#, journal.to_str().unwrap());
    let said = said.await.unwrap();
    assert!(said.contains("olleh") && said.contains("paid: 0.01"), "{said}");
}
