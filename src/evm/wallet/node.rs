//! `Node`: a wallet's questions to a node, each limited to ten seconds. A node's text never leaves this file.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::try_join;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use tokio::time::{Instant, timeout};

use super::{
    fees::{FeeHistory, Fees},
    nonce_manager::Counted,
};
use crate::{
    evm::{
        block::Block,
        json_rpc::{Fault, Question, RpcError, Transport},
        receipt::Inclusion,
    },
    protocol::{Address, TxHash},
};

/// The time limit of a question.
const LIMIT: Duration = Duration::from_secs(10);

/// How long an endpoint that hung is asked last.
const REST: Duration = Duration::from_secs(15);

/// How long an endpoint's proof that it serves a chain is valid. Later another chain may answer at its address.
const PROVED_FOR: Duration = Duration::from_secs(60);

/// The limit of an answer, in bytes: enough for a full block with its transactions.
const BLOCK_MAX: usize = 16 * 1024 * 1024;

/// Why a question has no answer.
pub(crate) enum Failure {
    /// No answer came in time, or none in JSON-RPC.
    Silence,
    /// The answer has an unexpected shape.
    Nonsense,
    /// The node answered with an error.
    Refusal(RpcError),
}

/// The answer is unreadable.
impl From<Fault> for Failure {
    fn from(_: Fault) -> Self {
        Self::Nonsense
    }
}

#[derive(Debug)]
pub(crate) struct Node {
    transport: Transport,
    /// When the node proved that it serves the wallet's chain, unless it has failed since.
    proved: Mutex<Option<Instant>>,
    rests_until: Mutex<Option<Instant>>,
}

impl Node {
    /// Returns `None` if the text is no http or https URL.
    pub(crate) fn new(url: &str) -> Option<Self> {
        let transport = Transport::new(url)?.reading(BLOCK_MAX);
        Some(Self { transport, proved: Mutex::default(), rests_until: Mutex::default() })
    }

    /// Returns whether the node has a valid proof that it serves the wallet's chain.
    pub(crate) fn is_proved(&self) -> bool {
        let proved = *self.proved.lock().unwrap_or_else(PoisonError::into_inner);
        proved.is_some_and(|at| at.elapsed() < PROVED_FOR)
    }

    pub(crate) fn proved(&self) {
        *self.proved.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Requires a new proof.
    pub(crate) fn doubted(&self) {
        *self.proved.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the node hung, or was found behind, a moment ago.
    pub(crate) fn is_resting(&self) -> bool {
        self.rests_until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| Instant::now() < until)
    }

    /// Makes the node the last choice for a while.
    pub(crate) fn rests(&self) {
        *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + REST);
    }

    fn hung(&self) -> Failure {
        self.doubted();
        self.rests();
        Failure::Silence
    }

    pub(crate) async fn ask<T: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<T, Failure> {
        serde_json::from_str(self.ask_raw(method, params).await?.get()).map_err(|_| Failure::Nonsense)
    }

    async fn ask_raw(&self, method: &'static str, params: Value) -> Result<Box<RawValue>, Failure> {
        self.answer(&Question { method, params }).await
    }

    /// Returns the raw answer to a question, which the caller parses.
    pub(crate) async fn answer(&self, question: &Question) -> Result<Box<RawValue>, Failure> {
        let reply = timeout(LIMIT, self.transport.ask(question)).await.map_err(|_| self.hung())?;
        let silence = |_| {
            self.doubted();
            Failure::Silence
        };
        reply.map_err(silence)?.map_err(Failure::Refusal)
    }

    pub(crate) async fn chain_id(&self) -> Result<u64, Failure> {
        self.ask::<Quantity>("eth_chainId", json!([])).await?.small()
    }

    /// Returns the latest block.
    pub(crate) async fn head(&self) -> Result<Block, Failure> {
        self.block_at("latest").await?.ok_or(Failure::Nonsense)
    }

    /// Returns the block at that height in the present chain.
    pub(crate) async fn block(&self, number: u64) -> Result<Option<Block>, Failure> {
        self.block_at(&hex(number)).await
    }

