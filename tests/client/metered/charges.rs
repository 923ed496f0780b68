//! What counts against the budget: the maximum, until the chain confirms a smaller charge.

use tower_x402::client::{BudgetDenial, PayErrorKind};

use super::*;

/// What the seller says, by the transaction and the amount, and what counts.
async fn counted(
    charged: u128,
    told: impl Fn(TxHash) -> Reply + Send + Sync + 'static,
) -> (Market, PayLayer, Amount, bool) {
    let market = market().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, _| told(charge(&chain, payment, charged)));
    let (layer, events) = watched(&market).await;
    let bought = buy(&layer, &seller).await.unwrap().purchase.unwrap();
    assert!(bought.charged.unwrap() <= units(MAXIMUM));
    let spent = layer.spent();
    let is_reported = events.lock().unwrap().contains(&"mischarged");
    (market, layer, spent, is_reported)
}

#[tokio::test(start_paused = true)]
async fn the_maximum_counts_while_it_is_open_and_the_charge_afterwards() {
    let market = market().await;
    let chain = market.shop.chain.clone();
    let layer = market.layer().await;
    let during = layer.clone();
    let seller = seller(move |payment, _| {
        assert_eq!(during.spent(), units(MAXIMUM));
        charging(&chain, payment, 1_858)
    });
    buy(&layer, &seller).await.unwrap();
    assert_eq!(layer.spent(), units(1_858));
    // Another process reads it from the journal.
    assert_eq!(market.layer().await.spent(), units(1_858));
}

