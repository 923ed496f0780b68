//! Refusals have no terms, and bills have the form that their client understands.

use serde_json::{Value, json};
use tower_x402::{
    protocol::v2::{PaymentRequired, Reason, SettleResponse},
    testing::Settling,
};

use super::rig::{NONCE, Rig, ask, call, offered, paid, post, read, say, search, sign, with_payment};

fn with_meta(mut call: Value, name: &str, value: Value) -> Value {
    call["params"]["_meta"][name] = value;
    call
}

/// As a client says it that knows the extension.
fn by_extension(call: Value) -> Value {
    let capabilities = json!({ "extensions": { "org.x402/payment": {} } });
    let call = with_meta(call, "io.modelcontextprotocol/clientCapabilities", capabilities);
    with_meta(call, "io.modelcontextprotocol/protocolVersion", json!("2026-07-28"))
}

#[tokio::test]
async fn a_bill_is_a_kind_of_result_where_the_client_says_so() {
    let rig = Rig::open().await;
    let service = rig.service();
    let call = by_extension(search());
    let bill = say(&service, &call).await;
    assert_eq!((&bill.result()["resultType"], bill.result().get("isError")), (&json!("payment_required"), None));
    let required = PaymentRequired::from_json(bill.result()["paymentRequired"].to_string()).unwrap();
    let offer = required.accepts[0].exact().unwrap();
    // A refused payment, too, with its outcome.
    rig.settler.script([Settling::Refused(Reason::INSUFFICIENT_FUNDS)]);
    let payment = sign(offer, NONCE);
    let refused = say(&service, &with_payment(call.clone(), &payment)).await;
    assert_eq!(refused.result()["paymentRequired"]["error"], "insufficient_funds");
    assert!(!refused.outcome().unwrap().success);
    say(&service, &with_payment(call.clone(), &payment)).await.sold();
    let again = say(&service, &with_payment(call, &payment)).await;
    assert_eq!((again.refused(), &again.result()["resultType"]), ("already_consumed", &json!("complete")));
}

#[tokio::test]
async fn a_revision_whose_results_name_their_kind_gets_them_so() {
    let rig = Rig::open().await;
    let service = rig.service();
    let call = with_meta(search(), "io.modelcontextprotocol/protocolVersion", json!("2026-07-28"));
    assert_eq!(say(&service, &call).await.result()["resultType"], "complete");
    let call = with_meta(search(), "io.modelcontextprotocol/protocolVersion", json!("2025-11-25"));
    assert_eq!(say(&service, &call).await.result().get("resultType"), None);
}

#[tokio::test]
async fn what_is_no_payment_is_refused_without_terms() {
    let rig = Rig::open().await;
    let service = rig.service();
    let good: Value = serde_json::from_str(&sign(&offered(&service, &search()).await, NONCE).to_json()).unwrap();
    let mut first = good.clone();
    first["x402Version"] = json!(1);
    let mut accepted = good.clone();
    accepted["accepted"]["amount"] = json!(10_000);
    for shown in [json!("e30="), json!({}), json!([]), json!(7), first, accepted, json!({ "x402Version": 2 })] {
        let answer = say(&service, &with_meta(search(), "x402/payment", shown.clone())).await;
        assert_eq!(answer.refused(), "invalid_redemption", "{shown}");
    }
    for (name, value) in [("payment-signature", "e30="), ("x402-payment", "{}"), ("x-payment", "e30=")] {
        let mut request = post(search().to_string());
        request.headers_mut().insert(http::HeaderName::from_static(name), value.parse().unwrap());
        assert_eq!(ask(&service, request).await.refused(), "invalid_redemption", "{name}");
    }
    // Nothing and null are no payment.
    for shown in [json!(null)] {
        say(&service, &with_meta(search(), "x402/payment", shown)).await.offer();
    }
    let mut call = search();
    call["params"]["_meta"] = json!(null);
    call["params"]["arguments"] = json!(null);
    say(&service, &call).await.offer();
    assert_eq!(rig.runs.runs(), 0);
    // As the official Python session sends it.
    let mut nulls = good;
    nulls["extensions"] = json!(null);
    nulls["resource"] = json!(null);
    say(&service, &with_meta(search(), "x402/payment", nulls)).await.sold();
}

/// Whatever goes wrong, a client that pays wherever it sees terms sees none but where its payment was certainly not used.
#[tokio::test(start_paused = true)]
async fn terms_are_shown_only_where_nothing_was_taken_and_nothing_will_be() {
    for (settling, bill) in [
        (Settling::Refused(Reason::INSUFFICIENT_FUNDS), true),
        (Settling::Unknown, false),
        (Settling::SettledUnheard, false),
        (Settling::Hanging, false),
    ] {
        let rig = Rig::open().await;
        let service = rig.service();
        let call = paid(&service, &search()).await;
        rig.settler.script([settling.clone()]);
        let answer = say(&service, &call).await;
        assert_eq!(answer.is_bill(), bill, "{settling:?}: {}", answer.text);
        if !bill && answer.outcome().is_none_or(|outcome| !outcome.success) {
            assert_eq!(answer.refused(), "outcome_unknown", "{settling:?}");
            assert!(answer.outcome().unwrap().is_pending());
        }
    }
}

