//! A customer with a key of its own, a seller with nothing but default settings, and blocks that come by themselves.

use std::time::{Duration, Instant};

use alloy::{
    network::{EthereumWallet, TransactionBuilder as _},
    providers::{Provider as _, ProviderBuilder},
    rpc::types::TransactionRequest,
    signers::local::PrivateKeySigner,
    sol,
    sol_types::SolCall as _,
};
use serde_json::{Value, json};
use tower_x402::{
    Merchant,
    ledger::MemoryLedger,
    protocol::{Address, SealingKeys},
    testing::DevChain,
    verify::EvmVerifier,
};

use super::{
    market::{PRICE, SELLER, usdc},
    shop::{Answer, INSIGHTS, Shop, client},
};

sol!(function transfer(address to, uint256 amount) returns (bool););

/// All that it knows is the URL: what to pay, to whom, in what and when to ask again it reads from the answers.
#[tokio::test]
async fn a_wallet_that_signs_for_itself_pays_and_gets_its_answer() {
    let chain = DevChain::builder().install_with_npm(true).start().await.unwrap();
    let verifier = EvmVerifier::connect([chain.rpc_url()]).await.unwrap();
    let builder = Merchant::builder(SELLER).hold_unbound(Duration::ZERO).verifier(verifier).ledger(MemoryLedger::new());
    let shop = Shop::open(builder.sealing_keys(SealingKeys::random().unwrap())).await;
    let ask = async |body: &Value| Answer::to(client().post(shop.url(INSIGHTS)).json(body)).await;

    // Its key is its own: the node could not sign for it.
    let signer = PrivateKeySigner::random();
    let payer = Address::new(signer.address().into_array());
    chain.fund(payer, usdc(PRICE)).await.unwrap();

    let quote = ask(&json!({ "query": "why" })).await;
    assert_eq!(quote.status, 402);
    let pay: Value = serde_json::from_str(quote.headers["pay"].to_str().unwrap()).unwrap();
    let intent = quote.headers["x-price-intent"].to_str().unwrap();
    let contract = quote.headers["x-payment-contracts"].to_str().unwrap().split(", ").next().unwrap();
    assert_eq!((&pay["amount"], &pay["decimals"], &pay["symbol"]), (&json!("490000"), &json!(6), &json!("USDC")));

    let call = transferCall {
        to: pay["recipient"].as_str().unwrap().parse().unwrap(),
        amount: pay["amount"].as_str().unwrap().parse().unwrap(),
    };
    let wallet =
        ProviderBuilder::new().wallet(EthereumWallet::from(signer)).connect_http(chain.rpc_url().parse().unwrap());
    let payment = TransactionRequest::default()
        .with_to(contract.parse().unwrap())
        .with_input(call.abi_encode())
        .with_chain_id(pay["chainId"].as_u64().unwrap());
    let hash = wallet.send_transaction(payment).await.unwrap().tx_hash().to_string();

    let proof = json!({ "query": "why", "intentId": intent, "txHash": hash });
    let deadline = Instant::now() + Duration::from_secs(20);
    let sold = loop {
        let answer = ask(&proof).await;
        if answer.status == 200 {
            break answer.sold();
        }
        let wait = answer.refused("tx_not_confirmed").headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!(Instant::now() < deadline, "mined and sold in time");
        tokio::time::sleep(Duration::from_secs(wait)).await;
    };
    assert_eq!((&sold["payer"], &sold["transaction"]), (&json!(payer.to_string()), &json!(hash)));
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), usdc(PRICE));
    assert_eq!(chain.usdc_balance(payer).await.unwrap(), usdc(0));
    ask(&proof).await.refused("already_consumed");
}
