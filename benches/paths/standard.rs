//! The standard's way: its quote, and the sale of a signed payment that a stub in this process settles.

use std::rc::Rc;

use axum::body::Body;
use http::{Request, header::HOST};
use tower_x402::protocol::{
    Address, ChainTime,
    headers::PAYMENT_SIGNATURE,
    v2::{Authorization, PaymentPayload, PaymentRequired, PaymentRequirements, SignedAuthorization},
};

use super::{
    Path, QUESTION, now, post,
    shop::{AHEAD, PRICE, Shop},
};

pub fn paths(shop: &Rc<Shop>) -> Vec<Path> {
    let shop = shop.with_settler();
    let layer = shop.merchant.charge("signed", PRICE).unwrap().label("Where towns want bicycles").unwrap();
    let (route, quoted) = (shop.route(&layer), shop.route(&layer));
    let mut nonce = 0_u64;
    vec![
        Path::new("quote, both dialects", 402, 14, route.clone(), || named(post(QUESTION))),
        Path::new("signed payment", 200, 72, route, move || {
            nonce += 1;
            let offer = offer(&quoted);
            let mut request = named(post(QUESTION));
            request.headers_mut().insert(PAYMENT_SIGNATURE, payment(&offer, nonce, shop.start).to_header());
            request
        }),
    ]
}

fn named(mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert(HOST, http::HeaderValue::from_static("shop.example"));
    request
}

fn offer(route: &axum::Router) -> PaymentRequirements {
    let answer = now(tower::ServiceExt::oneshot(route.clone(), named(post(QUESTION)))).unwrap();
    let required = PaymentRequired::from_headers(answer.headers()).unwrap().unwrap();
    required.accepts[0].exact().unwrap().clone()
}

fn payment(offer: &PaymentRequirements, number: u64, start: u64) -> PaymentPayload {
    let mut nonce = [0; 32];
    nonce[..8].copy_from_slice(&number.to_be_bytes());
    let authorization = Authorization::new(Address::new([0xaa; 20]), nonce)
        .paying(offer.pay_to, offer.amount)
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(start + 2 * AHEAD));
    let signature = format!("0x{}", "11".repeat(65)).parse().unwrap();
    PaymentPayload::new(offer.clone(), SignedAuthorization::new(authorization, signature))
}
