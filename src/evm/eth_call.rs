//! A contract call without effects, as a JSON-RPC question and answer.

use alloy::primitives::Bytes;
use serde_json::{Value, json, value::RawValue};

use super::json_rpc::Fault;
use crate::protocol::Address;

/// The parameters of an `eth_call` at that block: `latest`, or a height in hexadecimal digits.
pub(crate) fn eth_call_at(contract: Address, data: &[u8], block: &str) -> Value {
    json!([{ "to": format!("{contract:x}"), "data": Bytes::copy_from_slice(data) }, block])
}

/// Parses the result of an `eth_call`.
pub(crate) fn returned(raw: &RawValue) -> Result<Bytes, Fault> {
    serde_json::from_str(raw.get()).map_err(|_| Fault::Answer)
}
