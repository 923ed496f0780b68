//! Metered answers: the quote of a maximum, and an answer with its charge, settled by a stub in this process.

use std::rc::Rc;

use axum::{Router, body::Body, routing::post as posting};
use bytes::Bytes;
use http::{Request, header::HOST};
use tower_x402::{
    Charge,
    protocol::{
        Address, Amount, ChainTime,
        headers::PAYMENT_SIGNATURE,
        permit2::{Permit, PermitScheme, SignedPermit},
        v2::{PaymentPayload, PaymentRequired, UpToRequirements},
    },
};

use super::{
    ANSWER, Path, QUESTION, now, post,
    shop::{AHEAD, PRICE, Shop},
};

/// In base units.
const COST: u128 = 1_858;

pub fn paths(shop: &Rc<Shop>) -> Vec<Path> {
    let shop = shop.with_permits();
    let layer = shop.merchant.charge_up_to("metered", PRICE).unwrap().label("Where towns want bicycles").unwrap();
    let answers = async |_: Bytes| (Charge(Amount::from_base_units(COST)), ANSWER);
    let route = Router::new().route("/answer", posting(answers).route_layer(layer));
    let quoted = route.clone();
    let mut nonce = 0_u64;
    vec![
        Path::new("quote of a maximum", 402, 21, route.clone(), || named(post(QUESTION))),
        Path::new("metered sale", 200, 104, route, move || {
            nonce += 1;
            let mut request = named(post(QUESTION));
            request.headers_mut().insert(PAYMENT_SIGNATURE, payment(&offer(&quoted), nonce, shop.start).to_header());
            request
        }),
    ]
}

fn named(mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert(HOST, http::HeaderValue::from_static("shop.example"));
    request
}

fn offer(route: &Router) -> UpToRequirements {
    let answer = now(tower::ServiceExt::oneshot(route.clone(), named(post(QUESTION)))).unwrap();
    let required = PaymentRequired::from_headers(answer.headers()).unwrap().unwrap();
    required.accepts[0].up_to().unwrap().clone()
}

fn payment(offer: &UpToRequirements, number: u64, start: u64) -> PaymentPayload {
    let mut nonce = [0; 32];
    nonce[..8].copy_from_slice(&number.to_be_bytes());
    let permit = Permit::new(PermitScheme::UpTo, Address::new([0xaa; 20]), nonce)
        .paying(offer.pay_to, offer.asset, offer.amount)
        .by_facilitator(offer.facilitator().unwrap())
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(start + 2 * AHEAD));
    let signature = format!("0x{}", "11".repeat(65)).parse().unwrap();
    PaymentPayload::new(offer.clone(), SignedPermit::new(permit, signature))
}
