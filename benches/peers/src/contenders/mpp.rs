//! `mpp` 0.18.2, as in the documentation of its tower layer: `PaymentLayer::charge` as a `route_layer`. It speaks
//! another protocol than x402, the Payment scheme of HTTP authentication: a signed challenge, then a credential that
//! names it.
//!
//! The payment method is a stub behind its public trait, `ChargeMethod`, as in the crate's own tests: it accepts
//! every credential. (`PaymentLayer::charge` needs the feature `tempo`, its chain, of which nothing runs here.)
//!
//! Fairness:
//! - Its challenges are signed and not stored, as ours are, and each redemption checks the signature: the work is
//!   comparable.
//! - Its chain method is responsible for single use, and has a store for that; the stub has none, so the cost of single use is
//!   not in its figures.
//! - The bodies of its answers are empty: the challenge is a header.
//! - `PaymentLayer` does not read the request's body. Its `PaymentBodyLayer`, which does, would cost more.
//! - It has no free route.

use axum::{Router, routing::post};
use http::StatusCode;
use mpp::{
    ChargeMethod, ChargeRequest, PaymentCredential, PaymentPayload, Receipt, VerificationError, format_authorization,
    parse_www_authenticate,
    server::{Mpp, middleware::PaymentLayer},
};
use tokio::runtime::Runtime;

use crate::{
    Case, Path, answer,
    shop::{GARBAGE, RECIPIENT, ROUTE, TRANSACTION, ask_unpaid, ask_with, handler},
};

const NAME: &str = "mpp 0.18.2";
const BILL: &str = "www-authenticate";
const PAYMENT: &str = "authorization";
const RECEIPT: &str = "payment-receipt";
const TOKEN: &str = "0x20c0000000000000000000000000000000000000";

#[derive(Clone)]
struct Stub;

impl ChargeMethod for Stub {
    fn method(&self) -> &'static str {
        "tempo"
    }

    async fn verify(&self, _: &PaymentCredential, _: &ChargeRequest) -> Result<Receipt, VerificationError> {
        Ok(Receipt::success("tempo", TRANSACTION))
    }
}

pub(super) fn cases() -> Vec<Case> {
    let secret = "a secret of ours, which has at least 32 bytes";
    let seller = Mpp::new_with_config(Stub, "api.example.com", secret, TOKEN, RECIPIENT);
    let layer = PaymentLayer::charge(&seller, "0.49").expect("it is a price");
    let app = Router::new().route(ROUTE, post(handler).route_layer(layer));
    let shop = app.clone();
    let mut sold = 0;
    let case =
        |path, status, header, request| Case { contender: NAME, path, app: app.clone(), status, header, request };
    vec![
        case(Path::Unpaid, StatusCode::PAYMENT_REQUIRED, Some(BILL), Box::new(|_| ask_unpaid())),
        case(
            Path::Paid,
            StatusCode::OK,
            Some(RECEIPT),
            Box::new(move |runtime| {
                sold += 1;
                ask_with(PAYMENT, pay(runtime, &shop, sold))
            }),
        ),
        case(
            Path::Garbage,
            StatusCode::PAYMENT_REQUIRED,
            Some(BILL),
            Box::new(|_| ask_with(PAYMENT, format!("Payment {GARBAGE}"))),
        ),
    ]
}

/// Returns a credential for its own challenge.
fn pay(runtime: &Runtime, app: &Router, number: u64) -> String {
    let (_, headers, _) = answer(runtime, app, ask_unpaid());
    let challenge = headers[BILL].to_str().expect("a challenge is text");
    let challenge = parse_www_authenticate(challenge).expect("it is a challenge");
    let payment = PaymentPayload::hash(format!("0x{number:064x}"));
    format_authorization(&PaymentCredential::new(challenge.to_echo(), payment)).expect("it is a credential")
}
