//! `Payment-Receipt`: the outcome of a payment.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderValue;

use crate::protocol::{IntentId, ascii_json, rfc3339, v2::SettleResponse};

/// Returns the value of `Payment-Receipt` for a payment of this challenge that was settled at `now`, in Unix time;
/// `None` if it was not settled.
pub(crate) fn receipt(settled: &SettleResponse, challenge: &IntentId, now: u64) -> Option<HeaderValue> {
    HeaderValue::try_from(URL_SAFE_NO_PAD.encode(receipt_json(settled, challenge, now)?)).ok()
}

/// Returns the receipt as JSON.
pub(crate) fn receipt_json(settled: &SettleResponse, challenge: &IntentId, now: u64) -> Option<String> {
    let (Some(transaction), Some(network), true) = (settled.transaction, settled.network, settled.success) else {
        return None;
    };
    Some(format!(
        r#"{{"method":"evm","challengeId":{},"reference":"{transaction}","status":"success","timestamp":"{}","chainId":{}}}"#,
        ascii_json(challenge.as_str()),
        rfc3339(now),
        network.chain_id(),
    ))
}
