//! One of three nodes hides a channel: what was sold in it is claimed all the same, or told of.

use std::{path::Path, sync::Arc, time::Duration};

use axum::body::Body;
use http::Request;
use serde_json::Value;
use tower_x402::{
    ChannelPolicy, Merchant,
    ledger::SqliteLedger,
    protocol::{Address, SealingKeys, channel::BATCH_SETTLEMENT, headers::PAYMENT_SIGNATURE},
    settle::WalletSettler,
    testing::DevChain,
    verify::EvmVerifier,
};

use crate::{
    counter::{PRICE, counting, offered, told},
    support::{
        Counter, ask,
        channel_payer::ChannelPayer,
        layered,
        node::{Odd, Proxy},
    },
};

/// One process of the seller, on a ledger that all of them share.
async fn process(chain: &DevChain, nodes: [&str; 3], ledger: &Path) -> Merchant {
    let settler = WalletSettler::builder()
        .key(chain.accounts()[0].private_key())
        .final_after(0)
        .max_fee_per_gas(1_000_000_000_000)
        .endpoints(nodes)
        .connect()
        .await
        .unwrap();
    Merchant::builder(Address::new([0x5e; 20]))
        .verifier(EvmVerifier::connect([chain.rpc_url()]).await.unwrap())
        .channel_settler(settler)
        .channel_policy(ChannelPolicy::new().withdraw_delay(Duration::from_secs(900)))
        .ledger(Arc::new(SqliteLedger::open(ledger).await.unwrap()))
        .sealing_keys(SealingKeys::new([7; 32]))
        .build()
        .await
        .unwrap()
}

/// Says that nothing is in the channel.
fn hide(params: &Value, result: &mut Value) {
    let contract = format!("{BATCH_SETTLEMENT:x}");
    let is_state = params[0]["to"].as_str().is_some_and(|to| to.eq_ignore_ascii_case(&contract));
    let Some(told) = result.as_str().filter(|told| is_state && told.len() > 2 + 64 * 8) else { return };
    let mut text = told.to_owned();
    // `bytes[]` of three: its place and length, three places; the length of the first, and its first word.
    text.replace_range(2 + 64 * 6..2 + 64 * 7, &"0".repeat(64));
    *result = text.into();
}

#[tokio::test]
async fn what_one_node_hides_is_owed_and_claimed() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).with_channels();
    let chain = builder.start().await.unwrap();
    let (liar, third) = (Proxy::before(chain.rpc_url()).await, Proxy::before(chain.rpc_url()).await);
    let nodes = [liar.url(), chain.rpc_url(), third.url()];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let seller = process(&chain, nodes, &path).await;
    let service = layered(&seller.charge("answer", "0.0001 USDC").unwrap(), counting(&Counter::default(), None));
    let offer = offered(&service).await;
    let payer = ChannelPayer::of(&chain, 1, &offer);
    let payment = payer.deposits(&offer, PRICE, 10 * PRICE).await;
    let request = Request::get("/answer").header(PAYMENT_SIGNATURE, payment.to_header()).body(Body::empty()).unwrap();
    assert_eq!(told(&ask(&service, request).await), (PRICE, PRICE));

    liar.set("eth_call", Odd::Replaced(hide));
    // It says that the claim fails as well, in each turn, and is the first to be asked.
    liar.set("eth_estimateGas", Odd::Error(3, "execution reverted"));
    let worker = process(&chain, nodes, &path).await;
    let claimed = worker.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (1, 0), "one node's word hides no debt, and keeps no claim back");
    assert_eq!(payer.state().await, (10 * PRICE, PRICE));
    worker.health().await.unwrap();
}
