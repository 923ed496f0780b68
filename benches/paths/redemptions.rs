//! Requests that are answered because they were paid.

use std::rc::Rc;

use tower::ServiceExt as _;
use tower_x402::{
    Redelivery,
    protocol::{Binding, PaymentTag},
};

use super::{
    Path, now,
    shop::{Shop, UNITS, by_body, by_header, proof},
};

pub fn paths(shop: &Rc<Shop>) -> Vec<Path> {
    let route = shop.route(&shop.layer);
    let paid = |shop: &Rc<Shop>| {
        let shop = Rc::clone(shop);
        move || proof(&shop.intent(), shop.pay(UNITS))
    };
    let bound = |shop: &Rc<Shop>, bind: fn(PaymentTag) -> Binding| {
        let shop = Rc::clone(shop);
        move || {
            let intent = shop.intent();
            let transaction = shop.pay_bound(UNITS, bind(PaymentTag::of(&intent)));
            proof(&intent, transaction)
        }
    };
    let (body, header) = (paid(shop), paid(shop));
    let tagged = bound(shop, |tag| Binding::none().with_call_data([&[0; 68][..], &tag.to_call_data()].concat()));
    let by_nonce = bound(shop, |tag| Binding::none().with_nonce(*tag.as_bytes()));
    let kept = paid(shop);
    let keeping = shop.route(&shop.layer.clone().redeliver(Redelivery::default()));
    let (again, delivered) = (paid(shop), keeping.clone());
    // A shop of its own: where passes are accepted, each request is checked for one.
    let with_pass = Shop::open();
    let (layer, token) = with_pass.with_pass();
    let by_pass = with_pass.route(&layer);
    vec![
        Path::new("redemption by body", 200, 30, route.clone(), move || by_body(&body())),
        Path::new("redemption by header", 200, 30, route.clone(), move || by_header(&header())),
        Path::new("redemption, tagged", 200, 35, route.clone(), move || by_header(&tagged())),
        Path::new("redemption, bound by nonce", 200, 35, route, move || by_header(&by_nonce())),
        Path::new("redemption, answer kept", 200, 48, keeping.clone(), move || by_header(&kept())),
        Path::new("call by pass", 200, 28, by_pass, move || {
            let mut request = by_header("");
            request.headers_mut().remove("x402-payment");
            request.headers_mut().insert("x402-pass", token.parse().unwrap());
            request
        }),
        Path::new("answer delivered again", 200, 57, keeping, move || {
            let proof = again();
            now(delivered.clone().oneshot(by_header(&proof))).unwrap();
            by_header(&proof)
        }),
    ]
}
