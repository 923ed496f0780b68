//! What a call of a priced tool is answered with, from its quote to its sale.

use std::time::Duration;

use serde_json::{Value, json};
use tower_x402::{
    BuildError, Price, Redelivery,
    protocol::{
        Address, Amount, Network, redemption_message,
        v2::{PaymentPayload, PaymentProof},
    },
    testing::{Settling, scripted_signature},
};

use super::rig::{NONCE, PRICE, Rig, call, json_reply, offered, paid, post, result, say, search, sign, with_payment};
use crate::support::{Shop, payer};

#[tokio::test]
async fn a_call_is_quoted_paid_and_sold_once() {
    let rig = Rig::open().await;
    rig.gives(json!({ "content": [{ "type": "text", "text": "because" }], "_meta": { "own": 1 } }));
    let service = rig.service();
    let quote = say(&service, &search()).await;
    let required = quote.bill();
    assert_eq!(required.resource.unwrap().url, "mcp://shop.example/tools/search");
    assert_eq!((quote.offer().amount.to_string(), rig.runs.runs()), ("10000".to_owned(), 0));
    assert_eq!(quote.headers["cache-control"], "no-store");
    let call = with_payment(search(), &sign(&quote.offer(), NONCE));
    let answer = say(&service, &call).await;
    let outcome = answer.sold();
    assert_eq!((outcome.payer, outcome.amount.unwrap().to_string()), (Some(payer()), "10000".to_owned()));
    assert_eq!((&answer.message()["id"], &answer.message()["jsonrpc"]), (&json!(1), &json!("2.0")));
    assert_eq!(
        (&answer.result()["content"][0]["text"], &answer.result()["_meta"]["own"]),
        (&json!("because"), &json!(1))
    );
    assert_eq!(answer.headers["cache-control"], "private, no-store");
    // The same payment buys nothing more.
    assert_eq!(say(&service, &call).await.refused(), "already_consumed");
    assert_eq!((rig.runs.runs(), rig.settler.settlements()), (1, 1));
}

#[tokio::test]
async fn a_tool_sees_its_call_and_its_payer_but_no_payment() {
    let rig = Rig::open().await;
    let service = rig.service();
    let mut call = search();
    call["params"]["_meta"] = json!({ "progressToken": 7 });
    let call = paid(&service, &call).await;
    let mut request = post(call.to_string());
    for name in ["x402-payer", "X402-Payment-Id", "x402_payer", "x402-payment_id", "accept-encoding"] {
        request.headers_mut().append(http::HeaderName::try_from(name).unwrap(), "forged".parse().unwrap());
    }
    super::rig::ask(&service, request).await.sold();
    let seen = rig.last();
    assert_eq!(
        seen.message["params"],
        json!({ "name": "search", "arguments": { "q": "why" }, "_meta": { "progressToken": 7 } })
    );
    let receipt = seen.receipt.unwrap();
    assert_eq!((receipt.payer(), receipt.resource()), (payer(), "mcp/search"));
    assert_eq!(seen.headers["x402-payer"], payer().to_string());
    assert_eq!(seen.headers["x402-payment-id"], receipt.payment_id().to_string());
    assert_eq!(seen.headers["content-length"], seen.text.len().to_string());
    for name in ["x402_payer", "x402-payment_id", "accept-encoding"] {
        assert!(!seen.headers.contains_key(name), "{name}");
    }
}

/// A client that claims to have paid is not believed on calls that are free, either.
#[tokio::test]
async fn nobody_names_a_payer_to_a_free_tool() {
    let rig = Rig::open().await;
    let service = rig.service();
    let mut request = post(call("status", json!({})).to_string());
    request.headers_mut().insert("x402-payer", "forged".parse().unwrap());
    assert_eq!(super::rig::ask(&service, request).await.result(), &json!({ "content": [] }));
    assert!(!rig.last().headers.contains_key("x402-payer"));
}

