//! Requests that are answered because they were paid.

use std::rc::Rc;

use super::{
    Path,
    shop::{Shop, UNITS, by_body, by_header, proof},
};

pub fn paths(shop: &Rc<Shop>) -> Vec<Path> {
    let route = shop.route(&shop.layer);
    let paid = |shop: &Rc<Shop>| {
        let shop = Rc::clone(shop);
        move || proof(&shop.intent(), shop.pay(UNITS))
    };
    let (body, header) = (paid(shop), paid(shop));
    vec![
        Path::new("redemption by body", 200, 29, route.clone(), move || by_body(&body())),
        Path::new("redemption by header", 200, 29, route, move || by_header(&header())),
    ]
}
