//! Settlers: a facilitator's, against scripted facilitators over a token in memory; and the conformance suite itself.
#![cfg(all(
    feature = "axum",
    feature = "devchain",
    feature = "evm",
    feature = "facilitator",
    feature = "metrics",
    feature = "page",
    feature = "postgres",
    feature = "redis",
    feature = "reqwest",
    feature = "sqlite",
    feature = "wallet"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub
)]

mod broken;
mod calls;
mod counted;
mod facilitator;
mod fallback;
mod faults;
mod market;
mod permit_suite;
mod permits;
mod secrets;
mod suite;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
mod wallet;

use std::time::Duration;

use facilitator::{Facilitator, Fault};
use market::Market;
use tower_x402::{
    protocol::{
        Address, Amount, Asset, ChainTime, TokenDomain,
        v2::{Authorization, PaymentRequirements, ResourceInfo, SignedAuthorization},
    },
    settle::{FacilitatorSettler, FacilitatorSettlerBuilder, SignedPayment},
};

/// What stands in every URL and in every text of a facilitator, and must stand nowhere else.
const CANARY: &str = "c4n4rykey";
const SELLER: Address = Address::new([0xaa; 20]);
const PRICE: u128 = 490_000;
/// A real process or a real socket is waited for this long.
const PATIENCE: Duration = Duration::from_secs(60);

fn builder(facilitators: &[&Facilitator]) -> FacilitatorSettlerBuilder {
    let limits = FacilitatorSettler::builder().verify_timeout(PATIENCE).supported_timeout(PATIENCE);
    facilitators.iter().fold(limits, |builder, facilitator| builder.url(facilitator.url()))
}

fn settler(facilitators: &[&Facilitator]) -> FacilitatorSettler {
    builder(facilitators).build().expect("good settings")
}

/// A payment of the price by a new payer who has exactly that.
fn payment(market: &Market) -> SignedPayment {
    let payer = market.account(PRICE);
    let now = market.now();
    let authorization = Authorization::new(payer, market.fresh())
        .paying(SELLER, Amount::from_base_units(PRICE))
        .valid_between(ChainTime::from_unix(now.unix() - 600), now.after(Duration::from_secs(3_600)));
    let signature = market.signature(payer, &authorization);
    let domain = TokenDomain::usdc_of(Asset::USDC_BASE.network()).expect("it is known");
    let requirements = PaymentRequirements::new(&Asset::USDC_BASE, authorization.value, SELLER, 300)
        .with_token_domain(&domain.name, &domain.version);
    SignedPayment::new(SignedAuthorization::new(authorization, signature), requirements, domain)
        .with_resource(ResourceInfo::new("https://shop.example/insights"))
}
