//! Purchases by signed authorization: at sellers of the standard, and at our own.

mod bills;
mod cancelling;
mod choosing;
mod fates;
mod hostile;
mod mpp;
mod named;
mod networks;
mod one_challenge;
mod ours;
mod payers;
mod receipts;
mod sellers;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tower_x402::{
    client::{Body, Money, PayError, PayErrorKind},
    protocol::{
        Address, Asset, Binding, ChainTime, Network, Transfer, TxHash,
        v2::{Authorization, PaymentPayload},
    },
    testing::ScriptedVerifier,
};

use super::{
    Market, cause, question,
    rig::{Asked, Bill, Got, Reply, Seller, ask, reply},
};
use crate::support::{NOW, recipient};

/// One way to pay, as the official servers write it.
pub fn way(amount: &str) -> Value {
    json!({
        "scheme": "exact", "network": "eip155:8453", "amount": amount, "asset": Asset::USDC_BASE.contract(),
        "payTo": recipient(), "maxTimeoutSeconds": 60, "extra": {"name": "USD Coin", "version": "2"},
    })
}

pub fn encoded(message: &Value) -> String {
    STANDARD.encode(message.to_string())
}

/// A 402 of the second version with these ways to pay.
pub fn demand(accepts: &[Value]) -> Reply {
    refusal("Payment required", accepts)
}

pub fn refusal(error: &str, accepts: &[Value]) -> Reply {
    let required = json!({
        "x402Version": 2, "error": error, "accepts": accepts,
        "resource": {"url": "https://seller.example/answer", "description": "An answer", "mimeType": "text/plain"},
    });
    reply(402, &[("payment-required", &encoded(&required)), ("content-type", "application/json")], "{}")
}

/// What was shown, if anything was.
pub fn shown(asked: &Asked) -> Option<PaymentPayload> {
    PaymentPayload::from_headers(&asked.headers).unwrap()
}

/// The nonces that a seller has seen, each once, and how often it was shown one.
pub fn nonces(seller: &Seller) -> (Vec<[u8; 32]>, usize) {
    let all: Vec<[u8; 32]> = seller.asked().iter().filter_map(shown).map(|payment| signed(&payment).nonce).collect();
    let mut each = all.clone();
    each.sort_unstable();
    each.dedup();
    (each, all.len())
}

pub fn signed(payment: &PaymentPayload) -> tower_x402::protocol::v2::Authorization {
    let tower_x402::protocol::v2::SchemePayload::Authorization(signed) = &payment.payload else {
        panic!("{payment:?}")
    };
    signed.authorization.clone()
}

/// What a facilitator does: the money moves, once.
pub fn settle(chain: &ScriptedVerifier, payment: &PaymentPayload) -> TxHash {
    let authorization = signed(payment);
    let transaction = TxHash::new(authorization.nonce.map(|byte| byte ^ 0xff));
    let token = payment.accepted.exact().unwrap().asset;
    chain.mine(transaction, [made_from(token, &authorization, transaction, ChainTime::from_unix(NOW))]);
    transaction
}

/// The answer of an official server that was paid by this transaction.
pub fn delivered(transaction: TxHash) -> Reply {
    let settled = json!({"success": true, "transaction": transaction, "network": "eip155:8453"});
    reply(200, &[("payment-response", &encoded(&settled))], "the answer")
}

pub fn settlement_failed(reason: &str) -> Reply {
    let failed = json!({"success": false, "errorReason": reason, "transaction": "", "network": "eip155:8453"});
    reply(402, &[("payment-response", &encoded(&failed)), ("content-type", "application/json")], "{}")
}

/// A seller of the standard at 0.49, which does this with a payment that it is shown, the so-many-th from 0.
pub fn seller(then: impl Fn(&PaymentPayload, usize) -> Reply + Send + Sync + 'static) -> Seller {
    let shows = std::sync::atomic::AtomicUsize::new(0);
    Seller::new(move |asked| match shown(asked) {
        Some(payment) => then(&payment, shows.fetch_add(1, std::sync::atomic::Ordering::SeqCst)),
        None => demand(&[way("490000")]),
    })
}

/// The chain and the clock go on past whatever was signed.
pub fn expire(market: &Market) {
    market.shop.clock.advance(std::time::Duration::from_secs(3_600));
    market.shop.chain.set_head(ChainTime::from_unix(NOW + 3_600));
}

pub async fn buy(market: &Market, seller: &Seller) -> Result<Got, PayError> {
    ask(&market.layer().await, seller, question("{}")).await
}

pub fn get() -> http::Request<Body> {
    http::Request::get("https://seller.example/weather").body(Body::empty()).unwrap()
}

/// The transfer that this authorization becomes in a block of that time.
fn made_from(token: Address, authorization: &Authorization, transaction: TxHash, mined: ChainTime) -> Transfer {
    Transfer::new(Network::BASE, transaction, 0)
        .with_token(token)
        .with_payer(authorization.from)
        .with_recipient(authorization.to)
        .with_amount(authorization.value)
        .with_block(1, mined)
        .with_binding(Binding::none().with_nonce(authorization.nonce))
}
