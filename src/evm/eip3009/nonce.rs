//! `Nonce`: the nonce of an authorization (EIP-3009), the questions to nodes about it, and the parsing of their
//! answers. Pure.

use alloy::rpc::types::Log;
use serde_json::{Value, json, value::RawValue};

use super::{abi, returned::read_flag};
use crate::{
    evm::{
        block::MinedIn,
        block_range::BlockRange,
        eth_call::{eth_call_at, returned},
        json_rpc::{Fault, Question},
    },
    protocol::{Address, TxHash},
};

/// A payer's nonce at a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nonce {
    pub(crate) token: Address,
    pub(crate) payer: Address,
    pub(crate) nonce: [u8; 32],
}

/// The use of a nonce, according to the token's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trace {
    /// A transfer, in this transaction.
    Used(TxHash),
    /// A cancellation, in this transaction of this block.
    Canceled(TxHash, MinedIn),
}

impl Nonce {
    /// Asks whether the nonce was used at that height.
    pub(crate) fn state_at(&self, height: u64) -> Question {
        self.state(&format!("{height:#x}"))
    }

    /// Asks whether the nonce is used at the latest block.
    pub(crate) fn state_now(&self) -> Question {
        self.state("latest")
    }

    fn state(&self, block: &str) -> Question {
        let data = abi::authorization_state(self.payer, &self.nonce);
        Question { method: "eth_call", params: eth_call_at(self.token, &data, block) }
    }

    /// Parses the answer about a nonce's state. Anything but yes or no is no answer.
    pub(crate) fn read_state(raw: &RawValue) -> Result<bool, Fault> {
        read_flag(&returned(raw)?).ok_or(Fault::Answer)
    }

    /// Asks for the logs in those blocks that show the nonce's use.
    pub(crate) fn logs(&self, range: &BlockRange) -> Question {
        let [used, canceled, payer, nonce] = self.topics().map(const_hex::encode_prefixed);
        let filter = json!({
            "address": format!("{:x}", self.token),
            "topics": [[used, canceled], payer, nonce],
            "fromBlock": range.first(),
            "toBlock": range.last(),
        });
        Question { method: "eth_getLogs", params: Value::Array(vec![filter]) }
    }

    /// Parses the answer about logs. A nonce is used once: several logs, or a log that was not asked for, make the
    /// answer unusable.
    pub(crate) fn read_logs(&self, raw: &RawValue, range: &BlockRange) -> Result<Option<Trace>, Fault> {
        let logs: Vec<Log> = serde_json::from_str(raw.get()).map_err(|_| Fault::Answer)?;
        match &logs[..] {
            [] => Ok(None),
            [log] => self.trace(log, range).map(Some).ok_or(Fault::Answer),
            _ => Err(Fault::Answer),
        }
    }

    fn trace(&self, log: &Log, range: &BlockRange) -> Option<Trace> {
        let [used, canceled, payer, nonce] = self.topics();
        let [kind, rest @ ..] = log.topics() else { return None };
        let is_asked_for = log.address().into_array() == *self.token.as_bytes()
            && rest.iter().map(|topic| topic.0).eq([payer, nonce])
            && log.data().data.is_empty()
            && !log.removed;
        let transaction = TxHash::new(log.transaction_hash.filter(|_| is_asked_for)?.0);
        let number = log.block_number.filter(|height| range.has(*height))?;
        match kind.0 {
            kind if kind == used => Some(Trace::Used(transaction)),
            kind if kind == canceled => Some(Trace::Canceled(transaction, MinedIn { number, hash: log.block_hash?.0 })),
            _ => None,
        }
    }

    /// Returns the transaction of this trace, and the topics of the log that its receipt must have.
    pub(crate) fn told_by(&self, trace: &Trace) -> (TxHash, [[u8; 32]; 3]) {
        let [used, canceled, payer, nonce] = self.topics();
        match *trace {
            Trace::Used(transaction) => (transaction, [used, payer, nonce]),
            Trace::Canceled(transaction, _) => (transaction, [canceled, payer, nonce]),
        }
    }

