//! The datasets service: three priced questions, and free routes around them.
//!
//! The tests include this file by `#[path]`, so modules refer to each other with `super::`.

pub(crate) mod analytics;
pub(crate) mod args;
pub(crate) mod asked;
pub(crate) mod cors;
pub(crate) mod counted;
pub(crate) mod data;
pub(crate) mod dev;
pub(crate) mod discovery;
pub(crate) mod generate;
pub(crate) mod goals;
pub(crate) mod insights;
pub(crate) mod mcp;
pub(crate) mod merchant;
pub(crate) mod on_network;
pub(crate) mod pass;
pub(crate) mod problem;
pub(crate) mod raise_mark;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod settler;
pub(crate) mod text;
pub(crate) mod theft;
pub(crate) mod web;

// Shared with the gateway.
#[path = "../../src/bin/x402-gateway/book.rs"]
pub(crate) mod book;
#[path = "../../src/bin/x402-gateway/failure.rs"]
pub(crate) mod failure;
#[path = "../../src/bin/x402-gateway/json_lines.rs"]
pub(crate) mod json_lines;
#[path = "../../src/bin/x402-gateway/keys.rs"]
pub(crate) mod keys;
#[path = "../../src/bin/x402-gateway/ledger.rs"]
pub(crate) mod ledger;
#[path = "../../src/bin/x402-gateway/log.rs"]
pub(crate) mod log;
#[path = "../../src/bin/x402-gateway/metrics.rs"]
pub(crate) mod metrics;
#[path = "../../src/bin/x402-gateway/ready.rs"]
pub(crate) mod ready;
#[path = "../../src/bin/x402-gateway/rows.rs"]
pub(crate) mod rows;
#[path = "../../src/bin/x402-gateway/secret.rs"]
pub(crate) mod secret;
#[path = "../../src/bin/x402-gateway/secret_file.rs"]
pub(crate) mod secret_file;
#[path = "../../src/bin/x402-gateway/serve.rs"]
pub(crate) mod serve;
#[path = "../../src/bin/x402-gateway/signals.rs"]
pub(crate) mod signals;
#[path = "../../src/bin/x402-gateway/stall.rs"]
pub(crate) mod stall;
#[path = "../../src/bin/x402-gateway/steps.rs"]
pub(crate) mod steps;
#[path = "../../src/bin/x402-gateway/units.rs"]
pub(crate) mod units;
#[path = "../../src/bin/x402-gateway/unread.rs"]
pub(crate) mod unread;

/// The target of the program's log lines.
pub(crate) const PROGRAM: &str = "datasets";

use std::{convert::Infallible, sync::Arc};

