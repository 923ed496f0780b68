//! A page of a seller on two networks: a wallet pays where it is.

use std::time::Duration;

use serde_json::json;
use tower_x402::{Chain, page::Page, protocol::Asset, testing::DevChain};

use super::{
    shop::{self, Kind, Shop, UNITS},
    visit::Browser,
};
use crate::support::Counter;

/// A network that the page has no name for.
const OTHER: u64 = 1337;

/// Sells on both; the shop's chain is the other one.
async fn shop(kind: &Kind) -> (DevChain, Shop) {
    let chain = async |id| {
        let builder = DevChain::builder().install_with_npm(true).chain_id(id);
        builder.mine_every(Duration::from_secs(1)).start().await.unwrap()
    };
    let (base, other) = (chain(8453).await, chain(OTHER).await);
    let network = tower_x402::protocol::Network::eip155(OTHER);
    let mut further =
        Chain::new(network).asset(Asset::new(network, other.usdc(), 6, "USDC")).verifier(shop::verifier(&other).await);
    let mut builder = shop::merchant(&base).await;
    if kind.settles {
        builder = builder.settler(shop::settler(&base).await);
        further = further.settler(shop::settler(&other).await);
    }
    let merchant = builder.chain(further).page(Page::new()).build().await.unwrap();
    let handler = Counter::default();
    let app = shop::routes(&merchant, kind).with_state(handler.clone());
    (base, Shop { chain: other, url: shop::serve(app).await, handler })
}

#[tokio::test]
async fn a_wallet_pays_on_the_network_where_it_is() {
    let Some(browser) = Browser::find().await else { return };
    for (settles, method) in [(false, "eth_sendTransaction"), (true, "eth_signTypedData_v4")] {
        let (base, shop) = shop(&Kind { settles, ..Kind::default() }).await;
        let more = json!({ "press": "Pay with", "redelivered": true, "chainId": format!("{OTHER:#x}") });
        let told = browser.visit(&shop, "pay", &shop.at("/report?as=html"), more).await;
        assert_eq!(told["asked"], json!(["eth_chainId", "eth_call", method]), "it is asked to change nothing: {told}");
        assert!(told["receipt"].as_array().unwrap().contains(&json!("0.49 USDC on chain 1337")), "{told}");
        assert_eq!((&told["status"], &told["again"]["shown"]), (&json!("Paid 0.49 USDC."), &told["shown"]));
        assert_eq!((shop.takings().await, shop.handler.runs()), (UNITS, 1));
        assert_eq!(base.usdc_balance(shop::SELLER).await.unwrap().to_string(), "0");
    }
}

/// From a chain on which the seller does not sell, the wallet is asked to use the first.
#[tokio::test]
async fn a_wallet_that_is_elsewhere_is_asked_to_use_the_first() {
    let Some(browser) = Browser::find().await else { return };
    let (base, other) = shop(&Kind::default()).await;
    let first = Shop { chain: base, url: other.url.clone(), handler: other.handler.clone() };
    let told = browser.visit(&first, "pay", &first.at("/report"), json!({ "press": "Pay with" })).await;
    assert!(told["receipt"].as_array().unwrap().contains(&json!("0.49 USDC on Base")), "{told}");
    assert_eq!((first.takings().await, other.takings().await), (UNITS, 0));
}
