//! A scripted JSON-RPC node on a free port of this machine: a small chain, receipts, and faults by method.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{Response, StatusCode, header},
};
use serde_json::{Value, json};
use tower_x402::protocol::{Address, Asset, TxHash};

use super::{CANARY, PAYER, RECIPIENT, token::Token};

pub(super) const RECEIPT: &str = "eth_getTransactionReceipt";
pub(super) const TRANSACTION: &str = "eth_getTransactionByHash";
pub(super) const LOGS: &str = "eth_getLogs";

/// The time of a block, in Unix seconds.
pub(super) fn time_of(number: u64) -> u64 {
    1_800_000_000 + 2 * number
}

/// What to do instead of answering.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    Hang,
    Slow(Duration),
    Status(u16),
    /// That status, and this under `Retry-After`.
    Wait(u16, &'static str),
    Html,
    Truncated,
    Huge {
        announced: bool,
    },
    WrongId,
    TextId,
    Redirect(String),
    RpcError,
    /// Whatever is asked, this is the result.
    Result(Value),
}

#[derive(Debug)]
pub(super) struct Script {
    pub(super) chain_id: u64,
    /// Height → fork; the hash of a block follows from both.
    pub(super) blocks: BTreeMap<u64, u8>,
    pub(super) safe: u64,
    pub(super) finalized: u64,
    /// The time of blocks whose height does not decide it.
    pub(super) times: HashMap<u64, u64>,
    receipts: HashMap<String, Value>,
    /// What is said of transactions other than that the payer sent them without any call data.
    sent: HashMap<String, Value>,
    pub(super) tokens: HashMap<String, (Value, Value)>,
    /// What USDC says of authorizations.
    pub(super) usdc: Token,
    /// What contracts other than tokens return, whatever they are asked; the others revert.
    pub(super) contracts: HashMap<String, Value>,
    /// The parameters of the last `eth_call`.
    pub(super) last_call: Value,
    faults: HashMap<&'static str, Fault>,
    calls: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct Load {
    now: AtomicUsize,
    most: AtomicUsize,
}

pub(super) struct Node {
    address: String,
    script: Arc<Mutex<Script>>,
    load: Arc<Load>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Node {
    /// A node of Base with blocks up to 100.
    pub(super) async fn start() -> Self {
        let usdc = (json!(format!("0x{:064x}", 6)), text("USDC"));
        let script = Script {
            chain_id: 8453,
            blocks: (0..=100).map(|number| (number, 0)).collect(),
            safe: 60,
            finalized: 20,
            times: HashMap::new(),
            receipts: HashMap::new(),
            sent: HashMap::new(),
            tokens: HashMap::from([(format!("{:x}", Asset::USDC_BASE.contract()), usdc)]),
            usdc: Token::usdc(),
            contracts: HashMap::new(),
            last_call: Value::Null,
            faults: HashMap::new(),
            calls: HashMap::new(),
        };
        let (script, load) = (Arc::new(Mutex::new(script)), Arc::<Load>::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let app = Router::new().fallback(serve).with_state((Arc::clone(&script), Arc::clone(&load)));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.expect("serves") });
        Self { address, script, load, task }
    }

    /// With a key in user name, password, path and query.
    pub(super) fn url(&self) -> String {
        format!("http://{CANARY}:{CANARY}@{}/v2/{CANARY}?apikey={CANARY}", self.address)
    }

    pub(super) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("not poisoned")
    }

    /// Every call of that method goes wrong like this from now on.
    pub(super) fn fault(&self, method: &'static str, fault: Fault) {
        self.script().faults.insert(method, fault);
    }

    /// Every call of any method that is used.
    pub(super) fn fault_all(&self, fault: Fault) {
        for method in ["eth_chainId", RECEIPT, TRANSACTION, LOGS, "eth_getBlockByNumber", "eth_call"] {
            self.fault(method, fault.clone());
        }
    }

    pub(super) fn heal(&self) {
        self.script().faults.clear();
    }

    /// One more block on top, and its height.
    pub(super) fn mine(&self) -> u64 {
        let mut script = self.script();
        let number = script.head() + 1;
        script.blocks.insert(number, 0);
        number
    }

    /// A payment of that many base units in that block.
    pub(super) fn pay(&self, transaction: TxHash, number: u64, units: u128) {
        let mut script = self.script();
        let hash = script.hash(number);
        script.receipts.insert(transaction.to_string(), receipt(transaction, number, &hash, &[units]));
    }

    /// Whatever receipt.
    pub(super) fn receipt(&self, transaction: TxHash, receipt: Value) {
        self.script().receipts.insert(transaction.to_string(), receipt);
    }

    /// Whatever transaction; `null` where it has the receipt alone.
    pub(super) fn sent(&self, transaction: TxHash, sent: Value) {
        self.script().sent.insert(transaction.to_string(), sent);
    }

