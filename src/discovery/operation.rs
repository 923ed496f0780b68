//! One described endpoint as an operation of OpenAPI.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::endpoint::Endpoint;
use super::storefront::Described;
use crate::protocol::{Address, Amount};

/// The values that all endpoints of a merchant share.
pub(super) struct Shop<'a> {
    pub(super) symbol: &'a str,
    pub(super) decimals: u8,
    /// Whether quotes have `PAYMENT-REQUIRED`.
    pub(super) takes_x402: bool,
    /// The tokens of the offers of MPP.
    pub(super) mpp_tokens: Vec<Address>,
    /// Whether names of purchases are read; if so, whether a payment must have one.
    pub(super) names_required: Option<bool>,
}

impl Shop<'_> {
    fn decimal(&self, amount: Amount) -> String {
        amount.to_decimal(self.decimals)
    }

    /// Returns the currency's code: `USD` for USDC, otherwise the token's symbol.
    fn currency(&self) -> &str {
        if self.symbol == "USDC" { "USD" } else { self.symbol }
    }
}

/// Returns the operation; `ids` are the operation ids that are in use.
pub(super) fn operation(shop: &Shop<'_>, described: &Described, ids: &mut BTreeSet<String>) -> Value {
    let endpoint = &described.endpoint;
    let mut operation = json!({
        "operationId": operation_id(endpoint, ids),
        "summary": endpoint.summary.as_deref().unwrap_or(&described.label),
        "security": [],
        "x-payment-info": payment_info(shop, described),
        "responses": { "200": answer(endpoint), "402": quote(shop) },
    });
    if let Some(description) = &endpoint.description {
        operation["description"] = description.as_str().into();
    }
    let mut parameters = parameters(endpoint);
    if !described.passes.is_empty() {
        operation["x-passes"] = described.passes.clone().into();
        operation["responses"]["200"]["headers"] = pass_headers();
        parameters.push(pass_parameter());
    }
    if shop.names_required.is_some() && !shop.mpp_tokens.is_empty() {
        parameters.push(idempotency_key());
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if endpoint.has_body() && (endpoint.input.is_some() || endpoint.example.is_some()) {
        let content = media(endpoint.input.as_ref(), endpoint.example.as_ref());
        operation["requestBody"] = json!({ "required": true, "content": { "application/json": content } });
    }
    operation
}

/// Returns an id such as `postReportsById` for `POST /reports/{id}`, with a number appended if it is in use.
fn operation_id(endpoint: &Endpoint, ids: &mut BTreeSet<String>) -> String {
    let mut id = endpoint.method.as_str().to_ascii_lowercase();
    for segment in endpoint.path.split('/') {
        if segment.starts_with('{') {
            id.push_str("By");
        }
        for word in segment.split(|c: char| !c.is_ascii_alphanumeric()) {
            let mut letters = word.chars();
            id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
            id.push_str(letters.as_str());
        }
    }
    let numbered = (2..).map(|number| format!("{id}{number}"));
    let free = std::iter::once(id.clone()).chain(numbered).find(|id| !ids.contains(id)).unwrap_or_default();
    ids.insert(free.clone());
    free
}

fn payment_info(shop: &Shop<'_>, described: &Described) -> Value {
    let price = match (fixed(described), bounds(described)) {
        (Some(amount), _) => {
            json!({ "mode": "fixed", "currency": shop.currency(), "amount": shop.decimal(amount) })
        }
        (None, Some((lowest, highest))) => json!({
            "mode": "dynamic",
            "currency": shop.currency(),
            "min": shop.decimal(lowest),
            "max": shop.decimal(highest),
        }),
        (None, None) => json!({ "mode": "dynamic", "currency": shop.currency() }),
    };
    let protocols = if shop.takes_x402 { json!([{ "x402": {} }]) } else { json!([]) };
    let mut info = json!({ "price": price, "protocols": protocols });
    let offers = offers(shop, described);
    if !offers.is_empty() {
        info["offers"] = offers.into();
    }
    if let Some(required) = shop.names_required.filter(|_| shop.takes_x402) {
        info["extensions"] = json!({ "payment-identifier": { "info": { "required": required } } });
    }
    info
}

/// The header with the name of a purchase, for a credential of MPP. A request without a payment needs none.
fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key", "in": "header", "required": false,
        "description": "Beside a payment of MPP: the name of the purchase, the same at each try",
        "schema": { "type": "string", "pattern": "^[a-zA-Z0-9_-]{16,128}$" },
    })
}

/// Returns the prices in the form of MPP: one offer for each token. `null` stands for a price that depends on the
/// request.
fn offers(shop: &Shop<'_>, described: &Described) -> Vec<Value> {
    let amount = fixed(described).map(|amount| amount.to_string());
    let offer = |token: &Address| {
        json!({
            "intent": "charge", "method": "evm", "amount": amount, "currency": token, "description": &*described.label,
        })
    };
    // MPP has no charge up to a maximum.
    let tokens = shop.mpp_tokens.iter().filter(|_| described.maximum.is_none());
    tokens.map(offer).collect()
}

