//! What becomes of payments: replaced, reverted, dropped, taken over, and re-organised away.

use super::*;

#[tokio::test]
async fn a_nonce_that_another_used_for_good_makes_it_impossible() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    for deep in [0, 1, 5, 12, 40, 200] {
        let prepared = [wallet.prepare(&in_usdc()).await.unwrap()];
        used_elsewhere(&chain).await;
        chain.mine(11).await.unwrap();
        assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Unknown, "eleven blocks on it: it may vanish");
        assert!(wallet.send(&prepared[0]).await.is_err());
        chain.mine(1 + deep).await.unwrap();
        assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Impossible, "{deep} deeper");
    }
}

/// Old wallets and new ones sign in different ways.
#[tokio::test]
async fn whatever_kind_of_transaction_took_the_nonce_is_proven() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let keys = [
        json!({"gasPrice": "0x77359400"}),
        json!({"gasPrice": "0x77359400", "accessList": [{"address": SELLER, "storageKeys": []}]}),
        json!({"maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x1"}),
    ];
    for (kind, fees) in keys.into_iter().enumerate() {
        let prepared = [wallet.prepare(&in_usdc()).await.unwrap()];
        let mut transaction = fees;
        transaction["from"] = json!(wallet.address());
        transaction["to"] = json!(SELLER);
        transaction["value"] = json!("0x1");
        let sent = chain.rpc("eth_sendTransaction", json!([transaction])).await.unwrap();
        chain.mine(13).await.unwrap();
        let mined = chain.rpc("eth_getTransactionByHash", json!([sent])).await.unwrap();
        assert_eq!(mined["type"], format!("{kind:#x}"));
        assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Impossible, "{kind}");
    }
}

#[tokio::test]
async fn a_payment_that_is_replaced_is_paid_once() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let first = wallet.prepare(&in_usdc()).await.unwrap();
    wallet.send(&first).await.unwrap();
    let mut all = vec![first];
    for _ in 0..3 {
        let dearer = wallet.replace(&all).await.unwrap().expect("below the cap");
        assert_eq!((dearer.nonce(), dearer.token, dearer.payer), (all[0].nonce(), all[0].token, all[0].payer));
        assert!(all.iter().all(|prepared| prepared.transaction() != dearer.transaction()));
        wallet.send(&dearer).await.unwrap();
        all.push(dearer);
        assert_eq!(fate(&wallet, &all).await, TransferStatus::Pending);
    }
    assert!(wallet.clone().max_fee_per_gas(1_000).replace(&all).await.unwrap().is_none());
    chain.mine(1).await.unwrap();
    let mined = hash(&all[3]);
    assert_eq!(fate(&wallet, &all).await, TransferStatus::Mined { transaction: mined, confirmations: 1 });
    chain.mine(20).await.unwrap();
    assert_eq!(fate(&wallet, &all).await, TransferStatus::Mined { transaction: mined, confirmations: 21 });
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), usdc(ASK));
    for prepared in &all[..3] {
        assert!(matches!(wallet.send(prepared).await, Err(PayerError::Refused(_))));
    }
    // A journal that lost the last lines, or a wallet hurried by hand: the same transfer under a hash it does not know.
    assert_eq!(fate(&wallet, &all[..3]).await, TransferStatus::Mined { transaction: mined, confirmations: 21 });
}

/// The chain's fees rose meanwhile: an eighth on top of the last offer would not do.
#[tokio::test]
async fn a_dearer_offer_is_one_at_the_present_fees() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await.max_fee_per_gas(u128::MAX);
    let first = [wallet.prepare(&in_usdc()).await.unwrap()];
    wallet.send(&first[0]).await.unwrap();
    let base = raw(&first[0]).max_fee_per_gas * 10;
    chain.rpc("anvil_setNextBlockBaseFeePerGas", json!([format!("{base:#x}")])).await.unwrap();
    chain.mine(1).await.unwrap();
    let dearer = wallet.replace(&first).await.unwrap().unwrap();
    assert!(raw(&dearer).max_fee_per_gas > base, "{} of {base}", raw(&dearer).max_fee_per_gas);
    wallet.send(&dearer).await.unwrap();
    chain.mine(1).await.unwrap();
    let all = [first[0].clone(), dearer];
    assert_eq!(fate(&wallet, &all).await, TransferStatus::Mined { transaction: hash(&all[1]), confirmations: 1 });
}

