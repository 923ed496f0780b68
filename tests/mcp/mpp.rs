//! MPP over MCP: the second standard in the same messages.

use serde_json::{Value, json};
use tower_x402::{
    Redelivery,
    protocol::{mpp::challenge_hashes, v2::PaymentRequirements},
};

use super::rig::{Rig, say, search, sign};

const REALM: &str = "tools.example";

async fn rig() -> Rig {
    Rig::open_with(|builder| builder.mpp(REALM)).await
}

fn naming_mpp(mut call: Value) -> Value {
    call["params"]["_meta"]["org.paymentauth/accept"] = json!(["evm/charge"]);
    call
}

fn showing(credential: &Value) -> Value {
    let mut call = naming_mpp(search());
    call["params"]["_meta"]["org.paymentauth/credential"] = credential.clone();
    call
}

/// What an honest client answers to a challenge that asks for this.
fn signed(challenge: &Value, offer: &PaymentRequirements) -> Value {
    let signed = sign(offer, challenge_hashes(challenge["id"].as_str().unwrap(), REALM)[0]);
    let mut payload = serde_json::from_str::<Value>(&signed.to_json()).unwrap()["payload"].clone();
    let mut credential = json!({ "challenge": challenge, "payload": payload["authorization"].take() });
    credential["payload"]["type"] = json!("authorization");
    credential["payload"]["signature"] = payload["signature"].take();
    credential
}

#[tokio::test]
async fn a_client_that_names_mpp_is_asked_and_pays_by_it() {
    let rig = rig().await;
    let service = rig.service();
    // Others are asked by x402.
    let offer = say(&service, &search()).await.offer();
    let asked = say(&service, &naming_mpp(search())).await;
    let error = &asked.message()["error"];
    assert_eq!((&error["code"], &error["data"]["httpStatus"]), (&json!(-32042), &json!(402)));
    assert!(!asked.is_bill());
    let challenge = &error["data"]["challenges"][0];
    assert_eq!(
        (&challenge["realm"], &challenge["method"], &challenge["intent"]),
        (&json!(REALM), &json!("evm"), &json!("charge"))
    );
    assert_eq!(challenge["request"]["amount"], "10000");
    let credential = signed(challenge, &offer);
    // Altered, it is no echo.
    for (name, value) in [("realm", json!("other")), ("expires", json!("2030-01-01T00:00:00Z"))] {
        let mut altered = credential.clone();
        altered["challenge"][name] = value;
        assert_eq!(say(&service, &showing(&altered)).await.refused(), "invalid_redemption", "{name}");
    }
    let answer = say(&service, &showing(&credential)).await;
    let transaction = answer.sold().transaction.unwrap().to_string();
    let receipt = &answer.result()["_meta"]["org.paymentauth/receipt"];
    assert_eq!((&receipt["status"], &receipt["reference"]), (&json!("success"), &json!(transaction)));
    assert_eq!(receipt["challengeId"], challenge["id"]);
    assert!(rig.last().message["params"]["_meta"].get("org.paymentauth/credential").is_none());
    // Shown again, it meets no challenge.
    let again = say(&service, &showing(&credential)).await;
    assert_eq!(again.refused(), "already_consumed");
    assert_eq!((rig.runs.runs(), rig.settler.settlements()), (1, 1));
}

#[tokio::test]
async fn a_result_that_is_delivered_again_has_its_receipt() {
    let rig = rig().await;
    let service = rig.behind(&rig.layer().redeliver(Redelivery::lasting(std::time::Duration::from_secs(60))));
    let offer = say(&service, &search()).await.offer();
    let asked = say(&service, &naming_mpp(search())).await;
    let call = showing(&signed(&asked.message()["error"]["data"]["challenges"][0], &offer));
    let first = say(&service, &call).await;
    let again = say(&service, &call).await;
    assert_eq!(again.sold(), first.sold());
    assert_eq!(first.result()["_meta"]["org.paymentauth/receipt"]["status"], "success");
    assert_eq!(again.result(), first.result());
    assert_eq!((rig.runs.runs(), rig.settler.settlements()), (1, 1));
}