use axum::{
    Json, Router,
    extract::{FromRequest, Request, State},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use http::{header, request::Parts};
use serde::Serialize;
use serde_json::Value;
use tower::ServiceExt as _;
use tower_x402::{
    BuildError, Merchant, Price, Redelivery, X402Layer,
    discovery::Discovery,
    page::Page,
    protocol::{Amount, Asset},
};

use analytics::{Allowed, Filters};
use data::Data;
use pass::PassOffer;
use problem::Problem;
use ready::Readiness;
use search::Index;

/// The data and indexes behind all answers.
#[derive(Debug)]
pub(crate) struct Service {
    data: Data,
    index: Index,
    allowed: Allowed,
}

impl Service {
    /// Indexes `data`.
    ///
    /// # Errors
    /// Fails with the error of SQLite.
    pub(crate) async fn new(data: Data) -> sqlx::Result<Self> {
        let index = Index::build(&data).await?;
        let allowed = Allowed::new(&data);
        Ok(Self { data, index, allowed })
    }

    async fn insights(&self, query: &str) -> Result<Reply, Problem> {
        let reply = insights::answer(&self.data, &self.index, query).await;
        Ok(Reply {
            result_type: "chat",
            reply: reply.map_err(|error| Problem::internal(&error))?,
            data_hash: self.data.chats.hash.clone(),
            schema_version: "chat/v1",
            dataset_count: None,
        })
    }

    async fn goals(&self, query: &str) -> Result<Reply, Problem> {
        let reply = goals::answer(&self.data, &self.index, query).await;
        Ok(Reply {
            result_type: "chat",
            reply: reply.map_err(|error| Problem::internal(&error))?,
            data_hash: self.data.goals.hash.clone(),
            schema_version: "chat/v1",
            dataset_count: Some(self.data.goals.records.len()),
        })
    }

    fn conversions(&self, filters: &Filters) -> Numbers {
        Numbers {
            result_type: "analytics",
            stats: analytics::answer(&self.data, filters),
            schema_version: "agent-conversions/v1",
        }
    }
}

/// Returns the routes, three of them priced: `price` is in whole tokens, such as `0.49`. A pass counts on all three.
///
/// # Errors
/// Fails if the price is invalid.
pub(crate) fn router(
    service: Arc<Service>,
    merchant: &Merchant,
    price: &str,
    kept: Redelivery,
    pass: Option<&PassOffer>,
) -> Result<Router, BuildError> {
    let price = amount(merchant, price)?;
    let pass = pass.map(|offer| offer.pass(merchant)).transpose()?;
    let accepting = |layer: X402Layer| match &pass {
        Some(pass) => layer.accept_pass(pass),
        None => Ok(layer),
    };
    let page = || Page::new().title("Answers from three datasets");
    let priced = |resource: &str, label, check| {
        merchant.price_with(resource, price_if(check, price))?.redeliver(kept).page(page()).label(label)
    };
    let allowed = service.allowed.clone();
    let check_filters = move |head: &Parts, body: &Bytes| request::check_filters(&allowed, head, body);

    let insights = priced("demand-insights", "Demand insights", request::check_query)?;
    let insights = accepting(insights.describe(discovery::insights_at("/demand-insights", price))?)?;
    let goals = priced("ai-early-adopters-goals", "AI early adopters' goals", request::check_query)?;
    let goals = accepting(goals.describe(discovery::goals_at("/ai-early-adopters-goals", price))?)?;
    let conversions = merchant
        .price_with("agent-conversions", price_if(check_filters, price))?
        .redeliver(kept)
        .page(page())
        .label("Agent conversions")?
        .describe(discovery::conversions_at("/analytics/agent-conversions", price, &service.allowed))?;
    let conversions = accepting(conversions)?;
    let found = discovery::discovery(merchant);
    let ready = Readiness::of(merchant);
    let welcome = Arc::new(Welcome::new(merchant, price, found.clone()));
    let tools = mcp::server(Arc::clone(&service), merchant, price, kept)?;
    let sold = tools.map_or_else(Router::new, |tools| Router::new().route_service("/mcp", tools));
    let sold = match &pass {
        Some(pass) => sold.route_service(pass::PATH, pass.service()?),
        None => sold,
    };
    // A browser's form arrives by POST, and redeems its GET: one handler serves both.
    Ok(sold
        .route("/demand-insights", get(demand_insights).post(demand_insights).route_layer(insights))
        .route("/ai-early-adopters-goals", get(early_adopters_goals).post(early_adopters_goals).route_layer(goals))
        .route("/analytics/agent-conversions", get(agent_conversions).post(agent_conversions).route_layer(conversions))
        .route("/developer/analytics-filters", get(analytics_filters))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(move || ready.answer()))
        .route_service("/openapi.json", found.clone())
        .route_service("/.well-known/x402", found.clone())
        .route_service("/llms.txt", found)
        .route("/", get(async move |State(service): Shared, request: Request| welcome.page(&service, request).await))
        .with_state(service))
}

fn amount(merchant: &Merchant, price: &str) -> Result<Amount, BuildError> {
    let decimals = merchant.assets().first().map_or(0, Asset::decimals);
    let amount = Amount::parse_decimal(price, decimals).ok().filter(|amount| !amount.is_zero());
    amount.ok_or(BuildError::InvalidPrice { decimals })
}