    /// The two kinds of logs, and the payer and nonce of both.
    fn topics(&self) -> [[u8; 32]; 4] {
        let mut payer = [0; 32];
        payer[12..].copy_from_slice(self.payer.as_bytes());
        [abi::AUTHORIZATION_USED_TOPIC, abi::AUTHORIZATION_CANCELED_TOPIC, payer, self.nonce]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = Nonce { token: Address::new([0xcc; 20]), payer: Address::new([0xbb; 20]), nonce: [0x42; 32] };

    fn range() -> BlockRange {
        // Blocks 101 to 200.
        BlockRange::up_to_latest(300, 100).before(100)
    }

    fn log(change: impl FnOnce(&mut Value)) -> Value {
        let topics = NONCE.topics().map(const_hex::encode_prefixed);
        let mut log = json!({
            "address": format!("{:x}", NONCE.token), "topics": [topics[0], topics[2], topics[3]], "data": "0x",
            "blockNumber": "0x96", "blockHash": format!("0x{:064x}", 5), "transactionHash": format!("0x{:064x}", 7),
            "transactionIndex": "0x1", "logIndex": "0x2", "removed": false,
        });
        change(&mut log);
        log
    }

    fn read(logs: &Value) -> Result<Option<Trace>, Fault> {
        let raw = serde_json::value::to_raw_value(logs).map_err(|_| Fault::Answer)?;
        NONCE.read_logs(&raw, &range())
    }

    fn word(n: u8) -> String {
        format!("0x{n:064x}")
    }

    #[test]
    fn the_question_names_token_payer_nonce_and_both_kinds() {
        let Question { method, params } = NONCE.logs(&range());
        let topics = NONCE.topics().map(const_hex::encode_prefixed);
        assert_eq!(method, "eth_getLogs");
        assert_eq!(params[0]["address"], format!("0x{}", "cc".repeat(20)));
        assert_eq!(params[0]["topics"], json!([[topics[0], topics[1]], topics[2], topics[3]]));
        assert_eq!(topics[2], format!("0x{:0>64}", "bb".repeat(20)));
        assert_eq!((&params[0]["fromBlock"], &params[0]["toBlock"]), (&json!("0x65"), &json!("0xc8")));
        assert_eq!((&NONCE.state_at(16).params[1], &NONCE.state_now().params[1]), (&json!("0x10"), &json!("latest")));
    }

    #[test]
    fn one_log_tells_what_used_it() {
        let mut transaction = [0; 32];
        transaction[31] = 7;
        assert_eq!(read(&json!([])), Ok(None));
        assert_eq!(read(&json!([log(|_| {})])), Ok(Some(Trace::Used(TxHash::new(transaction)))));
        let canceled = json!(const_hex::encode_prefixed(abi::AUTHORIZATION_CANCELED_TOPIC));
        let mut hash = [0; 32];
        hash[31] = 5;
        let at = MinedIn { number: 150, hash };
        assert_eq!(
            read(&json!([log(|log| log["topics"][0] = canceled.clone())])),
            Ok(Some(Trace::Canceled(TxHash::new(transaction), at)))
        );
        let nowhere = log(|log| (log["topics"][0], log["blockHash"]) = (canceled, Value::Null));
        assert_eq!(read(&json!([nowhere])), Err(Fault::Answer));
        for height in ["0x65", "0xc8"] {
            assert!(read(&json!([log(|log| log["blockNumber"] = json!(height))])).is_ok());
        }
    }

    #[test]
    fn a_log_that_was_not_asked_for_is_no_answer() {
        let changes: [fn(&mut Value); 14] = [
            |log| log["data"] = json!(word(1)),
            |log| log["address"] = json!(format!("0x{}", "cd".repeat(20))),
            |log| log["topics"][0] = json!(word(1)),
            |log| log["topics"][1] = json!(word(1)),
            |log| log["topics"][2] = json!(word(1)),
            |log| log["topics"] = json!([log["topics"][0], log["topics"][1]]),
            |log| log["topics"] = json!([log["topics"][0], log["topics"][1], log["topics"][2], word(1)]),
            |log| log["topics"] = json!([]),
            |log| log["removed"] = json!(true),
            |log| log["blockNumber"] = json!("0x64"),
            |log| log["blockNumber"] = json!("0xc9"),
            |log| log["blockNumber"] = Value::Null,
            |log| log["transactionHash"] = Value::Null,
            |log| *log = json!("a log"),
        ];
        for change in changes {
            let log = log(change);
            assert_eq!(read(&json!([log])), Err(Fault::Answer), "{log}");
        }
        assert_eq!(read(&json!([log(|_| {}), log(|_| {})])), Err(Fault::Answer), "twice");
        assert_eq!(read(&Value::Null), Err(Fault::Answer));
    }
}
