//! Which ways to pay are signed for, and how much a seller can make a payer ask before it signs.

use std::time::Duration;

use tower_x402::{
    client::{AuthorizationStatus, Budget, PayLayer, PayLayerBuilder, PurchaseState},
    protocol::{Address, Network, TokenDomain},
};

use super::{super::told::Told, *};

/// A token with authorizations that no table knows.
fn coin() -> Asset {
    Asset::new(Network::BASE, Address::new([0xc0; 20]), 6, "COIN")
}

async fn layer(market: &Market, payer: &Told, set: impl FnOnce(PayLayerBuilder) -> PayLayerBuilder) -> PayLayer {
    let budget = Budget::in_assets([Asset::USDC_BASE, coin()]).per_payment("1").per_day("10").build().unwrap();
    let builder = PayLayer::builder(payer.clone(), budget, market.journal.clone()).clock(market.shop.clock.clone());
    set(builder).build().await.unwrap()
}

/// The questions that a payer is asked about these ways, none of which is taken.
async fn questions(payer: impl FnOnce(&mut Told), ways: Vec<Value>) -> usize {
    let market = Market::open().await;
    let mut told = Told::of(&market.wallet);
    payer(&mut told);
    let seller = Seller::new(move |_| demand(&ways));
    let error = ask(&layer(&market, &told, |builder| builder).await, &seller, question("{}")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Payer && market.wallet.authorizations_signed() == 0, "{error}");
    told.asked()
}

fn ways(change: impl Fn(&mut Value, u32)) -> Vec<Value> {
    let changed = |number| {
        let mut way = way("490000");
        change(&mut way, number);
        way
    };
    (0..110).map(changed).collect()
}

/// Each question is one to a node, or several.
#[tokio::test(start_paused = true)]
async fn many_ways_to_pay_are_few_questions() {
    let misnamed = || ways(|way, _| way["extra"]["name"] = json!("USDC"));
    assert_eq!(questions(|_| {}, misnamed()).await, 0, "the name of USDC is known");
    let of_coin = ways(|way, _| {
        (way["asset"], way["extra"]["name"]) = (json!(coin().contract()), json!("USDC"));
    });
    let stated = |told: &mut Told| told.domain = |asset, _| Some(TokenDomain::new(asset.contract(), "Coin", "1"));
    assert_eq!(questions(stated, of_coin).await, 1, "its name is asked for once");
    let poor = |told: &mut Told| told.domain = |_, _| None;
    let falling = ways(|way, number| way["amount"] = json!((400_000 - number).to_string()));
    assert!(questions(poor, falling).await <= 3);
    let rising = ways(|way, number| way["amount"] = json!((400_000 + number).to_string()));
    assert_eq!(questions(poor, rising).await, 1, "who has too little for one has too little for a dearer one");
}

/// Under the domain of another token the signature would be worth nothing, or would move that one.
#[tokio::test(start_paused = true)]
async fn the_domain_of_another_token_is_not_signed_under() {
    let market = Market::open().await;
    let mut payer = Told::of(&market.wallet);
    payer.domain = |_, _| Some(TokenDomain::new(Address::new([0xdd; 20]), "USD Coin", "2"));
    let seller = seller(|_, _| panic!("shown"));
    let error = ask(&layer(&market, &payer, |builder| builder).await, &seller, question("{}")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Payer, "{error}");
    assert_eq!((market.wallet.authorizations_signed(), market.journal.entries().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_signature_is_valid_for_no_longer_than_the_callers_patience() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let mut long = way("490000");
    long["maxTimeoutSeconds"] = json!(86_400);
    let seller = Seller::new(move |asked| match shown(asked) {
        Some(payment) => {
            assert_eq!(signed(&payment).valid_before.unix(), NOW + 90);
            delivered(settle(&chain, &payment))
        }
        None => demand(std::slice::from_ref(&long)),
    });
    let impatient = market.layer_with(|builder| builder.patience(Duration::from_secs(90))).await;
    assert_eq!(ask(&impatient, &seller, question("{}")).await.unwrap().text, "the answer");
}

const USED_SOMEHOW: AuthorizationStatus = AuthorizationStatus::Used { transaction: None };

/// The chain said once that it was used, by a transaction that was not found. What it says later frees no other payment.
#[tokio::test(start_paused = true)]
async fn one_that_was_used_by_an_unknown_transaction_is_never_void_again() {
    let market = Market::open().await;
    let payer = Told::of(&market.wallet);
    let void = AuthorizationStatus::Void;
    payer.statuses.lock().unwrap().extend([USED_SOMEHOW, void, void, void, void]);
    let seller = seller(|_, _| refusal("invalid_exact_evm_nonce_already_used", &[way("490000")]));
    let layer = layer(&market, &payer, |builder| builder).await;
    for _ in 0..2 {
        let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
        assert!(error.is_resumable(), "{error}");
        assert_eq!((market.wallet.authorizations_signed(), nonces(&seller).0.len()), (1, 1));
        assert_eq!(market.journal.entries()[0].state, PurchaseState::Redeeming);
    }
}

/// What the chain said is used is not put to another quote as if it were left over.
#[tokio::test(start_paused = true)]
async fn one_that_was_used_stays_so_where_the_answer_does_not_confirm_it() {
    let market = Market::open().await;
    let payer = Told::of(&market.wallet);
    payer.statuses.lock().unwrap().push_back(USED_SOMEHOW);
    let seller = seller(|_, shows| match shows {
        0 => refusal("invalid_exact_evm_nonce_already_used", &[way("490000")]),
        _ => reply(200, &[], "an answer"),
    });
    let got = ask(&layer(&market, &payer, |builder| builder).await, &seller, question("{}")).await.unwrap();
    assert_eq!((got.text.as_str(), got.purchase.unwrap().state), ("an answer", PurchaseState::Redeeming));
    assert_eq!(market.journal.entries()[0].state, PurchaseState::Redeeming);
}
