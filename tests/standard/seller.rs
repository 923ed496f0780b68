//! A merchant of this crate on such a chain, who settles by a wallet or a facilitator.

use std::time::Duration;

use serde_json::Value;
use tower_x402::{
    Merchant, MerchantBuilder,
    ledger::MemoryLedger,
    protocol::SealingKeys,
    settle::{FacilitatorSettler, WalletSettler},
    verify::EvmVerifier,
};

use super::{SELLER, World, facilitator::Facilitator};
use crate::served::shop::{Answer, Shop, client};

/// Who settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Wallet,
    Facilitator,
}

/// Sells, and has no settler yet.
pub async fn merchant(world: &World) -> MerchantBuilder {
    let verifier = EvmVerifier::builder().endpoints([world.chain.rpc_url()]).connect().await.unwrap();
    Merchant::builder(SELLER)
        .hold_unbound(Duration::ZERO)
        .verifier(verifier)
        .ledger(MemoryLedger::new())
        .sealing_keys(SealingKeys::new([7; 32]))
}

/// The same with a settler; the facilitator, if that is one, runs as long as it is kept.
pub async fn settling(world: &World, by: By) -> (MerchantBuilder, Option<Facilitator>) {
    let merchant = merchant(world).await;
    match by {
        By::Wallet => (merchant.settler(wallet(world).await), None),
        By::Facilitator => {
            let facilitator = Facilitator::start(world).await;
            (merchant.settler(facilitated(&facilitator)), Some(facilitator))
        }
    }
}

pub async fn wallet(world: &World) -> WalletSettler {
    let key = world.settler().private_key();
    WalletSettler::builder().key(key).endpoint(world.chain.rpc_url()).connect().await.unwrap()
}

/// One that does not wait long.
pub fn facilitated(facilitator: &Facilitator) -> FacilitatorSettler {
    let limit = Duration::from_secs(8);
    FacilitatorSettler::builder().url(facilitator.url()).settle_timeout(limit).verify_timeout(limit).build().unwrap()
}

/// Shows a signed payment.
pub async fn show(shop: &Shop, path: &str, body: &Value, signature: &str) -> Answer {
    Answer::to(client().post(shop.url(path)).json(body).header("payment-signature", signature)).await
}
