//! Authorizations that are cancelled, in time and too late.

use alloy::primitives::keccak256;

use super::*;

/// Prepares the cancellation and sends it, as the layer does.
async fn cancel(wallet: &WalletPayer, authorized: &PreparedAuthorization) -> Result<TxHash, PayerError> {
    let _turn = wallet.submit_guard(Network::BASE).await;
    wallet.send(&wallet.prepare_cancellation(authorized).await?).await
}

async fn cancelled(chain: &DevChain, wallet: &WalletPayer, prepared: &PreparedAuthorization, deep: u64) -> TxHash {
    let hash = cancel(wallet, prepared).await.unwrap();
    chain.mine(1).await.unwrap();
    assert_eq!(chain.receipt(hash).await.unwrap().unwrap()["status"], "0x1");
    chain.mine(deep).await.unwrap();
    hash
}

#[tokio::test]
async fn a_cancelled_one_is_void_once_that_stays() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = authorized(&chain, &wallet).await;
    let hash = cancel(&wallet, &prepared).await.unwrap();
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused, "in no block yet");
    chain.mine(1).await.unwrap();
    let mined = chain.rpc("eth_getTransactionByHash", json!([hash])).await.unwrap();
    let account = |name: &str| mined[name].as_str().unwrap().parse::<Address>().unwrap();
    assert_eq!((account("from"), account("to")), (wallet.address(), chain.usdc()));
    for deep in 0..12 {
        let answer = told(&wallet, &prepared).await;
        assert!(is_unavailable(&answer), "{deep} blocks on it: {answer:?}");
        chain.mine(1).await.unwrap();
    }
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Void);
    let late = sent(&chain, &prepared).await;
    chain.mine(1).await.unwrap();
    assert_eq!(chain.receipt(late).await.unwrap().unwrap()["status"], "0x0");
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), usdc(0));
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Void);
    assert!(matches!(cancel(&wallet, &prepared).await, Err(PayerError::Refused(_))), "once");
}

#[tokio::test]
async fn a_cancellation_that_vanishes_leaves_it_unused() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = authorized(&chain, &wallet).await;
    cancelled(&chain, &wallet, &prepared, 2).await;
    chain.reorg(3, &[]).await.unwrap();
    let hash = settled(&chain, &prepared).await;
    assert_eq!(known(&wallet, &prepared).await, used(hash));
}

#[tokio::test]
async fn a_cancellation_that_comes_too_late_leaves_it_used() {
    let (chain, proxies, wallet) = through(1).await;
    let prepared = authorized(&chain, &wallet).await;
    let hash = sent(&chain, &prepared).await;
    assert!(matches!(cancel(&wallet, &prepared).await, Err(PayerError::Refused(_))), "about to be used");
    // A node that has not seen what waits, and takes the cancellation.
    proxies[0].set("eth_estimateGas", Odd::Result(json!("0x186a0")));
    let late = cancel(&wallet, &prepared).await.unwrap();
    chain.mine(1).await.unwrap();
    assert_eq!(chain.receipt(hash).await.unwrap().unwrap()["status"], "0x1");
    assert_eq!(chain.receipt(late).await.unwrap().unwrap()["status"], "0x0");
    assert_eq!(known(&wallet, &prepared).await, used(hash));
    proxies[0].clear();
    assert!(matches!(cancel(&wallet, &prepared).await, Err(PayerError::Refused(_))));
    expire(&chain, &prepared, 30).await;
    assert_eq!(known(&wallet, &prepared).await, used(hash));
}

#[tokio::test]
async fn a_cancellation_that_not_all_nodes_see_frees_nothing() {
    let (chain, proxies, wallet) = through(2).await;
    let prepared = authorized(&chain, &wallet).await;
    cancelled(&chain, &wallet, &prepared, 20).await;
    let strange: [(&str, Odd); 6] = [
        ("eth_getLogs", Odd::Result(json!([]))),
        ("eth_getLogs", Odd::Status(503)),
        ("eth_getLogs", Odd::Changed(|logs| logs[0]["blockHash"] = json!(format!("0x{}", "11".repeat(32))))),
        ("eth_getBlockByNumber", Odd::Changed(|block| block["hash"] = json!(format!("0x{}", "11".repeat(32))))),
        ("eth_getBlockByNumber", Odd::Changed(|block| block["number"] = json!("0x16"))),
        ("eth_chainId", Odd::Result(json!("0x1"))),
    ];
    for odd_one in [0, 1] {
        for (case, (method, odd)) in strange.iter().enumerate() {
            proxies[odd_one].set(method, odd.clone());
            let answer = told(&wallet, &prepared).await;
            assert!(is_unavailable(&answer), "{odd_one}, {case}: {answer:?}");
            proxies[odd_one].clear();
        }
    }
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Void);
}

