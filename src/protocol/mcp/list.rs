//! The list of tools with prices, and a server's announcement of its extensions.

use serde_json::{Value, json};

use super::{EXTENSION, reply::members, tool_call::object};

/// The member of a tool's `_meta` that has its price.
const PRICE: &str = "x402/price";

/// Adds prices to the tools of a list; `None` if the message is no list with a priced tool. `price` returns a tool's
/// price as JSON.
///
/// Clients that check structured content against a tool's schema check bills too, so a schema is widened to admit
/// bills and refusals.
pub(crate) fn annotate(message: &str, price: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut priced = false;
    let written = edit(message, "result", |result| {
        edit(result, "tools", |tools| {
            let tools: Vec<&serde_json::value::RawValue> = serde_json::from_str(tools).ok()?;
            let price_of = |tool: &str| {
                let (_, name) = members(tool)?.into_iter().find(|(name, _)| name == "name")?;
                price(&serde_json::from_str::<String>(name.get()).ok()?)
            };
            let tools = tools.into_iter().map(|tool| match price_of(tool.get()) {
                Some(price) => {
                    priced = true;
                    with_price(tool.get(), &price)
                }
                None => tool.get().to_owned(),
            });
            Some(format!("[{}]", tools.collect::<Vec<_>>().join(",")))
        })
    })?;
    priced.then_some(written)
}

/// Announces the payment extension in the answer to `server/discover`; `None` for any other message.
pub(crate) fn announce(message: &str) -> Option<String> {
    edit(message, "result", |result| {
        edit(result, "capabilities", |capabilities| {
            let mut capabilities: Value = serde_json::from_str(capabilities).ok()?;
            let extensions = capabilities.as_object_mut()?.entry("extensions").or_insert_with(|| json!({}));
            if extensions.is_null() {
                *extensions = json!({});
            }
            extensions.as_object_mut()?.insert(EXTENSION.to_owned(), json!({}));
            Some(capabilities.to_string())
        })
    })
}

/// Returns an object with one member changed; `None` if it has no such member or `change` returns `None`.
fn edit(json: &str, wanted: &str, change: impl FnOnce(&str) -> Option<String>) -> Option<String> {
    let members = members(json)?;
    let (_, found) = members.iter().find(|(name, _)| name == wanted)?;
    let changed = change(found.get())?;
    let member = |(name, raw): &(std::borrow::Cow<'_, str>, &serde_json::value::RawValue)| {
        (name.to_string(), if name == wanted { changed.clone() } else { raw.get().to_owned() })
    };
    let written: Vec<_> = members.iter().map(member).collect();
    Some(object(written.iter().map(|(name, json)| (name.as_str(), json.as_str()))))
}

fn with_price(tool: &str, price: &str) -> String {
    let members = members(tool).unwrap_or_default();
    let meta = members.iter().filter(|(name, _)| name == "_meta").filter_map(|(_, raw)| self::members(raw.get()));
    let meta: Vec<_> = meta.flatten().filter(|(name, _)| name != PRICE).collect();
    let meta = object(meta.iter().map(|(name, raw)| (&**name, raw.get())).chain([(PRICE, price)]));
    let written = members.iter().filter(|(name, _)| name != "_meta").map(|(name, raw)| {
        let widened = (name == "outputSchema").then(|| widened(raw.get())).flatten();
        (&**name, widened.unwrap_or_else(|| raw.get().to_owned()))
    });
    let written: Vec<_> = written.collect();
    object(written.iter().map(|(name, json)| (*name, json.as_str())).chain([("_meta", &*meta)]))
}

/// Widens a schema to admit a bill or a refusal; `None` if it is no object.
fn widened(schema: &str) -> Option<String> {
    let mut own: Value = serde_json::from_str(schema).ok().filter(Value::is_object)?;
    let dialect = own.as_object_mut()?.remove("$schema");
    move_references(&mut own);
    let mut widened = json!({
        "type": "object",
        "anyOf": [own, { "required": ["x402Version", "accepts"] }, { "required": ["error"] }],
    });
    if let Some(dialect) = dialect {
        widened.as_object_mut()?.insert("$schema".to_owned(), dialect);
    }
    Some(widened.to_string())
}

/// Rewrites the references inside a schema to its new place.
fn move_references(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(reference) if name == "$ref" && (reference == "#" || reference.starts_with("#/")) => {
                        reference.insert_str(1, "/anyOf/0");
                    }
                    value => move_references(value),
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(move_references),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(tools: &str) -> Option<Value> {
        let message = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":{tools},"nextCursor":"n"}}}}"#);
        let price = |name: &str| (name == "search").then(|| r#"{"amount":"0.01","currency":"USDC"}"#.to_owned());
        Some(serde_json::from_str(&annotate(&message, price)?).unwrap())
    }

    #[test]
    fn a_priced_tool_tells_its_price_and_others_stay_as_they_are() {
        let list = annotated(
            r#"[{"name":"search","_meta":{"a":1,"x402/price":0}},{"name":"status","outputSchema":{"type":"object"}}]"#,
        );
        let result = &list.unwrap()["result"];
        assert_eq!(
            result["tools"][0]["_meta"],
            json!({ "a": 1, "x402/price": { "amount": "0.01", "currency": "USDC" } })
        );
        assert_eq!(result["tools"][1], json!({ "name": "status", "outputSchema": { "type": "object" } }));
        assert_eq!(result["nextCursor"], "n");
        assert_eq!(annotated(r#"[{"name":"status"}]"#), None);
        assert_eq!(annotate(r#"{"id":1,"error":{}}"#, |_| Some("1".into())), None);
        assert_eq!(annotate("x", |_| Some("1".into())), None);
    }

    #[test]
    fn a_schema_admits_bills_and_refusals_too() {
        let own = r##"{"$schema":"s","type":"object","required":["reply"],"properties":{"reply":{"$ref":"#/$defs/r"}},"$defs":{"r":{}}}"##;
        let list = annotated(&format!(r#"[{{"name":"search","outputSchema":{own}}}]"#)).unwrap();
        let schema = &list["result"]["tools"][0]["outputSchema"];
        assert_eq!((&schema["type"], &schema["$schema"]), (&json!("object"), &json!("s")));
        assert_eq!(schema["anyOf"][0]["properties"]["reply"]["$ref"], "#/anyOf/0/$defs/r");
        assert_eq!(schema["anyOf"][1], json!({ "required": ["x402Version", "accepts"] }));
        assert_eq!(schema["anyOf"][2], json!({ "required": ["error"] }));
    }

    #[test]
    fn the_extension_is_announced_where_a_server_tells_its_capabilities() {
        let said = announce(r#"{"id":1,"result":{"capabilities":{"tools":{},"extensions":null}}}"#).unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["result"]["capabilities"], json!({ "tools": {}, "extensions": { "org.x402/payment": {} } }));
        assert_eq!(announce(r#"{"id":1,"result":{}}"#), None);
    }
}
