//! When an authorization is void: only then another one may be signed, and the payment made again.

use tower_x402::protocol::PaymentTag;

use super::*;

#[tokio::test]
async fn it_is_void_once_its_time_is_over_in_a_block_that_stays() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = authorized(&chain, &wallet).await;
    chain.mine(20).await.unwrap();
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused, "it can be used");
    expire(&chain, &prepared, 1).await;
    for deep in 0..12 {
        assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused, "{deep} blocks on it: it may vanish");
        chain.mine(1).await.unwrap();
    }
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Void);
    let hash = sent(&chain, &prepared).await;
    chain.mine(1).await.unwrap();
    assert_eq!(chain.receipt(hash).await.unwrap().unwrap()["status"], "0x0", "and the token takes it no more");
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Void);
}

#[tokio::test]
async fn its_time_is_over_at_its_end_to_the_second() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await.final_after(0);
    let prepared = authorized(&chain, &wallet).await;
    chain.set_next_block_timestamp(ChainTime::from_unix(end(&prepared).unix() - 1)).await.unwrap();
    chain.mine(1).await.unwrap();
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused);
    expire(&chain, &prepared, 1).await;
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Void);
}

/// Until then a reorganisation brings its time back, and with it the payment.
#[tokio::test]
async fn a_block_that_vanishes_brings_its_time_back() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = authorized(&chain, &wallet).await;
    expire(&chain, &prepared, 12).await;
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused);
    chain.reorg(12, &[]).await.unwrap();
    let hash = settled(&chain, &prepared).await;
    assert_eq!(known(&wallet, &prepared).await, used(hash));
}

#[tokio::test]
async fn on_a_young_chain_nothing_is_over() {
    let chain = DevChain::builder().install_with_npm(true).mine_every(None).start().await.unwrap();
    let wallet = wallet(&chain).await;
    let prepared = authorized(&chain, &wallet).await;
    expire(&chain, &prepared, 10).await;
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused);
    assert_eq!(known(&wallet.clone().final_after(9), &prepared).await, AuthorizationStatus::Void);
}

/// A machine's clock may be wrong, and a chain may stand still.
#[tokio::test]
async fn only_the_chains_time_counts() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let builder = DevChain::builder().install_with_npm(true).mine_every(None);
    let chain = builder.genesis_time(ChainTime::from_unix(now - 86_400)).start().await.unwrap();
    chain.mine(20).await.unwrap();
    let wallet = wallet(&chain).await;
    let prepared = authorized(&chain, &wallet).await;
    assert!(end(&prepared).unix() < now - 3_600);
    chain.mine(20).await.unwrap();
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused, "over by this machine's clock alone");

    let mut long = request(&chain).await;
    long.valid_for = Duration::from_secs(2 * 86_400);
    long.nonce = PaymentTag::new([7; 32]);
    let long = PreparedAuthorization::new(wallet.network(), chain.usdc(), wallet.authorize(&long).await.unwrap(), "{}");
    assert!(end(&long).unix() > now + 3_600);
    expire(&chain, &long, 13).await;
    assert_eq!(known(&wallet, &long).await, AuthorizationStatus::Void, "over by the chain's alone");
}
