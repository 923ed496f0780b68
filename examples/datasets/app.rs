//! The datasets service: three priced questions and what is free around them.
//!
//! The tests take this file in by `#[path]`, so modules refer to each other with `super::`.

pub(crate) mod analytics;
pub(crate) mod args;
pub(crate) mod data;
pub(crate) mod dev;
pub(crate) mod generate;
pub(crate) mod goals;
pub(crate) mod insights;
pub(crate) mod problem;
pub(crate) mod purchase;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod text;
pub(crate) mod tokens;
pub(crate) mod wallet;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    routing::{get, post},
};
use bytes::Bytes;
use serde::Serialize;

use analytics::Allowed;
use data::Data;
use problem::Problem;
use search::Index;

/// Everything that answers.
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
    /// What SQLite says.
    pub(crate) async fn new(data: Data) -> sqlx::Result<Self> {
        let index = Index::build(&data).await?;
        let allowed = Allowed::new(&data);
        Ok(Self { data, index, allowed })
    }
}

/// The routes, three of them priced: `price` is in whole tokens, such as `0.49`.
///
/// # Errors
/// A price that is none.
pub(crate) fn router(service: Arc<Service>, merchant: &Merchant, price: &str) -> Result<Router, ConfigError> {
    let price = amount(merchant, price)?;
    let priced = |resource: &str, label, check| merchant.price_with(resource, price_if(check, price))?.label(label);
    let allowed = service.allowed.clone();
    let check_filters = move |_: &Parts, body: &Bytes| request::check_filters(&allowed, body);

    let insights = priced("demand-insights", "Demand insights", request::check_query)?;
    let goals = priced("ai-early-adopters-goals", "AI early adopters' goals", request::check_query)?;
    let conversions = merchant.price_with("agent-conversions", price_if(check_filters, price))?.label("Agent conversions")?;
    Ok(Router::new()
        .route("/demand-insights", post(demand_insights).route_layer(insights))
        .route("/ai-early-adopters-goals", post(early_adopters_goals).route_layer(goals))
        .route("/analytics/agent-conversions", post(agent_conversions).route_layer(conversions))
        .route("/developer/analytics-filters", get(analytics_filters))
        .route("/healthz", get(async || "ok\n"))
        .route("/", get(async || include_str!("welcome.txt")))
        .with_state(service))
}

fn amount(merchant: &Merchant, price: &str) -> Result<Amount, ConfigError> {
    let decimals = merchant.assets().first().map_or(0, Asset::decimals);
    let amount = Amount::parse_decimal(price, decimals).ok().filter(|amount| !amount.is_zero());
    amount.ok_or(ConfigError::BadPrice { decimals })
}

/// One price for all that can be answered; the rest is refused before anybody pays.
fn price_if(
    check: impl Fn(&Parts, &Bytes) -> Result<(), Response<Bytes>>,
    price: Amount,
) -> impl Fn(&Parts, &Bytes) -> Price {
    move |parts, body| match check(parts, body) {
        Ok(()) => Price::Charge(price),
        Err(refusal) => Price::Refuse(refusal.into()),
    }
}

type Shared = State<Arc<Service>>;

/// The answer to a question in words.
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

async fn demand_insights(State(service): Shared, body: Bytes) -> Result<Json<Reply>, Problem> {
    let query = request::query(&body)?;
    let reply = insights::answer(&service.data, &service.index, &query).await;
    Ok(Json(Reply {
        result_type: "chat",
        reply: reply.map_err(|error| Problem::internal(&error))?,
        data_hash: service.data.chats.hash.clone(),
        schema_version: "chat/v1",
        dataset_count: None,
    }))
}

async fn early_adopters_goals(State(service): Shared, body: Bytes) -> Result<Json<Reply>, Problem> {
    let query = request::query(&body)?;
    let reply = goals::answer(&service.data, &service.index, &query).await;
    Ok(Json(Reply {
        result_type: "chat",
        reply: reply.map_err(|error| Problem::internal(&error))?,
        data_hash: service.data.goals.hash.clone(),
        schema_version: "chat/v1",
        dataset_count: Some(service.data.goals.records.len()),
    }))
}

/// The answer in numbers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Numbers {
    result_type: &'static str,
    stats: analytics::Stats,
    schema_version: &'static str,
}

async fn agent_conversions(State(service): Shared, body: Bytes) -> Result<Json<Numbers>, Problem> {
    let filters = request::filters(&service.allowed, &body)?;
    Ok(Json(Numbers {
        result_type: "analytics",
        stats: analytics::answer(&service.data, &filters),
        schema_version: "agent-conversions/v1",
    }))
}

async fn analytics_filters(State(service): Shared) -> Json<Allowed> {
    Json(service.allowed.clone())
}
