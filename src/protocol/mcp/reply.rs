//! `Reply`: a server's answer to a tool call, and whether it can be sold.

use std::borrow::Cow;

use serde_json::{Value, value::RawValue};

use super::{PASS, PAYMENT_RESPONSE, RECEIPT, tool_call::object};
use crate::protocol::{digest::Members, json_text::parse_text};

/// What a server's message means for the pending call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The answer to the call.
    Reply(Reply),
    /// A notification or a request of the server, for the client.
    Passes,
    /// The answer to another call, which does not belong to this stream, or no message at all.
    Withheld,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A result that can be sold.
    Result(String),
    /// A result that sells nothing: the tool failed, or asks for more input.
    Unsold(String),
    /// An error of JSON-RPC.
    Error(String),
    /// A bill of the tool's own.
    Bill,
    /// A result that cannot be sold, such as the name of a task whose result another method returns.
    Unsellable,
}

/// Reads a server's message, or a batch of them, for the call with this id. The first answer to it counts.
pub(crate) fn listen(message: &str, id: &str) -> Said {
    let Ok(value) = serde_json::from_str::<&RawValue>(message) else { return Said::Withheld };
    let batch: Vec<&RawValue> = match value.get().starts_with('[') {
        true => serde_json::from_str(value.get()).unwrap_or_default(),
        false => vec![value],
    };
    let mut said = batch.into_iter().map(|message| one(message, id)).collect::<Vec<_>>();
    if let Some(reply) = said.iter().position(|said| matches!(said, Said::Reply(_))) {
        return said.swap_remove(reply);
    }
    match !said.is_empty() && said.iter().all(|said| *said == Said::Passes) {
        true => Said::Passes,
        false => Said::Withheld,
    }
}

fn one(message: &RawValue, id: &str) -> Said {
    let Some(members) = members(message.get()) else { return Said::Withheld };
    let member = |wanted: &str| members.iter().find(|(name, _)| name == wanted).map(|(_, raw)| raw.get());
    if member("method").is_some() {
        return Said::Passes;
    }
    if member("id").and_then(parse_text).as_deref() != Some(id) {
        return Said::Withheld;
    }
    Said::Reply(match (member("error").filter(|error| *error != "null"), member("result")) {
        (Some(error), _) => of_error(error),
        (None, Some(result)) => of_result(result),
        (None, None) => Reply::Unsellable,
    })
}

/// Returns whether a message answers a call whose id starts with `begin`.
pub(crate) fn is_reply_with(message: &str, begin: &str) -> bool {
    let begins = |message: &RawValue| {
        let members = members(message.get()).unwrap_or_default();
        let id = members.iter().find(|(name, _)| name == "id").and_then(|(_, raw)| parse_text(raw.get()));
        !members.iter().any(|(name, _)| name == "method") && id.is_some_and(|id| id.starts_with(begin))
    };
    match serde_json::from_str::<Vec<&RawValue>>(message) {
        Ok(batch) => batch.into_iter().any(begins),
        Err(_) => serde_json::from_str::<&RawValue>(message).is_ok_and(begins),
    }
}

fn of_error(error: &str) -> Reply {
    let code = serde_json::from_str::<Value>(error).ok().and_then(|error| error.get("code")?.as_i64());
    match code {
        // The codes of MPP and of the first drafts of x402.
        Some(-32042 | 402) => Reply::Bill,
        _ => Reply::Error(error.to_owned()),
    }
}

fn of_result(result: &str) -> Reply {
    let Some(members) = members(result) else { return Reply::Unsellable };
    let all = |wanted: &'static str| members.iter().filter(move |(name, _)| name == wanted).map(|(_, raw)| raw.get());
    let failed = all("isError").any(|value| !matches!(value, "false" | "null"));
    let kinds: Vec<_> = all("resultType").filter_map(parse_text).collect();
    let is_of = |known: &str| kinds.iter().all(|kind| kind == known);
    let asks = kinds.iter().any(|kind| kind == "payment_required") || failed && asks_for_payment(result);
    let is_task = all("task").any(|task| task != "null") && all("content").next().is_none();
    let own = || with_meta(result, &[]);
    match () {
        () if asks => Reply::Bill,
        () if is_of("complete") && !is_task && failed => Reply::Unsold(own()),
        () if is_of("complete") && !is_task => Reply::Result(own()),
        () if !kinds.is_empty() && is_of("input_required") => Reply::Unsold(own()),
        () => Reply::Unsellable,
    }
}

/// Returns whether a failed result contains x402 terms, as structured content or as text.
fn asks_for_payment(result: &str) -> bool {
    let Ok(result) = serde_json::from_str::<Value>(result) else { return false };
    let is_bill =
        |value: &Value| value.get("x402Version").is_some() && value.get("accepts").is_some_and(Value::is_array);
    let texts = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let mut texts = texts.filter_map(|content| content.get("text")?.as_str());
    result.get("structuredContent").is_some_and(is_bill)
        || texts.any(|text| serde_json::from_str(text).is_ok_and(|value| is_bill(&value)))
}

/// Returns a result with these members of `_meta`, without those that only a seller may set.
pub(crate) fn with_meta(result: &str, ours: &[(&str, &str)]) -> String {
    let Some(members) = members(result) else { return result.to_owned() };
    let meta = members.iter().filter(|(name, _)| name == "_meta").filter_map(|(_, raw)| self::members(raw.get()));
    let kept: Vec<_> =
        meta.flatten().filter(|(name, _)| ![PAYMENT_RESPONSE, RECEIPT, PASS].contains(&&**name)).collect();
    let kept = kept.iter().map(|(name, raw)| (&**name, raw.get()));
    let meta: Vec<_> = kept.chain(ours.iter().copied()).collect();
    let written = object(meta.iter().copied());
    let others = members.iter().filter(|(name, _)| name != "_meta").map(|(name, raw)| (&**name, raw.get()));
    object(others.chain((!meta.is_empty()).then_some(("_meta", &*written))))
}

