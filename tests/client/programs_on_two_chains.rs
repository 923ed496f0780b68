//! Both programs on two chains: `datasets` sells on either, and `buy` pays where its account has money.

use std::time::Duration;

use serde_json::json;
use tower_x402::{
    protocol::{Amount, Network},
    testing::DevChain,
};

use crate::{
    programs::{child, ended, json},
    served::{
        app::App,
        market::{PRICE, SELLER},
    },
};

async fn chain(network: Network) -> DevChain {
    let builder = DevChain::builder().install_with_npm(true).chain_id(network.chain_id());
    builder.mine_every(Duration::from_secs(1)).start().await.unwrap()
}

#[tokio::test]
async fn a_buyer_pays_on_the_chain_on_which_it_has_money() {
    let folder = tempfile::tempdir().unwrap();
    let chains = [chain(Network::BASE).await, chain(Network::BASE_SEPOLIA).await];
    let settle_key = folder.path().join("settle.key");
    std::fs::write(&settle_key, chains[0].accounts()[2].private_key()).unwrap();
    let sepolia = format!("84532={}", chains[1].rpc_url());
    let flags = [
        "--network",
        "8453",
        "--network",
        "84532",
        "--rpc-url",
        &sepolia,
        "--settle-key",
        settle_key.to_str().unwrap(),
    ];
    let app = App::start_in(folder.path().to_owned(), chains[0].rpc_url(), &flags).await;
    let payer = &chains[0].accounts()[1];
    let [on_base, on_sepolia] = chains.each_ref().map(|chain| chain.rpc_url());
    for (paid_on, dialect) in [(1, "auto"), (0, "auto"), (0, "transfer")] {
        for (index, chain) in chains.iter().enumerate() {
            let purse = if index == paid_on { PRICE } else { 0 };
            chain.fund(payer.address(), Amount::from_base_units(purse)).await.unwrap();
        }
        let before = chains[paid_on].usdc_balance(SELLER).await.unwrap();
        let question = r#"{"query":"What do visitors ask about pricing?"}"#;
        let url = app.insights();
        let flags = [&*url, question, "--rpc-url", on_base, "--rpc-url", on_sepolia, "--json", "--dialect", dialect];
        let mut buyer = child(folder.path(), &flags);
        buyer.env("X402_BUYER_KEY", payer.private_key());
        let (code, stdout, stderr) = ended(buyer).await;
        assert_eq!(code, Some(0), "{stdout}\n{stderr}");
        let network = [Network::BASE, Network::BASE_SEPOLIA][paid_on].to_string();
        assert_eq!(json(&stdout)["purchase"]["network"], json!(network), "{stdout}");
        let after = chains[paid_on].usdc_balance(SELLER).await.unwrap();
        assert_eq!(after.checked_sub(before), Some(Amount::from_base_units(PRICE)));
    }
}
