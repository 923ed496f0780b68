//! A scripted facilitator on a free port of this machine, over a market, with faults by path.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header},
};
use serde_json::{Value, json};
use tower_x402::protocol::{
    Address, Network,
    permit2::SignedPermit,
    v2::{
        FacilitatorRequest, PaymentOption, Reason, SchemePayload, SettleResponse, Supported, SupportedKind,
        VerifyResponse,
    },
};

use super::{CANARY, market::Market};

/// The accounts that settle permits; `/supported` names one for the scheme, and both as its signers.
pub const SIGNERS: [Address; 2] = [Address::new([0xf1; 20]), Address::new([0xf2; 20])];

/// What goes wrong. Of those that are about an answer, the market has done its part before.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing is done, and nothing is answered.
    HangBefore,
    /// It is done, and nothing is answered.
    HangAfter,
    /// Nothing is done, and the connection is closed.
    ResetBefore,
    /// It is done, and the connection is closed in the middle of the answer.
    ResetAfter,
    /// Nothing is done; that status with a text.
    Status(u16),
    /// It is done; that status with a text.
    StatusAfter(u16),
    /// It is done; that status with the right answer.
    TypedStatus(u16),
    Redirect(u16, String),
    /// It is done; the answer is behind 10 MB of spaces, whose length is told or not.
    Huge {
        announced: bool,
    },
    /// It is done; that many bytes of spaces are before the answer.
    Padded(usize),
    /// It is done; this instead of the answer.
    Says(Value),
    /// Nothing is done; this, after that time.
    SaysLate(Duration, Value),
    /// It is done; the answer, with these members instead.
    Changed(Value),
    /// Nothing is done; too many requests, so often, with this under `Retry-After`.
    Busy(usize, &'static str),
    Html,
}

#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: String,
}

#[derive(Debug)]
struct Script {
    market: Market,
    network: Network,
    faults: HashMap<&'static str, Fault>,
    seen: Vec<Seen>,
}

/// Gone when it is dropped.
#[derive(Debug)]
pub struct Facilitator {
    address: String,
    script: Arc<Mutex<Script>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Facilitator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Facilitator {
    pub async fn start(market: &Market) -> Self {
        Self::on(market, Network::BASE).await
    }

    pub async fn on(market: &Market, network: Network) -> Self {
        let (faults, seen) = Default::default();
        let script = Arc::new(Mutex::new(Script { market: market.clone(), network, faults, seen }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let app = Router::new().fallback(serve).with_state(Arc::clone(&script));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.expect("serves") });
        Self { address, script, task }
    }

    /// With a key in user name, password, path and query.
    pub fn url(&self) -> String {
        format!("http://{CANARY}:{CANARY}@{}/v2/{CANARY}/?apikey={CANARY}", self.address)
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn fault(&self, action: &'static str, fault: Fault) {
        self.script().faults.insert(action, fault);
    }

    pub fn heal(&self) {
        self.script().faults.clear();
    }

    pub fn seen(&self, action: &str) -> Vec<Seen> {
        self.script().seen.iter().filter(|seen| seen.path.ends_with(action)).cloned().collect()
    }

    pub fn calls(&self, action: &str) -> usize {
        self.seen(action).len()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("not poisoned")
    }
}

/// An address where nobody listens.
pub async fn nobody() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    format!("http://{}", listener.local_addr().expect("bound"))
}

async fn serve(State(script): State<Arc<Mutex<Script>>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let body = String::from_utf8(body.to_vec()).expect("UTF-8");
    let action = uri.path().rsplit('/').next().unwrap_or_default().to_owned();
    let (fault, good) = {
        let mut script = script.lock().expect("not poisoned");
        let (path, query) = (uri.path().to_owned(), uri.query().unwrap_or_default().to_owned());
        script.seen.push(Seen { path, query, headers, body: body.clone() });
        let fault = script.next_fault(&action);
        let idle = matches!(
            fault,
            Some(
                Fault::HangBefore
                    | Fault::ResetBefore
                    | Fault::Status(_)
                    | Fault::Redirect(..)
                    | Fault::Busy(..)
                    | Fault::SaysLate(..)
                    | Fault::Html
            )
        );
        (fault, if idle { String::new() } else { script.answer(&action, &body) })
    };
    let prose = || format!("could not reach https://rpc.example/{CANARY}");
    match fault {
        None => reply(200, good),
        Some(Fault::HangBefore | Fault::HangAfter) => std::future::pending().await,
        Some(Fault::ResetBefore) => broken(200, String::new()),
        Some(Fault::ResetAfter) => broken(200, good[..good.len() / 2].to_owned()),
        Some(Fault::Status(status) | Fault::StatusAfter(status)) => reply(status, prose()),
        Some(Fault::TypedStatus(status)) => reply(status, good),
        Some(Fault::Redirect(status, to)) => {
            let mut response = reply(status, String::new());
            response.headers_mut().insert(header::LOCATION, to.parse().expect("a URL"));
            response
        }
        Some(Fault::Huge { announced: true }) => reply(200, format!("{}{good}", " ".repeat(10_000_000))),
        Some(Fault::Huge { announced: false }) => {
            let parts = std::iter::repeat_n(" ".repeat(100_000), 100).chain([good]);
            let chunks = futures_util::stream::iter(parts.map(Ok::<_, std::convert::Infallible>));
            Response::new(Body::from_stream(chunks))
        }
        Some(Fault::Padded(bytes)) => reply(200, format!("{}{good}", " ".repeat(bytes))),
        Some(Fault::Says(value)) => reply(200, value.to_string()),
        Some(Fault::SaysLate(wait, value)) => {
            tokio::time::sleep(wait).await;
            reply(200, value.to_string())
        }
        Some(Fault::Changed(members)) => reply(200, changed(&good, &members)),
        Some(Fault::Busy(_, wait)) => {
            let mut response = reply(429, prose());
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(wait));
            response
        }
        Some(Fault::Html) => reply(200, format!("<html><title>{CANARY}</title>Just a moment…</html>")),
    }
}

