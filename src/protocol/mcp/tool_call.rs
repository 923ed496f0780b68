//! `ToolCall`: the call of a priced tool, separated from its payment.

use std::collections::HashSet;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    CREDENTIAL, EXTENSION, PASS, PAYMENT, REVISION,
    canonical::canonical,
    envelope::{Envelope, Unreadable},
    strict::Strict,
};
use crate::protocol::{InvalidRedemption, Proof, mpp::Credential, v2::PaymentPayload};

/// The call of a priced tool.
#[derive(Debug)]
pub(crate) struct ToolCall {
    /// As written; `None` for a notification.
    pub(crate) id: Option<Box<RawValue>>,
    pub(crate) name: String,
    /// Read strictly, so that all readers see the same arguments: the price depends on them.
    pub(crate) arguments: Map<String, Value>,
    /// The canonical name and arguments: a quote for this call is bound to them.
    pub(crate) bound: Bytes,
    pub(crate) shown: Shown,
    /// The pass that it shows; empty if it is not a string.
    pub(crate) pass: Option<String>,
    /// The form in which the client wants to be billed.
    pub(crate) speaks: Speaks,
    /// The parameters for the tool, without payment and pass.
    params: String,
}

/// The payment that a call shows, if any.
pub(crate) type Shown = Result<Option<Proof>, InvalidRedemption>;

/// What a client supports, according to its call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Speaks {
    /// The extension that makes a bill a kind of result.
    pub(crate) extension: bool,
    /// MPP.
    pub(crate) mpp: bool,
    /// A revision whose results name their kind.
    pub(crate) kinds: bool,
}

impl ToolCall {
    /// Reads the call of this tool.
    ///
    /// # Errors
    /// Returns [`Unreadable`] if readers differ about it, at any depth, or if it does not call a tool that can be
    /// sold.
    pub(crate) fn read(envelope: &Envelope<'_>) -> Result<Self, Unreadable> {
        let name = envelope.tool()?.into_owned();
        let members = envelope.call_params()?;
        let (mut arguments, mut meta) = (Map::new(), Map::new());
        let mut params = Vec::with_capacity(members.len());
        let mut shown = Ok(None);
        // A set, because a sender can fit arbitrarily many members into a message.
        let mut names = HashSet::with_capacity(members.len());
        for (member, raw) in &members {
            if !names.insert(&**member) {
                return Err(Unreadable::Ambiguous);
            }
            let Strict(value) = serde_json::from_str(raw.get()).map_err(|_| Unreadable::Ambiguous)?;
            match (&**member, value) {
                // The answer would only be the task's name, and another method would return the result.
                ("task", value) if !value.is_null() => return Err(Unreadable::NoCall),
                ("arguments" | "_meta", Value::Null) => {}
                ("arguments", Value::Object(object)) => arguments = object,
                ("_meta", Value::Object(object)) => {
                    let rest;
                    (shown, rest) = payment_in(raw.get());
                    meta = object;
                    params.extend(rest.map(|rest| (&**member, rest)));
                    continue;
                }
                ("arguments" | "_meta", _) => return Err(Unreadable::NoCall),
                _ => {}
            }
            params.push((&**member, raw.get().to_owned()));
        }
        Ok(Self {
            id: envelope.id.map(ToOwned::to_owned),
            bound: canonical(&json!({ "name": name, "arguments": arguments })).into(),
            arguments,
            shown,
            pass: meta
                .get(PASS)
                .filter(|pass| !pass.is_null())
                .map(|pass| pass.as_str().unwrap_or_default().to_owned()),
            speaks: Speaks::of(&meta),
            params: object(params.iter().map(|(name, json)| (*name, json.as_str()))),
            name,
        })
    }

    /// Returns the call for the tool, with another id.
    pub(crate) fn under(&self, id: &str) -> Bytes {
        let id = Value::from(id);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{}}}"#, self.params).into()
    }

    /// Returns the call for the tool, with its own id.
    pub(crate) fn unpaid(&self) -> Bytes {
        let id = self.id.as_deref().map_or("null", RawValue::get);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{}}}"#, self.params).into()
    }
}

impl Speaks {
    fn of(meta: &Map<String, Value>) -> Self {
        let of_protocol = |name: &str| meta.get(&format!("io.modelcontextprotocol/{name}"));
        let capabilities = of_protocol("clientCapabilities");
        let extension = |name: &str| {
            let extensions = ["extensions", "experimental"].map(|list| capabilities?.get(list)?.get(name));
            extensions.into_iter().flatten().any(|value| !value.is_null())
        };
        let revision = of_protocol("protocolVersion").and_then(Value::as_str);
        Self {
            extension: extension(EXTENSION),
            mpp: meta.keys().any(|name| name.starts_with("org.paymentauth/")) || extension("org.paymentauth/payment"),
            kinds: revision.is_some_and(|revision| revision >= REVISION),
        }
    }
}

/// Splits `_meta` into the payment, and the rest without payment and pass; `None` if nothing remains.
fn payment_in(meta: &str) -> (Shown, Option<String>) {
    // Cannot fail: the caller has read it already.
    let Ok(super::super::digest::Members(members)) = serde_json::from_str(meta) else {
        return (Err(InvalidRedemption), None);
    };
    let of = |wanted: &str| {
        let found = members.iter().find(|(name, raw)| name == wanted && raw.get() != "null");
        found.map(|(_, raw)| raw.get())
    };
    let shown = match (of(PAYMENT), of(CREDENTIAL)) {
        (None, None) => Ok(None),
        (Some(payment), None) => match PaymentPayload::from_json(payment) {
            Ok(payment) => Ok(Some(Proof::Payment(Box::new(payment)))),
            Err(_) => Err(InvalidRedemption),
        },
        (None, Some(json)) => match credential(json) {
            Some(credential) => Ok(Some(Proof::Mpp(Box::new(credential)))),
            None => Err(InvalidRedemption),
        },
        (Some(_), Some(_)) => Err(InvalidRedemption),
    };
    let rest: Vec<_> = members.iter().filter(|(name, _)| ![PAYMENT, CREDENTIAL, PASS].contains(&&**name)).collect();
    let rest = (!rest.is_empty()).then(|| object(rest.iter().map(|(name, raw)| (&**name, raw.get()))));
    (shown, rest)
}

/// Reads a credential whose challenge contains the request as an object instead of the header's encoded form.
fn credential(json: &str) -> Option<Credential> {
    let mut credential: Value = serde_json::from_str(json).ok()?;
    let request = credential.get_mut("challenge")?.get_mut("request")?;
    if request.is_object() {
        *request = URL_SAFE_NO_PAD.encode(canonical(request)).into();
    }
    Credential::from_json(&credential.to_string())
}

/// Joins members, whose values are JSON, to an object.
pub(super) fn object<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let members: Vec<String> = members.map(|(name, json)| format!("{}:{json}", Value::from(name))).collect();
    format!("{{{}}}", members.join(","))
}
