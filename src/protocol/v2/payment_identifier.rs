//! The extension `payment-identifier`: a client's own name for its purchase.

use serde_json::{Value, json};

use super::Extensions;
use crate::protocol::{ParseError, PurchaseName};

/// The name of the extension.
const NAME: &str = "payment-identifier";

const NO_TEXT: ParseError = ParseError::new("a payment identifier is a string");

impl Extensions {
    /// Returns whether a quote declares `payment-identifier`: the seller reads the purchase that a payment names.
    #[must_use]
    pub fn takes_purchase_name(&self) -> bool {
        self.info(NAME).is_some_and(Value::is_object)
    }

    /// Returns the purchase that a payment names; `None` if it names none.
    ///
    /// # Errors
    /// Returns [`ParseError`] if the name violates the extension's form.
    pub fn purchase_name(&self) -> Result<Option<PurchaseName>, ParseError> {
        match self.info(NAME).and_then(|info| info.get("id")) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(id)) => PurchaseName::new(id.as_str()).map(Some),
            Some(_) => Err(NO_TEXT),
        }
    }

    /// Returns the extension as a payment repeats it, with the name of its purchase; empty if the quote does not
    /// declare the extension.
    ///
    /// ```
    /// use serde_json::json;
    /// use tower_x402::protocol::{PurchaseName, v2::Extensions};
    /// let declared = Extensions::new().with("payment-identifier", json!({ "required": true }), None);
    /// let id = PurchaseName::new("pay_7d5d747be160e280")?;
    /// let named = declared.naming(&id);
    /// assert_eq!(named.info("payment-identifier"), Some(&json!({ "required": true, "id": "pay_7d5d747be160e280" })));
    /// assert_eq!(named.purchase_name()?, Some(id));
    /// # Ok::<(), tower_x402::protocol::ParseError>(())
    /// ```
    #[must_use]
    pub fn naming(&self, id: &PurchaseName) -> Self {
        let Some(Value::Object(info)) = self.info(NAME) else { return Self::new() };
        let mut info = info.clone();
        info.insert("id".to_owned(), id.as_str().into());
        Self::new().with(NAME, Value::Object(info), self.schema(NAME).cloned())
    }
}

/// Returns the declaration in a quote as a member of `extensions`: exactly as the standard's SDK writes it, and
/// shorter.
pub(crate) fn declarations(required: bool) -> [String; 2] {
    let id = json!({ "type": "string", "minLength": 16, "maxLength": 128, "pattern": "^[a-zA-Z0-9_-]+$" });
    let whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": { "required": { "type": "boolean" }, "id": id },
        "required": ["required"],
    });
    let short = json!({ "properties": { "id": { "pattern": "^[a-zA-Z0-9_-]{16,128}$" } } });
    [whole, short].map(|schema| {
        let extension = json!({ "info": { "required": required }, "schema": schema });
        format!(r#""{NAME}":{extension}"#)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(extension: Value) -> Result<Option<PurchaseName>, ParseError> {
        let required = extension["info"].clone();
        Extensions::new().with(NAME, required, None).purchase_name()
    }

    #[test]
    fn a_name_that_is_there_is_one_of_the_form() {
        let id = "pay_7d5d747be160e280";
        for (info, expected) in [
            (json!({ "required": false, "id": id }), Ok(Some(id))),
            (json!({ "id": id, "more": 1 }), Ok(Some(id))),
            (json!({ "required": true }), Ok(None)),
            (json!({ "id": null }), Ok(None)),
            (json!(null), Ok(None)),
            (json!("pay_7d5d747be160e280"), Ok(None)),
            (json!({ "id": "" }), Err(())),
            (json!({ "id": "short" }), Err(())),
            (json!({ "id": format!("{id}.") }), Err(())),
            (json!({ "id": "a".repeat(129) }), Err(())),
            (json!({ "id": 1_234_567_890_123_456_u64 }), Err(())),
            (json!({ "id": [id] }), Err(())),
        ] {
            let read = shown(json!({ "info": info.clone() }));
            let read = read.map(|id| id.map(|id| id.to_string())).map_err(drop);
            assert_eq!(read, expected.map(|id| id.map(str::to_owned)), "{info}");
        }
        assert_eq!(Extensions::new().purchase_name(), Ok(None));
    }

    #[test]
    fn a_payment_repeats_what_was_declared() {
        let id = PurchaseName::new("pay_7d5d747be160e280").unwrap();
        for text in declarations(true) {
            let declared: Value = serde_json::from_str(&format!("{{{text}}}")).unwrap();
            let (info, schema) = (&declared[NAME]["info"], &declared[NAME]["schema"]);
            let declared =
                Extensions::new().with("bazaar", json!({}), None).with(NAME, info.clone(), Some(schema.clone()));
            assert!(declared.takes_purchase_name());
            let named = declared.naming(&id);
            assert_eq!(named.names().collect::<Vec<_>>(), [NAME]);
            assert_eq!(named.schema(NAME), Some(schema));
            assert_eq!(named.info(NAME), Some(&json!({ "required": true, "id": id.as_str() })));
        }
        assert!(Extensions::new().naming(&id).is_empty());
    }

    #[test]
    fn the_short_form_is_short() {
        let [whole, short] = declarations(false).map(|text| text.len());
        assert!((whole, short) < (300, 130) && short < 130, "{whole} {short}");
    }
}