/// One price for every request that can be answered; all others are refused before anybody pays.
fn price_if(check: impl Fn(&Parts, &Bytes) -> Result<(), Problem>, price: Amount) -> impl Fn(&Parts, &Bytes) -> Price {
    move |parts, body| match check(parts, body) {
        Ok(()) => Price::Charge(price),
        Err(refusal) => Price::Refuse(refusal.into_http_for(parts).into()),
    }
}

type Shared = State<Arc<Service>>;

/// The start page, for people and for programs.
struct Welcome {
    price: String,
    symbol: String,
    discovery: Discovery,
}

impl Welcome {
    fn new(merchant: &Merchant, price: Amount, discovery: Discovery) -> Self {
        let asset = merchant.assets().first();
        let price = price.to_decimal(asset.map_or(0, Asset::decimals));
        Self { price, symbol: asset.map_or("", Asset::symbol).to_owned(), discovery }
    }

    async fn page(&self, service: &Service, request: Request) -> Response {
        if web::wants_text(request.headers()) {
            let Ok::<_, Infallible>(text) = self.discovery.clone().oneshot(request).await;
            return ([(header::VARY, "Accept")], text).into_response();
        }
        match web::wants_html(request.headers()) {
            true => web::welcome(&self.price, &self.symbol, &service.allowed).map(Into::into),
            false => ([(header::VARY, "Accept")], include_str!("welcome.txt")).into_response(),
        }
    }
}

/// A request whose question may be in the address or in the body.
struct Asked {
    head: Parts,
    body: Bytes,
}

impl<S: Send + Sync> FromRequest<S> for Asked {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let (head, body) = request.into_parts();
        let body = Bytes::from_request(Request::from_parts(head.clone(), body), state).await;
        Ok(Self { head, body: body.map_err(IntoResponse::into_response)? })
    }
}

impl Asked {
    /// Returns the answer as JSON, or as a page for a browser.
    fn answer(&self, answer: impl Serialize, page: impl FnOnce(&Value) -> http::Response<Bytes>) -> Response {
        let answer = serde_json::to_value(answer).unwrap_or_default();
        match web::wants_html(&self.head.headers) {
            true => page(&answer).map(Into::into),
            false => ([(header::VARY, "Accept")], Json(answer)).into_response(),
        }
    }
}

/// An answer in words.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    result_type: &'static str,
    reply: String,
    data_hash: String,
    schema_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dataset_count: Option<usize>,
}

async fn demand_insights(State(service): Shared, asked: Asked) -> Result<Response, Problem> {
    let query = request::question(&asked.head.method, &asked.head.uri, &asked.body)?;
    let reply = service.insights(&query).await?;
    Ok(asked.answer(reply, |answer| web::reply("Demand insights", answer)))
}

async fn early_adopters_goals(State(service): Shared, asked: Asked) -> Result<Response, Problem> {
    let query = request::question(&asked.head.method, &asked.head.uri, &asked.body)?;
    let reply = service.goals(&query).await?;
    Ok(asked.answer(reply, |answer| web::reply("AI early adopters' goals", answer)))
}

/// An answer in numbers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Numbers {
    result_type: &'static str,
    stats: analytics::Stats,
    schema_version: &'static str,
}

async fn agent_conversions(State(service): Shared, asked: Asked) -> Result<Response, Problem> {
    let filters = request::choice(&service.allowed, &asked.head.method, &asked.head.uri, &asked.body)?;
    let numbers = service.conversions(&filters);
    Ok(asked.answer(numbers, |answer| web::numbers("Agent conversions", answer)))
}

