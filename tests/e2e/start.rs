//! A seller who would sell wrongly does not open.

use axum::{Router, routing::any};
use serde_json::json;
use tower_x402::{
    BuildError, HealthError,
    protocol::{Address, Asset, Network},
    testing::{DevChain, contracts},
    verify::{EvmVerifier, EvmVerifierBuilder, VerifyErrorKind},
};

use super::{
    market::{Market, PRICE, SELLER, usdc},
    shop::{INSIGHTS, Shop, serve},
};

fn kind(error: BuildError) -> VerifyErrorKind {
    match error {
        BuildError::Health(HealthError::Verifier(error)) => error.kind().clone(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_token_with_other_decimals_than_it_is_said_to_have_is_refused() {
    let market = Market::new().await;
    let coin = market.deploy_with(contracts::COIN, &[18.into()]).await;
    let asset = |decimals| Asset::new(Network::BASE, coin, decimals, "COIN");

    let error = market.merchant().await.asset(asset(6)).build().await.unwrap_err();
    assert_eq!(kind(error), VerifyErrorKind::WrongToken { contract: coin, expected: 6, found: Some(18) });
    // Not even as a token of before.
    let error = market.merchant().await.former_asset(asset(6)).build().await.unwrap_err();
    assert_eq!(kind(error), VerifyErrorKind::WrongToken { contract: coin, expected: 6, found: Some(18) });

    // Said rightly, it cannot stand beside USDC: one amount would be two prices.
    let stated = market.verifier().connect().await.unwrap().asset(coin).await.unwrap();
    assert_eq!(stated, asset(18));
    let error = market.merchant().await.asset(Asset::USDC_BASE).asset(stated.clone()).build().await.unwrap_err();
    assert!(matches!(error, BuildError::MixedDecimals { contract, expected: 6, found: 18 } if contract == coin));
    let error = market.merchant().await.asset(Asset::USDC_BASE).former_asset(stated).build().await.unwrap_err();
    assert!(matches!(error, BuildError::MixedDecimals { .. }));
}

#[tokio::test]
async fn a_token_with_eighteen_decimals_can_be_sold_for_alone() {
    let market = Market::new().await;
    let coin = market.deploy_with(contracts::COIN, &[18.into()]).await;
    let stated = market.verifier().connect().await.unwrap().asset(coin).await.unwrap();
    let shop = Shop::open(market.merchant().await.asset(stated)).await;
    assert!(shop.merchant.charge("priced-in-coins", "0.000000000000000001 COIN").is_ok());
    assert!(matches!(shop.merchant.charge("priced-in-usdc", "0.49 USDC"), Err(BuildError::WrongSymbol { .. })));

    let quote = shop.quote(INSIGHTS).await;
    assert_eq!((quote.decimals, quote.symbol.as_str(), quote.contracts.as_slice()), (18, "COIN", &[coin][..]));
    let usdc_payment = market.pay(PRICE).await;
    shop.redeem(INSIGHTS, quote.intent.as_str(), usdc_payment).await.refused("transfer_not_found");
    market.call(market.buyer(0), coin, &contracts::mint(market.buyer(0), usdc(PRICE))).await;
    let payment = market.call(market.buyer(0), coin, &contracts::transfer(SELLER, usdc(PRICE))).await;
    shop.redeem(INSIGHTS, quote.intent.as_str(), payment).await.sold();
}

#[tokio::test]
async fn an_address_without_a_token_is_refused() {
    let market = Market::new().await;
    for nothing in [Address::new([0x33; 20]), market.deploy(contracts::RELAY).await] {
        let asset = Asset::new(Network::BASE, nothing, 6, "USDC");
        let error = market.merchant().await.asset(asset).build().await.unwrap_err();
        assert_eq!(kind(error), VerifyErrorKind::WrongToken { contract: nothing, expected: 6, found: None });
        market.verifier().connect().await.unwrap().asset(nothing).await.unwrap_err();
    }
}

#[tokio::test]
async fn an_endpoint_of_another_chain_is_refused_and_the_right_chain_sells() {
    let market = Market::on(DevChain::builder().chain_id(84532)).await;
    let error = market.merchant().await.build().await.unwrap_err();
    let wrong = VerifyErrorKind::WrongChain { expected: Network::BASE, found: Network::BASE_SEPOLIA };
    assert_eq!(kind(error), wrong);

    let shop = Shop::open(market.merchant().await.network(Network::BASE_SEPOLIA)).await;
    let quote = shop.quote(INSIGHTS).await;
    assert_eq!(quote.network, Network::BASE_SEPOLIA);
    assert_eq!(quote.contracts, [Asset::USDC_BASE_SEPOLIA.contract()]);
    let answer = shop.redeem(INSIGHTS, quote.intent.as_str(), market.pay(PRICE).await).await;
    assert_eq!(answer.sold()["network"], "eip155:84532");
}

#[tokio::test]
async fn endpoints_of_two_chains_are_refused() {
    let (base, sepolia) = tokio::join!(Market::new(), Market::on(DevChain::builder().chain_id(84532)));
    let error = EvmVerifier::connect([base.chain.rpc_url(), sepolia.chain.rpc_url()]).await.unwrap_err();
    let wrong = VerifyErrorKind::WrongChain { expected: Network::BASE, found: Network::BASE_SEPOLIA };
    assert_eq!(*error.kind(), wrong);
}

#[tokio::test]
async fn an_endpoint_that_is_no_chain_is_refused_without_showing_its_url() {
    let page = serve(Router::new().fallback(any(async || "<html>not a chain</html>"))).await;
    let json = serve(Router::new().fallback(any(async || axum::Json(json!({ "hello": "world" }))))).await;
    let nobody = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    for url in [page, json, nobody].map(|url| format!("{url}/v2/s3cret")) {
        assert_refused(EvmVerifier::builder().endpoints([&url]), &VerifyErrorKind::Unavailable).await;
    }
    for url in ["", "s3cret", "ws://127.0.0.1:1/s3cret"] {
        assert_refused(EvmVerifier::builder().endpoints([url]), &VerifyErrorKind::InvalidEndpoint).await;
    }
    assert_refused(EvmVerifier::builder(), &VerifyErrorKind::InvalidEndpoint).await;
}

async fn assert_refused(builder: EvmVerifierBuilder, kind: &VerifyErrorKind) {
    let error = builder.connect().await.unwrap_err();
    assert_eq!(error.kind(), kind);
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}

/// One that is down does not keep the others from selling.
#[tokio::test]
async fn one_endpoint_of_several_is_enough() {
    let market = Market::new().await;
    let page = serve(Router::new().fallback(any(async || "<html>not a chain</html>"))).await;
    let verifier = EvmVerifier::builder().endpoints([page.as_str(), market.chain.rpc_url()]);
    let verifier = verifier.clock(market.clock.clone()).connect().await.unwrap();
    let shop = Shop::open(market.merchant().await.verifier(verifier)).await;
    shop.buy_with(market.pay(PRICE).await).await.sold();
}

#[tokio::test]
async fn an_endpoint_that_turns_to_another_chain_is_not_believed_before_it_turns_back() {
    let market = Market::new().await;
    let shop = Shop::open(market.merchant().await).await;
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.pay(PRICE).await;

    market.chain.rpc("anvil_setChainId", json!([1])).await.unwrap();
    // How long a proof lasts.
    market.block_at(market.now().await + 60).await;
    shop.redeem(INSIGHTS, &intent, payment).await.refused("verification_unavailable");
    assert!(matches!(shop.merchant.health().await, Err(HealthError::Verifier(_))));
    assert_eq!(shop.runs(), 0);

    // Its rest over, it proves itself again and is believed: the payment waited.
    market.chain.rpc("anvil_setChainId", json!([8453])).await.unwrap();
    market.block_at(market.now().await + 60).await;
    shop.redeem(INSIGHTS, &intent, payment).await.sold();
    assert_eq!(shop.runs(), 1);
}
