//! Which of the ways to pay is taken, and which are not.

use serde_json::json;
use tower_x402::{
    client::{BudgetDenial, PaymentMethod, Purchase},
    protocol::{Address, Network},
};

use super::*;

/// A 402 in both dialects.
fn both(transfer: &str, authorization: &str) -> Reply {
    let Reply::Answer(mut answer) = Bill::of(transfer).reply() else { unreachable!() };
    let mut way = way(authorization);
    way["extra"]["intentId"] = json!("intent-1");
    let required = json!({"x402Version": 2, "accepts": [way]});
    answer.headers_mut().insert("payment-required", encoded(&required).parse().unwrap());
    Reply::Answer(answer)
}

/// A seller that sells whichever way it is paid.
fn either(chain: &ScriptedVerifier, bill: impl Fn() -> Reply + Send + Sync + 'static) -> Seller {
    let chain = chain.clone();
    Seller::new(move |asked| match (shown(asked), &asked.proof) {
        (Some(payment), _) => delivered(settle(&chain, &payment)),
        (None, Some(_)) => super::super::rig::sold(),
        (None, None) => bill(),
    })
}

fn how(got: Got) -> PaymentMethod {
    got.purchase.as_ref().map(|Purchase { paid_by, .. }| *paid_by).unwrap()
}

