//! The datasets service: three priced questions and what is free around them.
//!
//! The tests take this file in by `#[path]`, so modules refer to each other with `super::`.

pub(crate) mod analytics;
pub(crate) mod data;
pub(crate) mod generate;
pub(crate) mod goals;
pub(crate) mod insights;
pub(crate) mod problem;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod search;
pub(crate) mod text;

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

/// The routes, not priced yet.
pub(crate) fn free_router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/demand-insights", post(demand_insights))
        .route("/ai-early-adopters-goals", post(early_adopters_goals))
        .route("/analytics/agent-conversions", post(agent_conversions))
        .route("/developer/analytics-filters", get(analytics_filters))
        .route("/healthz", get("ok\n"))
        .with_state(service)
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
