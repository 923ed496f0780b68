//! `Endpoint`: a seller's description of one priced address.

use http::Method;
use serde_json::Value;

use crate::PriceTag;

/// One method at one path, described for programs that look for something to buy.
///
/// A route does not know where it is mounted, so its seller has to state it; see
/// [`X402Layer::describe`](crate::X402Layer::describe). Schemas are [JSON Schema
/// 2020-12](https://json-schema.org/draft/2020-12), as in OpenAPI 3.1. They must not refer to others by `$ref`, since
/// they are sent without their surroundings.
///
/// ```
/// use serde_json::json;
/// use tower_x402::discovery::Endpoint;
///
/// let endpoint = Endpoint::post("/demand-insights")
///     .summary("What visitors say, by theme")
///     .input(json!({ "type": "object", "properties": { "query": { "type": "string" } }, "required": ["query"] }))
///     .example(json!({ "query": "What do visitors say about pricing?" }))
///     .output(json!({ "type": "object", "properties": { "reply": { "type": "string" } } }))
///     .output_example(json!({ "reply": "…" }));
/// # let _ = endpoint;
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Endpoint {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) summary: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) input: Option<Value>,
    pub(crate) example: Option<Value>,
    pub(crate) output: Option<Value>,
    pub(crate) output_example: Option<Value>,
    pub(crate) price_range: Option<(PriceTag, PriceTag)>,
}

impl Endpoint {
    /// Describes this method at this path, as seen from outside: with the prefixes under which the route is nested.
    ///
    /// A path begins with `/`, and names its parameters as OpenAPI and axum do: `/reports/{id}`.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            summary: None,
            description: None,
            input: None,
            example: None,
            output: None,
            output_example: None,
            price_range: None,
        }
    }

    /// Describes GET at this path.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Describes POST at this path.
    pub fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    /// Sets a one-line description; the route's label by default.
    pub fn summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = Some(summary.into());
        self
    }

    /// Sets a further description, in CommonMark.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the schema of the input.
    ///
    /// For POST, PUT and PATCH this is the body, as JSON. For other methods it is an object with the query's parameters
    /// as properties. A property with the name of a path parameter describes that parameter.
    pub fn input(mut self, schema: Value) -> Self {
        self.input = Some(schema);
        self
    }

    /// Sets an example of the input, valid by its schema.
    pub fn example(mut self, input: Value) -> Self {
        self.example = Some(input);
        self
    }

    /// Sets the schema of the answer, which is JSON.
    pub fn output(mut self, schema: Value) -> Self {
        self.output = Some(schema);
        self
    }

    /// Sets an example of the answer, valid by its schema.
    pub fn output_example(mut self, output: Value) -> Self {
        self.output_example = Some(output);
        self
    }

    /// Sets the bounds of a price that a closure decides, so that buyers can set a limit before they ask.
    ///
    /// They are a promise to buyers, and are not enforced. Equal bounds mean that the price never changes. A fixed
    /// price has no bounds and needs none.
    pub fn price_between(mut self, lowest: impl Into<PriceTag>, highest: impl Into<PriceTag>) -> Self {
        self.price_range = Some((lowest.into(), highest.into()));
        self
    }

    /// Whether the input is the body.
    pub(crate) fn has_body(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT | Method::PATCH)
    }

    /// Whether a request with this method goes to the endpoint: HEAD goes where GET goes.
    pub(crate) fn takes(&self, method: &Method) -> bool {
        self.method == *method || self.method == Method::GET && *method == Method::HEAD
    }

    /// Returns the names of the path's parameters.
    pub(crate) fn path_parameters(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Whether the path is valid, with whole segments as parameters, and OpenAPI knows the method.
    pub(crate) fn is_valid(&self) -> bool {
        const METHODS: [Method; 7] =
            [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::OPTIONS];
        let plain = |segment: &str| {
            let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(segment);
            segment.is_empty() || !name.is_empty() && !name.contains(['{', '}', '?', '#', '*'])
        };
        METHODS.contains(&self.method)
            && self.path.starts_with('/')
            && self.path.bytes().all(|byte| byte.is_ascii_graphic())
            && self.path.split('/').all(plain)
    }
}
