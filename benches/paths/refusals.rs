//! Refusals: one path for each code that needs neither a failing or hanging backend nor such a body.

use std::{
    future::Future as _,
    rc::Rc,
    task::{Context, Waker},
};

use axum::{Router, routing};
use http::{StatusCode, header};
use tower::ServiceExt as _;
use tower_x402::{
    protocol::TxHash,
    verify::{Verdict, VerifyError},
};

use super::{
    Path, QUESTION, object, post, serve,
    shop::{AHEAD, Shop, UNITS, by_header, proof},
};

const UNKNOWN: TxHash = TxHash::new([1; 32]);

pub fn paths(shop: &Rc<Shop>) -> Vec<Path> {
    let mut paths = by_shape(shop);
    paths.extend(by_chain(shop));
    paths.extend(by_ledger(shop));
    paths
}

/// Refusals that depend on the request alone.
fn by_shape(shop: &Rc<Shop>) -> Vec<Path> {
    let route = shop.route(&shop.layer);
    let intent = shop.intent();
    let always = |name, status, allocations, proof: String| {
        Path::new(name, status, allocations, route.clone(), move || by_header(&proof))
    };
    let bound = shop.route(&shop.layer.clone().bind_request());
    let long = object(64 * 1024 + 1);
    vec![
        always("intent_required", 400, 21, format!(r#"{{"txHash":"{UNKNOWN}"}}"#)),
        always("tx_required", 400, 20, format!(r#"{{"intentId":"{intent}"}}"#)),
        always("invalid_redemption", 400, 20, "bm90IGEgcHJvb2Y=".to_owned()),
        always("intent_not_found", 404, 22, proof(&intent.replace('A', "B"), UNKNOWN)),
        Path::new("invalid_body", 400, 21, route.clone(), || post(&QUESTION.as_bytes()[..59])),
        Path::new("body_too_large", 413, 18, bound, move || post(long.clone())),
        Path::new("unsupported_encoding", 415, 18, route.clone(), || {
            let mut request = post(QUESTION);
            request.headers_mut().insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
            request
        }),
    ]
}

/// Refusals that depend on the chain.
fn by_chain(shop: &Rc<Shop>) -> Vec<Path> {
    let intent = shop.intent();
    let [nothing, old, silent] = [2, 3, 4].map(|byte| TxHash::new([byte; 32]));
    shop.chain.mine(nothing, []);
    shop.chain.answer(old, Verdict::TooOld);
    shop.chain.fail(silent, VerifyError::unavailable());
    let (little, late) = (shop.pay(1), shop.pay_at(UNITS, shop.start + AHEAD));
    let always = |name, status, allocations, transaction| {
        let proof = proof(&intent, transaction);
        Path::new(name, status, allocations, shop.route(&shop.layer), move || by_header(&proof))
    };
    vec![
        always("tx_not_confirmed", 409, 25, UNKNOWN),
        always("transfer_not_found", 422, 23, nothing),
        always("insufficient_amount", 422, 25, little),
        always("intent_expired", 410, 27, late),
        always("payment_too_old", 422, 23, old),
        always("verification_unavailable", 503, 25, silent),
    ]
}

/// Refusals that depend on the ledger or the handler.
fn by_ledger(shop: &Rc<Shop>) -> Vec<Path> {
    let paid = || proof(&shop.intent(), shop.pay(UNITS));
    let behind =
        |handler: routing::MethodRouter| Router::new().route("/answer", handler.route_layer(shop.layer.clone()));
    let route = shop.route(&shop.layer);

    let transaction = shop.pay(UNITS);
    let sold = proof(&shop.intent(), transaction);
    assert_eq!(serve(&route, by_header(&sold)), StatusCode::OK);

    let held = paid();
    let never: Router = behind(routing::post(std::future::pending::<()>));
    let mut holder = Box::pin(never.oneshot(by_header(&held)));
    assert!(holder.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // Held until the process ends.
    std::mem::forget(holder);

    let tried = paid();
    let failing = behind(routing::post(async || StatusCode::INTERNAL_SERVER_ERROR));
    while serve(&failing, by_header(&tried)) == StatusCode::INTERNAL_SERVER_ERROR {}

    let billing = behind(routing::post(async || StatusCode::PAYMENT_REQUIRED));
    let (again, fresh) = (Rc::clone(shop), Rc::clone(shop));
    let always = |name, status, allocations, proof: String| {
        Path::new(name, status, allocations, route.clone(), move || by_header(&proof))
    };
    vec![
        always("already_consumed", 409, 25, sold),
        Path::new("tx_already_used", 409, 25, route.clone(), move || by_header(&proof(&again.intent(), transaction))),
        always("redemption_in_progress", 409, 27, held),
        always("too_many_attempts", 429, 30, tried),
        Path::new("upstream_payment_required", 502, 31, billing, move || {
            by_header(&proof(&fresh.intent(), fresh.pay(UNITS)))
        }),
    ]
}