/// Returns the answer to the call with this id, which is JSON.
pub(crate) fn result_message(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Returns the error answer to the call with this id. Both are JSON.
pub(crate) fn error_message(id: &str, error: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

/// Returns the members of an object; `None` if it is none.
pub(super) fn members(json: &str) -> Option<Vec<(Cow<'_, str>, &RawValue)>> {
    let Members(members) = serde_json::from_str(json).ok()?;
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(json: &str) -> Said {
        listen(&format!(r#"{{"jsonrpc":"2.0","id":"x402/1",{json}}}"#), "x402/1")
    }

    #[test]
    fn only_a_result_that_is_complete_and_no_failure_is_sold() {
        let result = |json: &str| Said::Reply(Reply::Result(json.to_owned()));
        let unsold = |json: &str| Said::Reply(Reply::Unsold(json.to_owned()));
        for (json, said) in [
            (r#""result":{"content":[]}"#, result(r#"{"content":[]}"#)),
            (r#""result":{"isError":false,"n":1.10}"#, result(r#"{"isError":false,"n":1.10}"#)),
            (r#""result":{"resultType":"complete","content":[]}"#, result(r#"{"resultType":"complete","content":[]}"#)),
            (r#""error":null,"result":{}"#, result("{}")),
            (r#""result":{"isError":true}"#, unsold(r#"{"isError":true}"#)),
            (r#""result":{"isError":false,"isError":true}"#, unsold(r#"{"isError":false,"isError":true}"#)),
            (r#""result":{"isError":"yes"}"#, unsold(r#"{"isError":"yes"}"#)),
            (r#""result":{"resultType":"input_required"}"#, unsold(r#"{"resultType":"input_required"}"#)),
            (r#""error":{"code":-32603},"result":{}"#, Said::Reply(Reply::Error(r#"{"code":-32603}"#.to_owned()))),
            (r#""error":{"code":-32042}"#, Said::Reply(Reply::Bill)),
            (
                r#""result":{"isError":true,"structuredContent":{"x402Version":2,"accepts":[]}}"#,
                Said::Reply(Reply::Bill),
            ),
            (
                r#""result":{"isError":true,"content":[{"type":"text","text":"{\"x402Version\":2,\"accepts\":[]}"}]}"#,
                Said::Reply(Reply::Bill),
            ),
            (r#""result":{"resultType":"payment_required","paymentRequired":{}}"#, Said::Reply(Reply::Bill)),
            (r#""result":{"resultType":"task"}"#, Said::Reply(Reply::Unsellable)),
            (r#""result":{"task":{"taskId":"1"}}"#, Said::Reply(Reply::Unsellable)),
            (r#""result":7"#, Said::Reply(Reply::Unsellable)),
            (r#""x":7"#, Said::Reply(Reply::Unsellable)),
            (r#""method":"sampling/createMessage""#, Said::Passes),
        ] {
            assert_eq!(reply(json), said, "{json}");
        }
    }

    #[test]
    fn answers_to_other_calls_are_withheld() {
        for (message, said) in [
            (r#"{"id":"x402/2","result":{}}"#, Said::Withheld),
            (r#"{"id":1,"result":{}}"#, Said::Withheld),
            (r#"{"result":{}}"#, Said::Withheld),
            ("x", Said::Withheld),
            ("[]", Said::Withheld),
            (r#"{"method":"notifications/progress"}"#, Said::Passes),
            (r#"[{"method":"notifications/message"}]"#, Said::Passes),
            (r#"[{"method":"notifications/message"},{"id":7,"result":{}}]"#, Said::Withheld),
            (
                r#"[{"method":"a"},{"id":"x402\/1","result":{"n":1}}]"#,
                Said::Reply(Reply::Result(r#"{"n":1}"#.to_owned())),
            ),
        ] {
            assert_eq!(listen(message, "x402/1"), said, "{message}");
        }
        for (message, is) in [
            (r#"{"id":"x402/2","result":{}}"#, true),
            (r#"[{"method":"a"},{"\u0069d":"\u0078402/2","error":{}}]"#, true),
            (r#"{"id":"x402/2","method":"ping"}"#, false),
            (r#"{"id":2,"result":{"id":"x402/2"}}"#, false),
        ] {
            assert_eq!(is_reply_with(message, "x402/"), is, "{message}");
        }
    }

    #[test]
    fn what_a_seller_alone_may_say_is_removed_and_ours_set() {
        let forged =
            r#"{"_meta":{"a":1,"x402/payment-response":{"success":true},"org.paymentauth/receipt":{}},"content":[]}"#;
        assert_eq!(with_meta(forged, &[]), r#"{"content":[],"_meta":{"a":1}}"#);
        assert_eq!(
            with_meta(forged, &[(PAYMENT_RESPONSE, "{}")]),
            r#"{"content":[],"_meta":{"a":1,"x402/payment-response":{}}}"#
        );
        assert_eq!(
            with_meta(r#"{"_meta":null}"#, &[(PAYMENT_RESPONSE, "{}")]),
            r#"{"_meta":{"x402/payment-response":{}}}"#
        );
        assert_eq!(with_meta(r#"{"_meta":{"x402\/payment-response":1}}"#, &[]), "{}");
    }
}
