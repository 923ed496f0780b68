//! A server with tools on a scripted chain: what it answers is scripted, what it sees is noted.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
};

use axum::body::Body;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, util::BoxCloneSyncService};
use tower_x402::{
    MerchantBuilder, Receipt, RequestBody,
    mcp::{McpBody, McpLayer},
    protocol::{
        ChainTime,
        v2::{
            Authorization, PaymentPayload, PaymentRequired, PaymentRequirements, SettleResponse, SignedAuthorization,
        },
    },
    testing::ScriptedSettler,
};

use crate::support::{Counter, NOW, Shop, payer};

/// The signature of every payment here: the settler is scripted.
pub const NONCE: [u8; 32] = [0x42; 32];
pub const PRICE: &str = "0.01 USDC";

/// What a server saw of one message.
#[derive(Clone, Debug)]
pub struct Seen {
    pub headers: HeaderMap,
    pub message: Value,
    pub text: String,
    pub receipt: Option<Receipt>,
}

type Reply = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;
type Play = Arc<dyn Fn(Value) -> Reply + Send + Sync>;
pub type Service = BoxCloneSyncService<Request<Body>, Response<McpBody<Body>>, Infallible>;

/// A seller of tools.
pub struct Rig {
    pub shop: Shop,
    pub settler: ScriptedSettler,
    pub seen: Arc<Mutex<Vec<Seen>>>,
    pub runs: Counter,
    play: Arc<Mutex<Play>>,
}

impl Rig {
    pub async fn open() -> Self {
        Self::open_with(|builder| builder).await
    }

    pub async fn open_with(set: impl FnOnce(MerchantBuilder) -> MerchantBuilder) -> Self {
        Self::open_settling(|builder, settler| set(builder.settler(settler))).await
    }

    /// With a settler that is to be set.
    pub async fn open_settling(set: impl FnOnce(MerchantBuilder, ScriptedSettler) -> MerchantBuilder) -> Self {
        let mut settler = None;
        let shop = Shop::open_on(|builder, chain| {
            let scripted = ScriptedSettler::new(chain.clone());
            settler = Some(scripted.clone());
            set(builder, scripted)
        })
        .await;
        let play: Play =
            Arc::new(|message| Box::pin(async move { json_reply(result(&message, json!({ "content": [] }))) }));
        let (seen, runs) = (Arc::default(), Counter::default());
        Self { shop, settler: settler.unwrap(), seen, runs, play: Arc::new(Mutex::new(play)) }
    }

    /// What the server answers from now on.
    pub fn plays<F: Future<Output = Response<Body>> + Send + 'static>(
        &self,
        play: impl Fn(Value) -> F + Send + Sync + 'static,
    ) {
        *self.play.lock().unwrap() = Arc::new(move |message| Box::pin(play(message)));
    }

    /// The same for a result, whatever is called.
    pub fn gives(&self, given: Value) {
        self.plays(move |message| {
            let reply = json_reply(result(&message, given.clone()));
            async move { reply }
        });
    }

    /// The usual layer: `search` and `summarise` are sold, the rest is free.
    pub fn layer(&self) -> McpLayer {
        self.shop.merchant.tools().charge("search", PRICE).unwrap().charge("summarise", PRICE).unwrap()
    }

    pub fn service(&self) -> Service {
        self.behind(&self.layer())
    }

    pub fn behind(&self, layer: &McpLayer) -> Service {
        let (seen, runs, play) = (Arc::clone(&self.seen), self.runs.clone(), Arc::clone(&self.play));
        let server = tower::service_fn(move |request: Request<RequestBody<Body>>| {
            let (seen, runs, play) = (Arc::clone(&seen), runs.clone(), Arc::clone(&play));
            async move {
                runs.run();
                let (parts, body) = request.into_parts();
                let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
                let message: Value = serde_json::from_str(&text).unwrap_or_default();
                let receipt = parts.extensions.get::<Receipt>().cloned();
                seen.lock().unwrap().push(Seen { headers: parts.headers, message: message.clone(), text, receipt });
                let reply = play.lock().unwrap()(message);
                Ok::<_, Infallible>(reply.await)
            }
        });
        BoxCloneSyncService::new(layer.layer(server))
    }

    /// What the server saw last.
    pub fn last(&self) -> Seen {
        self.seen.lock().unwrap().last().cloned().expect("it saw a message")
    }

    /// Lets the lease run out that a sale left behind.
    pub fn lease_runs_out(&self) {
        self.shop.clock.advance(std::time::Duration::from_secs(61));
    }
}

/// The answer to a message, with this result.
pub fn result(message: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })
}

