//! A paid service on a socket of its own, and a client that holds every answer against the contract.

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};
use tower_x402::{
    Merchant, MerchantBuilder, Receipt,
    protocol::{Amount, Quote, TxHash},
};

use super::market::PRICE;
use crate::support::Counter;

pub const INSIGHTS: &str = "/demand-insights";
pub const GOALS: &str = "/ai-early-adopters-goals";
pub const CONVERSIONS: &str = "/analytics/agent-conversions";
/// Costs 0.01.
pub const CHEAP: &str = "/cheap";
/// Costs 10.
pub const DEAR: &str = "/dear";

const ROUTES: [(&str, u128); 5] =
    [(INSIGHTS, PRICE), (GOALS, PRICE), (CONVERSIONS, PRICE), (CHEAP, 10_000), (DEAR, 10_000_000)];

/// Answers that tell a payer to ask again, and when.
const ASK_AGAIN: [&str; 3] = ["tx_not_confirmed", "redemption_in_progress", "verification_unavailable"];
/// Answers that bring an intent with which the same payment may be redeemed.
const FRESH: [&str; 3] = ["intent_required", "intent_not_found", "intent_expired"];

/// A server and a client of it.
pub struct Shop {
    pub merchant: Merchant,
    url: String,
    http: reqwest::Client,
    handler: Counter,
}

impl Shop {
    /// A service whose handlers answer with what they learn of the payment, or with 400 where the body asks them to fail.
    pub async fn open(builder: MerchantBuilder) -> Self {
        let merchant = builder.build().await.unwrap();
        let handler = Counter::default();
        let mut app = Router::new();
        for (path, units) in ROUTES {
            let layer = merchant.charge(&path[1..], Amount::from_base_units(units)).unwrap();
            app = app.route(path, post(answer).route_layer(layer));
        }
        Self::serving(merchant, app.with_state(handler.clone()), handler).await
    }

    /// Any service behind that merchant's layers.
    pub async fn serving(merchant: Merchant, app: Router, handler: Counter) -> Self {
        Self { merchant, url: serve(app).await, http: client(), handler }
    }

    /// How often a handler ran.
    pub fn runs(&self) -> usize {
        self.handler.runs()
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::to(self.http.post(self.url(path)).json(body)).await
    }

    /// With a proof in the header and a body that is none of the layer's business.
    pub async fn post_with(&self, path: &str, proof: &str) -> Answer {
        let request = self.http.post(self.url(path)).header("x402-payment", proof);
        Answer::to(request.body("neither JSON nor a proof")).await
    }

    pub async fn quote(&self, path: &str) -> Quote {
        self.quote_for(path, &json!({ "query": "why" })).await
    }

    pub async fn quote_for(&self, path: &str, body: &Value) -> Quote {
        let answer = self.post(path, body).await;
        assert_eq!((answer.status, answer.code()), (402, "payment_required"), "{}", answer.body);
        let quote = Quote::from_headers(&answer.headers).unwrap();
        assert_eq!(answer.body["intentId"], quote.intent.as_str());
        quote
    }

    pub async fn intent(&self, path: &str) -> String {
        self.quote(path).await.intent.as_str().to_owned()
    }

    pub async fn redeem(&self, path: &str, intent: &str, transaction: TxHash) -> Answer {
        let transaction = transaction.to_string();
        self.post(path, &json!({ "query": "why", "intentId": intent, "txHash": transaction })).await
    }

    /// With a request that the handler answers 400.
    pub async fn redeem_in_vain(&self, path: &str, intent: &str, transaction: TxHash) {
        let proof = json!({ "fail": true, "intentId": intent, "txHash": transaction.to_string() });
        let answer = self.post(path, &proof).await;
        assert_eq!((answer.status, answer.code()), (400, "invalid_filters"), "{}", answer.body);
        assert!(!answer.headers.contains_key("payment-response") && !answer.headers.contains_key("pay"));
    }

    /// Quote and redemption at the first endpoint.
    pub async fn buy_with(&self, transaction: TxHash) -> Answer {
        self.redeem(INSIGHTS, &self.intent(INSIGHTS).await, transaction).await
    }
}