#[tokio::test]
async fn a_sold_payment_never_meets_terms() {
    for verified in [true, false] {
        let rig = Rig::open().await;
        let service = rig.service();
        let payment = sign(&offered(&service, &search()).await, NONCE);
        say(&service, &with_payment(search(), &payment)).await.sold();
        if !verified {
            rig.shop.chain.set_head(tower_x402::protocol::ChainTime::from_unix(super::support::NOW + 2));
        }
        for other in [call("search", json!({ "q": "another" })), call("summarise", json!({ "q": "why" })), search()] {
            let answer = say(&service, &with_payment(other, &payment)).await;
            assert!(matches!(answer.refused(), "already_consumed" | "intent_not_found"), "{}", answer.text);
        }
        // Without its intent, or under a fresh one.
        let fresh = offered(&service, &call("summarise", json!({}))).await;
        let mut other = payment.clone();
        other.accepted = fresh.into();
        let answer = say(&service, &with_payment(call("summarise", json!({})), &other)).await;
        assert!(!answer.is_bill() && answer.refused() == "tx_already_used", "{}", answer.text);
        assert_eq!((rig.runs.runs(), rig.settler.settlements()), (1, 1));
    }
}

#[tokio::test]
async fn a_bill_of_the_tools_own_does_not_reach_the_client() {
    let rig = Rig::open().await;
    let service = rig.service();
    let call = paid(&service, &search()).await;
    let terms = json!({ "x402Version": 2, "accepts": [] });
    for bill in [
        json!({ "isError": true, "structuredContent": terms, "content": [] }),
        json!({ "isError": true, "content": [{ "type": "text", "text": terms.to_string() }] }),
        json!({ "resultType": "payment_required", "paymentRequired": terms }),
    ] {
        rig.gives(bill);
        assert_eq!(say(&service, &call).await.refused(), "upstream_payment_required");
    }
    rig.gives(json!({ "resultType": "task", "task": { "taskId": "1" } }));
    let task = say(&service, &call).await;
    assert_eq!(task.message()["error"]["code"], -32603);
    assert!(!task.text.contains("taskId"));
    assert_eq!(rig.settler.settlements(), 0);
}

#[tokio::test]
async fn what_the_server_says_of_a_session_reaches_the_client() {
    let rig = Rig::open().await;
    let service = rig.service();
    let call = paid(&service, &search()).await;
    rig.plays(|_| async {
        let mut reply = http::Response::new("Session not found".into());
        *reply.status_mut() = http::StatusCode::NOT_FOUND;
        reply
    });
    let answer = say(&service, &call).await;
    assert_eq!((answer.status.as_u16(), &*answer.text, rig.settler.settlements()), (404, "Session not found", 0));
    rig.gives(json!({ "content": [] }));
    say(&service, &call).await.sold();
}

/// A client that begins a new session at a 404 must not pay for the call again.
#[tokio::test]
async fn what_the_server_says_of_a_session_does_not_hide_that_a_payment_was_made() {
    let rig = Rig::open().await;
    let service = rig.behind(&rig.layer().settle_first());
    let call = paid(&service, &search()).await;
    for status in [404_u16, 503, 404] {
        rig.plays(move |_| async move {
            let reply =
                http::Response::builder().status(status).header("content-encoding", "x").header("retry-after", "7");
            reply.body("Session not found".into()).unwrap()
        });
        let answer = say(&service, &call).await;
        assert_eq!((answer.status.as_u16(), rig.settler.settlements()), (status, 1));
        let told = answer.outcome().unwrap();
        assert!(told.is_pending() && told.transaction.is_some(), "{}", answer.text);
        assert_eq!(SettleResponse::from_headers(&answer.headers).unwrap(), Some(told));
        assert!(
            answer.text.contains("Do not pay again") && answer.text.contains(&status.to_string()),
            "{}",
            answer.text
        );
        assert_eq!(
            (answer.headers.get("content-encoding"), answer.headers["retry-after"].to_str().unwrap()),
            (None, "7")
        );
        assert!(!answer.is_bill());
    }
    rig.gives(json!({ "content": [] }));
    say(&service, &call).await.sold();
    assert_eq!(rig.settler.settlements(), 1);
}

/// A server that is gone answers with an error of its transport, which tells of no payment.
#[tokio::test]
async fn a_server_that_is_gone_does_not_hide_that_a_payment_was_made() {
    let rig = Rig::open().await;
    let layer = rig.layer().settle_first();
    let call = paid(&rig.behind(&layer), &search()).await;
    let gone = tower::Layer::layer(
        &layer,
        tower::service_fn(async |_: http::Request<tower_x402::RequestBody<axum::body::Body>>| {
            Err::<http::Response<axum::body::Body>, _>(std::io::Error::other("gone"))
        }),
    );
    for _ in 0..2 {
        let answer = tower::ServiceExt::oneshot(gone.clone(), post(call.to_string())).await.unwrap();
        let answer = read(answer).await;
        let told = answer.outcome().unwrap();
        assert!(told.is_pending() && told.transaction.is_some() && !answer.is_bill(), "{}", answer.text);
        assert!(!answer.text.contains("Nothing was taken"), "{}", answer.text);
    }
    rig.gives(json!({ "content": [] }));
    say(&rig.behind(&layer), &call).await.sold();
    assert_eq!(rig.settler.settlements(), 1);
}
