//! The rule for JSON-RPC and MCP: which bodies are sold.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::value::RawValue;

use crate::protocol::Members;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Returns whether a JSON-RPC body holds the successful response of a call: a rule for
/// [`consume_when_body`](crate::X402Layer::consume_when_body).
///
/// A response succeeds if it has a `result` and no `error`, and if that result does not say `"isError": true`, as a failed tool of
/// MCP does. Of a batch, one success suffices: the others could otherwise be had for free by adding a call that fails. Under
/// `text/event-stream` the responses among the events count. Requests and notifications of the server do not count, and neither
/// does an empty body.
///
/// **What cannot be read counts as a success**: a body that is not JSON, or an event or a message in it that is not valid. A client
/// influences what an answer looks like, by the id that it chooses and by headers such as `Accept`, and could otherwise get each answer for
/// free.
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
        return events(body).any(|event| match event {
            Event::Data(data) => holds_success(&data).unwrap_or(true),
            Event::BrokenOff(data) => holds_success(&data).unwrap_or(false),
            Event::Foreign => true,
        });
    }
    holds_success(body).unwrap_or(true)
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = content_type.split(';').next().unwrap_or_default();
    media.trim().eq_ignore_ascii_case("text/event-stream")
}

/// Returns whether a text holds a successful response, alone or in a batch; `None` if it holds none, but something that cannot be read.
///
/// The client influences what a response looks like. It chooses the id, which need not fit any Rust type, and by its headers the form of
/// the body. So a response is unsuccessful only if it can be read as such, and no more of it is read than that takes.
fn holds_success(text: &[u8]) -> Option<bool> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Some(false);
    }
    let messages: Vec<&RawValue> = match text.trim_ascii_start().starts_with(b"[") {
        true => serde_json::from_slice(text).ok()?,
        false => vec![serde_json::from_slice(text).ok()?],
    };
    let read: Vec<_> = messages.into_iter().map(is_success).collect();
    if read.contains(&Some(true)) {
        return Some(true);
    }
    read.into_iter().all(|success| success.is_some()).then_some(false)
}

/// Returns whether a message is a successful response; `None` if it is no message of JSON-RPC.
fn is_success(message: &RawValue) -> Option<bool> {
    let Members(members) = serde_json::from_str(message.get()).ok()?;
    // Version 1 of JSON-RPC has `"error": null` beside a result.
    let failed = member(&members, "error").is_some_and(|error| error != "null");
    let result = member(&members, "result").filter(|_| !failed && member(&members, "method").is_none());
    Some(result.is_some_and(|result| !is_error(result)))
}

/// Returns whether a result reports the failure of a tool.
fn is_error(result: &str) -> bool {
    let Ok(Members(members)) = serde_json::from_str(result) else { return false };
    member(&members, "isError") == Some("true")
}

/// Returns the member of this name. Of several, readers take the last.
fn member<'a>(members: &[(Cow<'_, str>, &'a RawValue)], name: &str) -> Option<&'a str> {
    members.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.get())
}

/// An event of a stream.
enum Event {
    Data(Vec<u8>),
    /// No blank line ends it. Few clients deliver such an event, but those that do have the answer.
    BrokenOff(Vec<u8>),
    /// A line that no event stream has, as in an answer that only has its content type.
    Foreign,
}

/// Returns the data of each event, as the [HTML
/// standard](https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation) reads it.
fn events(stream: &[u8]) -> impl Iterator<Item = Event> {
    let stream = stream.strip_prefix(BYTE_ORDER_MARK).unwrap_or(stream);
    let mut data: Option<Vec<u8>> = None;
    let mut lines = lines(stream);
    std::iter::from_fn(move || {
        for line in lines.by_ref() {
            if line.is_empty() {
                if let Some(data) = data.take() {
                    return Some(Event::Data(data));
                }
                continue;
            }
            let (field, value) = line.split_at(memchr::memchr(b':', line).unwrap_or(line.len()));
            match field {
                b"data" => {
                    let value = value.strip_prefix(b":").unwrap_or(value);
                    let data = data.get_or_insert_default();
                    data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
                    data.push(b'\n');
                }
                b"" | b"event" | b"id" | b"retry" => {}
                _ => return Some(Event::Foreign),
            }
        }
        data.take().map(Event::BrokenOff)
    })
}

/// Splits a stream into lines, ended by CR, LF, both, or the end of the stream.
fn lines(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = memchr::memchr2(b'\r', b'\n', rest).or((!rest.is_empty()).then_some(rest.len()))?;
        let line = rest.get(..end)?;
        let after = if rest.get(end..)?.starts_with(b"\r\n") { end + 2 } else { end + 1 };
        rest = rest.get(after..).unwrap_or_default();
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
            (" \r\n".to_owned(), false),
            (format!("\u{feff}{ERROR}"), false),
            (r#"{"id":1,"result":{"isError":false,"isError":true}}"#.to_owned(), false),
            (r#"{"id":"\ud800","error":{"code":1}}"#.to_owned(), false),
        ] {
            assert_eq!(sold("application/json", &body), sells, "{body}");
        }
    }

    /// Otherwise a client could choose its id, or the form of the answer, so that it is one of these, and pay nothing.
    #[test]
    fn what_cannot_be_read_is_sold() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for body in [
            r#"{"jsonrpc":"2.0","id":"\ud800","result":{}}"#.to_owned(),
            format!(r#"{{"jsonrpc":"2.0","id":{deep},"result":{{}}}}"#),
            r#"{"jsonrpc":"2.0","id":1e999,"result":{}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":{"$serde_json::private::RawValue":7},"result":{}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":NaN,"result":{}}"#.to_owned(),
            r#"{"id":1,"result":{"x":{"$serde_json::private::RawValue":7}}}"#.to_owned(),
            r#"{"id":1,"result":{"x":NaN}}"#.to_owned(),
            r#"{"id":1,"result":{"\ud800":1,"isError":true}}"#.to_owned(),
            r#"{"\ud800":1,"id":1,"error":{}}"#.to_owned(),
            format!(r#"[{RESULT},{{"id":"\ud800","result":1}}]"#),
            format!(r#"[{ERROR},{{"id":"\ud800","result":1}}]"#),
            format!(r#"[{ERROR},{{"id":NaN}}]"#),
            RESULT[1..].to_owned(),
            "\"result\"".to_owned(),
            format!("[[{RESULT}]]"),
            format!("[{ERROR},[{RESULT}]]"),
            "<methodResponse/>".to_owned(),
        ] {
            assert!(sold("application/json", &body), "{body}");
            assert!(sold("text/plain", &body), "{body}");
            assert!(sold("text/event-stream", &format!("data: {PROGRESS}\n\ndata: {body}\n\n")), "{body}");
        }
        assert_eq!(holds_success(b"{\"id\":\"\xff\",\"result\":1}"), None);
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
            // Some clients deliver an event that no blank line ends, but none delivers JSON that breaks off.
            (format!("data: {RESULT}\n"), true),
            (format!("data: {RESULT}"), true),
            (format!("data: {ERROR}\n"), false),
            (format!("data: {}", &RESULT[..RESULT.len() - 1]), false),
            (RESULT.to_owned(), true),
            (format!("data: {ERROR}\n\n{RESULT}\n"), true),
        ] {
            assert_eq!(sold("Text/Event-Stream; charset=utf-8", &body), sells, "{body}");
        }
    }
}
