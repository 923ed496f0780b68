//! What a client of MPP makes of a challenge.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tower_x402::protocol::{TxHash, mpp::challenge_hashes, v2::SignedAuthorization};

/// The parameters of a challenge, by their names.
pub fn parameters(line: &str) -> Value {
    let parameters = line.strip_prefix("Payment ").unwrap().split(", ").map(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap();
        (name.to_owned(), Value::from(value.trim_matches('"')))
    });
    Value::Object(parameters.collect())
}

/// The two nonces that pay this challenge.
pub fn nonces(challenge: &Value) -> [[u8; 32]; 2] {
    challenge_hashes(challenge["id"].as_str().unwrap(), challenge["realm"].as_str().unwrap())
}

/// The header that pays by this authorization.
pub fn by_authorization(challenge: &Value, signed: &SignedAuthorization) -> String {
    let signed = serde_json::to_value(signed).unwrap();
    let mut payload = signed["authorization"].clone();
    payload["type"] = json!("authorization");
    payload["signature"] = signed["signature"].clone();
    token(&json!({ "challenge": challenge, "payload": payload }))
}

/// The header that pays by this transaction.
pub fn by_hash(challenge: &Value, transaction: TxHash) -> String {
    token(&json!({ "challenge": challenge, "payload": { "type": "hash", "hash": transaction } }))
}

pub fn token(credential: &Value) -> String {
    format!("Payment {}", URL_SAFE_NO_PAD.encode(credential.to_string()))
}

/// What such a header says.
pub fn shown(header: &http::HeaderValue) -> Value {
    let token = header.to_str().unwrap().strip_prefix("Payment ").unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap()
}
