//! Official clients buy from a seller on two networks: each on the network that it knows.

use std::time::Duration;

use tower_x402::{
    Chain,
    protocol::{Amount, Asset, Network},
    settle::WalletSettler,
    testing::DevChain,
    verify::EvmVerifier,
};

use super::{
    PRICE, PURSE, SELLER, Token, World,
    clients::{Client, Order},
    question,
    seller::{By, settling},
};
use crate::served::shop::{INSIGHTS, Shop};

const OTHER: Network = Network::BASE_SEPOLIA;

async fn buys_on_either(client: Client) {
    let Some(world) = World::with(Token::Ours).await else { return };
    let other =
        DevChain::builder().install_with_npm(true).chain_id(OTHER.chain_id()).mine_every(Duration::from_secs(1));
    let other = other.start().await.unwrap();
    other.fund(world.buyer().address(), Amount::from_base_units(PURSE)).await.unwrap();
    let (merchant, _) = settling(&world, By::Wallet).await;
    let verifier = EvmVerifier::connect([other.rpc_url()]).await.unwrap();
    let settler = WalletSettler::builder().key(world.settler().private_key()).endpoint(other.rpc_url());
    let settler = settler.connect().await.unwrap();
    let asset = Asset::new(OTHER, other.usdc(), 6, "USDC");
    let chain = Chain::new(OTHER).verifier(verifier).settler(settler).asset(asset);
    let shop = Shop::open(merchant.chain(chain)).await;
    for (due, sold) in [(OTHER, [0, 1]), (Network::BASE, [1, 1]), (OTHER, [1, 2])] {
        let url = shop.url(INSIGHTS);
        let Some(purchase) = client.buy(&world, Order::post(&url, question()).on(due)).await else { return };
        assert_eq!((purchase.status(), &purchase.settled()["network"]), (200, &due.to_string().into()), "{purchase:?}");
        assert_eq!(purchase.body()["network"], due.to_string());
        let on_other = other.usdc_balance(SELLER).await.unwrap();
        assert_eq!(world.balance(SELLER).await, sold[0] * PRICE);
        assert_eq!(on_other, Amount::from_base_units(sold[1] * PRICE));
    }
    assert_eq!(shop.runs(), 3);
}

#[tokio::test]
async fn the_official_client_of_typescript_buys_on_either_network() {
    buys_on_either(Client::Fetch).await;
}

#[tokio::test]
async fn the_official_client_of_python_buys_on_either_network() {
    buys_on_either(Client::Httpx).await;
}
