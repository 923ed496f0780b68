//! `Transport`: one JSON-RPC call over HTTP to one node. It caps the answer, compares ids, follows no redirect, and
//! never prints its content or its URL, which may contain a key.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use reqwest::{Client, Response, Url, header::CONTENT_TYPE, redirect};
#[cfg(feature = "evm")]
use reqwest::{StatusCode, header::RETRY_AFTER};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{metrics, protocol::is_loopback};

/// The default limit of an answer: a receipt of some three thousand transfers.
const ANSWER_MAX: usize = 2 * 1024 * 1024;

/// A question: method and parameters.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
}

/// The reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The endpoint is unreliable now: unreachable, slow, refusing, or not speaking JSON-RPC.
    Endpoint,
    /// The same, and the endpoint asks not to be called for this long.
    #[cfg(feature = "evm")]
    Busy(Duration),
    /// The answer to this question is unusable. The author of the question may have caused that.
    Answer,
    /// The answer exceeds the limit. The author of the question may have caused that, too.
    TooLong,
    /// The endpoint ran a contract call, which failed: it reverted, ran out of gas, or has invalid code.
    #[cfg(feature = "evm")]
    Reverted,
}

#[cfg(feature = "evm")]
impl Fault {
    /// Whether the fault is the endpoint's, independent of the question.
    pub(crate) const fn is_of_the_endpoint(self) -> bool {
        matches!(self, Self::Endpoint | Self::Busy(_))
    }

    /// How long the endpoint asks not to be called.
    pub(crate) const fn wait(self) -> Option<Duration> {
        match self {
            Self::Busy(wait) => Some(wait),
            _ => None,
        }
    }
}

pub(crate) struct Transport {
    url: Url,
    http: Client,
    last_id: AtomicU64,
    answer_max: usize,
    /// Its index among the endpoints of a verifier.
    endpoint: Option<usize>,
}

/// Without the URL.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

impl Transport {
    /// Prepares calls to that URL; `None` if it is no http or https URL.
    pub(crate) fn new(url: &str) -> Option<Self> {
        let url = Url::parse(url.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let client = Client::builder().redirect(redirect::Policy::none()).connect_timeout(Duration::from_secs(2));
        // A proxy from the environment never applies to a node on this machine.
        let client = if url.host_str().is_some_and(is_loopback) { client.no_proxy() } else { client };
        let http = client.build();
        if http.is_err() {
            tracing::error!("no HTTP client can be made for RPC endpoints: are root certificates installed?");
        }
        Some(Self { http: http.ok()?, url, last_id: AtomicU64::new(0), answer_max: ANSWER_MAX, endpoint: None })
    }

    /// Counts calls as calls to the verifier's endpoint with this index.
    #[cfg(feature = "evm")]
    pub(crate) fn counted_as(self, endpoint: usize) -> Self {
        Self { endpoint: Some(endpoint), ..self }
    }

    /// Sets the limit of an answer, in bytes.
    #[cfg(feature = "wallet")]
    pub(crate) fn reading(self, answer_max: usize) -> Self {
        Self { answer_max, ..self }
    }

    /// Sends the call, and returns the member `result`. The caller sets the time limit.
    #[cfg(feature = "evm")]
    pub(crate) async fn call(&self, question: &Question) -> Result<Box<RawValue>, Fault> {
        settled(self.ask(question).await?)
    }

    /// Sends the call, and returns the member `result` or `error`. The caller sets the time limit.
    pub(crate) async fn ask(&self, question: &Question) -> Result<Reply, Fault> {
        metrics::rpc_call(self.endpoint);
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let Question { method, params } = question;
        let body = serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        let request = self.http.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        let response = request.send().await.map_err(|_| Fault::Endpoint)?;
        if !response.status().is_success() {
            return Err(refusal(&response));
        }
        open(id, &read(response, self.answer_max).await?)
    }
}

/// The fault of an answer whose status is a refusal. `Retry-After` counts only in seconds; a date would need the node's
/// clock, and is ignored.
#[cfg(feature = "evm")]
fn refusal(response: &Response) -> Fault {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return Fault::Endpoint;
    }
    let seconds = response.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
    seconds.map_or(Fault::Endpoint, |seconds| Fault::Busy(Duration::from_secs(seconds)))
}

/// A payer retries in its own time.
#[cfg(not(feature = "evm"))]
fn refusal(_: &Response) -> Fault {
    Fault::Endpoint
}