    async fn block_at(&self, height: &str) -> Result<Option<Block>, Failure> {
        let told = self.ask_raw("eth_getBlockByNumber", json!([height, false])).await?;
        Block::read(told.get()).map_err(|_| Failure::Nonsense)
    }

    /// Returns the block at that height with its transactions.
    pub(crate) async fn full_block(&self, number: u64) -> Result<Option<FullBlock>, Failure> {
        self.ask("eth_getBlockByNumber", json!([hex(number), true])).await
    }

    /// Returns the account's transaction count after that block, which is its next nonce.
    pub(crate) async fn count_at(&self, account: Address, block: u64) -> Result<u64, Failure> {
        self.count(account, &hex(block)).await
    }

    /// Returns the present counts, without and with pending transactions.
    pub(crate) async fn counted(&self, account: Address) -> Result<Counted, Failure> {
        let (latest, pending) = try_join(self.count(account, "latest"), self.count(account, "pending")).await?;
        Ok(Counted { latest, pending })
    }

    async fn count(&self, account: Address, block: &str) -> Result<u64, Failure> {
        self.ask::<Quantity>("eth_getTransactionCount", json!([account, block])).await?.small()
    }

    pub(crate) async fn receipt(&self, hash: TxHash) -> Result<Option<Inclusion>, Failure> {
        let told = self.ask_raw("eth_getTransactionReceipt", json!([hash])).await?;
        Inclusion::read(told.get(), hash).map_err(|_| Failure::Nonsense)
    }

    pub(crate) async fn transaction(&self, hash: TxHash) -> Result<Option<Transaction>, Failure> {
        self.ask("eth_getTransactionByHash", json!([hash])).await
    }

    /// Returns the target and input of a transaction; `None` if this node does not have it.
    #[cfg(feature = "client")]
    pub(crate) async fn called(&self, hash: TxHash) -> Result<Option<Called>, Failure> {
        self.ask("eth_getTransactionByHash", json!([hash])).await
    }

    /// Returns the pending transaction with that nonce; an error if this node does not report it. The answer is a hint,
    /// not proof.
    pub(crate) async fn waiting(&self, account: Address, nonce: u64) -> Result<Option<Waiting>, Failure> {
        match self.ask("eth_getTransactionBySenderAndNonce", json!([account, hex(nonce)])).await {
            // Geth does not know this method, only the next one.
            Err(Failure::Refusal(_)) => {}
            told => return told,
        }
        let mut pool: Pool = self.ask("txpool_contentFrom", json!([account])).await?;
        let name = nonce.to_string();
        Ok(pool.pending.remove(&name).or_else(|| pool.queued.remove(&name)))
    }

    pub(crate) async fn fee_history(&self) -> Result<FeeHistory, Failure> {
        let told: ToldFees = self.ask("eth_feeHistory", json!(["0xa", "latest", [20]])).await?;
        let base = told.base_fees.last().ok_or(Failure::Nonsense)?.0;
        let tips = told.rewards.iter().flatten().filter_map(|tips| tips.first()).map(|tip| tip.0).collect();
        Ok(FeeHistory { base, tips })
    }

    /// Returns the account's ether in wei, after its pending transactions.
    pub(crate) async fn ether(&self, account: Address) -> Result<u128, Failure> {
        Ok(self.ask::<Quantity>("eth_getBalance", json!([account, "pending"])).await?.0)
    }

    /// Whether there is code at that address.
    pub(crate) async fn has_code(&self, address: Address) -> Result<bool, Failure> {
        let code = self.ask::<String>("eth_getCode", json!([address, "latest"])).await?;
        Ok(code.len() > "0x".len())
    }

    /// Runs a call at the state that `at` names, with at most the call's gas. The error of a failed call must not be
    /// passed on.
    pub(crate) async fn run(&self, call: &Call<'_>, at: &str) -> Result<Result<Vec<u8>, RpcError>, Failure> {
        match self.ask::<String>("eth_call", json!([call.to_json(), at])).await {
            Ok(text) => const_hex::decode(text).map(Ok).map_err(|_| Failure::Nonsense),
            Err(Failure::Refusal(error)) if error.is_failed_call() => Ok(Err(error)),
            Err(failure) => Err(failure),
        }
    }

