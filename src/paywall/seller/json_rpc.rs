//! The rule for JSON-RPC and MCP: which bodies are sold.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::Value;

/// Returns whether a JSON-RPC body holds the successful response of a call: a rule for
/// [`consume_when_body`](crate::X402Layer::consume_when_body).
///
/// A response succeeds if it has a `result` and no `error`, and if that result does not say `"isError": true`, as a failed tool of
/// MCP does. Of a batch, one success suffices: the others could otherwise be had for free by adding a call that fails. Under
/// `text/event-stream` the responses among the events count. Requests and notifications of the server do not count, and neither
/// does a body that is not JSON.
///
/// It decides about calls, not about their prices: give methods that are free, such as MCP's `initialize` and `tools/list`, the
/// price [`Price::Free`](crate::Price::Free).
///
/// ```
/// use bytes::Bytes;
/// use http::{HeaderMap, StatusCode};
/// use tower_x402::json_rpc_succeeded;
///
/// let failed = Bytes::from(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#);
/// assert!(!json_rpc_succeeded(StatusCode::OK, &HeaderMap::new(), &failed));
/// ```
#[must_use]
pub fn json_rpc_succeeded(_status: StatusCode, headers: &HeaderMap, body: &Bytes) -> bool {
    if is_event_stream(headers) {
        return events(body).any(|event| holds_success(&event));
    }
    holds_success(body)
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = content_type.split(';').next().unwrap_or_default();
    media.trim().eq_ignore_ascii_case("text/event-stream")
}

/// Whether one message, or one of a batch, is a successful response.
fn holds_success(json: &[u8]) -> bool {
    match serde_json::from_slice(json) {
        Ok(Value::Array(batch)) => batch.iter().any(is_success),
        Ok(message) => is_success(&message),
        Err(_) => false,
    }
}

fn is_success(message: &Value) -> bool {
    // Version 1 of JSON-RPC has `"error": null` beside a result.
    let failed = message.get("error").is_some_and(|error| !error.is_null());
    let result = message.get("result").filter(|_| !failed && message.get("method").is_none());
    result.is_some_and(|result| result.get("isError") != Some(&Value::Bool(true)))
}

/// The data of each event, as the [HTML standard](https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation)
/// reads it. An event that no blank line ends does not count: no client sees it.
fn events(stream: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let stream = stream.strip_prefix("\u{feff}".as_bytes()).unwrap_or(stream);
    let mut data: Option<Vec<u8>> = None;
    lines(stream).filter_map(move |line| {
        if line.is_empty() {
            return data.take();
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => data = Some(value.to_vec()),
            }
        }
        None
    })
}

/// The lines that CR, LF or both end.
fn lines(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = memchr::memchr2(b'\r', b'\n', rest)?;
        let line = rest.get(..end)?;
        let after = if rest.get(end..)?.starts_with(b"\r\n") { end + 2 } else { end + 1 };
        rest = rest.get(after..)?;
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn sold(content_type: &'static str, body: &str) -> bool {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        json_rpc_succeeded(StatusCode::OK, &headers, &Bytes::from(body.to_owned()))
    }

    const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":false}}"#;
    const TOOL_FAILED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#;
    const ERROR: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
    const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#;

    #[test]
    fn a_result_is_sold_and_a_failure_is_not() {
        for (body, sells) in [
            (RESULT.to_owned(), true),
            (r#"{"result":null,"error":null,"id":1}"#.to_owned(), true),
            (r#"{"jsonrpc":"2.0","id":1,"result":"isError"}"#.to_owned(), true),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"isError":"true"}}"#.to_owned(), true),
            (TOOL_FAILED.to_owned(), false),
            (ERROR.to_owned(), false),
            (PROGRESS.to_owned(), false),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":1}"#.to_owned(), false),
            (r#"{"id":1,"result":1,"error":{"code":1}}"#.to_owned(), false),
            (format!("[{ERROR},{RESULT}]"), true),
            (format!("[{ERROR},{TOOL_FAILED}]"), false),
            ("[]".to_owned(), false),
            (String::new(), false),
            (RESULT[1..].to_owned(), false),
            ("\"result\"".to_owned(), false),
        ] {
            assert_eq!(sold("application/json", &body), sells, "{body}");
        }
    }

    #[test]
    fn an_event_stream_is_sold_by_its_responses() {
        let stream = |message: &str| {
            format!("id: 0\nretry: 3000\ndata:\n\n: hello\ndata: {PROGRESS}\n\nevent: message\ndata: {message}\n\n")
        };
        for (body, sells) in [
            (stream(RESULT), true),
            (stream(RESULT).replace('\n', "\r\n"), true),
            (stream(RESULT).replace('\n', "\r"), true),
            (format!("\u{feff}data:{RESULT}\n\n"), true),
            (format!("data: {}\n\n", RESULT.replacen(',', ",\ndata: ", 1)), true),
            (stream(TOOL_FAILED), false),
            (stream(ERROR), false),
            (stream(PROGRESS), false),
            // No client sees an event that breaks off.
            (format!("data: {RESULT}\n"), false),
            (RESULT.to_owned(), false),
        ] {
            assert_eq!(sold("Text/Event-Stream; charset=utf-8", &body), sells, "{body}");
        }
    }
}
