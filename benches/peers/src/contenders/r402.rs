//! `r402-http` 0.21 with `r402-evm`, as in the README of its repository: `X402Middleware` with a base URL, the
//! `exact` scheme for EVM chains and a price tag in USDC on Base, around the route. Its default is sequential
//! settlement.
//!
//! The facilitator is a stub behind its public trait, `X402Middleware::from_facilitator`. It says yes twice: to
//! `verify` before the handler and to `settle` after. Its supported kinds are created once and cloned for each
//! question, as the crate's own client does from its cache.
//!
//! Fairness:
//! - The stub does not check the signature: that, and the settlement on chain, are the facilitator's work, two round
//!   trips away.
//! - It signs nothing and stores nothing.
//! - Its 402 states everything twice, in a header and in the body, and it looks for extensions and hooks that nobody
//!   installed.
//! - The resource is configured, so it is not composed from the request.
//! - Free: a dynamic price without a price, which it lets through.

use std::collections::HashMap;

use alloy_primitives::Address;
use axum::{Router, routing::post};
use http::StatusCode;
use r402_evm::{Eip155Exact, USDC};
use r402_facilitator::Facilitator;
use r402_http::X402Middleware;
use r402_protocol::{
    error::FacilitatorError,
    network::ChainIdPattern,
    payment::{
        Extensions, SettleRequest, SettleResponse, SupportedPaymentKind, SupportedResponse, VerifyRequest,
        VerifyResponse,
    },
};
use url::Url;

use crate::{
    Case, Path,
    exact::{BILL, Buyer, PAYMENT, RECEIPT},
    shop::{GARBAGE, PAYER, PRICE, RECIPIENT, RESOURCE, ROUTE, TRANSACTION, ask_unpaid, ask_with, handler},
};

const NAME: &str = "r402-http 0.21.0";

struct Stub {
    supported: SupportedResponse,
}

impl Facilitator for Stub {
    async fn verify(&self, _request: VerifyRequest) -> Result<VerifyResponse, FacilitatorError> {
        Ok(VerifyResponse::valid(PAYER))
    }

    async fn settle(&self, _request: SettleRequest) -> Result<SettleResponse, FacilitatorError> {
        Ok(SettleResponse::Success {
            payer: Some(PAYER.into()),
            transaction: TRANSACTION.into(),
            network: "eip155:8453".into(),
            amount: None,
            extensions: Extensions::new(),
            extension_responses: Extensions::new(),
            extra: None,
        })
    }

    async fn supported(&self) -> Result<SupportedResponse, FacilitatorError> {
        Ok(self.supported.clone())
    }
}

fn middleware() -> X402Middleware {
    let kinds = vec![SupportedPaymentKind::new(2, "exact", "eip155:8453")];
    let supported = SupportedResponse::new().with_kinds(kinds).with_signers(HashMap::new());
    X402Middleware::from_facilitator(Stub { supported })
        .with_base_url(Url::parse(RESOURCE).and_then(|url| url.join("/")).expect("it is a URL"))
        .with_scheme(ChainIdPattern::wildcard("eip155"), Eip155Exact)
}

pub(super) fn cases() -> Vec<Case> {
    let recipient: Address = RECIPIENT.parse().expect("it is an address");
    let priced = middleware()
        .with_price_tag(Eip155Exact::price_tag(recipient, USDC::base().amount(PRICE), None))
        .expect("it is a price")
        .with_description("Demand insights".to_owned())
        .with_resource(Url::parse(RESOURCE).expect("it is a URL"));
    let free = middleware().with_dynamic_price(|_, _, _| async { Vec::new() }).expect("it has a base URL");
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
