//! The payer for the three peers that speak x402 `exact`: accepts the first offer of a bill, and adds a fake
//! signature.
//!
//! Their facilitators are stubs that accept every signature. Each payment has its own nonce, as in reality.

use std::time::SystemTime;

use axum::{Router, body::Body};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::Request;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{
    answer,
    shop::{PAYER, PRICE, RECIPIENT, ask_unpaid, ask_with},
};

/// The header of a bill.
pub(crate) const BILL: &str = "payment-required";
/// The header of a payment.
pub(crate) const PAYMENT: &str = "payment-signature";
/// The header of a sold answer.
pub(crate) const RECEIPT: &str = "payment-response";

/// How long a payment is valid, in seconds.
const VALID_FOR: u64 = 60 * 60;

pub(crate) struct Buyer {
    app: Router,
    bill: Option<Value>,
    nonce: u64,
}

impl Buyer {
    pub(crate) fn new(app: Router) -> Self {
        Self { app, bill: None, nonce: 0 }
    }

    /// Returns a request that pays its own bill, for contenders where one bill buys one answer.
    pub(crate) fn pay_anew(&mut self, runtime: &Runtime) -> Request<Body> {
        self.bill = None;
        self.pay(runtime)
    }

    /// Returns a request that pays.
    pub(crate) fn pay(&mut self, runtime: &Runtime) -> Request<Body> {
        let app = &self.app;
        let bill = self.bill.get_or_insert_with(|| bill(runtime, app));
        self.nonce += 1;
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970").as_secs();
        let payment = json!({
            "x402Version": 2,
            "resource": bill["resource"],
            "accepted": bill["accepts"][0],
            "payload": {
                "signature": format!("0x{}1b", "5a".repeat(64)),
                "authorization": {
                    "from": PAYER,
                    "to": RECIPIENT,
                    "value": PRICE.to_string(),
                    "validAfter": "1795280000",
                    // This crate refuses authorizations that are valid for longer than a payment counts.
                    "validBefore": (now + VALID_FOR).to_string(),
                    "nonce": format!("0x{:064x}", self.nonce),
                },
            },
            "extensions": {},
        });
        ask_with(PAYMENT, BASE64_STANDARD.encode(payment.to_string()))
    }
}

fn bill(runtime: &Runtime, app: &Router) -> Value {
    let (_, headers, _) = answer(runtime, app, ask_unpaid());
    let bill = BASE64_STANDARD.decode(&headers[BILL]).expect("a bill is base64");
    serde_json::from_slice(&bill).expect("a bill is JSON")
}
