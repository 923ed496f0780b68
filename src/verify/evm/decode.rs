//! From alloy's types to [`view`](super::view)s. Here, and nowhere further in, is JSON-RPC's data model.
//!
//! `AnyNetwork`, because a block of Base is full of transactions and receipts that Ethereum does not have (type 0x7e).

use alloy::{
    network::{AnyNetwork, Network},
    primitives::{B256, Bloom, Bytes, U64, logs_bloom},
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::view::{Block, Log, MinedIn, TxReceipt};
use crate::{
    evm::{erc20, json_rpc::Fault},
    protocol::{Address, ChainTime, TxHash},
};

type AnyReceipt = <AnyNetwork as Network>::ReceiptResponse;
type RpcLog = alloy::rpc::types::Log;
type AnyHeader = <AnyNetwork as Network>::HeaderResponse;

fn parse<T: DeserializeOwned>(raw: &RawValue) -> Result<T, Fault> {
    serde_json::from_str(raw.get()).map_err(|_| Fault::Answer)
}

/// The answer to `eth_chainId`.
pub(super) fn chain_id(raw: &RawValue) -> Result<u64, Fault> {
    // What is not even a number here is no node.
    parse::<U64>(raw).map(|id| id.to()).map_err(|_| Fault::Endpoint)
}

/// The answer to `eth_getBlockByNumber`; the transactions in it are passed over unread.
pub(super) fn block(raw: &RawValue) -> Result<Option<Block>, Fault> {
    let Some(header) = parse::<Option<AnyHeader>>(raw)? else { return Ok(None) };
    // A header that states no time reads as the year 1970: as a head it would make every old payment young.
    if header.timestamp == 0 {
        return Err(Fault::Answer);
    }
    Ok(Some(Block {
        number: header.number,
        hash: header.hash.0,
        parent: header.parent_hash.0,
        time: ChainTime::from_unix(header.timestamp),
    }))
}

/// The answer to `eth_getTransactionReceipt`. Logs that cannot be transfers are left out, to keep caches small.
pub(super) fn receipt(raw: &RawValue, transaction: TxHash) -> Result<Option<TxReceipt>, Fault> {
    let Some(receipt) = parse::<Option<AnyReceipt>>(raw)? else { return Ok(None) };
    let receipt = receipt.into_inner();
    if receipt.transaction_hash.0 != *transaction.as_bytes() {
        return Err(Fault::Answer);
    }
    let mined_in = receipt.block_number.zip(receipt.block_hash);
    let (inner, bloom) = receipt.inner.inner.into_components();
    if mined_in.is_some() && !(follow_each_other(&inner.logs) && are_all(&inner.logs, &bloom)) {
        return Err(Fault::Answer);
    }
    let logs = inner.logs.into_iter().enumerate();
    let logs = logs.filter(|(_, log)| log.topic0() == Some(&B256::new(erc20::TRANSFER_TOPIC)));
    let mut logs = logs.map(|(position, log)| view(position, log)).collect::<Result<Vec<_>, _>>()?;
    logs.shrink_to_fit();
    Ok(Some(TxReceipt {
        transaction,
        mined_in: mined_in.map(|(number, hash)| MinedIn { number, hash: hash.0 }),
        // alloy's own `status()` takes a receipt from before EIP-658, which has none, for a success.
        success: inner.status.as_eip658(),
        logs,
    }))
}

/// A transfer is known by its place among its receipt's logs. A list that is out of order, or has one twice or left out,
/// would give it another place than other nodes do: it could be sold twice.
fn follow_each_other(logs: &[RpcLog]) -> bool {
    logs.iter().all(|log| log.log_index.is_some())
        && logs
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if a.log_index.and_then(|at| at.checked_add(1)) == b.log_index))
}

/// Whether these are the logs that the receipt's bloom filter was made of, where it has one: those left out at either
/// end show in nothing else.
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

fn eth_call(contract: Address, data: &[u8]) -> serde_json::Value {
    serde_json::json!([{ "to": format!("{contract:x}"), "data": Bytes::copy_from_slice(data) }, "latest"])
}

/// What `decimals()` returned; `None` where the contract has none.
pub(super) fn decimals(raw: &RawValue) -> Result<Option<u8>, Fault> {
    parse::<Bytes>(raw).map(|data| erc20::read_decimals(&data))
}

/// What `symbol()` returned, if it is text that can be shown: 1 to 32 graphic ASCII characters.
pub(super) fn symbol(raw: &RawValue) -> Result<Option<String>, Fault> {
    parse::<Bytes>(raw).map(|data| erc20::read_symbol(&data))
}
