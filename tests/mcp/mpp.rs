//! MPP over MCP: the second standard in the same messages.

use serde_json::{Value, json};
use tower_x402::protocol::mpp::challenge_hashes;

use super::rig::{Rig, say, search, sign};

const REALM: &str = "tools.example";

async fn rig() -> Rig {
    Rig::open_with(|builder| builder.mpp(REALM)).await
}

fn naming_mpp(mut call: Value) -> Value {
    call["params"]["_meta"]["org.paymentauth/accept"] = json!(["evm/charge"]);
    call
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
    let signed = sign(&offer, challenge_hashes(challenge["id"].as_str().unwrap(), REALM)[0]);
    let mut payload = serde_json::from_str::<Value>(&signed.to_json()).unwrap()["payload"].clone();
    let mut credential = json!({ "challenge": challenge, "payload": payload["authorization"].take() });
    credential["payload"]["type"] = json!("authorization");
    credential["payload"]["signature"] = payload["signature"].take();
    let with = |credential: &Value| {
        let mut call = naming_mpp(search());
        call["params"]["_meta"]["org.paymentauth/credential"] = credential.clone();
        call
    };
    // Altered, it is no echo.
    for (name, value) in [("realm", json!("other")), ("expires", json!("2030-01-01T00:00:00Z"))] {
        let mut altered = credential.clone();
        altered["challenge"][name] = value;
        assert_eq!(say(&service, &with(&altered)).await.refused(), "invalid_redemption", "{name}");
    }
    let answer = say(&service, &with(&credential)).await;
    let transaction = answer.sold().transaction.unwrap().to_string();
    let receipt = &answer.result()["_meta"]["org.paymentauth/receipt"];
    assert_eq!((&receipt["status"], &receipt["reference"]), (&json!("success"), &json!(transaction)));
    assert_eq!(receipt["challengeId"], challenge["id"]);
    assert!(rig.last().message["params"]["_meta"].get("org.paymentauth/credential").is_none());
    // Shown again, it meets no challenge.
    let again = say(&service, &with(&credential)).await;
    assert_eq!(again.refused(), "already_consumed");
    assert_eq!((rig.runs.runs(), rig.settler.settlements()), (1, 1));
}
