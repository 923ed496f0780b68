//! The block and the status in a node's receipt. The logs are parsed elsewhere.

use alloy::primitives::{B256, U64};
use serde::Deserialize;

use super::{block::MinedIn, json_rpc::Fault};
use crate::protocol::TxHash;

/// The block of a transaction, and its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inclusion {
    /// `None` while it is in no block.
    pub(crate) mined_in: Option<MinedIn>,
    /// `None` if the node did not say (receipts from before EIP-658).
    pub(crate) success: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    transaction_hash: TxHash,
    block_number: Option<U64>,
    block_hash: Option<B256>,
    status: Option<U64>,
    root: Option<B256>,
}

impl Inclusion {
    /// Parses the answer to `eth_getTransactionReceipt` about that transaction; `None` if there is no receipt.
    pub(crate) fn read(json: &str, transaction: TxHash) -> Result<Option<Self>, Fault> {
        let told: Option<Told> = serde_json::from_str(json).map_err(|_| Fault::Answer)?;
        let Some(told) = told else { return Ok(None) };
        let success = match told.status.map(|status| status.to::<u64>()) {
            Some(status @ (0 | 1)) => Some(status == 1),
            // Old receipts have a state root instead of a status; without either it is no receipt.
            None if told.root.is_some() => None,
            _ => return Err(Fault::Answer),
        };
        if told.transaction_hash != transaction {
            return Err(Fault::Answer);
        }
        let mined_in = told.block_number.zip(told.block_hash);
        let mined_in = mined_in.map(|(number, hash)| MinedIn { number: number.to(), hash: hash.0 });
        Ok(Some(Self { mined_in, success }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TX: TxHash = TxHash::new([7; 32]);

    fn read(change: impl FnOnce(&mut Value)) -> Result<Option<Inclusion>, Fault> {
        let hash = format!("0x{}", "02".repeat(32));
        let mut told =
            json!({ "transactionHash": TX.to_string(), "blockNumber": "0x64", "blockHash": hash, "status": "0x1" });
        change(&mut told);
        Inclusion::read(&told.to_string(), TX)
    }

    #[test]
    fn a_receipt_says_where_and_how() {
        let mined_in = Some(MinedIn { number: 100, hash: [2; 32] });
        assert_eq!(read(|_| {}), Ok(Some(Inclusion { mined_in, success: Some(true) })));
        assert_eq!(read(|told| told["status"] = json!("0x0")), Ok(Some(Inclusion { mined_in, success: Some(false) })));
        let rooted = read(|told| (told["status"], told["root"]) = (Value::Null, told["blockHash"].clone()));
        assert_eq!(rooted, Ok(Some(Inclusion { mined_in, success: None })), "before EIP-658");
        for place in ["blockNumber", "blockHash"] {
            let pending = read(|told| told[place] = Value::Null);
            assert_eq!(pending, Ok(Some(Inclusion { mined_in: None, success: Some(true) })), "no {place}");
        }
        assert_eq!(read(|told| *told = Value::Null), Ok(None));
    }

    #[test]
    fn what_says_neither_is_none() {
        for (member, value) in [
            ("status", Value::Null),
            ("status", json!("0x2")),
            ("status", json!("failed")),
            ("transactionHash", json!(TxHash::new([8; 32]).to_string())),
            ("transactionHash", Value::Null),
            ("blockNumber", json!("0x1ffffffffffffffff")),
            ("blockHash", json!("0x02")),
        ] {
            assert_eq!(read(|told| told[member] = value.clone()), Err(Fault::Answer), "{member}: {value}");
        }
        assert_eq!(read(|told| *told = json!({})), Err(Fault::Answer));
    }
}