async fn read(mut response: Response, most: usize) -> Result<Vec<u8>, Fault> {
    if response.content_length().is_some_and(|length| length > most as u64) {
        return Err(Fault::TooLong);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| Fault::Endpoint)? {
        if body.len() + chunk.len() > most {
            return Err(Fault::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// A node's answer to a question.
pub(crate) type Reply = Result<Box<RawValue>, RpcError>;

#[derive(Deserialize)]
struct Envelope<'a> {
    id: u64,
    /// Present and `null` is an answer; absent is none.
    #[serde(borrow, default, deserialize_with = "nullable")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<RpcError>,
}

/// A node's error. Its text is examined here and must not leave: no `Debug`, no `Display`.
#[derive(Deserialize)]
pub(crate) struct RpcError {
    code: i64,
    #[serde(default)]
    message: String,
}

impl RpcError {
    /// Whether the text, in lower case, contains any of these.
    #[cfg(feature = "wallet")]
    pub(crate) fn says(&self, any: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        any.iter().any(|text| message.contains(text))
    }

    /// Whether a contract call ran and failed, for any reason. For a revert, geth, reth and anvil return 3; only the
    /// text distinguishes other failures from those of the node.
    pub(crate) fn is_failed_call(&self) -> bool {
        // "out of gas" with one node, "EVM error OutOfGas" with another.
        let letters = |byte: &u8| byte.is_ascii_alphabetic();
        let message = self.message.bytes().filter(letters).map(|byte| byte.to_ascii_lowercase()).collect::<Vec<_>>();
        let says = |text: &str| memchr::memmem::find(&message, text.as_bytes()).is_some();
        self.code == 3 || FAILED_CALL.into_iter().any(says)
    }
}

/// The texts of nodes for a failed call, letters only.
const FAILED_CALL: [&str; 9] = [
    "revert",
    "outofgas",
    "opcode",
    "invalidjump",
    "stackunderflow",
    "stackoverflow",
    "returndataoutofbounds",
    "evmerror",
    "vmexecutionerror",
];

fn nullable<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn open(id: u64, body: &[u8]) -> Result<Reply, Fault> {
    let reply: Envelope<'_> = serde_json::from_slice(body).map_err(|_| Fault::Endpoint)?;
    match reply {
        Envelope { id: other, .. } if other != id => Err(Fault::Endpoint),
        Envelope { error: Some(error), .. } => Ok(Err(error)),
        Envelope { error: None, result: Some(result), .. } => Ok(Ok(result.to_owned())),
        Envelope { .. } => Err(Fault::Answer),
    }
}

#[cfg(feature = "evm")]
fn settled(reply: Reply) -> Result<Box<RawValue>, Fault> {
    reply.map_err(|error| if error.is_failed_call() { Fault::Reverted } else { Fault::Answer })
}

#[cfg(all(test, feature = "evm"))]
mod tests {
    use super::*;

    fn result(body: &str) -> Result<String, Fault> {
        open(7, body.as_bytes()).and_then(settled).map(|raw| raw.get().to_owned())
    }

    #[test]
    fn an_answer_is_the_result_under_the_id_that_was_sent() {
        assert_eq!(result(r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#).as_deref(), Ok(r#"{"a":1}"#));
        assert_eq!(result(r#"{"id":7,"result":null}"#).as_deref(), Ok("null"));
        assert_eq!(result(r#"{"id":7,"result":null,"error":null}"#).as_deref(), Ok("null"));
        for foreign in
            [r#"{"id":8,"result":1}"#, r#"{"id":null,"result":1}"#, r#"{"id":"7","result":1}"#, "[]", "<html>"]
        {
            assert_eq!(result(foreign), Err(Fault::Endpoint), "{foreign}");
        }
        assert_eq!(result(r#"{"id":7}"#), Err(Fault::Answer));
        assert_eq!(result(r#"{"id":7,"result":1,"error":{"code":-32005}}"#), Err(Fault::Answer));
        assert_eq!(result(r#"{"id":7,"error":{"code":3,"message":"execution reverted"}}"#), Err(Fault::Reverted));
    }

    #[test]
    fn a_call_that_failed_is_told_from_a_node_that_did() {
        let says = |code: i64, message: &str| {
            result(&serde_json::json!({ "id": 7, "error": { "code": code, "message": message } }).to_string())
        };
        for failed in [
            "execution reverted",
            "VM Exception: REVERT",
            "out of gas",
            "EVM error OutOfGas",
            "out of gas: gas required exceeds: 3000000",
            "invalid opcode: INVALID",
            "EVM error InvalidFEOpcode",
            "invalid jump destination",
            "stack underflow (0 <=> 1)",
            "VM execution error.",
        ] {
            assert_eq!(says(-32000, failed), Err(Fault::Reverted), "{failed}");
        }
        assert_eq!(says(3, ""), Err(Fault::Reverted));
        for other in
            ["header not found", "missing trie node", "limit exceeded", "method not found", "internal error", ""]
        {
            assert_eq!(says(-32000, other), Err(Fault::Answer), "{other}");
        }
    }

    #[test]
    fn only_http_urls_are_endpoints() {
        for url in ["", "localhost:8545", "ftp://a", "ws://a", "file:///etc/passwd", "http://"] {
            assert!(Transport::new(url).is_none(), "{url}");
        }
        let transport = Transport::new("https://user:secret@rpc.example/v2/secret?key=secret");
        assert!(transport.is_some_and(|transport| !format!("{transport:?}").contains("secret")));
    }
}
