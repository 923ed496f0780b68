//! `Echo`: the parts of an x402 version 2 demand that a payment repeats.

use std::sync::Arc;

use http::HeaderMap;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    client::PurchaseId,
    protocol::{
        headers::PAYMENT_REQUIRED,
        v2::{PaymentOption, PaymentRequired},
    },
};

/// One offer as the seller wrote it, because official servers compare it member by member.
#[derive(Clone, Debug)]
pub(crate) struct Echo {
    accepted: Value,
    resource: Option<Arc<Value>>,
    extensions: Option<Arc<Value>>,
}

/// The offers of a demand, each with the seller's text, and a label of what is sold.
pub(super) struct Demanded {
    pub(super) options: Vec<(PaymentOption, Echo)>,
    pub(super) label: String,
}

impl Demanded {
    /// Reads `PAYMENT-REQUIRED`.
    pub(super) fn of(headers: &HeaderMap, required: PaymentRequired) -> Self {
        // The raw JSON, for members that are only repeated.
        let mut written = written(headers).unwrap_or_default();
        // All offers share one copy: each of the two members may be nearly as long as the header.
        let (resource, extensions) =
            (written.remove("resource").map(Arc::new), written.remove("extensions").map(Arc::new));
        let accepts = match written.remove("accepts") {
            Some(Value::Array(accepts)) => accepts,
            _ => Vec::new(),
        };
        let echo = |accepted| Echo { accepted, resource: resource.clone(), extensions: extensions.clone() };
        Self {
            options: required.accepts.into_iter().zip(accepts.into_iter().map(echo)).collect(),
            label: required.resource.and_then(|resource| resource.description).unwrap_or_default(),
        }
    }
}

impl Echo {
    /// Returns the paying message as JSON. It names the purchase if the seller reads that.
    pub(super) fn message(&self, payload: &impl Serialize, purchase: PurchaseId) -> String {
        let mut message = json!({"x402Version": 2, "accepted": self.accepted, "payload": payload});
        for (name, value) in [("resource", &self.resource), ("extensions", &self.extensions)] {
            if let (Some(value), Some(members)) = (value, message.as_object_mut()) {
                members.insert(name.to_owned(), Value::clone(value));
            }
        }
        name_purchase(&mut message, purchase);
        message.to_string()
    }
}

/// Adds the purchase's name to the extension `payment-identifier`, if the seller declares it. Every attempt has the
/// same name.
fn name_purchase(message: &mut Value, purchase: PurchaseId) {
    let info = message.pointer_mut("/extensions/payment-identifier/info").and_then(Value::as_object_mut);
    if let Some(info) = info {
        info.insert("id".to_owned(), name_of(purchase).into());
    }
}

pub(super) fn name_of(purchase: PurchaseId) -> String {
    format!("pay_{purchase}")
}

/// Returns the members of the header's JSON.
fn written(headers: &HeaderMap) -> Option<Map<String, Value>> {
    let json = crate::protocol::decode_base64(headers.get(PAYMENT_REQUIRED)?.as_bytes())?;
    serde_json::from_slice(&json).ok()
}
