//! A proxy in front of a chain, that answers chosen methods by itself.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::State, http::StatusCode};

use super::{Value, json};

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
    /// An error, to those questions of which this holds.
    Refused(fn(&Value) -> bool),
}

pub struct Proxy {
    url: String,
    odd: Arc<Mutex<HashMap<String, Odd>>>,
    asked: Arc<Mutex<HashMap<String, usize>>>,
    task: tokio::task::JoinHandle<()>,
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
}

impl Proxy {
    pub async fn before(url: &str) -> Self {
        let odd = Arc::<Mutex<HashMap<_, _>>>::default();
        let asked = Arc::<Mutex<HashMap<_, _>>>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let behind = Behind { url: url.to_owned(), odd: Arc::clone(&odd), asked: Arc::clone(&asked), http };
        let app = Router::new().fallback(serve).with_state(behind);
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let url = format!("http://{CANARY}:{CANARY}@{address}/v2/{CANARY}?key={CANARY}");
        Self { url, odd, asked, task }
    }

    /// With a key in every place of it.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn set(&self, method: &str, odd: Odd) {
        self.odd.lock().unwrap().insert(method.to_owned(), odd);
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
    let odd = behind.odd.lock().unwrap().get(method).cloned();
    let is_old = question["params"][1].as_str().is_some_and(|block| block.starts_with("0x"));
    let odd = match odd {
        Some(Odd::OldState(status)) => is_old.then_some(Odd::Status(status)),
        Some(Odd::Pending(result)) => (question["params"][1] == "pending").then(|| Odd::Result(json!(result))),
        Some(Odd::Refused(is_refused)) => {
            is_refused(&question["params"]).then_some(Odd::Error(-32005, "the range is too wide"))
        }
        odd => odd,
    };
    let mut answer = json!({"jsonrpc": "2.0", "id": question["id"]});
    match odd {
        Some(Odd::Hang) => std::future::pending().await,
        Some(Odd::Html) => return (StatusCode::OK, format!("<html>{CANARY}</html>")),
        Some(Odd::Result(result)) => answer["result"] = result,
        Some(Odd::Error(code, text)) => answer["error"] = json!({"code": code, "message": format!("{text} {CANARY}")}),
        Some(Odd::Status(status)) => return (StatusCode::from_u16(status).unwrap(), format!("{{}} {CANARY}")),
        Some(Odd::Changed(_) | Odd::Replaced(_) | Odd::OldState(_) | Odd::Pending(_) | Odd::Refused(_) | Odd::Lost)
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