/// Returns the price, if it is always the same.
fn fixed(described: &Described) -> Option<Amount> {
    let bounds = described.range.filter(|(lowest, highest)| lowest == highest && described.maximum.is_none());
    described.price.or(bounds.map(|(price, _)| price))
}

/// Returns the lowest and the highest price, if known.
fn bounds(described: &Described) -> Option<(Amount, Amount)> {
    described.maximum.map(|maximum| (Amount::ZERO, maximum)).or(described.range)
}

/// The header that shows a pass.
fn pass_parameter() -> Value {
    json!({
        "name": "x402-pass",
        "in": "header",
        "required": false,
        "schema": { "type": "string" },
        "description": "A pass of those in `x-passes`, in place of a payment",
    })
}

fn pass_headers() -> Value {
    json!({ "X402-Pass-Remaining": {
        "description": "What is left of the pass that paid for this answer: calls, or an amount",
        "schema": { "type": "string" },
    } })
}

/// Returns a text for people: the contents of a pass, its price, and the address that sells it.
pub(super) fn pass_text(shop: &Shop<'_>, pass: &Value) -> String {
    let text = |name: &str| pass[name].as_str().unwrap_or_default();
    let holds = match (pass["worth"].as_str(), pass["calls"].as_u64()) {
        (Some(worth), _) => format!("answers for {worth} {}", shop.symbol),
        (None, Some(calls)) => format!("{calls} answers"),
        (None, None) => "any number of answers".to_owned(),
    };
    let time = pass["seconds"].as_u64().map(|seconds| format!(" within {seconds} s")).unwrap_or_default();
    let place = pass["url"].as_str().map(|url| format!(", at POST {url}")).unwrap_or_default();
    format!("pass {}: {holds}{time} for {} {}{place}", text("name"), text("price"), shop.symbol)
}

/// Returns the price as a text for people.
pub(super) fn price_text(shop: &Shop<'_>, described: &Described) -> String {
    let symbol = shop.symbol;
    if let Some(maximum) = described.maximum {
        return format!("at most {} {symbol}", shop.decimal(maximum));
    }
    match (fixed(described), described.range) {
        (Some(amount), _) => format!("{} {symbol}", shop.decimal(amount)),
        (None, Some((lowest, highest))) => format!("{} to {} {symbol}", shop.decimal(lowest), shop.decimal(highest)),
        (None, None) => "Its price depends on the request".to_owned(),
    }
}

fn media(schema: Option<&Value>, example: Option<&Value>) -> Value {
    let mut media = json!({ "schema": schema.unwrap_or(&json!({})) });
    if let Some(example) = example {
        media["example"] = example.clone();
    }
    media
}

fn answer(endpoint: &Endpoint) -> Value {
    let mut answer = json!({ "description": "The answer, once for each payment" });
    if endpoint.output.is_some() || endpoint.output_example.is_some() {
        let content = media(endpoint.output.as_ref(), endpoint.output_example.as_ref());
        answer["content"] = json!({ "application/json": content });
    }
    answer
}

fn quote(shop: &Shop<'_>) -> Value {
    let text = |description: &str| json!({ "description": description, "schema": { "type": "string" } });
    let mut headers = Map::new();
    if shop.takes_x402 {
        headers.insert("PAYMENT-REQUIRED".into(), text("The standard's quote: base64 of JSON"));
    }
    headers.insert("X-Price-Intent".into(), text("The id of this quote"));
    headers.insert("Pay".into(), text("Whom to pay how much: JSON. Absent where only signed payments are taken"));
    json!({
        "description": "The price, and how to pay it",
        "headers": headers,
        "content": { "application/problem+json": { "schema": {
            "type": "object",
            "properties": {
                "title": { "type": "string" },
                "status": { "type": "integer" },
                "detail": { "type": "string" },
                "error": { "type": "string" },
                "intentId": { "type": "string" },
            },
            "required": ["title", "status", "error", "intentId"],
        } } },
    })
}

/// Returns the path's parameters and the query's. The query's are the properties of the input, if the input is not a
/// body.
fn parameters(endpoint: &Endpoint) -> Vec<Value> {
    let input = endpoint.input.as_ref();
    let schema_of = |name: &str| input.and_then(|input| input.get("properties")?.get(name));
    let example_of = |name: &str| endpoint.example.as_ref().and_then(|example| example.get(name));
    let parameter = |name: &str, place: &str, required: bool| {
        let schema = schema_of(name).cloned().unwrap_or(json!({ "type": "string" }));
        let mut parameter = json!({ "name": name, "in": place, "required": required, "schema": schema });
        if let Some(example) = example_of(name) {
            parameter["example"] = example.clone();
        }
        parameter
    };
    let of_path: Vec<&str> = endpoint.path_parameters().collect();
    let mut all: Vec<Value> = of_path.iter().map(|name| parameter(name, "path", true)).collect();
    if !endpoint.has_body() {
        let known = input.and_then(|input| input.get("properties")).and_then(Value::as_object);
        let required = input.and_then(|input| input.get("required")).and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|required| required.iter().any(|other| other == name));
        let names = known.into_iter().flat_map(Map::keys).filter(|name| !of_path.contains(&name.as_str()));
        all.extend(names.map(|name| parameter(name, "query", is_required(name))));
    }
    all
}