#[tokio::test(start_paused = true)]
async fn of_both_dialects_the_cheaper_way_is_taken_and_of_equal_ones_the_preferred() {
    use PaymentMethod::{Authorization, Transfer};
    let cases: [(&'static str, &'static str, PaymentMethod, PaymentMethod); 6] = [
        ("490000", "490000", Authorization, Authorization),
        ("490000", "490000", Transfer, Transfer),
        ("480000", "490000", Authorization, Transfer),
        ("490000", "480000", Transfer, Authorization),
        // The budget forbids the one: the other is taken.
        ("490000", "1490000", Authorization, Transfer),
        ("1490000", "490000", Transfer, Authorization),
    ];
    for (transfer, authorization, preferred, taken) in cases {
        let market = Market::open().await;
        let seller = either(&market.shop.chain, move || both(transfer, authorization));
        let layer = market.layer_with(|builder| builder.prefer(preferred)).await;
        let got = ask(&layer, &seller, question("{}")).await.unwrap();
        assert_eq!(how(got), taken, "{transfer} {authorization} {preferred:?}");
        assert_eq!(market.wallet.transfers() + market.wallet.authorizations_signed(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_payer_that_signs_none_pays_by_transfer_or_not_at_all() {
    let mut market = Market::open().await;
    market.wallet = market.wallet.clone().authorizing(false);
    let seller = either(&market.shop.chain, || both("490000", "490000"));
    assert_eq!(how(buy(&market, &seller).await.unwrap()), PaymentMethod::Transfer);
    let seller = either(&market.shop.chain, || demand(&[way("490000")]));
    let error = ask(&market.layer().await, &seller, get()).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Payer && error.transaction().is_none(), "{error}");
    assert_eq!(market.wallet.authorizations_signed(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_cheapest_way_that_is_known_and_that_the_budget_allows_is_taken() {
    let market = Market::open().await;
    let change = |change: fn(&mut Value)| {
        let mut way = way("490000");
        change(&mut way);
        way
    };
    let accepts = vec![
        json!({"scheme": "exact", "network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "payTo": "CmGg"}),
        change(|way| way["scheme"] = json!("upto")),
        change(|way| way["network"] = json!(Network::BASE_SEPOLIA)),
        change(|way| way["asset"] = json!(Address::new([9; 20]))),
        change(|way| way["amount"] = json!("1000001")),
        change(|way| way["extra"]["assetTransferMethod"] = json!("permit2")),
        change(|way| way["extra"]["assetTransferMethod"] = json!("txid")),
        change(|way| way["extra"]["paymentFlow"] = json!("escrow")),
        change(|way| way["extra"]["paymentFlow"] = json!("upfront")),
        change(|way| way["extra"]["chosen"] = json!("after the answer")),
        change(|way| way["amount"] = json!("489999")),
    ];
    let chain = market.shop.chain.clone();
    // Of equal ones, what is settled after the answer comes first.
    for (offered, chosen) in [(accepts.clone(), None), (accepts[..10].to_vec(), Some("after the answer"))] {
        let seller = either(&chain, move || demand(&offered));
        buy(&market, &seller).await.unwrap();
        let payment = seller.asked().iter().find_map(shown).unwrap();
        let accepted = payment.accepted.exact().unwrap();
        assert_eq!(accepted.extra.text("chosen"), chosen);
        let amount = if chosen.is_some() { 490_000 } else { 489_999 };
        assert_eq!(accepted.amount, tower_x402::protocol::Amount::from_base_units(amount));
    }
    // What is settled before the answer is taken where there is nothing else.
    let upfront = accepts[8].clone();
    let seller = either(&chain, move || demand(std::slice::from_ref(&upfront)));
    assert_eq!(how(ask(&market.layer().await, &seller, get()).await.unwrap()), PaymentMethod::Authorization);
}

/// Signed under another name it would be worth nothing to the seller, or something elsewhere.
#[tokio::test(start_paused = true)]
async fn a_domain_that_is_not_the_tokens_own_is_not_signed_for() {
    for (member, lie) in [("name", json!("USDC")), ("version", json!("1")), ("name", json!(7)), ("version", json!({}))]
    {
        let market = Market::open().await;
        let mut lying = way("490000");
        lying["extra"][member] = lie;
        let only = lying.clone();
        let seller = either(&market.shop.chain, move || demand(std::slice::from_ref(&only)));
        assert!(buy(&market, &seller).await.is_err_and(|error| error.kind() == PayErrorKind::Payer), "{lying}");
        assert_eq!((market.wallet.authorizations_signed(), market.journal.entries().len()), (0, 0));
        let second = lying.clone();
        let seller = either(&market.shop.chain, move || demand(&[second.clone(), way("490000")]));
        let got = ask(&market.layer().await, &seller, get()).await.unwrap();
        assert_eq!(how(got), PaymentMethod::Authorization, "the next one");
    }
}

#[tokio::test(start_paused = true)]
async fn the_budget_is_the_same_for_both() {
    let market = Market::open().await;
    let dear = either(&market.shop.chain, || demand(&[way("1000001")]));
    let error = buy(&market, &dear).await.unwrap_err();
    assert!(error.denial() == Some(BudgetDenial::PerPayment), "{error}");
    let seller = either(&market.shop.chain, || demand(&[way("1000000")]));
    let layer = market.layer().await;
    for number in 0..10 {
        ask(&layer, &seller, question(&format!(r#"{{"n":{number}}}"#))).await.unwrap();
    }
    assert!(layer.remaining().is_zero());
    let error = ask(&layer, &seller, question(r#"{"n":10}"#)).await.unwrap_err();
    assert!(error.denial() == Some(BudgetDenial::PerDay), "{error}");
    assert_eq!(market.wallet.authorizations_signed(), 10);
    let hook = Market::budget().approve(async |_| false).build().unwrap();
    let builder =
        tower_x402::client::PayLayer::builder(market.wallet.clone(), hook, tower_x402::client::MemoryJournal::new());
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    let error = ask(&layer, &seller, get()).await.unwrap_err();
    assert!(error.denial() == Some(BudgetDenial::NotApproved), "{error}");
}

/// To the payer itself, to a token, in the open, at once: refused like the same transfer.
#[tokio::test(start_paused = true)]
async fn no_authorization_is_signed_for_what_no_transfer_would_be_made() {
    let changes: [fn(&mut Value); 7] = [
        |way| way["payTo"] = json!(Asset::USDC_BASE.contract()),
        |way| way["payTo"] = json!(Address::new([0; 20])),
        |way| way["payTo"] = json!(crate::support::payer()),
        |way| way["amount"] = json!("0"),
        |way| way["maxTimeoutSeconds"] = json!(0),
        |way| way["maxTimeoutSeconds"] = json!(9),
        |way| way["asset"] = json!(Address::new([9; 20])),
    ];
    for change in changes {
        let market = Market::open().await;
        let mut odd = way("490000");
        change(&mut odd);
        let shown = odd.clone();
        let seller = either(&market.shop.chain, move || demand(std::slice::from_ref(&shown)));
        let error = buy(&market, &seller).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::Declined, "{odd}: {error}");
        assert!(seller.asked().iter().filter_map(super::shown).next().is_none(), "{odd}");
        assert!(market.layer().await.spent().is_zero(), "{odd}");
    }
    let market = Market::open().await;
    let seller = either(&market.shop.chain, || demand(&[way("490000")]));
    let open = http::Request::get("http://seller.example/weather").body(Body::empty()).unwrap();
    let error = ask(&market.layer().await, &seller, open).await.unwrap_err();
    assert!(error.denial() == Some(BudgetDenial::PlainHttp), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_402_of_another_kind_is_handed_over_and_a_broken_one_is_an_error() {
    let market = Market::open().await;
    let others: [fn() -> Reply; 4] = [
        || demand(&[json!({"scheme": "upto", "network": "eip155:8453"})]),
        || reply(402, &[("content-type", "application/json")], r#"{"x402Version":2,"accepts":[]}"#),
        || reply(402, &[("content-type", "application/json")], r#"{"x402Version":1,"accepts":[]}"#),
        || reply(402, &[("content-type", "text/html")], "pay at the counter"),
    ];
    for other in others {
        let got = ask(&market.layer().await, &Seller::new(move |_| other()), get()).await.unwrap();
        assert_eq!((got.status.as_u16(), got.text.is_empty()), (402, false));
    }
    for (member, value) in [
        ("amount", json!(490_000)),
        ("amount", json!("4.9e5")),
        ("amount", json!("-1")),
        ("network", json!("base")),
        ("asset", json!("0x12")),
        ("payTo", json!("seller.eth")),
        ("maxTimeoutSeconds", json!("60")),
    ] {
        let mut broken = way("490000");
        broken[member] = value;
        let shown = broken.clone();
        let seller = Seller::new(move |_| demand(std::slice::from_ref(&shown)));
        assert!(buy(&market, &seller).await.is_err_and(|error| error.kind() == PayErrorKind::Quote), "{broken}");
        // The other dialect is whole.
        let (shown, chain) = (broken.clone(), market.shop.chain.clone());
        let seller = either(&chain, move || {
            let Reply::Answer(mut answer) = Bill::default().reply() else { unreachable!() };
            let required = json!({"x402Version": 2, "accepts": [shown]});
            answer.headers_mut().insert("payment-required", encoded(&required).parse().unwrap());
            Reply::Answer(answer)
        });
        let got = ask(&market.layer().await, &seller, question(&format!(r#"{{"{member}":1}}"#))).await.unwrap();
        assert_eq!(how(got), PaymentMethod::Transfer, "{broken}");
    }
    assert_eq!(market.wallet.authorizations_signed(), 0);
}