/// Turns the log of a use into one of a cancellation.
fn invented(logs: &mut Value) {
    if let Some(log) = logs.get_mut(0) {
        log["topics"][0] = json!(keccak256("AuthorizationCanceled(address,bytes32)").to_string());
    }
}

#[tokio::test]
async fn one_node_cannot_make_a_used_one_cancelled() {
    let (chain, proxies, wallet) = through(2).await;
    let prepared = authorized(&chain, &wallet).await;
    let hash = settled(&chain, &prepared).await;
    expire(&chain, &prepared, 20).await;
    for liar in [0, 1] {
        let (liar, honest) = (&proxies[liar], &proxies[1 - liar]);
        liar.set("eth_getLogs", Odd::Changed(invented));
        assert_eq!(known(&wallet, &prepared).await, used(hash));
        for (method, odd) in [
            ("eth_getLogs", Odd::Status(503)),
            ("eth_getLogs", Odd::Result(json!([]))),
            ("eth_call", Odd::Html),
            ("eth_getBlockByNumber", Odd::Html),
        ] {
            honest.set(method, odd);
            let answer = told(&wallet, &prepared).await;
            assert!(is_unavailable(&answer) || matches!(answer, Ok(AuthorizationStatus::Used { .. })), "{answer:?}");
            honest.clear();
        }
        liar.clear();
    }
}

#[tokio::test]
async fn a_cancellation_takes_its_turn_among_the_payments() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = authorized(&chain, &wallet).await;
    let turn = wallet.submit_guard(Network::BASE).await;
    let (payer, ours) = (wallet.clone(), prepared.clone());
    let cancelling = tokio::spawn(async move { cancel(&payer, &ours).await });
    let payment = wallet.prepare(&in_usdc()).await.unwrap();
    assert!(!cancelling.is_finished());
    wallet.send(&payment).await.unwrap();
    drop(turn);
    let hash = cancelling.await.unwrap().unwrap();
    let turn = wallet.submit_guard(Network::BASE).await;
    let next = wallet.prepare(&payment_for("next")).await.unwrap();
    wallet.send(&next).await.unwrap();
    drop(turn);
    assert_eq!((payment.nonce(), next.nonce()), (Some(0), Some(2)));
    chain.mine(1).await.unwrap();
    for hash in [super::hash(&payment), hash, super::hash(&next)] {
        assert_eq!(chain.receipt(hash).await.unwrap().unwrap()["status"], "0x1");
    }
}

#[tokio::test]
async fn a_cancellation_costs_no_more_than_a_payment_may() {
    let (chain, proxies, wallet) = through(1).await;
    let prepared = authorized(&chain, &wallet).await;
    let cheap = wallet.clone().max_fee_per_gas(1_000);
    assert!(matches!(cancel(&cheap, &prepared).await, Err(PayerError::Fees)));
    proxies[0].set("eth_estimateGas", Odd::Result(json!("0x65b9d")));
    assert!(matches!(cancel(&wallet, &prepared).await, Err(PayerError::Refused(why)) if why.contains("gas")));
    proxies[0].clear();
    chain.rpc("anvil_setBalance", json!([wallet.address(), "0x1"])).await.unwrap();
    let poor = cancel(&wallet, &prepared).await;
    assert!(
        matches!(poor, Err(PayerError::Refused(why)) if why.contains("ether") || why.contains("refuse")),
        "{poor:?}"
    );
    assert_eq!(chain.rpc("eth_getTransactionCount", json!([wallet.address(), "pending"])).await.unwrap(), "0x0");
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused);
}

/// A fee that no block takes.
#[tokio::test]
async fn a_cancellation_is_followed_and_replaced_like_a_transfer() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let authorized = authorized(&chain, &wallet).await;
    let first = wallet.prepare_cancellation(&authorized).await.unwrap();
    assert!(first.fee > usdc(0));
    assert_eq!(wallet.status(std::slice::from_ref(&first)).await.unwrap(), TransferStatus::Unknown);
    wallet.send(&first).await.unwrap();
    assert_eq!(wallet.status(std::slice::from_ref(&first)).await.unwrap(), TransferStatus::Pending);
    let dearer = wallet.replace(std::slice::from_ref(&first)).await.unwrap().unwrap();
    assert_eq!((dearer.nonce(), dearer.token), (first.nonce(), first.token));
    assert!(dearer.fee > first.fee && raw(&dearer).input == raw(&first).input);
    let transaction = wallet.send(&dearer).await.unwrap();
    chain.mine(13).await.unwrap();
    let mined = TransferStatus::Mined { transaction, confirmations: 13 };
    assert_eq!(wallet.status(&[first, dearer]).await.unwrap(), mined);
    assert_eq!(known(&wallet, &authorized).await, AuthorizationStatus::Void);
}
