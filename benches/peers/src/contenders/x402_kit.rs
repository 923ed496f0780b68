//! `x402-kit` 2.5.0 with its `x402-paywall` 2.5.0: not a layer but a `PayWall` that a function of the seller calls,
//! put around the route with `axum::middleware::from_fn_with_state`. This is its documentation's quick start, which
//! builds the `PayWall` with its URL for each request; `built once` is the same with a `PayWall` that is built at the
//! start and cloned per request.
//!
//! The facilitator is a stub behind its public trait. It says yes twice: to `verify` before the handler and to
//! `settle` after.
//!
//! Fairness:
//! - The stub flatters it: on every request, paid or not, it asks which payments the facilitator supports, and its
//! own
//!   client has no cache for that. In production an unpaid request waits for a round trip.
//! - The stub does not check the signature: that, and the settlement on chain, are the facilitator's work, two round
//!   trips away.
//! - It signs nothing and stores nothing.
//! - Its 402 states everything twice, in a header and in the body.
//! - Compiled without `tracing`, which is in its default, because nothing would collect it.
//! - It has no free route: the seller's function would decide.

use std::{convert::Infallible, sync::Arc};

use alloy_primitives::Address;
use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::post,
};
use http::StatusCode;
use url::Url;
use x402_kit::{
    core::Resource,
    facilitator::{
        Facilitator, PaymentRequest, SettleResult, SettleSuccess, SupportedKinds, SupportedResponse, VerifyResult,
        VerifyValid,
    },
    networks::evm::assets::UsdcBase,
    paywall::paywall::PayWall,
    schemes::exact_evm::ExactEvm,
};

use crate::{
    Case, Path,
    exact::{BILL, Buyer, PAYMENT, RECEIPT},
    shop::{GARBAGE, PAYER, PRICE, RECIPIENT, RESOURCE, ROUTE, TRANSACTION, ask_unpaid, ask_with, handler},
};

#[derive(Clone)]
struct Stub {
    supported: SupportedResponse,
    recipient: Address,
}

impl Facilitator for Stub {
    type Error = Infallible;

    async fn supported(&self) -> Result<SupportedResponse, Infallible> {
        Ok(self.supported.clone())
    }

    async fn verify(&self, _request: PaymentRequest) -> Result<VerifyResult, Infallible> {
        Ok(VerifyResult::valid(VerifyValid { payer: PAYER.to_owned() }))
    }

    async fn settle(&self, _request: PaymentRequest) -> Result<SettleResult, Infallible> {
        Ok(SettleResult::success(SettleSuccess {
            payer: PAYER.to_owned(),
            transaction: TRANSACTION.to_owned(),
            network: "eip155:8453".to_owned(),
        }))
    }
}

fn stub() -> Stub {
    let kind = SupportedKinds {
        x402_version: x402_kit::types::X402Version::V2(x402_kit::types::X402V2),
        scheme: "exact".to_owned(),
        network: "eip155:8453".to_owned(),
        extra: None,
    };
    let supported = SupportedResponse { kinds: vec![kind], extensions: Vec::new(), signers: Default::default() };
    Stub { supported, recipient: RECIPIENT.parse().expect("it is an address") }
}

fn paywall(facilitator: Stub) -> PayWall<Stub> {
    let price = ExactEvm::builder().amount(PRICE).asset(UsdcBase).pay_to(facilitator.recipient).build();
    let resource = Resource::builder()
        .url(Url::parse(RESOURCE).expect("it is a URL"))
        .description("Demand insights")
        .mime_type("application/json")
        .build();
    PayWall::builder().facilitator(facilitator).accepts(price).resource(resource).build()
}

async fn built_each_time(State(facilitator): State<Stub>, request: Request, next: Next) -> Response {
    charge(paywall(facilitator), request, next).await
}

async fn built_once(State(paywall): State<Arc<PayWall<Stub>>>, request: Request, next: Next) -> Response {
    charge(PayWall::clone(&paywall), request, next).await
}

async fn charge(paywall: PayWall<Stub>, request: Request, next: Next) -> Response {
    paywall.handle_payment(request, |request| next.run(request)).await.unwrap_or_else(IntoResponse::into_response)
}

pub(super) fn cases() -> Vec<Case> {
    let documented = post(handler).layer(from_fn_with_state(stub(), built_each_time));
    let once = post(handler).layer(from_fn_with_state(Arc::new(paywall(stub())), built_once));
    [("x402-kit 2.5.0", documented), ("x402-kit 2.5.0, built once", once)]
        .into_iter()
        .flat_map(|(contender, route)| {
            let app = Router::new().route(ROUTE, route);
            let mut buyer = Buyer::new(app.clone());
            let case =
                |path, status, header, request| Case { contender, path, app: app.clone(), status, header, request };
            [
                case(Path::Unpaid, StatusCode::PAYMENT_REQUIRED, Some(BILL), Box::new(|_| ask_unpaid())),
                case(Path::Paid, StatusCode::OK, Some(RECEIPT), Box::new(move |runtime| buyer.pay(runtime))),
                case(Path::Garbage, StatusCode::BAD_REQUEST, None, Box::new(|_| ask_with(PAYMENT, GARBAGE))),
            ]
        })
        .collect()
}