    /// What it answers, if asked for the receipt of that transaction.
    pub(super) fn used_receipt(&self, transaction: TxHash) -> Value {
        self.script().told_receipt(&transaction.to_string()).expect("a receipt")
    }

    pub(super) fn forget(&self, transaction: TxHash) {
        self.script().receipts.remove(&transaction.to_string());
    }

    /// How often that method was called.
    pub(super) fn calls(&self, method: &str) -> usize {
        self.script().calls.get(method).copied().unwrap_or(0)
    }

    /// How often anything was called since the last time this was asked.
    pub(super) fn take_calls(&self) -> usize {
        std::mem::take(&mut self.script().calls).values().sum()
    }

    /// How many calls it ever served at once.
    pub(super) fn most_at_once(&self) -> usize {
        self.load.most.load(Ordering::SeqCst)
    }
}

impl Script {
    pub(super) fn head(&self) -> u64 {
        self.blocks.last_key_value().map_or(0, |(number, _)| *number)
    }

    pub(super) fn hash(&self, number: u64) -> String {
        block_hash(number, self.blocks.get(&number).copied().unwrap_or(0xff))
    }

    fn answer(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let first = params.get(0).cloned().unwrap_or_default();
        match method {
            "eth_chainId" => Ok(json!(format!("{:#x}", self.chain_id))),
            "eth_getBlockByNumber" => {
                let name = first.as_str().unwrap_or_default();
                let number = match name {
                    "latest" => self.head(),
                    "safe" => self.safe,
                    "finalized" => self.finalized,
                    hex => u64::from_str_radix(hex.trim_start_matches("0x"), 16).expect("a height"),
                };
                Ok(self.blocks.get(&number).map_or(Value::Null, |_| self.block(number)))
            }
            RECEIPT => Ok(self.told_receipt(first.as_str().unwrap_or_default()).unwrap_or_default()),
            TRANSACTION => {
                let hash = first.as_str().unwrap_or_default();
                let usual = || sent(hash, PAYER, &[]);
                let is_known = self.told_receipt(hash).is_some();
                Ok(self.sent.get(hash).cloned().or_else(|| is_known.then(usual)).unwrap_or_default())
            }
            "eth_call" => {
                let contract = first["to"].as_str().unwrap_or_default();
                if let Some(returned) = self.contracts.get(contract) {
                    return Ok(returned.clone());
                }
                let is_decimals = first["data"] == "0x313ce567";
                let height =
                    params[1].as_str().and_then(|at| u64::from_str_radix(at.trim_start_matches("0x"), 16).ok());
                let height = height.unwrap_or(self.head());
                if height > self.head() {
                    return Err(json!({ "code": -32000, "message": format!("header not found {CANARY}") }));
                }
                let is_usdc = contract == format!("{:x}", Asset::USDC_BASE.contract());
                if let Some(said) = self.usdc.call(&first, height).filter(|_| is_usdc) {
                    return said;
                }
                let reverted = json!({ "code": 3, "message": format!("execution reverted {CANARY}") });
                let (decimals, symbol) = self.tokens.get(contract).cloned().ok_or(reverted)?;
                Ok(if is_decimals { decimals } else { symbol })
            }
            LOGS => {
                let head = self.head();
                self.usdc.logs(&first, head)
            }
            other => panic!("nobody should ask for {other}"),
        }
    }

    /// The receipt that was set, or that of a transaction that used an authorization and moved nothing.
    fn told_receipt(&self, hash: &str) -> Option<Value> {
        let used = || {
            let (transaction, height, log) = self.usdc.used_by(hash)?;
            let mut receipt = receipt(transaction, height, &self.hash(height), &[]);
            receipt["logs"] = json!([log]);
            Some(receipt)
        };
        self.receipts.get(hash).cloned().or_else(used)
    }

    fn block(&self, number: u64) -> Value {
        let parent = number.checked_sub(1).map_or(block_hash(0, 0xee), |parent| self.hash(parent));
        let zero = format!("0x{:064x}", 0);
        let time = self.times.get(&number).copied().unwrap_or_else(|| time_of(number));
        json!({
            "number": format!("{number:#x}"), "hash": self.hash(number), "parentHash": parent,
            "timestamp": format!("{time:#x}"),
            "sha3Uncles": zero, "miner": format!("0x{:040x}", 0), "stateRoot": zero, "transactionsRoot": zero,
            "receiptsRoot": zero, "logsBloom": format!("0x{:0512x}", 0), "difficulty": "0x0", "gasLimit": "0x1c9c380",
            "gasUsed": "0x5208", "extraData": "0x", "mixHash": zero, "nonce": "0x0000000000000000",
            "baseFeePerGas": "0x1", "size": "0x220", "uncles": [], "transactions": [zero],
        })
    }
}

/// A hash that no other block has.
pub(super) fn block_hash(number: u64, fork: u8) -> String {
    format!("0x{fork:02x}{number:062x}")
}

