//! A block's header in a node's answer.

use alloy::primitives::{B256, U64};
use serde::Deserialize;

use super::json_rpc::Fault;
use crate::protocol::ChainTime;

/// The 32-byte hash of a block.
pub(crate) type BlockHash = [u8; 32];

/// A sealed block, reduced to the fields that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) number: u64,
    pub(crate) hash: BlockHash,
    pub(crate) parent: BlockHash,
    pub(crate) time: ChainTime,
}

/// The block of a transaction, according to a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MinedIn {
    pub(crate) number: u64,
    pub(crate) hash: BlockHash,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    number: U64,
    hash: B256,
    parent_hash: B256,
    timestamp: U64,
}

impl Block {
    /// Parses the answer to `eth_getBlockByNumber`; `None` if there is no such block. Skips the block's transactions.
    pub(crate) fn read(json: &str) -> Result<Option<Self>, Fault> {
        let told: Option<Told> = serde_json::from_str(json).map_err(|_| Fault::Answer)?;
        let Some(told) = told else { return Ok(None) };
        // A header with the time 0 states no time. As a head it would make every old payment young.
        if told.timestamp.is_zero() {
            return Err(Fault::Answer);
        }
        Ok(Some(Self {
            number: told.number.to(),
            hash: told.hash.0,
            parent: told.parent_hash.0,
            time: ChainTime::from_unix(told.timestamp.to()),
        }))
    }
}

impl MinedIn {
    /// Whether this is the block.
    pub(crate) fn is(&self, block: &Block) -> bool {
        (self.number, self.hash) == (block.number, block.hash)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(change: impl FnOnce(&mut Value)) -> Result<Option<Block>, Fault> {
        let hash = |byte: &str| format!("0x{}", byte.repeat(32));
        let mut told = json!({
            "number": "0x64", "hash": hash("02"), "parentHash": hash("01"), "timestamp": "0x6b01d250",
            "transactions": [7, "unread"],
        });
        change(&mut told);
        Block::read(&told.to_string())
    }

    #[test]
    fn a_block_says_its_place_and_its_time() {
        let time = ChainTime::from_unix(0x6b01_d250);
        let block = Block { number: 100, hash: [2; 32], parent: [1; 32], time };
        assert_eq!(read(|_| {}), Ok(Some(block)));
        assert_eq!(read(|told| *told = Value::Null), Ok(None));
        assert!(MinedIn { number: 100, hash: [2; 32] }.is(&block));
        for other in [MinedIn { number: 101, hash: [2; 32] }, MinedIn { number: 100, hash: [1; 32] }] {
            assert!(!other.is(&block), "{other:?}");
        }
    }

    #[test]
    fn what_lacks_a_part_or_is_of_no_time_is_no_block() {
        for part in ["number", "hash", "parentHash", "timestamp"] {
            assert_eq!(read(|told| told[part] = Value::Null), Err(Fault::Answer), "no {part}");
        }
        for time in [json!("0x0"), json!("0x1ffffffffffffffff"), json!("now")] {
            assert_eq!(read(|told| told["timestamp"] = time.clone()), Err(Fault::Answer), "{time}");
        }
    }
}
