//! What a scripted node knows of a token with EIP-3009.

use alloy::primitives::keccak256;
use serde_json::{Value, json};
use tower_x402::protocol::{Address, Asset, TxHash};

use super::{
    CANARY,
    node::{block_hash, text},
};

/// One nonce, and the block and the transaction that used it.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) payer: Address,
    pub(super) nonce: [u8; 32],
    pub(super) height: u64,
    pub(super) transaction: TxHash,
    pub(super) canceled: bool,
}

#[derive(Debug)]
pub(super) struct Token {
    /// What its functions return, by their signature; the others revert.
    pub(super) returns: Vec<(&'static str, Value)>,
    pub(super) uses: Vec<Use>,
    /// It says this of every nonce at every height, whatever was used.
    pub(super) claims: Option<bool>,
    /// The most blocks whose logs it gives at once.
    pub(super) widest: u64,
    /// Logs are there up to this height.
    pub(super) indexed: u64,
    /// What becomes of each log before it is given.
    pub(super) bend: fn(&mut Value),
    /// The ranges that were asked for, and how many blocks each is.
    pub(super) ranges: Vec<(u64, u64)>,
}

impl Token {
    /// USDC of Base, nothing used yet.
    pub(super) fn usdc() -> Self {
        let separator = "0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f";
        let returns =
            vec![("name()", text("USD Coin")), ("version()", text("2")), ("DOMAIN_SEPARATOR()", json!(separator))];
        Self {
            returns,
            uses: Vec::new(),
            claims: None,
            widest: u64::MAX,
            indexed: u64::MAX,
            bend: |_| {},
            ranges: Vec::new(),
        }
    }

    pub(super) fn set(&mut self, function: &'static str, returned: Option<Value>) {
        self.returns.retain(|(other, _)| *other != function);
        self.returns.extend(returned.map(|returned| (function, returned)));
    }

    /// What a call returns at that height, if it is one to a function of EIP-3009.
    pub(super) fn call(&self, call: &Value, height: u64) -> Option<Result<Value, Value>> {
        let data = call["data"].as_str()?;
        let is = |function: &str| data.starts_with(&alloy::hex::encode_prefixed(&keccak256(function)[..4]));
        let reverted = || json!({ "code": 3, "message": format!("execution reverted {CANARY}") });
        if is("authorizationState(address,bytes32)") {
            let used = |one: &Use| one.height <= height && data.ends_with(&words(one).concat());
            let used = self.claims.unwrap_or_else(|| self.uses.iter().any(used));
            let stated = self.returns.iter().find(|(name, _)| *name == "authorizationState(address,bytes32)");
            return Some(Ok(
                stated.map_or_else(|| json!(format!("0x{:064x}", u8::from(used))), |(_, said)| said.clone())
            ));
        }
        if ["name()", "version()", "DOMAIN_SEPARATOR()"].into_iter().any(is) {
            let said = self.returns.iter().find(|(function, _)| is(function)).map(|(_, said)| said.clone());
            return Some(said.ok_or_else(reverted));
        }
        None
    }

    /// What this transaction used: its hash, its block, and the log that its receipt has.
    pub(super) fn used_by(&self, hash: &str) -> Option<(TxHash, u64, Value)> {
        let one = self.uses.iter().find(|one| one.transaction.to_string() == hash)?;
        Some((one.transaction, one.height, log(one)))
    }

    /// The answer to `eth_getLogs`.
    pub(super) fn logs(&mut self, filter: &Value, head: u64) -> Result<Value, Value> {
        let height = |name: &str| match filter[name].as_str().expect("a block") {
            "latest" => head,
            hex => u64::from_str_radix(hex.trim_start_matches("0x"), 16).expect("a height"),
        };
        let (from, to) = (height("fromBlock"), height("toBlock"));
        self.ranges.push((from, to));
        if from > to || to > head || to - from >= self.widest {
            return Err(json!({ "code": -32005, "message": format!("query exceeds max block range {CANARY}") }));
        }
        let asked = |one: &&Use| {
            let [payer, nonce] = words(one).map(|word| format!("0x{word}"));
            (from..=to.min(self.indexed)).contains(&one.height)
                && filter["address"] == format!("{:x}", Asset::USDC_BASE.contract())
                && filter["topics"][0].as_array().is_some_and(|kinds| kinds.contains(&json!(kind(one))))
                && filter["topics"][1] == payer
                && filter["topics"][2] == nonce
        };
        let bent = |one| {
            let mut log = log(one);
            (self.bend)(&mut log);
            log
        };
        Ok(self.uses.iter().filter(asked).map(bent).collect())
    }
}

fn words(one: &Use) -> [String; 2] {
    [format!("{:0>64}", alloy::hex::encode(one.payer.as_bytes())), alloy::hex::encode(one.nonce)]
}

fn kind(one: &Use) -> String {
    let name = if one.canceled { "AuthorizationCanceled" } else { "AuthorizationUsed" };
    keccak256(format!("{name}(address,bytes32)")).to_string()
}

fn log(one: &Use) -> Value {
    let [payer, nonce] = words(one).map(|word| format!("0x{word}"));
    json!({
        "address": format!("{:x}", Asset::USDC_BASE.contract()), "topics": [kind(one), payer, nonce], "data": "0x",
        "blockHash": block_hash(one.height, 0), "blockNumber": format!("{:#x}", one.height),
        "transactionHash": one.transaction.to_string(), "transactionIndex": "0x1", "logIndex": "0x2", "removed": false,
    })
}