#[tokio::test]
async fn what_is_not_sold_passes_as_it_is() {
    let rig = Rig::open().await;
    let service = rig.service();
    for message in [
        r#"{"jsonrpc":"2.0","id":1.0,"method":"initialize","params":{"a" : 1e2}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"status","arguments":{"n":1.50}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"search"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"name":"search"}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"status"}}]"#,
    ] {
        super::rig::ask(&service, post(message)).await;
        assert_eq!(rig.last().text, message);
    }
}

#[tokio::test]
async fn a_failure_of_the_tool_sells_nothing_and_the_payment_stays_good() {
    let rig = Rig::open().await;
    let service = rig.service();
    let call = paid(&service, &search()).await;
    rig.gives(json!({ "content": [{ "type": "text", "text": "no" }], "isError": true, "_meta": { "x402/payment-response": { "success": true } } }));
    let failed = say(&service, &call).await;
    assert_eq!((failed.result()["content"][0]["text"].as_str(), failed.outcome()), (Some("no"), None));
    rig.plays(|message| async move {
        json_reply(json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": -32603, "message": "broken" } }))
    });
    let failed = say(&service, &call).await;
    assert_eq!((&failed.message()["error"]["message"], &failed.message()["id"]), (&json!("broken"), &json!(1)));
    rig.gives(json!({ "resultType": "input_required", "requestState": "s" }));
    assert_eq!(say(&service, &call).await.result()["requestState"], "s");
    assert_eq!(rig.settler.settlements(), 0);
    rig.gives(json!({ "content": [] }));
    say(&service, &call).await.sold();
    assert_eq!(rig.settler.settlements(), 1);
}

#[tokio::test]
async fn a_price_is_made_of_the_arguments_and_bound_to_them() {
    let rig = Rig::open().await;
    let layer = rig.shop.merchant.tools();
    let layer = layer.price_with("summarise", |arguments| match arguments.get("pages").and_then(Value::as_u64) {
        None => Price::Refuse(http::Response::new(bytes::Bytes::from("how many pages?")).into()),
        Some(0) => Price::Free,
        Some(pages) => Price::labelled(Amount::from_base_units(u128::from(pages) * 1000), format!("{pages} pages")),
    });
    let service = rig.behind(&layer.unwrap());
    let pages = |count: u64| call("summarise", json!({ "pages": count }));
    let refused = say(&service, &call("summarise", json!({}))).await;
    assert_eq!((refused.result()["isError"].as_bool(), refused.is_bill(), rig.runs.runs()), (Some(true), false, 0));
    assert_eq!(refused.result()["content"][0]["text"], "how many pages?");
    assert!(say(&service, &pages(0)).await.outcome().is_none());
    let quote = say(&service, &pages(3)).await;
    assert_eq!(quote.offer().amount.to_string(), "3000");
    assert_eq!(quote.bill().resource.unwrap().description.as_deref(), Some("3 pages"));
    let payment = sign(&quote.offer(), NONCE);
    // For more pages, and for fewer.
    for count in [4, 2] {
        let other = say(&service, &with_payment(pages(count), &payment)).await;
        assert_eq!(other.offer().amount.to_string(), (count * 1000).to_string());
        assert_eq!(other.bill().error.as_deref(), Some("invalid_payment_requirements"));
        assert!(!other.outcome().unwrap().success);
    }
    // The order of members, white space and further metadata are the same call.
    let same = format!(
        r#"{{"id":"x","params":{{"_meta":{{"x402/payment":{},"more":null}},"arguments":{{ "pages" : 3.0 }},"name":"summarise"}},"method":"tools/call"}}"#,
        payment.to_json()
    );
    super::rig::ask(&service, post(same)).await.sold();
}

/// A server that is made with `serde_json` may see another value in the place of an object with a name of its own, where others see the object.
#[tokio::test]
async fn arguments_that_readers_differ_about_have_no_price() {
    let rig = Rig::open().await;
    let layer = rig.shop.merchant.tools();
    let layer =
        layer.price_with("summarise", |arguments| match arguments.get("pages").map_or(Some(0), Value::as_u64) {
            Some(0) => Price::Free,
            pages => Price::Charge(Amount::from_base_units(u128::from(pages.unwrap_or(1)) * 1000)),
        });
    let service = rig.behind(&layer.unwrap());
    for arguments in [
        r#"{"pages":3,"x":{"$serde_json::private::RawValue":7}}"#,
        r#"{"pages":{"$serde_json::private::RawValue":"0"}}"#,
        r#"{"pages":{"$serde_json::private::RawValue":"3000"}}"#,
        r#"{"pages":{"\u0024serde_json::private::Raw\u0056alue":"3000"}}"#,
        r#"{"pages":{"$serde_json::private::Number":"3000"}}"#,
        r#"{"$serde_json::private::RawValue":"{\"pages\":3000}"}"#,
        r#"{"pages":0,"Pages":3000}"#,
        r#"{"pages":3,"x":[{"a":0,"A":3000}]}"#,
        r#"{"pages\u0000":3000}"#,
    ] {
        let call =
            format!(r#"{{"id":1,"method":"tools/call","params":{{"name":"summarise","arguments":{arguments}}}}}"#);
        let answer = super::rig::ask(&service, post(call)).await;
        assert_eq!(answer.message()["error"]["code"], -32600, "{arguments}: {}", answer.text);
    }
    assert_eq!(rig.runs.runs(), 0);
    // What merely begins alike is an argument like any other.
    let quote = say(&service, &call("summarise", json!({ "pages": 3.0, "$serde_json": { "private": "7" } }))).await;
    assert_eq!(quote.offer().amount.to_string(), "3000");
}

#[tokio::test]
async fn a_kept_result_carries_the_id_of_the_call_that_asks_for_it() {
    let rig = Rig::open().await;
    rig.gives(json!({ "content": [{ "type": "text", "text": "kept" }] }));
    let service = rig.behind(&rig.layer().redeliver(Redelivery::lasting(Duration::from_secs(60))));
    let mut call = paid(&service, &search()).await;
    let first = say(&service, &call).await;
    call["id"] = json!("again");
    let again = say(&service, &call).await;
    assert_eq!((again.sold(), &again.message()["id"]), (first.sold(), &json!("again")));
    assert_eq!(again.result(), first.result());
    // Whatever else is true of the call: the payment has bought this.
    for other in [super::rig::call("search", json!({ "q": "other" })), super::rig::call("summarise", json!({}))] {
        let mut other = other;
        other["params"]["_meta"] = call["params"]["_meta"].clone();
        let answer = say(&service, &other).await;
        assert!(answer.outcome().is_some_and(|outcome| outcome.success) || answer.refused() == "already_consumed");
    }
    assert_eq!((rig.runs.runs(), rig.settler.settlements()), (1, 1));
}

/// The chain is asked first, and the second call goes on where the first one stopped.
#[tokio::test(start_paused = true)]
async fn a_settlement_that_is_not_heard_of_is_gone_on_with() {
    let rig = Rig::open().await;
    let service = rig.service();
    let call = paid(&service, &search()).await;
    rig.settler.script([Settling::SettledHanging]);
    let first = say(&service, &call).await;
    if first.outcome().is_none_or(|outcome| !outcome.success) {
        assert_eq!(first.refused(), "outcome_unknown");
        assert!(first.result()["structuredContent"]["retryAfter"].is_u64());
        rig.lease_runs_out();
        say(&service, &call).await.sold();
    }
    assert_eq!(rig.settler.settlements(), 1);
}

#[tokio::test]
async fn what_is_settled_first_is_told_where_the_tool_fails() {
    let rig = Rig::open().await;
    let service = rig.behind(&rig.layer().settle_first());
    let replies =
        [json!({ "result": { "isError": true, "content": [] } }), json!({ "error": { "code": 1, "message": "no" } })];
    for (index, reply) in replies.into_iter().enumerate() {
        let call = with_payment(search(), &sign(&offered(&service, &search()).await, [index as u8; 32]));
        rig.plays(move |message| {
            let mut reply = reply.clone();
            reply["id"] = message["id"].clone();
            async move { json_reply(reply) }
        });
        let failed = say(&service, &call).await;
        let outcome = failed.outcome().unwrap();
        assert!(!outcome.success && outcome.is_pending() && outcome.transaction.is_some(), "{}", failed.text);
        assert_eq!(failed.result()["isError"], true);
        rig.gives(json!({ "content": [] }));
        say(&service, &call).await.sold();
        assert_eq!(rig.settler.settlements(), index + 1);
    }
}

/// Whoever paid first, and whose tool failed, corrects the call: the payment buys it by the payer's signature, also where no transfers are
/// offered, and where the client dropped the intent.
#[tokio::test]
async fn what_was_made_and_bought_nothing_is_redeemed_by_its_payers_signature() {
    let rig = Rig::open().await;
    let service = rig.behind(&rig.layer().settle_first());
    for (number, quoted) in [(1, true), (2, false)] {
        let payment = sign(&offered(&service, &search()).await, [number; 32]);
        let mut payment: Value = serde_json::from_str(&payment.to_json()).unwrap();
        if !quoted {
            payment["accepted"]["extra"].as_object_mut().unwrap().remove("intentId").unwrap();
        }
        let pays = |mut call: Value| {
            call["params"]["_meta"]["x402/payment"] = payment.clone();
            call
        };
        rig.gives(json!({ "isError": true, "content": [] }));
        let failed = say(&service, &pays(search())).await;
        let transaction = failed.outcome().unwrap().transaction.unwrap();
        rig.gives(json!({ "content": [] }));
        let corrected = call("search", json!({ "q": "why not" }));
        let refused = say(&service, &pays(corrected.clone())).await;
        assert_eq!(refused.refused(), if quoted { "intent_not_found" } else { "payment_bound" });
        let told = &refused.result()["structuredContent"];
        // The offer for the corrected call, with the intent that the refusal named, or with its own.
        let fresh = offered(&service, &corrected).await;
        let intent =
            told["intentId"].as_str().map_or_else(|| fresh.intent().unwrap().unwrap(), |id| id.parse().unwrap());
        let by_signature = |who| {
            let signature = scripted_signature(who, &redemption_message(Network::BASE, transaction, &intent));
            let proof = PaymentProof::new(transaction).with_signature(signature);
            // An entry of the tool's own quote, for what is shown.
            let mut call = with_payment(corrected.clone(), &PaymentPayload::new(fresh.clone(), proof));
            let extra = json!({ "assetTransferMethod": "txid", "intentId": intent.as_str() });
            call["params"]["_meta"]["x402/payment"]["accepted"]["extra"] = extra;
            call
        };
        assert_eq!(say(&service, &by_signature(Address::new([0xbb; 20]))).await.refused(), "invalid_signature");
        say(&service, &by_signature(payer())).await.sold();
        assert_eq!(rig.settler.settlements(), usize::from(number));
    }
    // Without a signature it is no way to pay here.
    let unsigned = PaymentPayload::new(
        offered(&service, &search()).await.with_client_submitted_transfer(),
        PaymentProof::new(rig.shop.pay(10_000)),
    );
    let refused = say(&service, &with_payment(search(), &unsigned)).await;
    assert_eq!(refused.refused(), "invalid_redemption");
}

/// An agent that reads "nothing was taken" pays again.
#[tokio::test]
async fn what_was_made_is_never_called_untaken() {
    let rig = Rig::open().await;
    let service = rig.behind(&rig.layer().settle_first());
    let bill = json!({ "isError": true, "structuredContent": { "x402Version": 2, "accepts": [], "error": "pay" }, "content": [] });
    for (number, given) in [json!({ "resultType": "task", "task": {} }), bill].into_iter().enumerate() {
        rig.gives(given);
        let call = with_payment(search(), &sign(&offered(&service, &search()).await, [number as u8; 32]));
        for _ in 0..2 {
            let failed = say(&service, &call).await;
            assert!(failed.outcome().is_some_and(|outcome| outcome.is_pending()), "{}", failed.text);
            assert!(!failed.text.contains("othing was taken"), "{}", failed.text);
            assert!(failed.text.contains("Do not pay again"), "{}", failed.text);
        }
    }
}

#[tokio::test]
async fn unlisted_tools_are_free_or_refused() {
    let rig = Rig::open().await;
    let service = rig.behind(&rig.layer().free("status").deny_unlisted());
    assert_eq!(say(&service, &call("status", json!({}))).await.result(), &json!({ "content": [] }));
    let refused = say(&service, &call("delete_all", json!({}))).await;
    assert_eq!((&refused.message()["error"]["code"], &refused.message()["id"]), (&json!(-32602), &json!(1)));
    assert!(say(&service, &search()).await.is_bill());
    let batch = json!([call("delete_all", json!({}))]);
    assert_eq!(say(&service, &batch).await.message()["error"]["code"], -32600);
    assert_eq!(rig.runs.runs(), 1);
    // A server may ignore case, or space around a name.
    let service = rig.behind(&rig.layer().free("Summarise"));
    for name in ["Search", "search ", "\u{3000}SEARCH", "ſearch"] {
        let refused = say(&service, &call(name, json!({}))).await;
        assert_eq!(refused.message()["error"]["code"], -32602, "{name}: {}", refused.text);
    }
    assert_eq!(rig.runs.runs(), 1);
    for name in ["Summarise", "research"] {
        assert_eq!(say(&service, &call(name, json!({}))).await.result(), &json!({ "content": [] }));
    }
}

#[tokio::test]
async fn what_cannot_be_sold_is_told_at_the_start() {
    let shop = Shop::open().await;
    assert!(matches!(shop.merchant.tools().charge("search", PRICE), Err(BuildError::NoStandard)));
    let rig = Rig::open().await;
    let tools = || rig.shop.merchant.tools();
    assert!(matches!(tools().charge("search", "0 USDC"), Err(BuildError::InvalidPrice { .. })));
    assert!(matches!(tools().charge("", PRICE), Err(BuildError::InvalidText { .. })));
    assert!(matches!(tools().label("search", "Search"), Err(BuildError::ConflictingResource { .. })));
    let priced = tools().charge("search", PRICE).unwrap().label("search", "Search").unwrap();
    assert!(matches!(priced.clone().charge("search", "0.02 USDC"), Err(BuildError::ConflictingResource { .. })));
    assert!(matches!(priced.clone().message_limit(0), Err(BuildError::OutOfRange { .. })));
    assert!(matches!(priced.clone().answer_limit(0), Err(BuildError::OutOfRange { .. })));
    let service = rig.behind(&priced);
    assert_eq!(say(&service, &search()).await.bill().resource.unwrap().description.as_deref(), Some("Search"));
}

/// All at once: one sale, and nobody else has the result.
#[tokio::test]
async fn twenty_identical_calls_at_once_are_one_sale() {
    let rig = Rig::open().await;
    rig.plays(|message| async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        json_reply(result(&message, json!({ "content": ["the answer"] })))
    });
    let service = rig.service();
    let call = paid(&service, &search()).await;
    let calls = (0..20).map(|_| say(&service, &call));
    let answers = futures_util::future::join_all(calls).await;
    let sold = answers.iter().filter(|answer| answer.text.contains("the answer")).count();
    let others = answers.iter().filter(|answer| !answer.text.contains("the answer"));
    for other in others {
        assert!(matches!(other.refused(), "redemption_in_progress" | "already_consumed"), "{}", other.text);
    }
    assert_eq!((sold, rig.runs.runs(), rig.settler.settlements()), (1, 1, 1));
    let _ = offered(&service, &search()).await;
}
