//! Purchases by signed permit: of metered answers, and of tokens that have no authorizations. The sellers are scripted.

mod attacks;
mod charges;
mod fates;
mod paying;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tower_x402::{
    client::{Body, PayError, PayLayer},
    protocol::{
        Address, Amount, Asset, Binding, ByPermit, ChainTime, Network, Transfer, TxHash,
        permit2::SignedPermit,
        v2::{PaymentPayload, SchemePayload},
    },
    testing::ScriptedVerifier,
};

use super::{
    Market, question,
    rig::{Asked, Got, Reply, Seller, ask, reply},
    signed::{demand, encoded, shown},
};
use crate::support::{NOW, recipient};

pub const MAXIMUM: u128 = 490_000;
pub const FACILITATOR: Address = Address::new([0xfa; 20]);

pub fn units(units: u128) -> Amount {
    Amount::from_base_units(units)
}

/// A way to pay up to a maximum, as the official servers write it.
pub fn up_to(maximum: u128) -> Value {
    json!({
        "scheme": "upto", "network": "eip155:8453", "amount": maximum.to_string(), "asset": Asset::USDC_BASE.contract(),
        "payTo": recipient(), "maxTimeoutSeconds": 60,
        "extra": {"assetTransferMethod": "permit2", "facilitatorAddress": FACILITATOR, "name": "USD Coin", "version": "2"},
    })
}

/// The same for a fixed price.
pub fn exact_by_permit(amount: u128) -> Value {
    let mut way = up_to(amount);
    way["scheme"] = json!("exact");
    way["extra"].as_object_mut().unwrap().remove("facilitatorAddress");
    way
}

/// A buyer who allows Permit2 to move everything.
pub async fn market() -> Market {
    let market = Market::open().await;
    market.wallet.allow(Asset::USDC_BASE.contract(), Amount::MAX);
    market
}

pub fn permit(payment: &PaymentPayload) -> &SignedPermit {
    let SchemePayload::Permit(signed) = &payment.payload else { panic!("{payment:?}") };
    signed
}

/// What the facilitator does: so much is charged, once.
pub fn charge(chain: &ScriptedVerifier, payment: &PaymentPayload, amount: u128) -> TxHash {
    let permit = &permit(payment).permit;
    let transaction = TxHash::new(permit.nonce.map(|byte| byte ^ 0xff));
    let transfer = Transfer::new(Network::BASE, transaction, 0)
        .with_token(permit.token)
        .with_payer(permit.from)
        .with_recipient(permit.to)
        .with_amount(units(amount))
        .with_block(1, ChainTime::from_unix(NOW))
        .with_binding(Binding::none().with_permit(ByPermit::Nonce(permit.nonce)));
    chain.mine(transaction, [transfer]);
    transaction
}

/// The answer, with what the seller says of its charge.
pub fn answer(transaction: &str, amount: Value) -> Reply {
    let mut told = json!({"success": true, "transaction": transaction, "network": "eip155:8453", "amount": amount});
    if told["amount"].is_null() {
        told.as_object_mut().unwrap().remove("amount");
    }
    reply(200, &[("payment-response", &encoded(&told))], "the answer")
}

/// An honest one, which charges so much.
pub fn charging(chain: &ScriptedVerifier, payment: &PaymentPayload, amount: u128) -> Reply {
    answer(&charge(chain, payment, amount).to_string(), json!(amount.to_string()))
}

/// A seller that asks for at most 0.49, and does this with a permit that it is shown, the so-many-th from 0.
pub fn seller(then: impl Fn(&PaymentPayload, usize) -> Reply + Send + Sync + 'static) -> Seller {
    let shows = AtomicUsize::new(0);
    Seller::new(move |asked| match shown(asked) {
        Some(payment) => then(&payment, shows.fetch_add(1, SeqCst)),
        None => demand(&[up_to(MAXIMUM)]),
    })
}

/// The permits that a seller has seen.
pub fn permits(seller: &Seller) -> Vec<SignedPermit> {
    seller.asked().iter().filter_map(shown).map(|payment| permit(&payment).clone()).collect()
}

pub async fn buy(layer: &PayLayer, seller: &Seller) -> Result<Got, PayError> {
    ask(layer, seller, question("{}")).await
}

pub fn another(number: usize) -> http::Request<Body> {
    question(&format!(r#"{{"number":{number}}}"#))
}

/// The chain and the clock go on past whatever was signed.
pub fn expire(market: &Market) {
    market.shop.clock.advance(Duration::from_secs(600));
    market.shop.chain.set_head(ChainTime::from_unix(NOW + 600));
}

/// The names of the events, and the layer that reports them.
pub async fn watched(market: &Market) -> (PayLayer, Arc<std::sync::Mutex<Vec<&'static str>>>) {
    let events = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = events.clone();
    let layer =
        market.layer_with(|builder| builder.on_event(move |event| seen.lock().unwrap().push(event.name()))).await;
    (layer, events)
}

/// What the seller sees of one request, where it is shown a permit.
pub fn header(asked: &Asked) -> Option<String> {
    Some(asked.headers.get("payment-signature")?.to_str().unwrap().to_owned())
}