impl Script {
    fn next_fault(&mut self, action: &str) -> Option<Fault> {
        let fault = self.faults.get(action).cloned();
        match self.faults.get_mut(action) {
            Some(Fault::Busy(times, _)) if *times > 1 => *times -= 1,
            Some(Fault::Busy(..)) => drop(self.faults.remove(action)),
            _ => {}
        }
        fault
    }

    fn answer(&self, action: &str, body: &str) -> String {
        if action == "supported" {
            let old = json!({ "kinds": [{ "x402Version": 1, "scheme": "exact", "network": "base" }] });
            let old = Supported::from_json(old.to_string()).expect("it is of the standard's form");
            let mut supported = old.with(SupportedKind::exact(self.network));
            supported = supported.with(SupportedKind::up_to(self.network, SIGNERS[0]));
            supported.signers = supported.signers.with("eip155:*", SIGNERS.map(|signer| signer.to_string()).to_vec());
            return supported.to_json();
        }
        let request = FacilitatorRequest::from_json(body).expect("a request of the standard");
        if let SchemePayload::Permit(signed) = &request.payment_payload.payload {
            return self.answer_permit(action, signed, &request.payment_requirements);
        }
        let offered = request.payment_requirements.exact().expect("the scheme exact").clone();
        assert_eq!(request.payment_payload.accepted.exact(), Some(&offered), "official servers compare them");
        let SchemePayload::Authorization(signed) = request.payment_payload.payload else { panic!("no authorization") };
        let payer = signed.authorization.from;
        let reason = |word: &'static str| word.parse::<Reason>().expect("one word");
        let elsewhere = (offered.network != self.network).then_some("invalid_network");
        match action {
            "verify" => match elsewhere.map_or_else(|| self.market.simulate(&signed), Err) {
                Ok(()) => VerifyResponse::valid(payer).to_json(),
                Err(word) => VerifyResponse::invalid(reason(word)).with_payer(payer).to_json(),
            },
            "settle" => match elsewhere.map_or_else(|| self.market.execute(&signed), Err) {
                Ok(transaction) => SettleResponse::settled(transaction, offered.network).with_payer(payer).to_json(),
                Err(word) => SettleResponse::failed(reason(word), offered.network).with_payer(payer).to_json(),
            },
            other => panic!("asked for {other}"),
        }
    }
}

impl Script {
    fn answer_permit(&self, action: &str, signed: &SignedPermit, required: &PaymentOption) -> String {
        let amount = match required {
            PaymentOption::Exact(required) => required.amount,
            PaymentOption::UpTo(required) => required.amount,
            other => panic!("neither exact nor upto: {other:?}"),
        };
        let facilitator = signed.permit.facilitator;
        let foreign = facilitator.is_some_and(|facilitator| !SIGNERS.contains(&facilitator));
        let foreign = foreign.then_some("upto_facilitator_mismatch");
        let reason = |word: &'static str| word.parse::<Reason>().expect("one word");
        match action {
            "verify" => match foreign.map_or_else(|| self.market.simulate_permit(signed, amount), Err) {
                Ok(()) => VerifyResponse::valid(signed.permit.from).to_json(),
                Err(word) => VerifyResponse::invalid(reason(word)).with_payer(signed.permit.from).to_json(),
            },
            "settle" => match foreign.map_or_else(|| self.market.execute_permit(signed, amount), Err) {
                Ok(transaction) => {
                    let settled = SettleResponse::settled(transaction, self.network).with_payer(signed.permit.from);
                    if facilitator.is_some() { settled.with_amount(amount) } else { settled }.to_json()
                }
                Err(word) => SettleResponse::failed(reason(word), self.network).to_json(),
            },
            other => panic!("asked for {other}"),
        }
    }
}

fn changed(good: &str, members: &Value) -> String {
    let mut answer: Value = serde_json::from_str(good).expect("JSON");
    for (name, value) in members.as_object().expect("members") {
        answer[name] = value.clone();
    }
    answer.to_string()
}

fn reply(status: u16, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response
}

/// The beginning of an answer, after which the connection is closed.
fn broken(status: u16, begun: String) -> Response<Body> {
    let parts = [Ok(begun), Err(std::io::Error::other("closed"))];
    let pause = |part| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        part
    };
    let parts = futures_util::StreamExt::then(futures_util::stream::iter(parts), pause);
    let mut response = Response::new(Body::from_stream(parts));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response
}
