//! The buyer's program buys a metered answer, once its account allows Permit2 to move the token.

use std::{path::Path, time::Duration};

use axum::{Router, routing::post};
use tower_x402::{
    Charge, Merchant,
    ledger::MemoryLedger,
    protocol::{Amount, SealingKeys},
    settle::WalletSettler,
    testing::DevChain,
    verify::EvmVerifier,
};

use super::programs::{child, ended, json};
use crate::served::{market::SELLER, shop::serve};

type Ended = (Option<i32>, String, String);

/// A chain with Permit2, and a seller that asks for at most a cent, and charges 0.003.
async fn open() -> (DevChain, String) {
    let chain = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).with_permit2();
    let chain = chain.start().await.unwrap();
    let settler = WalletSettler::builder().key(chain.accounts()[2].private_key()).endpoint(chain.rpc_url());
    let merchant = Merchant::builder(SELLER)
        .verifier(EvmVerifier::builder().endpoints([chain.rpc_url()]).connect().await.unwrap())
        .ledger(MemoryLedger::new())
        .sealing_keys(SealingKeys::new([7; 32]))
        .permit_settler(settler.connect().await.unwrap());
    let merchant = merchant.build().await.unwrap();
    let paid = merchant.charge_up_to("words", "0.01 USDC").unwrap();
    let handler = || async { (Charge(Amount::from_base_units(3_000)), r#"{"words":3}"#) };
    let url = serve(Router::new().route("/words", post(handler).route_layer(paid))).await;
    (chain, format!("{url}/words"))
}

async fn buys(chain: &DevChain, folder: &Path, flags: &[&str]) -> Ended {
    let mut command = child(folder, flags);
    command.env("X402_BUYER_KEY", chain.accounts()[9].private_key()).env("X402_RPC_URL", chain.rpc_url());
    ended(command).await
}

#[tokio::test]
async fn the_program_allows_a_maximum_and_says_what_was_charged() {
    let (chain, url) = open().await;
    let folder = tempfile::tempdir().unwrap();
    let buys = async |flags: &[&str]| buys(&chain, folder.path(), flags).await;
    // Without the allowance it says how to make it.
    let (code, _, said) = buys(&[&url, "{}"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("buy allow --token 0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913 --amount 0.01"), "{said}");
    for flags in [["--token", "EURC", "--amount", "1"], ["--token", "USDC", "--amount", "one"]] {
        let (code, _, said) = buys(&[&["allow"], &flags[..]].concat()).await;
        assert_eq!(code, Some(1), "{said}");
    }
    let (code, stdout, said) = buys(&["allow", "--token", "USDC", "--amount", "5"]).await;
    assert!(code == Some(0) && stdout.contains("5 USDC") && said.contains("approved"), "{stdout} {said}");

    let (code, stdout, said) = buys(&[&url, "{}", "--json"]).await;
    assert!(code == Some(0) && said.contains("charged     0.003 of at most 0.01"), "{said}");
    let bought = json(&stdout);
    assert_eq!(
        (bought["purchase"]["charged"].as_str(), bought["purchase"]["amount"].as_str()),
        (Some("0.003"), Some("0.01"))
    );
    assert_eq!((bought["purchase"]["paidBy"].as_str(), bought["answer"]["words"].as_u64()), (Some("permit"), Some(3)));
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), Amount::from_base_units(3_000));
    let (_, stdout, _) = buys(&["history"]).await;
    assert!(stdout.contains("0.003 of 0.01 USDC") && stdout.contains("permit"), "{stdout}");

    // More than the limit for one answer is not allowed to anyone.
    let (code, _, said) = buys(&[&url, r#"{"more":1}"#, "--max", "0.009"]).await;
    assert_eq!(code, Some(3), "{said}");
    let (code, stdout, said) = buys(&["allow", "--token", "usdc", "--amount", "0"]).await;
    assert!(code == Some(0) && stdout.contains("0 USDC"), "{stdout} {said}");
    let (code, _, said) = buys(&[&url, r#"{"more":2}"#]).await;
    assert!(code == Some(1) && said.contains("buy allow"), "{said}");
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), Amount::from_base_units(3_000));
}
