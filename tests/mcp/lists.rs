//! Lists tell prices; schemas admit bills.

use serde_json::{Value, json};

use super::rig::{Rig, ask, event, event_reply, json_reply, post, result, say};

fn list() -> Value {
    json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/list" })
}

fn tools() -> Value {
    json!({ "tools": [
        { "name": "search", "outputSchema": { "type": "object", "required": ["reply"], "properties": { "reply": { "$ref": "#/$defs/r" } }, "$defs": { "r": { "type": "string" } } } },
        { "name": "status", "outputSchema": { "type": "object" }, "_meta": { "own": 1 } },
    ], "nextCursor": "n" })
}

fn checked(result: &Value) {
    let [search, status] = [0, 1].map(|index| &result["tools"][index]);
    assert_eq!(search["_meta"]["x402/price"], json!({ "name": "mcp/search", "amount": "0.01", "currency": "USDC" }));
    let schema = &search["outputSchema"];
    assert_eq!((&schema["type"], schema["anyOf"].as_array().unwrap().len()), (&json!("object"), 3));
    assert_eq!(schema["anyOf"][0]["properties"]["reply"]["$ref"], "#/anyOf/0/$defs/r");
    assert_eq!(status, &tools()["tools"][1]);
    assert_eq!(result["nextCursor"], "n");
}

#[tokio::test]
async fn a_list_tells_the_prices_in_json_and_among_events() {
    let rig = Rig::open().await;
    let service = rig.service();
    rig.gives(tools());
    let answer = say(&service, &list()).await;
    checked(answer.result());
    assert_eq!(
        (&answer.message()["id"], &answer.headers["content-length"]),
        (&json!(5), &http::HeaderValue::from(answer.text.len()))
    );
    rig.plays(|message| async move { event_reply(format!(": hello\n\n{}", event(&result(&message, tools())))) });
    let answer = say(&service, &list()).await;
    checked(answer.result());
    assert!(answer.text.contains("id: 7\n"), "free streams can be resumed");
}

#[tokio::test]
async fn a_price_that_is_computed_has_no_amount() {
    let rig = Rig::open().await;
    let price = |_: &serde_json::Map<String, Value>| tower_x402::Price::Free;
    let service =
        rig.behind(&rig.shop.merchant.tools().price_with("search", price).unwrap().label("search", "Search").unwrap());
    rig.gives(tools());
    let price = &say(&service, &list()).await.result()["tools"][0]["_meta"]["x402/price"].clone();
    assert_eq!(price, &json!({ "name": "Search", "currency": "USDC" }));
}

#[tokio::test]
async fn a_list_without_priced_tools_and_an_error_stay_as_they_are() {
    let rig = Rig::open().await;
    let service = rig.service();
    for text in [
        r#"{"jsonrpc":"2.0","id":5,"result":{"tools":[{"name":"status","n":1.50}]}}"#,
        r#"{"id":5,"error":{"code":1}}"#,
        "none",
    ] {
        rig.plays(move |_| async move {
            let mut reply = json_reply(json!(null));
            *reply.body_mut() = text.into();
            reply
        });
        assert_eq!(ask(&service, post(list().to_string())).await.text, text);
    }
}

#[tokio::test]
async fn the_extension_is_told_by_servers_of_the_revision_that_has_it() {
    let rig = Rig::open().await;
    let service = rig.service();
    rig.gives(json!({ "resultType": "complete", "capabilities": { "tools": {} } }));
    let discover = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover" });
    let told = say(&service, &discover).await;
    assert_eq!(told.result()["capabilities"], json!({ "tools": {}, "extensions": { "org.x402/payment": {} } }));
    // By others it is not.
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize" });
    assert_eq!(say(&service, &initialize).await.result()["capabilities"], json!({ "tools": {} }));
}