/// Ten dollars a day are twenty maximums, and thousands of charges.
#[tokio::test(start_paused = true)]
async fn charges_use_up_the_limit_and_not_maximums() {
    let market = market().await;
    let chain = market.shop.chain.clone();
    let layer = market.layer().await;
    let seller = seller(move |payment, _| charging(&chain, payment, 1_000));
    for number in 0..50 {
        ask(&layer, &seller, another(number)).await.unwrap();
    }
    assert_eq!((layer.spent(), market.wallet.permits_signed()), (units(50_000), 50));
    // What is left does not hold another maximum.
    let budget = Market::budget().per_day("0.50").build().unwrap();
    let layer = PayLayer::builder(market.wallet.clone(), budget, market.journal.clone());
    let layer = layer.clock(market.shop.clock.clone()).build().await.unwrap();
    let error = ask(&layer, &seller, another(50)).await.unwrap_err();
    assert_eq!(error.denial(), Some(BudgetDenial::PerDay), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_charge_that_cannot_be_true_counts_as_the_maximum_and_ends_the_trade() {
    let over = (MAXIMUM + 1).to_string();
    let huge = "9".repeat(90);
    for amount in
        [json!(over), json!(huge), json!("-1"), json!("0x1"), json!("1.5"), json!(""), json!(7), json!({"a": 1})]
    {
        let stated = amount.clone();
        let (market, layer, spent, is_reported) =
            counted(MAXIMUM, move |transaction| answer(&transaction.to_string(), stated.clone())).await;
        assert_eq!((spent, is_reported), (units(MAXIMUM), true), "{amount}");
        // Nothing more is paid to that host, in any way; to others it is, and by a process that does not know.
        let chain = market.shop.chain.clone();
        let again = seller(move |payment, _| charging(&chain, payment, 1));
        let error = ask(&layer, &again, another(1)).await.unwrap_err();
        assert_eq!((error.kind(), error.denial()), (PayErrorKind::Declined, Some(BudgetDenial::Mischarged)), "{error}");
        let port = http::Request::get("https://SELLER.example:444/").body(Body::empty()).unwrap();
        let error = ask(&layer, &again, port).await.unwrap_err();
        assert_eq!(error.denial(), Some(BudgetDenial::Mischarged), "{error}");
        assert_eq!(market.wallet.permits_signed(), 1);
        let elsewhere = http::Request::get("https://other.example/").body(Body::empty()).unwrap();
        ask(&layer, &again, elsewhere).await.unwrap();
        ask(&market.layer().await, &again, another(2)).await.unwrap();
        assert_eq!(market.wallet.permits_signed(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_header_that_cannot_be_read_or_comes_twice_counts_as_the_maximum_too() {
    let headers: [&[(&str, &str)]; 3] = [
        &[("payment-response", "garbage")],
        &[("payment-response", "e30="), ("payment-response", "e30=")],
        &[("payment-response", "W10=")],
    ];
    for headers in headers {
        let (_, _, spent, is_reported) = counted(5, move |_| reply(200, headers, "the answer")).await;
        assert_eq!((spent, is_reported), (units(MAXIMUM), true), "{headers:?}");
    }
    // A seller that says nothing charges the maximum, as the standard's rules for handlers have it.
    let (_, _, spent, is_reported) = counted(5, |_| reply(200, &[("payment-response", "e30=")], "the answer")).await;
    assert_eq!((spent, is_reported), (units(MAXIMUM), false));
}

/// A seller that takes the maximum, and says that it was less, would be paid past every limit if it were believed.
#[tokio::test(start_paused = true)]
async fn what_the_seller_says_counts_only_where_the_chain_confirms_it() {
    // The transaction charged more.
    let (market, layer, spent, is_reported) =
        counted(MAXIMUM, |transaction| answer(&transaction.to_string(), json!("1"))).await;
    assert_eq!((spent, is_reported), (units(MAXIMUM), true));
    let chain = market.shop.chain.clone();
    let again = seller(move |payment, _| charging(&chain, payment, 1));
    let error = ask(&layer, &again, another(1)).await.unwrap_err();
    assert_eq!(error.denial(), Some(BudgetDenial::Mischarged));
    // It names one that nobody knows, or none, or one that used another permit.
    for transaction in [TxHash::new([7; 32]).to_string(), String::new()] {
        let (_, _, spent, is_reported) = counted(MAXIMUM, move |_| answer(&transaction, json!("1"))).await;
        assert_eq!((spent, is_reported), (units(MAXIMUM), false));
    }
    let market = super::market().await;
    let (chain, first) = (market.shop.chain.clone(), std::sync::Mutex::new(None));
    let seller = seller(move |payment, shows| {
        if shows == 0 {
            let transaction = charge(&chain, payment, 1);
            *first.lock().unwrap() = Some(transaction);
            return answer(&transaction.to_string(), json!("1"));
        }
        charge(&chain, payment, MAXIMUM);
        answer(&first.lock().unwrap().unwrap().to_string(), json!("1"))
    });
    let layer = market.layer().await;
    for number in 0..2 {
        ask(&layer, &seller, another(number)).await.unwrap();
    }
    assert_eq!(layer.spent(), units(1 + MAXIMUM));
}

/// The node was behind when the answer came.
#[tokio::test(start_paused = true)]
async fn a_charge_is_asked_about_again_before_the_next_purchase() {
    let market = market().await;
    let (chain, shown_first) = (market.shop.chain.clone(), Arc::new(std::sync::Mutex::new(None)));
    let kept = shown_first.clone();
    let seller = seller(move |payment, shows| {
        if shows > 0 {
            return charging(&chain, payment, 1_000);
        }
        let transaction = TxHash::new(permit(payment).permit.nonce.map(|byte| byte ^ 0xff));
        *kept.lock().unwrap() = Some(payment.clone());
        answer(&transaction.to_string(), json!("1858"))
    });
    let layer = market.layer().await;
    ask(&layer, &seller, another(0)).await.unwrap();
    assert_eq!(layer.spent(), units(MAXIMUM));
    charge(&market.shop.chain, shown_first.lock().unwrap().as_ref().unwrap(), 1_858);
    ask(&layer, &seller, another(1)).await.unwrap();
    assert_eq!(layer.spent(), units(2_858));
    assert_eq!(market.layer().await.spent(), units(2_858), "the journal has it");
}

/// A permit of which nothing was charged can be used until it ends.
#[tokio::test(start_paused = true)]
async fn a_charge_of_nothing_counts_as_nothing_once_the_permit_has_ended() {
    for is_used_later in [false, true] {
        let market = market().await;
        let chain = market.shop.chain.clone();
        let seller = seller(move |payment, shows| match shows {
            0 => answer("", json!("0")),
            _ => charging(&chain, payment, 1_000),
        });
        let layer = market.layer().await;
        let bought = ask(&layer, &seller, another(0)).await.unwrap().purchase.unwrap();
        assert_eq!((bought.charged, bought.transaction, bought.confirmed), (Some(units(0)), None, true));
        assert_eq!(layer.spent(), units(MAXIMUM));
        if is_used_later {
            let payment = seller.asked().iter().find_map(shown).unwrap();
            charge(&market.shop.chain, &payment, MAXIMUM);
        }
        expire(&market);
        ask(&layer, &seller, another(1)).await.unwrap();
        let first = if is_used_later { MAXIMUM } else { 0 };
        assert_eq!(layer.spent(), units(first + 1_000), "used later: {is_used_later}");
    }
}
