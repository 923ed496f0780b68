//! Several facilitators: another one is asked where the first cannot be reached, and never after one may have settled.

use std::time::Duration;

use tower_x402::{
    protocol::{Asset, Network, TokenDomain},
    settle::{
        FacilitatorSettler, SettleError, SettleErrorKind, Settlement, Settler as _, TransactionRecorder, Validity,
    },
};

use super::{Facilitator, Fault, Market, PATIENCE, builder, facilitator::nobody, payment, settler};

const TOKEN: Asset = Asset::USDC_BASE;

#[tokio::test]
async fn the_next_one_verifies_and_settles_where_nobody_listens() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let settler = FacilitatorSettler::builder()
        .url(nobody().await)
        .url(facilitator.url())
        .verify_timeout(PATIENCE)
        .supported_timeout(PATIENCE)
        .build()
        .unwrap();
    assert_eq!(settler.health().await, Ok(()));
    let verified = payment(&market);
    assert_eq!(settler.verify(&verified).await, Ok(Validity::Valid));
    // Verified or not.
    for payment in [verified, payment(&market)] {
        assert!(matches!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Settled(_)));
    }
}

#[tokio::test]
async fn who_verified_settles() {
    let market = Market::new();
    let (first, second) = (Facilitator::start(&market).await, Facilitator::start(&market).await);
    let settler = settler(&[&first, &second]);
    let payment = payment(&market);
    first.fault("verify", Fault::Status(503));
    assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid));
    first.heal();
    assert!(matches!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Settled(_)));
    assert_eq!((first.calls("settle"), second.calls("settle")), (0, 1));
}

#[tokio::test]
async fn one_that_is_gone_after_verifying_is_replaced() {
    let market = Market::new();
    let (first, second) = (Facilitator::start(&market).await, Facilitator::start(&market).await);
    let settler = settler(&[&first, &second]);
    let payment = payment(&market);
    assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid));
    drop(first);
    // Its task ends when it is next scheduled.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(matches!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Settled(_)));
    assert_eq!(second.calls("settle"), 1);
}

#[tokio::test]
async fn one_that_hangs_leaves_time_for_the_next() {
    let market = Market::new();
    let (first, second) = (Facilitator::start(&market).await, Facilitator::start(&market).await);
    let settler = builder(&[&first, &second]).verify_timeout(Duration::from_secs(20)).build().unwrap();
    assert_eq!(settler.verify(&payment(&market)).await, Ok(Validity::Valid));
    first.fault("verify", Fault::HangBefore);
    let started = tokio::time::Instant::now();
    assert_eq!(settler.verify(&payment(&market)).await, Ok(Validity::Valid));
    assert!(started.elapsed() < Duration::from_secs(20));
    // It is asked last for a while.
    let asked = first.calls("verify");
    assert_eq!(settler.verify(&payment(&market)).await, Ok(Validity::Valid));
    assert_eq!(first.calls("verify"), asked);
}

#[tokio::test]
async fn one_of_another_chain_is_passed_over() {
    let market = Market::new();
    let other = Facilitator::on(&market, Network::BASE_SEPOLIA).await;
    let right = Facilitator::start(&market).await;
    let settler = settler(&[&other, &right]);
    let payment = payment(&market);
    assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid));
    assert!(matches!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Settled(_)));
    assert_eq!(other.calls("verify") + other.calls("settle"), 0);
}

#[tokio::test]
async fn with_nobody_there() {
    let market = Market::new();
    let settler = FacilitatorSettler::builder().url(nobody().await).url(nobody().await).build().unwrap();
    let payment = payment(&market);
    assert_eq!(settler.verify(&payment).await, Err(SettleError::unavailable()));
    assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Unknown(None));
    assert_eq!(settler.health().await, Err(SettleError::unavailable()));
    assert_eq!(settler.domain(Network::BASE, TOKEN.contract(), None).await, Err(SettleError::unavailable()));
}

#[tokio::test]
async fn the_domain_is_stated_or_configured_or_known() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let usdc = TokenDomain::usdc_of(Network::BASE).unwrap();
    let renamed = TokenDomain::new(TOKEN.contract(), "Renamed", "3");
    let other = TokenDomain::new(Asset::USDBC_BASE.contract(), "Other", "1");
    let plain = settler(&[&facilitator]);
    let configured = builder(&[&facilitator]).domain(renamed.clone()).domain(other.clone()).build().unwrap();
    let wrong = SettleError::new(SettleErrorKind::WrongDomain { token: TOKEN.contract() });
    for (settler, token, stated, domain) in [
        (&plain, TOKEN, None, Ok(Some(usdc.clone()))),
        (&plain, TOKEN, Some(&renamed), Ok(Some(renamed.clone()))),
        (&plain, Asset::USDBC_BASE, None, Ok(None)),
        (&configured, TOKEN, None, Ok(Some(renamed.clone()))),
        (&configured, TOKEN, Some(&renamed), Ok(Some(renamed.clone()))),
        (&configured, TOKEN, Some(&usdc), Err(wrong)),
        (&configured, Asset::USDBC_BASE, None, Ok(Some(other.clone()))),
    ] {
        assert_eq!(settler.domain(Network::BASE, token.contract(), stated).await, domain);
    }
    let elsewhere = Network::eip155(1);
    let wrong = SettleError::new(SettleErrorKind::WrongChain { network: elsewhere });
    assert_eq!(plain.domain(elsewhere, TOKEN.contract(), Some(&usdc)).await, Err(wrong));
    // Version 1 alone has that chain: by its old name, which is none of version 2.
    let upto = serde_json::json!({ "kinds": [{ "x402Version": 2, "scheme": "upto", "network": "eip155:8453" }] });
    let limited = Facilitator::start(&market).await;
    limited.fault("supported", Fault::Says(upto));
    assert_eq!(settler(&[&limited]).domain(Network::BASE, TOKEN.contract(), Some(&usdc)).await, Ok(None));
}
