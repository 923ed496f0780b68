//! A proxy in front of a chain, that answers chosen methods by itself.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::State, http::StatusCode};

use serde_json::{Value, json};
use tower_x402::testing::DevChain;

pub const CANARY: &str = "s3cret-canary";

/// What to do with a method instead of asking the chain.
#[derive(Clone)]
pub enum Odd {
    Result(Value),
    Error(i64, &'static str),
    Hang,
    /// The chain takes it, and the answer is lost.
    Lost,
    Html,
    /// No answer at all but this status.
    Status(u16),
    /// What the chain said, changed.
    Changed(fn(&mut Value)),
    /// The same, where what is changed depends on what was asked for.
    Replaced(fn(&Value, &mut Value)),
    /// The status, to those questions about state that name a height.
    OldState(u16),
    /// This, to those about state with what waits.
    Pending(&'static str),
    /// Those about state with what waits are about the newest block, as on op-geth.
    PendingIsLatest,
    /// This, to those about the newest block.
    Newest(Value),
    /// An error, to those questions of which this holds.
    Refused(fn(&Value) -> bool),
}

/// The newest block of a node that is stuck at this one, so many seconds behind the chain.
pub async fn stuck_at(chain: &DevChain, number: u64, seconds: u64) -> Odd {
    let mut block = chain.rpc("eth_getBlockByNumber", json!([format!("{number:#x}"), false])).await.unwrap();
    let time = chain.timestamp().await.unwrap().unix() - seconds;
    block["timestamp"] = json!(format!("{time:#x}"));
    Odd::Newest(block)
}

pub struct Proxy {
    url: String,
    odd: Arc<Mutex<HashMap<String, Odd>>>,
    asked: Arc<Mutex<HashMap<String, usize>>>,
    limit: Arc<Mutex<Limit>>,
    task: tokio::task::JoinHandle<()>,
}

/// How many questions are answered in one second.
struct Limit {
    most: usize,
    since: std::time::Instant,
    asked: usize,
}

impl Limit {
    fn is_passed(&mut self) -> bool {
        if self.since.elapsed() >= std::time::Duration::from_secs(1) {
            (self.since, self.asked) = (std::time::Instant::now(), 0);
        }
        self.asked += 1;
        self.asked > self.most
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Behind {
    url: String,
    odd: Arc<Mutex<HashMap<String, Odd>>>,
    asked: Arc<Mutex<HashMap<String, usize>>>,
    http: reqwest::Client,
    limit: Arc<Mutex<Limit>>,
}

impl Proxy {
    pub async fn before(url: &str) -> Self {
        let odd = Arc::<Mutex<HashMap<_, _>>>::default();
        let asked = Arc::<Mutex<HashMap<_, _>>>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let limit = Limit { most: usize::MAX, since: std::time::Instant::now(), asked: 0 };
        let limit = Arc::new(Mutex::new(limit));
        let behind = Behind {
            url: url.to_owned(),
            odd: Arc::clone(&odd),
            asked: Arc::clone(&asked),
            http,
            limit: Arc::clone(&limit),
        };
        let app = Router::new().fallback(serve).with_state(behind);
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let url = format!("http://{CANARY}:{CANARY}@{address}/v2/{CANARY}?key={CANARY}");
        Self { url, odd, asked, limit, task }
    }

    /// With a key in every place of it.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn set(&self, method: &str, odd: Odd) {
        self.odd.lock().unwrap().insert(method.to_owned(), odd);
    }

    /// Answers no more than so many questions a second.
    pub fn limit(&self, most: usize) {
        self.limit.lock().unwrap().most = most;
    }

    /// How often it was asked anything.
    pub fn asked_in_all(&self) -> usize {
        self.asked.lock().unwrap().values().sum()
    }

    /// How often it was asked that.
    pub fn asked(&self, method: &str) -> usize {
        self.asked.lock().unwrap().get(method).copied().unwrap_or_default()
    }

    pub fn clear(&self) {
        self.odd.lock().unwrap().clear();
    }
}

async fn serve(State(behind): State<Behind>, body: Bytes) -> (StatusCode, String) {
    let question: Value = serde_json::from_slice(&body).unwrap();
    let method = question["method"].as_str().unwrap();
    *behind.asked.lock().unwrap().entry(method.to_owned()).or_default() += 1;
    if behind.limit.lock().unwrap().is_passed() {
        return (StatusCode::TOO_MANY_REQUESTS, String::new());
    }
    let odd = behind.odd.lock().unwrap().get(method).cloned();
    let is_old = question["params"][1].as_str().is_some_and(|block| block.starts_with("0x"));
    let odd = match odd {
        Some(Odd::OldState(status)) => is_old.then_some(Odd::Status(status)),
        Some(Odd::Pending(result)) => (question["params"][1] == "pending").then(|| Odd::Result(json!(result))),
        Some(Odd::Newest(block)) => (question["params"][0] == "latest").then_some(Odd::Result(block)),
        Some(Odd::Refused(is_refused)) => {
            is_refused(&question["params"]).then_some(Odd::Error(-32005, "the range is too wide"))
        }
        odd => odd,
    };
    let is_pending = question["params"][1] == "pending";
    let body = match odd {
        Some(Odd::PendingIsLatest) if is_pending => {
            let mut latest = question.clone();
            latest["params"][1] = json!("latest");
            Bytes::from(latest.to_string())
        }
        _ => body,
    };
    let mut answer = json!({"jsonrpc": "2.0", "id": question["id"]});
    match odd {
        Some(Odd::Hang) => std::future::pending().await,
        Some(Odd::Html) => return (StatusCode::OK, format!("<html>{CANARY}</html>")),
        Some(Odd::Result(result)) => answer["result"] = result,
        Some(Odd::Error(code, text)) => answer["error"] = json!({"code": code, "message": format!("{text} {CANARY}")}),
        Some(Odd::Status(status)) => return (StatusCode::from_u16(status).unwrap(), format!("{{}} {CANARY}")),
        Some(
            Odd::Changed(_)
            | Odd::Replaced(_)
            | Odd::OldState(_)
            | Odd::Pending(_)
            | Odd::PendingIsLatest
            | Odd::Newest(_)
            | Odd::Refused(_)
            | Odd::Lost,
        )
        | None => {
            let request = behind.http.post(&behind.url).header("content-type", "application/json").body(body);
            let said = request.send().await.unwrap().bytes().await.unwrap();
            answer = serde_json::from_slice(&said).unwrap();
            match odd {
                Some(Odd::Changed(change)) => change(&mut answer["result"]),
                Some(Odd::Replaced(change)) => change(&question["params"], &mut answer["result"]),
                Some(Odd::Lost) => return (StatusCode::BAD_GATEWAY, String::new()),
                _ => {}
            }
        }
    }
    (StatusCode::OK, answer.to_string())
}
