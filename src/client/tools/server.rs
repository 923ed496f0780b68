//! `ToolServer`: an MCP server as an HTTP service, so that the client pays it like one.
//!
//! A request is a tool call: its path ends in the tool's name, and its body has the arguments. The payment header is
//! moved to `_meta`, and the result's payment data in `_meta` back to headers.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower_service::Service;

use crate::{
    client::{Body, box_error::BoxError},
    protocol::{
        ProblemCode, decode_base64,
        headers::{PAYMENT_REQUIRED, PAYMENT_RESPONSE, PAYMENT_SIGNATURE, PROBLEM_JSON, X402_PASS},
    },
};

/// Calls a tool: takes the parameters of `tools/call`, and returns the result.
pub(super) trait CallTool: Clone + Send + Sync + 'static {
    fn call(&self, params: Value) -> impl Future<Output = Result<Value, BoxError>> + Send + 'static;
}

impl<F, Fut> CallTool for F
where
    F: Fn(Value) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, BoxError>> + Send + 'static,
{
    fn call(&self, params: Value) -> impl Future<Output = Result<Value, BoxError>> + Send + 'static {
        self(params)
    }
}

/// A server whose tools are called by HTTP requests.
#[derive(Clone)]
pub(super) struct ToolServer<C>(pub(super) C);

impl<C: CallTool> Service<Request<Body>> for ToolServer<C> {
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.0.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let mut params: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
            let shown = parts.headers.get(PAYMENT_SIGNATURE);
            if let Some(payment) = shown {
                let payment = decode_base64(payment.as_bytes()).unwrap_or_default();
                params["_meta"]["x402/payment"] = serde_json::from_slice(&payment)?;
            }
            let pass = parts.headers.get(X402_PASS);
            if let Some(pass) = pass {
                params["_meta"]["x402/pass"] = pass.to_str()?.into();
            }
            let result = server.call(params).await?;
            Ok(answer(&result, shown.or(pass).is_some()))
        })
    }
}

/// Converts a result to a response.
fn answer(result: &Value, paid: bool) -> Response<Full<Bytes>> {
    let failed = result["isError"] == true;
    let mut response = if let Some(required) = bill(result) {
        let code = if paid { ProblemCode::AuthorizationRefused } else { ProblemCode::PaymentRequired };
        let mut response = problem(code);
        response.headers_mut().extend(encoded(required).map(|value| (PAYMENT_REQUIRED, value)));
        response
    } else if let Some(code) = refusal(result).filter(|_| failed && paid) {
        let mut response = problem(code);
        let wait = result["structuredContent"]["retryAfter"].as_u64();
        response.headers_mut().extend(wait.map(|seconds| (header::RETRY_AFTER, HeaderValue::from(seconds))));
        response
    } else {
        with_body(StatusCode::OK, result)
    };
    let outcome = Some(&result["_meta"]["x402/payment-response"]).filter(|outcome| outcome.is_object());
    response.headers_mut().extend(outcome.and_then(encoded).map(|value| (PAYMENT_RESPONSE, value)));
    response
}

/// Returns the terms of a result, if it is a bill.
fn bill(result: &Value) -> Option<&Value> {
    let is_bill =
        |value: &&Value| value.get("x402Version").is_some() && value.get("accepts").is_some_and(Value::is_array);
    let of_kind = (result["resultType"] == "payment_required").then(|| &result["paymentRequired"]);
    let of_failure = (result["isError"] == true).then(|| &result["structuredContent"]);
    of_kind.or(of_failure).filter(is_bill)
}

fn refusal(result: &Value) -> Option<ProblemCode> {
    result["structuredContent"]["error"].as_str()?.parse().ok()
}

fn problem(code: ProblemCode) -> Response<Full<Bytes>> {
    let mut response = with_body(code.status(), &json!({ "error": code.as_str() }));
    response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM_JSON);
    response
}

fn with_body(status: StatusCode, json: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(json.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn encoded(json: &Value) -> Option<HeaderValue> {
    HeaderValue::try_from(STANDARD.encode(json.to_string())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_the_response_that_says_the_same() {
        let terms = json!({ "x402Version": 2, "accepts": [] });
        let outcome = json!({ "success": true, "transaction": "0x" });
        for (result, paid, status, outcome_told) in [
            (json!({ "content": [] }), false, 200, false),
            (json!({ "content": [], "_meta": { "x402/payment-response": outcome } }), true, 200, true),
            (json!({ "isError": true, "content": [] }), true, 200, false),
            (json!({ "isError": true, "structuredContent": terms }), false, 402, false),
            (json!({ "resultType": "payment_required", "paymentRequired": terms }), false, 402, false),
            // Terms in a successful result belong to the tool.
            (json!({ "structuredContent": terms }), false, 200, false),
            (json!({ "isError": true, "structuredContent": { "error": "already_consumed" } }), true, 409, false),
            (
                json!({ "isError": true, "structuredContent": { "error": "outcome_unknown", "retryAfter": 5 } }),
                true,
                503,
                false,
            ),
            // Without a payment, the tool's own error is not a refusal.
            (json!({ "isError": true, "structuredContent": { "error": "already_consumed" } }), false, 200, false),
            (json!({ "isError": true, "structuredContent": { "error": "no such city" } }), true, 200, false),
        ] {
            let response = answer(&result, paid);
            assert_eq!(response.status(), status, "{result}");
            assert_eq!(response.headers().contains_key(PAYMENT_RESPONSE), outcome_told, "{result}");
            assert_eq!(response.headers().contains_key(PAYMENT_REQUIRED), status == 402, "{result}");
        }
    }
}