/// A receipt of Base's own transaction type, with one transfer of that many units each.
pub(super) fn receipt(transaction: TxHash, number: u64, block: &str, units: &[u128]) -> Value {
    let topic = |address: Address| format!("0x{:0>64}", format!("{address:x}").trim_start_matches("0x"));
    let log = |index: usize, units: u128| {
        json!({
            "address": format!("{:x}", Asset::USDC_BASE.contract()),
            "topics": [
                "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", topic(PAYER), topic(RECIPIENT),
            ],
            "data": format!("0x{units:064x}"), "blockHash": block, "blockNumber": format!("{number:#x}"),
            "transactionHash": transaction.to_string(), "transactionIndex": "0x1",
            "logIndex": format!("{:#x}", 40 + index), "removed": false,
        })
    };
    json!({
        "type": "0x7e", "status": "0x1", "cumulativeGasUsed": "0x5208", "gasUsed": "0x5208",
        "effectiveGasPrice": "0x1", "logsBloom": format!("0x{:0512x}", 0), "transactionHash": transaction.to_string(),
        "transactionIndex": "0x1", "blockHash": block, "blockNumber": format!("{number:#x}"),
        "from": format!("{PAYER:x}"), "to": format!("{:x}", Asset::USDC_BASE.contract()), "contractAddress": null,
        "depositNonce": "0x1", "l1Fee": "0x1",
        "logs": units.iter().enumerate().map(|(index, units)| log(index, *units)).collect::<Vec<_>>(),
    })
}

/// A transaction of Base's own type: that this account sent this call data is the node's word alone.
pub(super) fn sent(transaction: impl ToString, sender: Address, call_data: &[u8]) -> Value {
    json!({
        "type": "0x7e", "hash": transaction.to_string(), "from": format!("{sender:x}"),
        "to": format!("{:x}", Asset::USDC_BASE.contract()), "input": alloy::hex::encode_prefixed(call_data),
        "sourceHash": transaction.to_string(), "mint": "0x0", "value": "0x0", "gas": "0x5208", "nonce": "0x1",
        "v": "0x0", "r": "0x0", "s": "0x0",
    })
}

/// A string as a contract returns it.
pub(super) fn text(text: &str) -> Value {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    json!(format!("0x{:064x}{:064x}{hex:0<64}", 32, text.len()))
}

async fn serve(State((script, load)): State<(Arc<Mutex<Script>>, Arc<Load>)>, body: Bytes) -> Response<Body> {
    let now = load.now.fetch_add(1, Ordering::SeqCst) + 1;
    load.most.fetch_max(now, Ordering::SeqCst);
    let _leaving = Leaving(&load);
    let request: Value = serde_json::from_slice(&body).expect("JSON");
    let method = request["method"].as_str().expect("a method").to_owned();
    let (answer, fault) = {
        let mut script = script.lock().expect("not poisoned");
        *script.calls.entry(method.clone()).or_default() += 1;
        if method == "eth_call" {
            script.last_call = request["params"].clone();
        }
        (script.answer(&method, &request["params"]), script.faults.get(&*method).cloned())
    };
    let id = request["id"].clone();
    let with_id = |id: Value| match &answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string(),
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string(),
    };
    let good = with_id(id.clone());
    match fault {
        None => reply(good),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Slow(span)) => {
            tokio::time::sleep(span).await;
            reply(good)
        }
        Some(Fault::Status(status)) => {
            let mut response = reply(good);
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            response
        }
        Some(Fault::Wait(status, wait)) => {
            let mut response = reply(good);
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static(wait));
            response
        }
        Some(Fault::Html) => reply(format!("<html><title>{CANARY}</title>Just a moment…</html>")),
        Some(Fault::Truncated) => reply(good[..good.len() - 2].to_owned()),
        Some(Fault::Huge { announced: true }) => reply(format!("{good}{}", " ".repeat(10_000_000))),
        Some(Fault::Huge { announced: false }) => {
            let parts = std::iter::once(good).chain(std::iter::repeat_n(" ".repeat(100_000), 100));
            let chunks = futures_util::stream::iter(parts.map(Ok::<_, std::convert::Infallible>));
            Response::new(Body::from_stream(chunks))
        }
        Some(Fault::WrongId) => reply(with_id(json!(id.as_u64().expect("a number") + 1))),
        Some(Fault::TextId) => reply(with_id(json!(id.to_string()))),
        Some(Fault::Redirect(to)) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
            response.headers_mut().insert(header::LOCATION, to.parse().expect("a URL"));
            response
        }
        Some(Fault::RpcError) => {
            reply(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32005, "message": CANARY } }).to_string())
        }
        Some(Fault::Result(result)) => reply(json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()),
    }
}

fn reply(body: String) -> Response<Body> {
    Response::new(Body::from(body))
}

struct Leaving<'a>(&'a Load);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}
