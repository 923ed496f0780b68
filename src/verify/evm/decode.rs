//! Decodes a node's JSON into [`view`](super::view)s: the parts that `crate::evm` parses for the wallet as well, and
//! the logs. The JSON-RPC data model ends here.

use alloy::{
    primitives::{B256, Bloom, Bytes, U64, logs_bloom},
    rpc::types::Log as RpcLog,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::view::{Log, Transaction, TxReceipt};
pub(super) use crate::evm::eth_call::{eth_call_at, returned};
use crate::{
    evm::{
        eip3009, erc20, erc1271,
        json_rpc::Fault,
        receipt::Inclusion,
        settled::{SETTLED_TOPICS, used_permit},
        transaction::SentTransaction,
    },
    protocol::{Address, PaymentTag, TxHash},
};

pub(super) fn parse<T: DeserializeOwned>(raw: &RawValue) -> Result<T, Fault> {
    serde_json::from_str(raw.get()).map_err(|_| Fault::Answer)
}

/// Parses the answer to `eth_chainId`.
pub(super) fn chain_id(raw: &RawValue) -> Result<u64, Fault> {
    // An answer without a number here does not come from a node.
    parse::<U64>(raw).map(|id| id.to()).map_err(|_| Fault::Endpoint)
}

/// The logs of a receipt, as the node lists them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Logs {
    logs: Vec<RpcLog>,
    logs_bloom: Bloom,
}

/// Parses the answer to `eth_getTransactionReceipt`. Omits logs that concern neither a transfer nor an authorization or
/// a permit, to keep caches small.
pub(super) fn receipt(raw: &RawValue, transaction: TxHash) -> Result<Option<TxReceipt>, Fault> {
    let Some(Inclusion { mined_in, success }) = Inclusion::read(raw.get(), transaction)? else { return Ok(None) };
    let Logs { logs, logs_bloom } = parse(raw)?;
    if mined_in.is_some() && !(follow_each_other(&logs) && are_all(&logs, &logs_bloom)) {
        return Err(Fault::Answer);
    }
    let about_nonces = [eip3009::AUTHORIZATION_USED_TOPIC, eip3009::AUTHORIZATION_CANCELED_TOPIC];
    let [settled, settled_with_permit] = SETTLED_TOPICS;
    let kept = [erc20::TRANSFER_TOPIC, about_nonces[0], about_nonces[1], settled, settled_with_permit].map(B256::new);
    let logs = logs.into_iter().enumerate();
    let logs = logs.filter(|(_, log)| log.topic0().is_some_and(|topic| kept.contains(topic)));
    let mut logs = logs.map(|(position, log)| view(position, log)).collect::<Result<Vec<_>, _>>()?;
    logs.shrink_to_fit();
    Ok(Some(TxReceipt { transaction, mined_in, success, logs }))
}

/// Parses the answer to `eth_getTransactionByHash`. Drops call data without a tag, since it binds nothing.
pub(super) fn transaction(raw: &RawValue, transaction: TxHash) -> Result<Option<Transaction>, Fault> {
    let Some(sent) = SentTransaction::read(raw.get(), transaction)? else { return Ok(None) };
    let is_tagged = sent.input.get(4..).is_some_and(PaymentTag::any_in);
    let permit = used_permit(sent.to, &sent.input);
    Ok(Some(Transaction { sender: sent.sender, call_data: is_tagged.then(|| sent.input.into()), permit }))
}

/// Whether the logs' positions are consecutive. A transfer is identified by its position in its receipt. A list that is
/// out of order, or has a duplicate or a gap, would give it another position than other nodes do, and it could be sold
/// twice.
fn follow_each_other(logs: &[RpcLog]) -> bool {
    logs.iter().all(|log| log.log_index.is_some())
        && logs
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if a.log_index.and_then(|at| at.checked_add(1)) == b.log_index))
}

/// Whether these logs produce the receipt's bloom filter, if it has one. Nothing else shows that logs are missing at
/// either end.
fn are_all(logs: &[RpcLog], bloom: &Bloom) -> bool {
    bloom.is_zero() || *bloom == logs_bloom(logs.iter().map(|log| &log.inner))
}

fn view(position: usize, log: RpcLog) -> Result<Log, Fault> {
    Ok(Log {
        position: u32::try_from(position).map_err(|_| Fault::Answer)?,
        emitter: Address::new(log.inner.address.into_array()),
        topics: log.inner.topics().iter().map(|topic| topic.0).collect(),
        data: log.inner.data.data.to_vec(),
        transaction: log.transaction_hash.map(|hash| TxHash::new(hash.0)),
        block: log.block_hash.map(|hash| hash.0),
        removed: log.removed,
    })
}

/// The parameters of an `eth_call` to a token's `decimals()`.
pub(super) fn decimals_call(contract: Address) -> serde_json::Value {
    eth_call(contract, &erc20::decimals())
}

/// The parameters of an `eth_call` to a token's `symbol()`.
pub(super) fn symbol_call(contract: Address) -> serde_json::Value {
    eth_call(contract, &erc20::symbol())
}

/// The gas limit of a contract's signature check.
const SIGNATURE_GAS: u64 = 3_000_000;

/// The parameters of an EIP-1271 `eth_call`: whether an account accepts a signature.
pub(super) fn signature_call(account: Address, hash: B256, signature: &[u8]) -> serde_json::Value {
    let mut params = eth_call(account, &erc1271::is_valid_signature(hash, signature));
    params[0]["gas"] = serde_json::json!(format!("{SIGNATURE_GAS:#x}"));
    params
}

/// Parses whether an account accepts the signature; `None` if the account has no code.
pub(super) fn is_accepted(raw: &RawValue) -> Result<Option<bool>, Fault> {
    let returned = parse::<Bytes>(raw)?;
    Ok((!returned.is_empty()).then(|| erc1271::is_accepted(&returned)))
}

fn eth_call(contract: Address, data: &[u8]) -> serde_json::Value {
    eth_call_at(contract, data, "latest")
}

/// Parses the result of `decimals()`; `None` if the contract has no such function.
pub(super) fn decimals(raw: &RawValue) -> Result<Option<u8>, Fault> {
    parse::<Bytes>(raw).map(|data| erc20::read_decimals(&data))
}

/// Parses the result of `symbol()`, if it is 1 to 32 graphic ASCII characters.
pub(super) fn symbol(raw: &RawValue) -> Result<Option<String>, Fault> {
    parse::<Bytes>(raw).map(|data| erc20::read_symbol(&data))
}
