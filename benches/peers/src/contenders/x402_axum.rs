//! `x402-axum` 2.0.2, as in its README: `X402Middleware` with a V2 `exact` price tag in USDC on Base, around the
//! route. Its default is settlement after execution.
//!
//! The facilitator is a stub behind its public trait, `X402Middleware::from_facilitator`. It says yes twice: to
//! `verify` before the handler and to `settle` after. Its supported kinds are created once and cloned per request, as
//! the crate's own client does from its cache.
//!
//! Fairness:
//! - The stub does not check the signature: that, and the settlement on chain, are the facilitator's work, two round
//!   trips away.
//! - It signs nothing and stores nothing: any number of copies of one payment pass, unless the facilitator objects.
//! - The body of its 402 is empty: the bill is a header.
//! - The resource is configured, as its README recommends for production, so it is not composed from the request.
//! - Compiled without `telemetry`, as by default.
//! - Free: its documented way, a dynamic price without a price.

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use alloy_primitives::Address;
use axum::{Router, routing::post};
use http::StatusCode;
use serde_json::json;
use url::Url;
use x402_axum::X402Middleware;
use x402_chain_eip155::{KnownNetworkEip155, V2Eip155Exact};
use x402_types::{
    facilitator::Facilitator,
    networks::USDC,
    proto::{
        SettleRequest, SettleResponse, SupportedPaymentKind, SupportedResponse, VerifyRequest, VerifyResponse, v2,
    },
};

use crate::{
    Case, Path,
    exact::{BILL, Buyer, PAYMENT, RECEIPT},
    shop::{GARBAGE, PAYER, PRICE, RECIPIENT, RESOURCE, ROUTE, TRANSACTION, ask_unpaid, ask_with, handler},
};

const NAME: &str = "x402-axum 2.0.2";

struct Stub {
    supported: SupportedResponse,
}

impl Facilitator for Stub {
    type Error = Infallible;

    async fn verify(&self, _request: &VerifyRequest) -> Result<VerifyResponse, Infallible> {
        Ok(v2::VerifyResponse::valid(PAYER.to_owned()).into())
    }

    async fn settle(&self, _request: &SettleRequest) -> Result<SettleResponse, Infallible> {
        Ok(SettleResponse(
            json!({ "success": true, "payer": PAYER, "transaction": TRANSACTION, "network": "eip155:8453" }),
        ))
    }

    async fn supported(&self) -> Result<SupportedResponse, Infallible> {
        Ok(self.supported.clone())
    }
}

fn middleware() -> X402Middleware<Arc<Stub>> {
    let kind = SupportedPaymentKind {
        x402_version: 2,
        scheme: "exact".to_owned(),
        network: "eip155:8453".to_owned(),
        extra: None,
    };
    let supported = SupportedResponse { kinds: vec![kind], extensions: Vec::new(), signers: HashMap::new() };
    X402Middleware::from_facilitator(Arc::new(Stub { supported }))
}

pub(super) fn cases() -> Vec<Case> {
    let recipient: Address = RECIPIENT.parse().expect("it is an address");
    let priced = middleware()
        .with_price_tag(V2Eip155Exact::price_tag(recipient, USDC::base().amount(PRICE)))
        .with_description("Demand insights".to_owned())
        .with_resource(Url::parse(RESOURCE).expect("it is a URL"));
    let free = middleware().with_dynamic_price(|_, _, _| async { Vec::<v2::PriceTag>::new() });
    let app = Router::new().route(ROUTE, post(handler).layer(priced));
    let free = Router::new().route(ROUTE, post(handler).layer(free));
    let mut buyer = Buyer::new(app.clone());
    let case = |path, app: &Router, status, header, request| Case {
        contender: NAME,
        path,
        app: app.clone(),
        status,
        header,
        request,
    };
    vec![
        case(Path::Free, &free, StatusCode::OK, None, Box::new(|_| ask_unpaid())),
        case(Path::Unpaid, &app, StatusCode::PAYMENT_REQUIRED, Some(BILL), Box::new(|_| ask_unpaid())),
        case(Path::Paid, &app, StatusCode::OK, Some(RECEIPT), Box::new(move |runtime| buyer.pay(runtime))),
        case(Path::Garbage, &app, StatusCode::PAYMENT_REQUIRED, Some(BILL), Box::new(|_| ask_with(PAYMENT, GARBAGE))),
    ]
}
