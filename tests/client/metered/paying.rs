//! What is signed, when, and which way to pay is taken.

use tower_x402::{
    client::{Budget, PayErrorKind, PayLayer, PayerError, PaymentMethod, PurchaseState},
    protocol::permit2::{EXACT_PROXY, Permit, UPTO_PROXY},
};

use super::*;
use crate::{cause, signed::way, support::payer};

#[tokio::test(start_paused = true)]
async fn one_permit_buys_one_answer_and_less_is_charged() {
    let market = market().await;
    let (chain, journal) = (market.shop.chain.clone(), market.journal.clone());
    let seller = seller(move |payment, _| {
        // Before anybody sees it, it is in the journal.
        let entries = journal.entries();
        assert_eq!((entries.len(), entries[0].state), (1, PurchaseState::Paying));
        assert_eq!(entries[0].permit(), Some(permit(payment)));
        charging(&chain, payment, 1_858)
    });
    let layer = market.layer().await;
    let got = buy(&layer, &seller).await.unwrap();
    let bought = got.purchase.unwrap();
    assert_eq!((got.text.as_str(), bought.state, bought.confirmed), ("the answer", PurchaseState::Answered, true));
    assert_eq!((bought.paid_by, bought.attempts, bought.sent), (PaymentMethod::Permit, 1, 1));
    assert_eq!((bought.amount, bought.charged), (units(MAXIMUM), Some(units(1_858))));
    assert_eq!((market.wallet.permits_signed(), market.wallet.authorizations_signed()), (1, 0));
    let entry = market.journal.entries().remove(0);
    assert_eq!((entry.state, entry.charge()), (PurchaseState::Answered, Some(units(1_858))));
    assert_eq!(entry.transaction, bought.transaction);
    assert!(layer.unfinished().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_signed_is_what_the_quote_asks_for_and_the_proxys_own() {
    let market = market().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, _| charging(&chain, payment, 1));
    buy(&market.layer().await, &seller).await.unwrap();
    let payment = seller.asked().iter().find_map(shown).unwrap();
    let Permit { from, token, amount, deadline, to, valid_after, facilitator, spender, .. } = permit(&payment).permit;
    assert_eq!((from, to, token), (payer(), recipient(), Asset::USDC_BASE.contract()));
    assert_eq!((amount, facilitator, spender), (units(MAXIMUM), Some(FACILITATOR), UPTO_PROXY));
    assert_eq!((valid_after.unix(), deadline), (0, ChainTime::from_unix(NOW + 60)));
    assert_eq!(serde_json::to_value(&payment.accepted).unwrap(), up_to(MAXIMUM), "as the seller wrote it");
}

#[tokio::test(start_paused = true)]
async fn a_token_without_authorizations_is_paid_by_a_permit_of_the_price() {
    let coin = Asset::new(Network::BASE, Address::new([0xc0; 20]), 6, "COIN");
    let market = market().await;
    market.wallet.allow(coin.contract(), units(MAXIMUM));
    let (mut offer, chain) = (exact_by_permit(MAXIMUM), market.shop.chain.clone());
    offer["asset"] = json!(coin.contract());
    let seller = Seller::new(move |asked| match shown(asked) {
        Some(payment) => charging(&chain, &payment, MAXIMUM),
        None => demand(std::slice::from_ref(&offer)),
    });
    let budget = Budget::in_assets([coin]).per_payment("1").per_day("10").build().unwrap();
    let layer = PayLayer::builder(market.wallet.clone(), budget, market.journal.clone());
    let layer = layer.clock(market.shop.clock.clone()).build().await.unwrap();
    let bought = buy(&layer, &seller).await.unwrap().purchase.unwrap();
    assert_eq!((bought.paid_by, bought.charged, bought.amount), (PaymentMethod::Permit, None, units(MAXIMUM)));
    let signed = permits(&seller).remove(0).permit;
    assert_eq!((signed.spender, signed.facilitator), (EXACT_PROXY, None));
    assert_eq!(layer.spent(), units(MAXIMUM));
}

/// Two offers, and what is paid.
async fn taken(market: &Market, offers: [Value; 2]) -> Result<PaymentMethod, PayError> {
    let chain = market.shop.chain.clone();
    let seller = Seller::new(move |asked| match shown(asked) {
        Some(payment) if matches!(payment.payload, SchemePayload::Permit(_)) => charging(&chain, &payment, 1),
        Some(payment) => crate::signed::delivered(crate::signed::settle(&chain, &payment)),
        None => demand(&offers),
    });
    buy(&market.layer().await, &seller).await.map(|got| got.purchase.unwrap().paid_by)
}

#[tokio::test(start_paused = true)]
async fn of_one_price_that_is_taken_which_may_cost_less_and_else_the_cheaper_one() {
    for (offers, expected) in [
        ([way("490000"), up_to(MAXIMUM)], PaymentMethod::Permit),
        ([up_to(MAXIMUM), way("480000")], PaymentMethod::Authorization),
        // More clients know authorizations, and they use up no allowance.
        ([exact_by_permit(MAXIMUM), way("490000")], PaymentMethod::Authorization),
    ] {
        assert_eq!(taken(&market().await, offers).await.unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_allowance_another_way_is_taken() {
    for allowance in [0, MAXIMUM - 1] {
        let market = Market::open().await;
        market.wallet.allow(Asset::USDC_BASE.contract(), units(allowance));
        let method = taken(&market, [up_to(MAXIMUM), way("490000")]).await.unwrap();
        assert_eq!((method, market.wallet.permits_signed()), (PaymentMethod::Authorization, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn where_only_the_allowance_is_missing_the_error_names_the_command() {
    let token = Asset::USDC_BASE.contract();
    let mut foreign = way("490000");
    foreign["asset"] = json!(Address::new([9; 20]));
    for offers in [[up_to(MAXIMUM), exact_by_permit(MAXIMUM)], [foreign, up_to(MAXIMUM)]] {
        let market = Market::open().await;
        market.wallet.allow(token, units(5));
        let error = taken(&market, offers).await.unwrap_err();
        assert_eq!(error.kind(), PayErrorKind::Payer, "{error}");
        let cause = cause(&error).unwrap();
        assert!(matches!(cause, PayerError::Allowance(missing) if missing.needed == units(MAXIMUM)), "{cause:?}");
        let text = cause.to_string();
        assert!(
            text.contains(&format!("buy allow --token {token} --amount 0.49")) && text.contains("0.000005"),
            "{text}"
        );
        assert_eq!((market.wallet.permits_signed(), market.journal.entries().len()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_payer_that_signs_nothing_is_an_error() {
    let mut market = market().await;
    market.wallet = market.wallet.authorizing(false);
    let error = taken(&market, [up_to(MAXIMUM), way("490000")]).await.unwrap_err();
    assert_eq!((error.kind(), market.wallet.permits_signed()), (PayErrorKind::Payer, 0));
}
