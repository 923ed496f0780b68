//! The descriptions of the three endpoints for programs: how to ask, and what they answer.

use serde_json::{Value, json};
use tower_x402::{
    Merchant,
    discovery::{Discovery, Endpoint},
    protocol::Amount,
};

use super::analytics::{Aggregate, Allowed};

/// Returns the service that answers `/openapi.json` and the like.
pub(crate) fn discovery(merchant: &Merchant) -> Discovery {
    merchant.discovery().title("Answers from three datasets").about(
        "What visitors say in anonymized chats, what early adopters of AI want, and how a marketplace for agents converts. \
         GET /developer/analytics-filters lists, for free, the values that filters may have.",
    )
}

/// A question and its answer, described for a route and for a tool.
pub(crate) struct Described {
    pub(crate) about: &'static str,
    pub(crate) input: Value,
    pub(crate) output: Value,
    example: Value,
}

impl Described {
    fn at(self, path: &str, price: Amount) -> Endpoint {
        let Self { about, input, output, example } = self;
        Endpoint::post(path).summary(about).price_between(price, price).input(input).example(example).output(output)
    }
}

/// Describes a question about the chats.
pub(crate) fn insights() -> Described {
    Described {
        about: "What visitors say: themes, quotations, and what they mean",
        input: question(),
        output: reply(json!({}), &["dataHash", "reply", "resultType", "schemaVersion"]),
        example: json!({ "query": "What do visitors say about pricing?" }),
    }
}

/// Describes a question about the goals.
pub(crate) fn goals() -> Described {
    let count = json!({ "datasetCount": { "type": "integer", "minimum": 0 } });
    Described {
        about: "What early adopters of AI want to reach with it",
        input: question(),
        output: reply(count, &["dataHash", "datasetCount", "reply", "resultType", "schemaVersion"]),
        example: json!({ "query": "Who wants to automate customer support?" }),
    }
}

/// Describes the chats' question as an endpoint.
pub(crate) fn insights_at(path: &str, price: Amount) -> Endpoint {
    insights().at(path, price)
}

pub(crate) fn goals_at(path: &str, price: Amount) -> Endpoint {
    goals().at(path, price)
}

pub(crate) fn conversions_at(path: &str, price: Amount, allowed: &Allowed) -> Endpoint {
    conversions(allowed).at(path, price)
}

fn question() -> Value {
    json!({
        "type": "object",
        "properties": { "query": { "type": "string", "minLength": 1, "maxLength": 2000 } },
        "required": ["query"],
    })
}

/// Returns the schema of an answer in words; `more` are its additional members.
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

/// Describes the conversions.
pub(crate) fn conversions(allowed: &Allowed) -> Described {
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
    Described {
        about: "Visitors and conversions of a marketplace for agents, by group",
        input: json!({ "type": "object", "properties": { "filters": filters } }),
        output: json!({
            "type": "object",
            "properties": {
                "resultType": { "const": "analytics" },
                "stats": stats,
                "schemaVersion": { "const": "agent-conversions/v1" },
            },
            "required": ["resultType", "schemaVersion", "stats"],
        }),
        example: json!({ "filters": { "aggregate": "agent", "country": "Germany" } }),
    }
}
