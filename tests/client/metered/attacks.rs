//! Sellers that ask for something else than an honest one would.

use tower_x402::{
    client::{BudgetDenial, MaxPrice, PayErrorKind},
    protocol::permit2::UPTO_PROXY,
};

use super::*;

fn changed(member: &str, value: Value) -> Value {
    let mut offer = up_to(MAXIMUM);
    offer[member] = value;
    offer
}

fn changed_extra(member: &str, value: Value) -> Value {
    let mut offer = up_to(MAXIMUM);
    offer["extra"][member] = value;
    offer
}

async fn asked_for(offer: Value) -> (Market, Result<Got, PayError>) {
    let market = market().await;
    let chain = market.shop.chain.clone();
    let seller = Seller::new(move |asked| match shown(asked) {
        Some(payment) => charging(&chain, &payment, 1),
        None => demand(std::slice::from_ref(&offer)),
    });
    let got = buy(&market.layer().await, &seller).await;
    (market, got)
}

#[tokio::test(start_paused = true)]
async fn what_the_budget_does_not_allow_is_not_signed() {
    let token = Asset::USDC_BASE.contract();
    for (offer, denial) in [
        (changed("network", json!("eip155:84532")), BudgetDenial::Network),
        (changed("network", json!("eip155:1")), BudgetDenial::Network),
        (changed("asset", json!(Address::new([9; 20]))), BudgetDenial::Asset),
        (changed("amount", json!("1000001")), BudgetDenial::PerPayment),
        (changed("amount", json!("0")), BudgetDenial::Zero),
        (changed("payTo", json!(token)), BudgetDenial::NoSeller),
        (changed("payTo", json!(Address::new([0; 20]))), BudgetDenial::NoSeller),
        (changed("maxTimeoutSeconds", json!(0)), BudgetDenial::Expired),
    ] {
        let (market, got) = asked_for(offer.clone()).await;
        let error = got.unwrap_err();
        assert_eq!((error.kind(), error.denial()), (PayErrorKind::Declined, Some(denial)), "{offer}");
        assert_eq!((market.wallet.permits_signed(), market.journal.entries().len()), (0, 0), "{offer}");
    }
    let (market, got) = asked_for(changed("payTo", json!(crate::support::payer()))).await;
    assert_eq!(got.unwrap_err().denial(), Some(BudgetDenial::NoSeller), "the payer's own account");
    assert!(market.journal.entries().is_empty());
}

/// An offer that is not understood is passed over: the 402 is returned as it is.
#[tokio::test(start_paused = true)]
async fn an_offer_that_nobody_could_charge_or_of_another_method_is_no_offer() {
    for offer in [
        changed_extra("facilitatorAddress", Value::Null),
        changed_extra("facilitatorAddress", json!("0x12")),
        changed_extra("facilitatorAddress", json!(Address::new([0; 20]))),
        changed_extra("assetTransferMethod", json!("eip3009")),
        changed_extra("assetTransferMethod", json!("permit3")),
        changed("scheme", json!("batch")),
        changed("network", json!("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp")),
    ] {
        let (market, got) = asked_for(offer.clone()).await;
        assert_eq!((got.unwrap().status.as_u16(), market.wallet.permits_signed()), (402, 0), "{offer}");
    }
}

/// The facilitator is the seller's choice: it can charge up to the maximum, for the signed recipient. A spender is nobody's choice.
#[tokio::test(start_paused = true)]
async fn a_facilitator_of_the_sellers_own_is_signed_for_and_a_spender_is_not() {
    let own = Address::new([0xbd; 20]);
    let mut offer = changed_extra("facilitatorAddress", json!(own));
    offer["extra"]["spender"] = json!(own);
    offer["spender"] = json!(own);
    let (market, got) = asked_for(offer).await;
    got.unwrap();
    let entry = market.journal.entries().remove(0);
    let permit = &entry.permit().unwrap().permit;
    assert_eq!((permit.facilitator, permit.spender, permit.to), (Some(own), UPTO_PROXY, recipient()));
}

/// The maximum rises, or recipient or scheme change, once a permit is signed: no second one is, while the first can be used.
#[tokio::test(start_paused = true)]
async fn another_quote_after_the_permit_is_not_signed_for() {
    for other in
        [up_to(MAXIMUM + 1), up_to(MAXIMUM - 1), changed("payTo", json!(Address::new([8; 20]))), exact_by_permit(1)]
    {
        let market = market().await;
        let later = other.clone();
        let seller = Seller::new(move |asked| match (shown(asked), asked.before) {
            (Some(_), _) => demand(std::slice::from_ref(&later)),
            (None, 0) => demand(&[up_to(MAXIMUM)]),
            (None, _) => demand(std::slice::from_ref(&later)),
        });
        let layer = market.layer().await;
        for _ in 0..3 {
            let error = buy(&layer, &seller).await.unwrap_err();
            assert_eq!(error.kind(), PayErrorKind::Outstanding, "{other}: {error}");
        }
        assert_eq!((market.wallet.permits_signed(), layer.spent()), (1, units(MAXIMUM)), "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_requests_own_limit_is_about_the_maximum() {
    let market = market().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, _| charging(&chain, payment, 1));
    let layer = market.layer().await;
    let mut request = question("{}");
    request.extensions_mut().insert(MaxPrice(units(MAXIMUM - 1)));
    let error = ask(&layer, &seller, request).await.unwrap_err();
    assert_eq!((error.denial(), market.wallet.permits_signed()), (Some(BudgetDenial::MaxPrice), 0), "{error}");
}
