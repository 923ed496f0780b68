//! `Bazaar`: the standard's extension for facilitators' lists of services.

use http::Method;
use serde_json::{Map, Value, json};

use super::endpoint::Endpoint;
use crate::protocol::{ascii_text, v2::Extensions};

/// The name of the extension.
pub(crate) const NAME: &str = "bazaar";

/// The description of one endpoint, in the form of the extension.
#[derive(Clone, Debug)]
pub(crate) struct Bazaar {
    endpoint: Endpoint,
    /// JSON texts, the most complete first. A header uses the first that fits.
    texts: Vec<Box<str>>,
}

impl Bazaar {
    /// Returns `None` for a method that the extension does not know.
    pub(crate) fn of(endpoint: &Endpoint) -> Option<Self> {
        const KNOWN: [Method; 6] =
            [Method::GET, Method::HEAD, Method::DELETE, Method::POST, Method::PUT, Method::PATCH];
        if !KNOWN.contains(&endpoint.method) {
            return None;
        }
        let mut texts: Vec<Box<str>> = Vec::new();
        for (output, schema) in
            [(Output::Example, true), (Output::Schema, true), (Output::Absent, true), (Output::Absent, false)]
        {
            let text = ascii_text(&json!({ NAME: extension(endpoint, output, schema) }));
            if texts.last().is_none_or(|last| text.len() < last.len()) {
                texts.push(text.into());
            }
        }
        Some(Self { endpoint: endpoint.clone(), texts })
    }

    pub(crate) fn method(&self) -> &Method {
        &self.endpoint.method
    }

    /// Returns the names of the input's members, at any depth.
    pub(crate) fn parameters(&self) -> Vec<String> {
        let mut names = Vec::new();
        name_members(self.endpoint.input.as_ref(), &mut names);
        names
    }

    /// Whether it describes the answer, which is then JSON.
    pub(crate) fn answers_json(&self) -> bool {
        self.endpoint.output.is_some() || self.endpoint.output_example.is_some()
    }

    pub(crate) fn takes(&self, method: &Method) -> bool {
        self.endpoint.takes(method)
    }

    /// Returns the most complete text that is at most this long.
    pub(crate) fn within(&self, room: usize) -> Option<&str> {
        self.texts.iter().find(|text| text.len() <= room).map(|text| &**text)
    }

    /// Returns the most complete form, for a settler.
    pub(crate) fn extensions(&self) -> Extensions {
        let mut whole = extension(&self.endpoint, Output::Example, true);
        let (info, schema) = (whole["info"].take(), whole["schema"].take());
        Extensions::new().with(NAME, info, Some(schema))
    }
}

/// Adds the names of the members that this schema describes.
fn name_members(schema: Option<&Value>, names: &mut Vec<String>) {
    let members = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    for (name, schema) in members.into_iter().flatten() {
        names.push(name.clone());
        name_members(Some(schema), names);
    }
}

/// How much the text says about the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// Its schema and the example.
    Example,
    /// Its schema alone.
    Schema,
    Absent,
}

/// Creates the text with this much about the answer, and with or without the seller's schema of the input.
fn extension(endpoint: &Endpoint, output: Output, schema: bool) -> Value {
    let (mut info, mut properties) = input(endpoint, schema);
    info.insert("type".into(), "http".into());
    info.insert("method".into(), endpoint.method.as_str().into());
    properties.insert("type".into(), json!({ "type": "string", "const": "http" }));
    properties.insert("method".into(), json!({ "type": "string", "enum": [endpoint.method.as_str()] }));
    // Every member that is present is required: `body` or `queryParams` only with an example.
    let required: Vec<_> = info.keys().cloned().collect();
    let described =
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    let mut info = json!({ "input": info });
    let mut parts = json!({ "input": described });
    let example = endpoint.output_example.as_ref().filter(|_| output == Output::Example);
    if output != Output::Absent && (endpoint.output.is_some() || example.is_some()) {
        info["output"] = json!({ "type": "json" });
        if let Some(example) = example {
            info["output"]["example"] = example.clone();
        }
        let of = endpoint.output.clone().unwrap_or(json!({}));
        parts["output"] = json!({
            "type": "object",
            "properties": { "type": { "type": "string" }, "example": of },
            "required": ["type"],
        });
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": parts,
        "required": ["input"],
    });
    json!({ "info": info, "schema": schema })
}

/// Returns the description of the input, and the schema of its members.
fn input(endpoint: &Endpoint, whole: bool) -> (Map<String, Value>, Map<String, Value>) {
    let (mut info, mut properties) = (Map::new(), Map::new());
    let name = if endpoint.has_body() { "body" } else { "queryParams" };
    if endpoint.has_body() {
        info.insert("bodyType".into(), "json".into());
        properties.insert("bodyType".into(), json!({ "type": "string", "enum": ["json"] }));
    }
    if let Some(example) = &endpoint.example {
        info.insert(name.into(), example.clone());
    }
    let schema = endpoint.input.clone().filter(|_| whole).unwrap_or(json!({ "type": "object" }));
    properties.insert(name.into(), schema);
    (info, properties)
}