async fn analytics_filters(State(service): Shared) -> Json<Allowed> {
    Json(service.allowed.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use http::{Request, StatusCode};
    use http_body_util::BodyExt;
    use serde_json::json;
    use tower::ServiceExt;
    use tower_x402::{
        clock::{Clock, SystemClock},
        ledger::MemoryLedger,
        protocol::{Address, ChainTime, SealingKeys},
        testing::ScriptedVerifier,
    };

    use super::*;

    const RECIPIENT: Address = Address::new([7; 20]);
    const PAYER: Address = Address::new([8; 20]);

    struct Shop {
        app: Router,
        chain: ScriptedVerifier,
        now: u64,
    }

    async fn shop() -> Shop {
        let now = SystemClock.unix();
        let chain = ScriptedVerifier::new(ChainTime::from_unix(now));
        let merchant = Merchant::builder(RECIPIENT)
            .hold_unbound(Duration::ZERO)
            .verifier(chain.clone())
            .ledger(MemoryLedger::new())
            .sealing_keys(SealingKeys::random().unwrap())
            .build()
            .await
            .unwrap();
        let service = Service::new(Data::example().unwrap()).await.unwrap();
        let kept = Redelivery::lasting(Duration::from_secs(60));
        let app = router(Arc::new(service), &merchant, "0.49", kept, None).unwrap().layer(cors::cors());
        Shop { app, chain, now }
    }

    impl Shop {
        async fn post(&self, path: &str, body: &Value) -> (StatusCode, http::HeaderMap, Value) {
            let request = Request::post(path).header("content-type", "application/json");
            let request = request.body(Body::from(body.to_string())).unwrap();
            let (parts, body) = self.app.clone().oneshot(request).await.unwrap().into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            (parts.status, parts.headers, serde_json::from_slice(&body).unwrap())
        }

        /// Mines a block with a payment in it.
        fn pay(&mut self) -> String {
            self.now += 2;
            let now = ChainTime::from_unix(self.now);
            self.chain.set_head(now);
            let price = Amount::from_base_units(490_000);
            self.chain.pay(RECIPIENT, Asset::USDC_BASE.contract(), PAYER, price, now).to_string()
        }

        async fn bought(&mut self, path: &str, mut body: Value) -> Value {
            let (status, headers, quote) = self.post(path, &body).await;
            assert_eq!(status, StatusCode::PAYMENT_REQUIRED, "{quote}");
            assert_eq!(headers["x-price-intent"], quote["intentId"].as_str().unwrap());
            assert_eq!(quote["pay"]["amount"], "490000");
            body["intentId"] = quote["intentId"].clone();
            body["txHash"] = self.pay().into();
            let (status, headers, answer) = self.post(path, &body).await;
            assert_eq!(status, StatusCode::OK, "{answer}");
            assert!(headers.contains_key("payment-response"));
            let (status, headers, again) = self.post(path, &body).await;
            assert_eq!((status, headers["idempotent-replayed"].as_bytes()), (StatusCode::OK, &b"true"[..]));
            assert_eq!(again, answer);
            body["txHash"] = self.pay().into();
            let (status, _, again) = self.post(path, &body).await;
            assert_eq!((status, again["error"].as_str()), (StatusCode::CONFLICT, Some("already_consumed")));
            answer
        }
    }

    fn members(answer: &Value) -> Vec<&str> {
        answer.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[tokio::test]
    async fn each_endpoint_sells_its_answer_once() {
        let mut shop = shop().await;
        let chat = shop.bought("/demand-insights", json!({ "query": "pricing" })).await;
        assert_eq!(members(&chat), ["dataHash", "reply", "resultType", "schemaVersion"]);
        assert_eq!((&chat["resultType"], &chat["schemaVersion"]), (&json!("chat"), &json!("chat/v1")));
        assert_eq!(chat["dataHash"].as_str().unwrap().len(), 64);
        assert!(chat["reply"].as_str().unwrap().starts_with("# "));

        let goals = shop.bought("/ai-early-adopters-goals", json!({ "query": "support" })).await;
        assert_eq!(members(&goals), ["dataHash", "datasetCount", "reply", "resultType", "schemaVersion"]);
        assert!(goals["datasetCount"].as_u64().unwrap() >= 1_200);

        let filters = json!({ "filters": { "aggregate": "agent", "country": "Germany" } });
        let stats = shop.bought("/analytics/agent-conversions", filters).await;
        assert_eq!(members(&stats), ["resultType", "schemaVersion", "stats"]);
        assert_eq!(stats["stats"]["aggregate"], "agent");
        assert_eq!(members(&stats["stats"]["rows"][0]), ["conversions", "group", "rate", "visitors"]);
    }

    #[tokio::test]
    async fn what_cannot_be_answered_is_never_quoted() {
        let shop = shop().await;
        for (path, body, code) in [
            ("/demand-insights", json!({ "query": " " }), "invalid_query"),
            ("/ai-early-adopters-goals", json!({}), "invalid_query"),
            ("/analytics/agent-conversions", json!({ "filters": { "country": "Atlantis" } }), "invalid_filters"),
        ] {
            let (status, headers, problem) = shop.post(path, &body).await;
            assert_eq!((status, problem["error"].as_str()), (StatusCode::BAD_REQUEST, Some(code)), "{path}");
            assert_eq!(headers["content-type"], "application/problem+json");
            assert!(!headers.contains_key("pay"));
        }
    }

    /// Indexers look for prices like this. A client that shows a payment without a question is told what to ask.
    #[tokio::test]
    async fn a_request_without_a_body_is_quoted_and_buys_nothing() {
        let mut shop = shop().await;
        for (path, body) in [
            ("/demand-insights", json!({ "query": "pricing" })),
            ("/ai-early-adopters-goals", json!({ "query": "support" })),
            ("/analytics/agent-conversions", json!({ "filters": {} })),
        ] {
            let probe = Request::post(path).body(Body::empty()).unwrap();
            let quote = shop.app.clone().oneshot(probe).await.unwrap();
            assert_eq!(quote.status(), StatusCode::PAYMENT_REQUIRED, "{path}");
            let intent = quote.headers()["x-price-intent"].to_str().unwrap().to_owned();
            let proof = json!({ "intentId": intent, "txHash": shop.pay() }).to_string();
            let redeem = |body: String| {
                let request =
                    Request::post(path).header("x402-payment", &proof).header("content-type", "application/json");
                shop.app.clone().oneshot(request.body(Body::from(body)).unwrap())
            };
            let refused = redeem(String::new()).await.unwrap();
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{path}");
            assert!(!refused.headers().contains_key("payment-response"));
            // The payment is still there.
            assert_eq!(redeem(body.to_string()).await.unwrap().status(), StatusCode::OK, "{path}");
        }
    }

    #[tokio::test]
    async fn wrong_filters_leave_the_payment_for_right_ones() {
        let mut shop = shop().await;
        let path = "/analytics/agent-conversions";
        let (_, _, quote) = shop.post(path, &json!({ "filters": {} })).await;
        let two = json!({ "country": "Germany", "industry": "Retail" });
        let mut body = json!({ "intentId": quote["intentId"], "txHash": shop.pay(), "filters": two });
        let (status, headers, problem) = shop.post(path, &body).await;
        assert_eq!((status, problem["error"].as_str()), (StatusCode::BAD_REQUEST, Some("invalid_filters")));
        assert!(!headers.contains_key("payment-response"));
        body["filters"] = json!({ "country": "Germany" });
        let (status, _, answer) = shop.post(path, &body).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }

    #[tokio::test]
    async fn browsers_may_buy() {
        let shop = shop().await;
        let preflight = Request::options("/demand-insights")
            .header("origin", "https://example.org")
            .header("access-control-request-method", "POST")
            .header(
                "access-control-request-headers",
                "content-type,x402-payment,payment-signature,access-control-expose-headers",
            )
            .body(Body::empty());
        let response = shop.app.clone().oneshot(preflight.unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let allowed = response.headers()["access-control-allow-headers"].to_str().unwrap();
        for name in ["content-type", "x402-payment", "payment-signature", "access-control-expose-headers"] {
            assert!(allowed.contains(name), "{name} in {allowed}");
        }

        let (_, headers, _) = shop.post("/demand-insights", &json!({ "query": "x" })).await;
        assert_eq!(headers["access-control-allow-origin"], "*");
        let exposed: Vec<_> = headers.get_all("access-control-expose-headers").iter().collect();
        let exposed = format!("{exposed:?}").to_lowercase();
        for name in [
            "pay",
            "x-price-intent",
            "x-payment-contracts",
            "payment-required",
            "payment-response",
            "x402-error",
            "retry-after",
        ] {
            assert!(exposed.contains(name), "{name} in {exposed}");
        }
    }

    #[tokio::test]
    async fn browsers_get_pages_and_programs_json_for_the_same_price() {
        let mut shop = shop().await;
        let app = shop.app.clone();
        for (path, part, member) in [
            ("/demand-insights?query=pricing", "<h2>Themes</h2>", "reply"),
            ("/ai-early-adopters-goals?query=support", "<h1>", "reply"),
            ("/analytics/agent-conversions?aggregate=agent&country=Germany", "<tbody>", "stats"),
        ] {
            for (accept, page) in [("text/html,*/*;q=0.8", true), ("*/*", false)] {
                let get = |proof: Option<String>| {
                    let request = Request::get(path).header("accept", accept);
                    let request =
                        proof.into_iter().fold(request, |request, proof| request.header("x402-payment", proof));
                    app.clone().oneshot(request.body(Body::empty()).unwrap())
                };
                let quote = get(None).await.unwrap();
                assert_eq!(quote.status(), StatusCode::PAYMENT_REQUIRED, "{path}");
                assert!(quote.headers()["pay"].to_str().unwrap().contains(r#""amount":"490000""#));
                assert_eq!(quote.headers()["content-type"].to_str().unwrap().starts_with("text/html"), page);
                let vary: Vec<_> = quote.headers().get_all("vary").iter().map(|line| line.to_str().unwrap()).collect();
                assert!(vary.contains(&"Accept"), "{vary:?}");
                let intent = quote.headers()["x-price-intent"].to_str().unwrap().to_owned();
                let paid = shop.pay();
                let answer = get(Some(format!(r#"{{"intentId":"{intent}","txHash":"{paid}"}}"#))).await.unwrap();
                assert_eq!(answer.status(), StatusCode::OK, "{path}");
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                let body = std::str::from_utf8(&body).unwrap();
                match page {
                    true => assert!(body.starts_with("<!doctype html>") && body.contains(part), "{body}"),
                    false => assert!(!serde_json::from_str::<Value>(body).unwrap()[member].is_null(), "{body}"),
                }
            }
        }
        for (path, words) in
            [("/demand-insights", "1 to 2000 characters"), ("/analytics/agent-conversions?country=x", "not allowed")]
        {
            let request = Request::get(path).header("accept", "text/html").body(Body::empty()).unwrap();
            let answer = shop.app.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let body = std::str::from_utf8(&body).unwrap();
            assert!(body.contains(words) && body.contains("Back to the questions"), "{body}");
        }
        let request = Request::get("/").header("accept", "text/html").body(Body::empty()).unwrap();
        let welcome = shop.app.clone().oneshot(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        let welcome = std::str::from_utf8(&welcome).unwrap();
        assert_eq!(welcome.matches("<form").count(), 3);
        assert!(welcome.contains("0.49 USDC"));
    }

    #[tokio::test]
    async fn what_is_free_is_free() {
        let shop = shop().await;
        for path in ["/", "/healthz", "/readyz", "/developer/analytics-filters"] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = shop.app.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK, "{path}");
        }
    }
}
