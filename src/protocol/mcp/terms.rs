//! Bills and refusals as results of a call.

use serde_json::{Value, json};

use super::{PAYMENT_RESPONSE, reply::with_meta, tool_call::Speaks};
use crate::protocol::ProblemCode;

/// Writes a bill as a result. `required` is the standard's `PaymentRequired` in JSON.
///
/// Clients read it from the structured content, or else from the text, so both contain it.
pub(crate) fn bill(required: &str, speaks: Speaks) -> String {
    if speaks.extension {
        return format!(r#"{{"resultType":"payment_required","paymentRequired":{required}}}"#);
    }
    let text = Value::from(required);
    format!(
        r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{required},"isError":true{}}}"#,
        kind(speaks)
    )
}

/// Writes a bill in the form of MPP: a JSON-RPC error. The challenges are JSON.
pub(crate) fn challenge(challenges: &[String], code: ProblemCode) -> String {
    let (title, detail, error) = (code.title(), code.detail(), code.as_str());
    let challenges = challenges.join(",");
    // The texts of a code need no escapes.
    format!(
        r#"{{"code":-32042,"message":"{title}","data":{{"httpStatus":402,"challenges":[{challenges}],"problem":{{"title":"{title}","status":402,"detail":"{detail}","error":"{error}"}}}}}}"#
    )
}

/// A refusal to sell, and its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused<'a> {
    pub(crate) code: ProblemCode,
    pub(crate) detail: &'a str,
    /// In seconds.
    pub(crate) retry_after: Option<u64>,
    /// Further members of the refusal, by name.
    pub(crate) more: Vec<(&'static str, Value)>,
}

/// Writes a refusal as a result. It has no terms, because clients pay whenever they see some.
pub(crate) fn refusal(refused: &Refused<'_>, speaks: Speaks) -> String {
    let mut content = json!({ "error": refused.code.as_str() });
    if let Some(members) = content.as_object_mut() {
        members.extend(refused.retry_after.map(|seconds| ("retryAfter".to_owned(), seconds.into())));
        members.extend(refused.more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    }
    let text = Value::from(format!("{}: {}", refused.code.title(), refused.detail));
    format!(
        r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{content},"isError":true{}}}"#,
        kind(speaks)
    )
}

/// Adds the outcome of a payment, in JSON, to a result.
pub(crate) fn with_outcome(result: &str, outcome: &str) -> String {
    with_meta(result, &[(PAYMENT_RESPONSE, outcome)])
}

fn kind(speaks: Speaks) -> &'static str {
    if speaks.kinds { r#","resultType":"complete""# } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUIRED: &str = r#"{"x402Version":2,"accepts":[{"scheme":"exact"}]}"#;

    fn read(json: &str) -> Value {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn both_places_of_a_bill_say_the_same() {
        let bill = read(&bill(REQUIRED, Speaks::default()));
        assert_eq!((&bill["isError"], bill.get("resultType")), (&json!(true), None));
        assert_eq!(bill["structuredContent"], read(REQUIRED));
        assert_eq!(read(bill["content"][0]["text"].as_str().unwrap()), read(REQUIRED));
        let newer = super::bill(REQUIRED, Speaks { kinds: true, ..Speaks::default() });
        assert_eq!(read(&newer)["resultType"], "complete");
    }

    #[test]
    fn the_extension_has_its_own_kind_of_result() {
        let bill = read(&bill(REQUIRED, Speaks { extension: true, kinds: true, mpp: false }));
        assert_eq!(bill, json!({ "resultType": "payment_required", "paymentRequired": read(REQUIRED) }));
    }

    #[test]
    fn no_refusal_has_terms() {
        for code in ProblemCode::ALL {
            let refused = Refused {
                code: *code,
                detail: code.detail(),
                retry_after: Some(5),
                more: vec![("contact", "me".into())],
            };
            let text = refusal(&refused, Speaks::default());
            // Regardless of escapes.
            assert!(!text.replace('\\', "").contains(r#""accepts""#), "{text}");
            let refusal = read(&text);
            assert_eq!(
                refusal["structuredContent"],
                json!({ "error": code.as_str(), "retryAfter": 5, "contact": "me" })
            );
            assert_eq!((&refusal["isError"], refusal.get("resultType")), (&json!(true), None));
        }
    }

    #[test]
    fn challenges_are_the_data_of_an_error() {
        let error = read(&challenge(&[r#"{"id":"i"}"#.to_owned()], ProblemCode::PaymentRequired));
        assert_eq!((&error["code"], &error["data"]["httpStatus"]), (&json!(-32042), &json!(402)));
        assert_eq!(error["data"]["challenges"], json!([{ "id": "i" }]));
    }
}
