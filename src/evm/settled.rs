//! Settled permits, from the calls and the logs of transactions.

use alloy::{rpc::types::Log, sol_types::SolEvent as _};
use serde_json::{Value, json, value::RawValue};

use super::{
    block_range::BlockRange,
    erc20::TRANSFER_TOPIC,
    json_rpc::{Fault, Question},
    proxy::{UsedPermit, charged},
};
use crate::protocol::{
    Address, TxHash,
    permit2::{EXACT_PROXY, Permit, UPTO_PROXY},
};

#[allow(missing_docs, reason = "generated from Solidity")]
mod events {
    alloy::sol! {
        event Settled();
        event SettledWithPermit();
    }
}

/// The topics of a proxy's events after a settlement. The events carry no data.
pub(crate) const SETTLED_TOPICS: [[u8; 32]; 2] =
    [events::Settled::SIGNATURE_HASH.0, events::SettledWithPermit::SIGNATURE_HASH.0];

/// Whether this is one of the proxies.
pub(crate) fn is_proxy(account: Address) -> bool {
    account == EXACT_PROXY || account == UPTO_PROXY
}

/// Returns the permit that a proxy's call settles; `None` for any other call.
pub(crate) fn used_permit(to: Option<Address>, input: &[u8]) -> Option<UsedPermit> {
    Some(charged(to, input)?.0)
}

/// Asks for the logs of transfers from a permit's payer to its recipient in those blocks.
pub(crate) fn transfers_of(permit: &Permit, range: &BlockRange) -> Question {
    let [from, to] = [permit.from, permit.to].map(|account| const_hex::encode_prefixed(topic(account)));
    let filter = json!({
        "address": format!("{:x}", permit.token),
        "topics": [const_hex::encode_prefixed(TRANSFER_TOPIC), from, to],
        "fromBlock": range.first(),
        "toBlock": range.last(),
    });
    Question { method: "eth_getLogs", params: Value::Array(vec![filter]) }
}

/// Parses the answer: the transactions, the latest first. A log that was not asked for makes the answer unusable.
pub(crate) fn read_transfers_of(permit: &Permit, range: &BlockRange, raw: &RawValue) -> Result<Vec<TxHash>, Fault> {
    let logs: Vec<Log> = serde_json::from_str(raw.get()).map_err(|_| Fault::Answer)?;
    let transaction = |log: &Log| {
        let is_asked_for = log.address().into_array() == *permit.token.as_bytes()
            && log.topics().iter().map(|topic| topic.0).eq([TRANSFER_TOPIC, topic(permit.from), topic(permit.to)])
            && log.block_number.is_some_and(|height| range.has(height))
            && !log.removed;
        log.transaction_hash.filter(|_| is_asked_for).map(|hash| TxHash::new(hash.0))
    };
    logs.iter().rev().map(|log| transaction(log).ok_or(Fault::Answer)).collect()
}

fn topic(account: Address) -> [u8; 32] {
    let mut topic = [0; 32];
    topic[12..].copy_from_slice(account.as_bytes());
    topic
}
