//! `PaidTools`: an MCP client that pays for the tools it calls.

use std::{fmt, future::Future};

use http::{HeaderValue, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower_layer::Layer as _;
use tower_service::Service as _;
use url::Url;

use super::server::ToolServer;
use crate::{
    client::{Body, Failure, Pay, PayError, PayLayer, Purchase, box_error::BoxError},
    protocol::headers::X402_PASS,
};

/// Calls tools of an MCP server, and pays for those that are sold, with the budget, the journal and the payer of a
/// [`PayLayer`].
///
/// It works with any MCP client, such as rmcp's: a closure calls the tool. The same call resumes an unfinished
/// purchase, as with HTTP requests; if a result was lost, its payment is shown again. Feature `mcp`.
///
/// ```
/// use serde_json::{Value, json};
/// use tower_x402::client::{PayLayer, PaidTools};
///
/// # async fn with(layer: PayLayer) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// // With rmcp: `peer.call_tool(serde_json::from_value(params)?)`, and its result `serde_json::to_value(result)?`.
/// let tools = PaidTools::new(&layer, "https://seller.example/mcp", |params: Value| async move {
///     Ok(json!({ "content": [{ "type": "text", "text": params["name"] }] }))
/// })?;
/// let called = tools.call("search", json!({ "q": "pricing" })).await?;
/// println!("{} for {:?}", called.result, called.purchase.map(|purchase| purchase.amount));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PaidTools<C> {
    server: Pay<ToolServer<C>>,
    url: Url,
    pass: Option<HeaderValue>,
}

/// The outcome of a tool call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CalledTool {
    /// The result of `tools/call`, as the server returned it. Its `isError` tells whether the tool failed.
    pub result: Value,
    /// The purchase; `None` if the call cost nothing, or sold nothing.
    pub purchase: Option<Purchase>,
    /// What is left of the [pass](PaidTools::with_pass) that paid for it, in the seller's words: calls, or an amount.
    /// `None` if no pass paid, or nothing is counted.
    pub pass_remaining: Option<String>,
}

impl<C, Fut> PaidTools<C>
where
    C: Fn(Value) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, BoxError>> + Send + 'static,
{
    /// Returns a client for the server at this address. `call` takes the parameters of `tools/call`, and returns its
    /// result.
    ///
    /// The address names the seller in the budget and in the journal. It must be `https`, or on this machine, unless the budget
    /// [allows plain HTTP](crate::client::BudgetBuilder::allow_plain_http).
    ///
    /// # Errors
    /// [`PayErrorKind::Http`](crate::client::PayErrorKind::Http) if the address is not an HTTP URL.
    pub fn new(layer: &PayLayer, url: &str, call: C) -> Result<Self, PayError> {
        let invalid = || Failure::Http("the address of an MCP server is a URL of HTTP".into());
        let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(invalid)?;
        Ok(Self { server: layer.layer(ToolServer(call)), url, pass: None })
    }

    /// Shows this pass of the server with each call. Its token is the seller's answer to the payment for it. If the
    /// pass does not hold enough for a call, the call is paid for like any other. If the pass is refused, the result
    /// has `isError`.
    ///
    /// # Errors
    /// [`PayErrorKind::Http`](crate::client::PayErrorKind::Http) if the token has invalid characters.
    pub fn with_pass(mut self, token: &str) -> Result<Self, PayError> {
        let mut pass = HeaderValue::from_str(token).map_err(|error| Failure::Http(error.into()))?;
        pass.set_sensitive(true);
        self.pass = Some(pass);
        Ok(self)
    }

    /// Calls a tool, and pays for the call if it is sold. `arguments` is a JSON object, or `null`.
    ///
    /// # Errors
    /// [`PayError`] says what became of the money: see [`PayError::money`]. A failure of the tool itself is a result.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<CalledTool, PayError> {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["tools", tool]);
        }
        let params = match arguments.is_null() {
            true => json!({ "name": tool }),
            false => json!({ "name": tool, "arguments": arguments }),
        };
        let request = Request::post(url.as_str()).body(Body::from(params.to_string()));
        let mut request = request.map_err(|error| Failure::Http(error.into()))?;
        request.headers_mut().extend(self.pass.clone().map(|pass| (X402_PASS, pass)));
        // The service is always ready.
        let answer = self.server.clone().call(request).await?;
        let purchase = answer.extensions().get::<Purchase>().cloned();
        let body = answer.into_body().collect().await.map_err(|error| Failure::Forwarded(error.into()))?.to_bytes();
        let result: Value = serde_json::from_slice(&body).map_err(|error| Failure::Forwarded(error.into()))?;
        let pass_remaining = result["_meta"]["x402/pass"]["remaining"].as_str().map(str::to_owned);
        Ok(CalledTool { result, purchase, pass_remaining })
    }
}

impl<C> fmt::Debug for PaidTools<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaidTools").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}
