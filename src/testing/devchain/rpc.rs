//! JSON-RPC calls to `anvil`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{DevChainError, Failure, excerpt};

/// The time limit of a call: mining many blocks takes a while.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Rpc {
    client: reqwest::Client,
    url: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    result: Value,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    code: i64,
    message: String,
}

impl Rpc {
    pub(super) fn new(url: String) -> Result<Self, DevChainError> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(LIMIT)
            // Connections live in the runtime that opened them; the chain may be shared between several.
            .pool_max_idle_per_host(0)
            // Plain HTTP: do not load the system's certificates.
            .tls_certs_only([])
            .build()
            .map_err(|source| unreachable("to be asked", source))?;
        Ok(Self { client, url })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) async fn call(&self, method: &str, params: Value) -> Result<Value, DevChainError> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let body = self.post(request.to_string()).await.map_err(|source| unreachable(method, source))?;
        let answer: Answer = serde_json::from_slice(&body).map_err(|source| unreachable(method, source))?;
        match answer.error {
            None => Ok(answer.result),
            Some(refusal) => Err(Failure::Refused {
                method: method.to_owned(),
                code: refusal.code,
                message: excerpt(&refusal.message),
            }
            .into()),
        }
    }

    /// Calls a method that returns a quantity of at most 64 bits.
    pub(super) async fn number(&self, method: &str, params: Value) -> Result<u64, DevChainError> {
        let answer = self.call(method, params).await?;
        quantity(&answer).ok_or_else(|| unexpected(method))
    }

    /// Calls a method that returns text which `T` parses.
    pub(super) async fn parsed<T: std::str::FromStr>(&self, method: &str, params: Value) -> Result<T, DevChainError> {
        let answer = self.call(method, params).await?;
        answer.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| unexpected(method))
    }

    async fn post(&self, body: String) -> reqwest::Result<Vec<u8>> {
        let request = self.client.post(&self.url).header("content-type", "application/json");
        Ok(request.body(body).send().await?.bytes().await?.to_vec())
    }
}

/// Parses a JSON-RPC quantity such as `"0x1f"`.
pub(super) fn quantity(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

/// Adds the `0x` that JSON-RPC needs to hexadecimal text, if it is missing.
pub(super) fn prefixed(hex: &str) -> String {
    format!("0x{}", hex.trim().trim_start_matches("0x"))
}

pub(super) fn unexpected(method: &str) -> DevChainError {
    Failure::Unexpected { method: method.to_owned() }.into()
}

fn unreachable(method: &str, source: impl std::error::Error + Send + Sync + 'static) -> DevChainError {
    Failure::Unreachable { method: method.to_owned(), source: Box::new(source) }.into()
}