/// Serves on a free port until the test ends; answers where.
pub async fn serve(app: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

pub fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn answer(State(handler): State<Counter>, receipt: Receipt, body: Bytes) -> Response {
    handler.run();
    if serde_json::from_slice::<Value>(&body).is_ok_and(|body| body["fail"] == true) {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_filters" }))).into_response();
    }
    Json(json!({
        "resource": receipt.resource(),
        "intent": receipt.intent().as_str(),
        "payer": receipt.payer().to_string(),
        "recipient": receipt.recipient().to_string(),
        "token": receipt.token().to_string(),
        "amount": receipt.amount().to_string(),
        "network": receipt.network().to_string(),
        "transaction": receipt.transaction().map(|transaction| transaction.to_string()),
        "position": receipt.position(),
        "blockTime": receipt.block_time().unix(),
        "blockNumber": receipt.block_number(),
    }))
    .into_response()
}

/// What came back.
#[must_use]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    pub async fn to(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await.unwrap();
        let json = serde_json::from_slice(&body);
        let body = json.unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into());
        Self { status, headers, body }
    }

    pub fn code(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }

    /// It was sold: the answer, with the seller's word for what was taken.
    #[track_caller]
    pub fn sold(self) -> Value {
        let taken = self.taken();
        for member in ["transaction", "amount", "network"] {
            assert_eq!(taken[member], self.body[member], "{member}");
        }
        assert_eq!(taken["payer"].as_str().unwrap(), self.body["payer"].as_str().unwrap().to_lowercase());
        self.body
    }

    /// It was sold; what the header says was taken.
    #[track_caller]
    pub fn taken(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        assert_eq!(self.headers["cache-control"], "private, no-store");
        assert!(!self.headers.contains_key("pay") && !self.headers.contains_key("x-price-intent"));
        let taken = STANDARD.decode(&self.headers["payment-response"]).unwrap();
        let taken: Value = serde_json::from_slice(&taken).unwrap();
        assert_eq!(taken["success"], true);
        taken
    }

    /// It was refused with this code, and with everything that goes with it.
    #[track_caller]
    pub fn refused(self, code: &str) -> Refusal {
        let Self { status, headers, body } = &self;
        assert_eq!((*status, self.code()), (status_of(code), code), "{body}");
        assert_eq!(body["status"], *status);
        assert_eq!(headers["content-type"], "application/problem+json");
        assert_eq!(headers["cache-control"], "no-store");
        assert!(!headers.contains_key("pay"), "only a quote has a Pay header");
        assert!(!headers.contains_key("payment-response"), "nothing was taken");
        assert_eq!(headers.contains_key("retry-after"), ASK_AGAIN.contains(&code), "{headers:?}");
        assert_eq!(headers.contains_key("x-price-intent"), FRESH.contains(&code), "{headers:?}");
        if let Some(intent) = headers.get("x-price-intent") {
            assert_eq!(body["intentId"], intent.to_str().unwrap());
        }
        Refusal { headers: self.headers, body: self.body }
    }
}

/// An answer that was refused as the contract says.
pub struct Refusal {
    pub headers: HeaderMap,
    pub body: Value,
}

impl Refusal {
    /// The intent that came with it.
    #[track_caller]
    pub fn fresh_intent(self) -> String {
        self.headers["x-price-intent"].to_str().unwrap().to_owned()
    }
}

fn status_of(code: &str) -> u16 {
    match code {
        "intent_required" | "tx_required" | "invalid_redemption" => 400,
        "intent_not_found" => 404,
        "tx_not_confirmed" | "tx_already_used" | "already_consumed" | "redemption_in_progress" => 409,
        "intent_expired" => 410,
        "transfer_not_found" | "insufficient_amount" | "payment_too_old" => 422,
        "payment_bound" | "payer_proof_required" | "invalid_signature" => 403,
        "verification_unavailable" => 503,
        other => panic!("{other} is not in the table"),
    }
}
