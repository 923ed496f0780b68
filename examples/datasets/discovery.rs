//! What programs are told about the three endpoints: how each is asked, and what it answers.

use serde_json::{Value, json};
use tower_x402::{
    Merchant,
    discovery::{Discovery, Endpoint},
    protocol::Amount,
};

use super::analytics::{Aggregate, Allowed};

/// The service that answers `/openapi.json` and the like.
pub(crate) fn discovery(merchant: &Merchant) -> Discovery {
    merchant.discovery().title("Answers from three datasets").about(
        "What visitors say in anonymized chats, what early adopters of AI want, and how a marketplace for agents converts. \
         GET /developer/analytics-filters lists, for free, the values that filters may have.",
    )
}

/// A question about the chats.
pub(crate) fn insights(price: Amount) -> Endpoint {
    let reply = reply(json!({}), &["dataHash", "reply", "resultType", "schemaVersion"]);
    question("/demand-insights", "What do visitors say about pricing?", price)
        .summary("What visitors say: themes, quotations, and what they mean")
        .output(reply)
}

/// A question about the goals.
pub(crate) fn goals(price: Amount) -> Endpoint {
    let count = json!({ "datasetCount": { "type": "integer", "minimum": 0 } });
    let reply = reply(count, &["dataHash", "datasetCount", "reply", "resultType", "schemaVersion"]);
    question("/ai-early-adopters-goals", "Who wants to automate customer support?", price)
        .summary("What early adopters of AI want to reach with it")
        .output(reply)
}

fn question(path: &str, example: &str, price: Amount) -> Endpoint {
    Endpoint::post(path)
        .price_between(price, price)
        .input(json!({
            "type": "object",
            "properties": { "query": { "type": "string", "minLength": 1, "maxLength": 2000 } },
            "required": ["query"],
        }))
        .example(json!({ "query": example }))
}

/// An answer in words; `more` are members that others do not have.
fn reply(more: Value, required: &[&str]) -> Value {
    let mut properties = json!({
        "resultType": { "const": "chat" },
        "reply": { "type": "string", "description": "Markdown" },
        "dataHash": { "type": "string", "pattern": "^[0-9a-f]{64}$", "description": "SHA-256 of the dataset" },
        "schemaVersion": { "const": "chat/v1" },
    });
    if let (Some(properties), Value::Object(more)) = (properties.as_object_mut(), more) {
        properties.extend(more);
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

/// The numbers.
pub(crate) fn conversions(price: Amount, allowed: &Allowed) -> Endpoint {
    let aggregates = Aggregate::ALL.map(Aggregate::name);
    let filters = json!({
        "type": "object",
        "description": "At most one of country, category and industry",
        "properties": {
            "aggregate": { "type": "string", "enum": aggregates, "default": "category" },
            "country": { "type": "string", "enum": allowed.countries },
            "category": { "type": "string", "enum": allowed.categories },
            "industry": { "type": "string", "enum": allowed.industries },
        },
        "additionalProperties": false,
    });
    let row = json!({
        "type": "object",
        "properties": {
            "group": { "type": "string" },
            "conversions": { "type": "integer", "minimum": 0 },
            "visitors": { "type": "integer", "minimum": 0 },
            "rate": { "type": "number", "description": "Conversions per visitor" },
        },
        "required": ["conversions", "group", "rate", "visitors"],
    });
    let stats = json!({
        "type": "object",
        "properties": { "aggregate": { "type": "string", "enum": aggregates }, "rows": { "type": "array", "items": row } },
        "required": ["aggregate", "rows"],
    });
    Endpoint::post("/analytics/agent-conversions")
        .summary("Visitors and conversions of a marketplace for agents, by group")
        .price_between(price, price)
        .input(json!({ "type": "object", "properties": { "filters": filters } }))
        .example(json!({ "filters": { "aggregate": "agent", "country": "Germany" } }))
        .output(json!({
            "type": "object",
            "properties": {
                "resultType": { "const": "analytics" },
                "stats": stats,
                "schemaVersion": { "const": "agent-conversions/v1" },
            },
            "required": ["resultType", "schemaVersion", "stats"],
        }))
}
