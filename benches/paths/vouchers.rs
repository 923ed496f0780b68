//! A sale by a voucher of a known channel, without asking a node. For comparison: recovering the key from its
//! signature alone.

use std::{convert::Infallible, hint::black_box, rc::Rc};

use alloy::{
    primitives::B256,
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use axum::{Router, body::Body};
use http::{Request, Response, header::HOST};
use tower::{ServiceExt as _, service_fn};
use tower_x402::{
    protocol::{
        Address, Amount, Network, PaymentSignature,
        channel::{ChannelPayload, Voucher},
        headers::PAYMENT_SIGNATURE,
        v2::{ChannelRequirements, PaymentOption, PaymentPayload, PaymentRequired},
    },
    settle::ChannelOnChain,
    testing::ScriptedChannels,
};

use super::{
    Path, QUESTION, now, post,
    shop::{PRICE, Shop, UNITS},
};

pub fn paths(shop: &Rc<Shop>) -> Vec<Path> {
    let (shop, channels) = shop.with_channels();
    let layer = shop.merchant.charge("voucher", PRICE).unwrap().label("Where towns want bicycles").unwrap();
    let route = shop.route(&layer);
    let mut payer = Payer::of(route.clone());
    let mut asked = None;
    vec![
        Path::new("sale by voucher", 200, 133, route, move || {
            // Only the first sale reads the channel.
            let before = *asked.get_or_insert_with(|| {
                payer.opens(&channels);
                assert_eq!(now(payer.route.clone().oneshot(payer.pays())).unwrap().status(), 200);
                (channels.reads(), shop.chain.calls())
            });
            assert_eq!((channels.reads(), shop.chain.calls()), before, "nodes were asked");
            payer.pays()
        }),
        recovery(),
    ]
}

/// A payer with a key and a channel.
struct Payer {
    key: PrivateKeySigner,
    route: Router,
    total: u128,
}

impl Payer {
    fn of(route: Router) -> Self {
        Self { key: PrivateKeySigner::from_slice(&[5; 32]).unwrap(), route, total: 0 }
    }

    fn address(&self) -> Address {
        Address::new(self.key.address().into_array())
    }

    /// Sets the channel's deposit on the chain to more than will be spent.
    fn opens(&self, channels: &ScriptedChannels) {
        let config = offer(&self.route).channel_of(self.address(), [0; 32]).unwrap();
        let holds = Amount::from_base_units(u128::from(u64::MAX));
        channels.set_state(config.id(Network::BASE), ChannelOnChain::new(holds, Amount::ZERO));
    }

    /// Returns the next voucher, for its own quote.
    fn pays(&mut self) -> Request<Body> {
        self.total += UNITS;
        let offer = offer(&self.route);
        let channel_config = offer.channel_of(self.address(), [0; 32]).unwrap();
        let id = channel_config.id(Network::BASE);
        let digest = B256::from(id.voucher_digest(self.total, Network::BASE));
        let signature = self.key.sign_hash_sync(&digest).unwrap().as_bytes();
        let voucher = Voucher::new(id, self.total, PaymentSignature::new(signature).unwrap());
        let mut request = named(post(QUESTION));
        let payment = PaymentPayload::new(offer, ChannelPayload::Voucher { channel_config, voucher });
        request.headers_mut().insert(PAYMENT_SIGNATURE, payment.to_header());
        request
    }
}

fn named(mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert(HOST, http::HeaderValue::from_static("shop.example"));
    request
}

fn offer(route: &Router) -> ChannelRequirements {
    let answer = now(route.clone().oneshot(named(post(QUESTION)))).unwrap();
    let required = PaymentRequired::from_headers(answer.headers()).unwrap().unwrap();
    let channel = |option| match option {
        PaymentOption::Channel(offer) => Some(offer),
        _ => None,
    };
    required.accepts.into_iter().find_map(channel).unwrap()
}

/// Recovers a key with alloy by the crate `k256`, as the layer does for each voucher.
fn recovery() -> Path {
    let key = PrivateKeySigner::from_slice(&[5; 32]).unwrap();
    let (digest, address) = (B256::new([9; 32]), key.address());
    let signature = key.sign_hash_sync(&digest).unwrap();
    let recovers = service_fn(move |_: Request<Body>| async move {
        let recovered = black_box(&signature).recover_address_from_prehash(black_box(&digest)).unwrap();
        assert_eq!(recovered, address);
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    Path::new("a key recovered", 200, 0, recovers, || post(QUESTION))
}