pub fn json_reply(message: Value) -> Response<Body> {
    let mut response = Response::new(Body::from(message.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    response
}

pub fn event(message: &Value) -> String {
    format!("event: message\nid: 7\ndata: {message}\n\n")
}

pub fn event_reply(body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, "text/event-stream".parse().unwrap());
    response
}

pub fn post(message: impl Into<String>) -> Request<Body> {
    Request::post("/mcp")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .header(header::HOST, "shop.example")
        .body(Body::from(message.into()))
        .unwrap()
}

pub fn get() -> Request<Body> {
    Request::builder().method(Method::GET).uri("/mcp").header("last-event-id", "7").body(Body::empty()).unwrap()
}

/// A call of a tool.
pub fn call(tool: &str, arguments: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": arguments } })
}

pub fn search() -> Value {
    call("search", json!({ "q": "why" }))
}

/// The same call with a payment.
pub fn with_payment(mut call: Value, payment: &PaymentPayload) -> Value {
    call["params"]["_meta"]["x402/payment"] = serde_json::from_str(&payment.to_json()).unwrap();
    call
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    /// The messages: one, or those of an event stream.
    pub messages: Vec<Value>,
}

impl Answer {
    pub fn message(&self) -> &Value {
        self.messages.last().unwrap_or_else(|| panic!("no message: {self:?}"))
    }

    pub fn result(&self) -> &Value {
        self.message().get("result").unwrap_or_else(|| panic!("no result: {}", self.text))
    }

    /// The short code of a refusal.
    #[track_caller]
    pub fn refused(&self) -> &str {
        let result = self.result();
        assert_eq!(result["isError"], true, "{result}");
        assert!(!self.text.contains("accepts"), "a refusal has terms: {result}");
        assert!(result["content"][0]["text"].as_str().is_some_and(|text| text.len() > 20), "{result}");
        result["structuredContent"]["error"].as_str().unwrap_or_else(|| panic!("no code: {result}"))
    }

    /// The terms of a bill.
    #[track_caller]
    pub fn bill(&self) -> PaymentRequired {
        let result = self.result();
        assert_eq!((self.status, &result["isError"]), (StatusCode::OK, &json!(true)), "{result}");
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"], "both places say the same");
        assert_eq!(payment_headers(&self.headers), Vec::<String>::new());
        PaymentRequired::from_json(text.to_string()).unwrap()
    }

    pub fn is_bill(&self) -> bool {
        self.text.contains("accepts")
    }

    pub fn offer(&self) -> PaymentRequirements {
        self.bill().accepts[0].exact().unwrap().clone()
    }

    /// What became of the payment, as the result tells.
    pub fn outcome(&self) -> Option<SettleResponse> {
        let outcome = self.result()["_meta"].get("x402/payment-response")?;
        Some(SettleResponse::from_json(outcome.to_string()).unwrap())
    }

    /// It was sold.
    #[track_caller]
    pub fn sold(&self) -> SettleResponse {
        let outcome = self.outcome().unwrap_or_else(|| panic!("not sold: {}", self.text));
        assert!(outcome.success, "{}", self.text);
        assert_eq!(payment_headers(&self.headers), Vec::<String>::new());
        outcome
    }
}

fn payment_headers(headers: &HeaderMap) -> Vec<String> {
    let names = headers.keys().map(|name| name.as_str().to_owned());
    names.filter(|name| name.starts_with("payment") || name.contains("x402") || *name == "pay").collect()
}

pub async fn ask(service: &Service, request: Request<Body>) -> Answer {
    read(service.clone().oneshot(request).await.unwrap()).await
}

pub async fn say(service: &Service, message: &Value) -> Answer {
    ask(service, post(message.to_string())).await
}

pub async fn read(response: Response<McpBody<Body>>) -> Answer {
    let (parts, body) = response.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let is_stream = parts.headers.get(header::CONTENT_TYPE).is_some_and(|value| value == "text/event-stream");
    let messages = match is_stream {
        true => text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect(),
        false => serde_json::from_str(&text).into_iter().collect(),
    };
    Answer { status: parts.status, headers: parts.headers, text, messages }
}

/// The quote for this call.
pub async fn offered(service: &Service, call: &Value) -> PaymentRequirements {
    say(service, call).await.offer()
}

/// What an honest client signs for an offer.
pub fn sign(offer: &PaymentRequirements, nonce: [u8; 32]) -> PaymentPayload {
    let signature = format!("0x{}", "11".repeat(65)).parse().unwrap();
    let authorization = Authorization::new(payer(), nonce)
        .paying(offer.pay_to, offer.amount)
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(NOW + 300));
    PaymentPayload::new(offer.clone(), SignedAuthorization::new(authorization, signature))
}

/// The call with a payment for it.
pub async fn paid(service: &Service, call: &Value) -> Value {
    with_payment(call.clone(), &sign(&offered(service, call).await, NONCE))
}
