//! Requests without a proof: the quotes.

use std::rc::Rc;

use tower::Layer as _;
use tower_x402::{Price, protocol::Amount};

use super::{
    Path, QUESTION, object, post,
    shop::{Shop, UNITS},
};

pub fn paths(shop: &Rc<Shop>) -> Vec<Path> {
    let price = || Price::Charge(Amount::from_base_units(UNITS));
    let closure = shop.merchant.price_with("by closure", move |_, _| price()).unwrap();
    let later = shop.merchant.price_with_async("by async closure", move |_, _| async move { price() }).unwrap();
    let bound = shop.layer.clone().bind_request();
    let fixed = shop.route(&shop.layer);
    let handler = tower::service_fn(async |_: http::Request<tower_x402::RequestBody<axum::body::Body>>| {
        Err::<http::Response<axum::body::Body>, &str>("it is not paid")
    });
    let ask = || post(QUESTION);
    let [small, middle, large, too_large] = [100, 4 * 1024, 64 * 1024, 1024 * 1024].map(object);
    vec![
        Path::new("quote", 402, 13, fixed.clone(), ask),
        Path::new("quote, plain tower", 402, 4, shop.layer.layer(handler), ask),
        Path::new("quote, bound to the request", 402, 15, shop.route(&bound), ask),
        Path::new("quote by closure", 402, 19, shop.route(&closure), ask),
        Path::new("quote by async closure", 402, 28, shop.route(&later), ask),
        Path::new("quote for 100 B", 402, 13, fixed.clone(), move || post(small.clone())),
        Path::new("quote for 4 KiB", 402, 13, fixed.clone(), move || post(middle.clone())),
        Path::new("quote for 64 KiB", 402, 13, fixed.clone(), move || post(large.clone())),
        Path::new("quote for 1 MiB", 402, 14, fixed, move || post(too_large.clone())),
        Path::new("quote by closure for 64 KiB", 402, 20, shop.route(&closure), move || post(object(64 * 1024))),
    ]
}