    /// Returns the gas of a call on top of pending transactions; the node's error if the call fails.
    pub(crate) async fn gas_of(&self, call: &Call<'_>) -> Result<Result<u64, RpcError>, Failure> {
        match self.ask::<Quantity>("eth_estimateGas", json!([call.to_json(), "pending"])).await {
            Ok(gas) => gas.small().map(Ok),
            Err(Failure::Refusal(error)) if error.is_failed_call() || error.says(&["gas required exceeds"]) => {
                Ok(Err(error))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Returns the result of a contract's view function, as one word; `None` if the result is anything else, or the
    /// call fails.
    pub(crate) async fn word(&self, contract: Address, call: &[u8]) -> Result<Option<[u8; 32]>, Failure> {
        self.word_at(contract, call, "pending").await
    }

    /// The same, at the state that `at` names.
    pub(crate) async fn word_at(&self, contract: Address, call: &[u8], at: &str) -> Result<Option<[u8; 32]>, Failure> {
        let call = json!({"to": contract, "data": const_hex::encode_prefixed(call)});
        match self.ask::<String>("eth_call", json!([call, at])).await {
            Ok(text) => Ok(const_hex::decode_to_array(text).ok()),
            Err(Failure::Refusal(error)) if error.is_failed_call() => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

/// A contract call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) data: &'a [u8],
    /// The gas limit.
    pub(crate) gas: u64,
    /// The fees of the call. Without them the call runs with a gas price of zero, unlike any transaction.
    pub(crate) fees: Option<Fees>,
}

impl Call<'_> {
    fn to_json(self) -> Value {
        let data = const_hex::encode_prefixed(self.data);
        let mut call = json!({"from": self.from, "to": self.to, "data": data, "gas": hex(self.gas)});
        if let Some(Fees { most, tip }) = self.fees {
            call["maxFeePerGas"] = json!(format!("{most:#x}"));
            call["maxPriorityFeePerGas"] = json!(format!("{tip:#x}"));
        }
        call
    }
}

pub(crate) fn hex(number: u64) -> String {
    format!("{number:#x}")
}

/// A number in JSON-RPC's form: `"0x1f"`. Numbers beyond 128 bits are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity(pub(crate) u128);

impl Quantity {
    pub(crate) fn small(self) -> Result<u64, Failure> {
        self.0.try_into().map_err(|_| Failure::Nonsense)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let number = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
        number.map(Self).ok_or_else(|| serde::de::Error::custom("no quantity"))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct FullBlock {
    pub(crate) transactions: Vec<Box<RawValue>>,
}

/// A node's report of a transaction, its sender and nonce: a hint for look-ups, not proof.
#[derive(Debug, Deserialize)]
pub(crate) struct Transaction {
    pub(crate) hash: TxHash,
    pub(crate) from: Address,
    pub(crate) nonce: Quantity,
}

/// A node's report of a transaction's target and input.
#[cfg(feature = "client")]
#[derive(Debug, Deserialize)]
pub(crate) struct Called {
    pub(crate) to: Option<Address>,
    #[serde(deserialize_with = "const_hex::deserialize")]
    pub(crate) input: Vec<u8>,
}

/// A node's view of a pending transaction.
#[derive(Debug, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) to: Option<Address>,
    #[serde(deserialize_with = "const_hex::deserialize")]
    pub(crate) input: Vec<u8>,
}

/// A node's pending transactions of one account, by nonce.
#[derive(Deserialize)]
struct Pool {
    #[serde(default)]
    pending: HashMap<String, Waiting>,
    #[serde(default)]
    queued: HashMap<String, Waiting>,
}

#[derive(Deserialize)]
struct ToldFees {
    /// The base fees of the requested blocks and of the next one.
    #[serde(rename = "baseFeePerGas")]
    base_fees: Vec<Quantity>,
    #[serde(rename = "reward", default)]
    rewards: Option<Vec<Vec<Quantity>>>,
}