#[tokio::test]
async fn the_first_is_mined_while_a_dearer_one_was_prepared() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let first = wallet.prepare(&in_usdc()).await.unwrap();
    wallet.send(&first).await.unwrap();
    let dearer = wallet.replace(std::slice::from_ref(&first)).await.unwrap().unwrap();
    chain.mine(1).await.unwrap();
    let all = [first, dearer];
    assert_eq!(fate(&wallet, &all).await, TransferStatus::Mined { transaction: hash(&all[0]), confirmations: 1 });
    assert!(wallet.send(&all[1]).await.is_err());
}

#[tokio::test]
async fn a_reverted_payment_is_one_only_once_it_is_deep() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = [wallet.prepare(&in_usdc()).await.unwrap()];
    wallet.send(&prepared[0]).await.unwrap();
    chain.fund(wallet.address(), usdc(ASK - 1)).await.unwrap();
    chain.mine(1).await.unwrap();
    assert_eq!(chain.receipt(hash(&prepared[0])).await.unwrap().unwrap()["status"], "0x0");
    for _ in 0..12 {
        assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Pending);
        chain.mine(1).await.unwrap();
    }
    assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Reverted { transaction: hash(&prepared[0]) });
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), usdc(0));
}

#[tokio::test]
async fn a_dropped_payment_is_sent_again() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = [wallet.prepare(&in_usdc()).await.unwrap()];
    wallet.send(&prepared[0]).await.unwrap();
    chain.rpc("anvil_dropTransaction", json!([hash(&prepared[0])])).await.unwrap();
    assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Unknown);
    // Within a minute of the sending the node is thought to lag.
    assert_eq!(wallet.prepare(&in_usdc()).await.unwrap().nonce(), Some(1));
    wallet.send(&prepared[0]).await.unwrap();
    chain.mine(1).await.unwrap();
    assert_eq!(
        fate(&wallet, &prepared).await,
        TransferStatus::Mined { transaction: hash(&prepared[0]), confirmations: 1 }
    );
}

#[tokio::test]
async fn a_reorganisation_takes_it_back() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = [wallet.prepare(&in_usdc()).await.unwrap()];
    wallet.send(&prepared[0]).await.unwrap();
    chain.mine(2).await.unwrap();
    assert_eq!(
        fate(&wallet, &prepared).await,
        TransferStatus::Mined { transaction: hash(&prepared[0]), confirmations: 2 }
    );
    chain.reorg(2, &[]).await.unwrap();
    assert!(matches!(fate(&wallet, &prepared).await, TransferStatus::Unknown | TransferStatus::Pending));
    wallet.send(&prepared[0]).await.unwrap();
    chain.mine(1).await.unwrap();
    assert_eq!(
        fate(&wallet, &prepared).await,
        TransferStatus::Mined { transaction: hash(&prepared[0]), confirmations: 1 }
    );
}

#[tokio::test]
async fn on_a_young_chain_nothing_is_final() {
    let chain = DevChain::builder().install_with_npm(true).mine_every(None).start().await.unwrap();
    let wallet = wallet(&chain).await;
    let prepared = [wallet.prepare(&in_usdc()).await.unwrap()];
    used_elsewhere(&chain).await;
    chain.mine(10).await.unwrap();
    assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Unknown);
    assert_eq!(fate(&wallet.clone().final_after(3), &prepared).await, TransferStatus::Impossible);
    chain.mine(2).await.unwrap();
    assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Impossible);
}

#[tokio::test]
async fn what_was_prepared_elsewhere_is_foreign() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let other = WalletPayer::builder()
        .key(chain.accounts()[1].private_key())
        .endpoint(chain.rpc_url())
        .connect()
        .await
        .unwrap();
    let foreign = other.prepare(&in_usdc()).await.unwrap();
    let keyed = PreparedTransfer::keyed(wallet.address(), wallet.network(), chain.usdc(), "order-1");
    let ours = wallet.prepare(&in_usdc()).await.unwrap();
    used_elsewhere(&chain).await;
    let later = wallet.prepare(&in_usdc()).await.unwrap();
    let is_foreign = |answer: Result<TransferStatus, PayerError>| matches!(answer, Err(PayerError::Foreign));
    assert!(is_foreign(wallet.status(&[]).await));
    for bad in [&foreign, &keyed] {
        assert!(matches!(wallet.send(bad).await, Err(PayerError::Foreign)));
        assert!(is_foreign(wallet.status(&[ours.clone(), bad.clone()]).await));
        assert!(matches!(wallet.replace(std::slice::from_ref(bad)).await, Err(PayerError::Foreign)));
    }
    assert!(is_foreign(wallet.status(&[ours, later]).await), "two nonces do not exclude each other");
}
