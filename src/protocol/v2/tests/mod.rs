//! Tests of the standard's messages, one file per subject.

mod accepted;
mod channel;
mod headers;
mod missing;
mod permit;
mod reason;
mod refused;
mod requirements;
mod responses;
mod round_trip;
mod strategies;
mod supported;
mod vector;

use super::{InvalidMessage, InvalidMessageKind, PaymentPayload};

/// The requirements of the official vector.
const REQUIREMENTS: &str = r#"{"scheme":"exact","network":"eip155:84532","amount":"10000","asset":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","payTo":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","maxTimeoutSeconds":60,"extra":{"name":"USDC","version":"2"}}"#;

/// Its payload, signed by the first account but one of every development chain.
const AUTHORIZATION: &str = r#"{"signature":"0x00a85e971266610be8a13b6aac294f29cd7461c1ae62fbc22f974c43b4ab2b1128016c5fd66fc9073ff0bf79f558194eaf294d0b68db9a54807c79cf4cc54cb91c","authorization":{"from":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","to":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","value":"10000","validAfter":"0","validBefore":"1893456000","nonce":"0x4242424242424242424242424242424242424242424242424242424242424242"}}"#;

/// A payload of the client-submitted family.
const PROOF: &str = r#"{"type":"payment-proof","txRef":"0xabababababababababababababababababababababababababababababababab","paymentSignature":"0x0102","paymentSecret":"AAAAAAAAAAAAAAAA"}"#;

/// The vector as a message.
fn payment() -> String {
    message(REQUIREMENTS, AUTHORIZATION)
}

/// A payment of the client-submitted family.
fn proof() -> String {
    let txid = r#""extra":{"assetTransferMethod":"txid","#;
    message(&REQUIREMENTS.replace(r#""extra":{"#, txid), PROOF)
}

fn message(accepted: &str, payload: &str) -> String {
    format!(r#"{{"x402Version":2,"accepted":{accepted},"payload":{payload}}}"#)
}

/// The vector's requirements as a quote.
fn quote() -> String {
    format!(
        r#"{{"x402Version":2,"resource":{{"url":"https://shop.example/a","description":"A","tags":["x"]}},"accepts":[{REQUIREMENTS}]}}"#
    )
}

/// Replaces a part of a text, which must be there.
fn with(text: &str, part: &str, other: &str) -> String {
    assert!(text.contains(part), "{part}");
    text.replacen(part, other, 1)
}

fn read(json: &str) -> Result<PaymentPayload, InvalidMessageKind> {
    PaymentPayload::from_json(json).map_err(|error: InvalidMessage| error.kind())
}
