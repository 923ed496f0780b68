//! Nonces in order, under concurrency and where transactions are stuck, lost or abandoned.

use std::collections::BTreeSet;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_at_once_are_all_mined_without_a_gap() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let mut tasks = Vec::new();
    for nonce in 0..40 {
        let (settler, payment) = (settler.clone(), payment(&chain, 1 + usize::from(nonce % 8), nonce).await);
        tasks.push(tokio::spawn(async move { settler.settle(&payment, &TransactionRecorder::none()).await }));
    }
    let outcomes = while_mining(&chain, futures_util::future::join_all(tasks)).await;
    let mut nonces = BTreeSet::new();
    for outcome in outcomes {
        let sent = mined(&chain, transaction(outcome.unwrap())).await;
        nonces.insert(u64::from_str_radix(&sent["nonce"].as_str().unwrap()[2..], 16).unwrap());
    }
    assert!(nonces.into_iter().eq(0..40));
    assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (40 * 490_000, 40));
}

#[tokio::test]
async fn what_is_stuck_is_replaced_under_the_same_nonce() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let (first, second) = (payment(&chain, 1, 1).await, payment(&chain, 2, 1).await);
    let none = TransactionRecorder::none();
    let both = async { tokio::join!(settler.settle(&first, &none), settler.settle(&second, &none)) };
    let chaos = async {
        until_waiting(&chain, 2).await;
        raise_base_fee(&chain).await;
        chain.mine(1).await.unwrap();
        assert_eq!(count_of(&chain, "latest").await, 0, "too cheap by now");
    };
    let all = async {
        tokio::join!(both, async {
            chaos.await;
            while_mining(&chain, until(async || count_of(&chain, "latest").await == 2)).await
        })
        .0
    };
    let (first, second) = tokio::time::timeout(PATIENCE, all).await.unwrap();
    assert_ne!(transaction(first), transaction(second));
    assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (2 * 490_000, 2));
}

/// Its nonce is filled, so that those behind it are mined.
#[tokio::test]
async fn what_dies_while_it_is_stuck_leaves_no_gap() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let (robbed, cancelled, good) =
        (payment(&chain, 1, 1).await, payment(&chain, 2, 1).await, payment(&chain, 3, 1).await);
    let settle = |payment: SignedPayment| {
        let settler = settler.clone();
        tokio::spawn(async move { settler.settle(&payment, &TransactionRecorder::none()).await })
    };
    let mut tasks = Vec::new();
    for (sent, payment) in [robbed, cancelled, good].into_iter().enumerate() {
        tasks.push(settle(payment));
        until_waiting(&chain, sent as u64 + 1).await;
    }
    raise_base_fee(&chain).await;
    chain.mine(1).await.unwrap();
    chain.fund(chain.accounts()[1].address(), Amount::ZERO).await.unwrap();
    cancel(&chain, 2, 1).await;
    let outcomes = while_mining(&chain, futures_util::future::join_all(tasks)).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes[0], Settlement::Refused(Reason::INVALID_TRANSACTION_STATE), "{outcomes:?}");
    assert!(matches!(outcomes[1], Settlement::Unknown(Some(_))), "used by another: {outcomes:?}");
    transaction(outcomes[2].clone());
    assert_eq!((paid(&chain).await, count_of(&chain, "latest").await), (490_000, 3));
}

#[tokio::test]
async fn a_dropped_future_leaves_no_gap_and_its_payment_is_settled() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    for nonce in 1..4 {
        let payment = payment(&chain, 1, nonce).await;
        let wait = Duration::from_millis(u64::from(nonce - 1) * 5);
        drop(tokio::time::timeout(wait, settler.settle(&payment, &TransactionRecorder::none())).await);
    }
    let last = payment(&chain, 2, 1).await;
    transaction(settled(&chain, &settler, &last).await);
    while_mining(&chain, until(async || paid(&chain).await == 4 * 490_000)).await;
    assert_eq!(count_of(&chain, "pending").await, 4);
}

/// A process that ends after it sent, with blocks full or not.
#[tokio::test]
async fn a_new_settler_goes_on_where_a_killed_one_stopped() {
    for is_stuck in [false, true] {
        let chain = quiet().await;
        let (left, next) = (payment(&chain, 1, 1).await, payment(&chain, 2, 1).await);
        let (killed, payment) = (settler(&chain).await, left.clone());
        let process = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let task = process.spawn(async move { killed.settle(&payment, &TransactionRecorder::none()).await });
        until_waiting(&chain, 1).await;
        process.shutdown_background();
        assert!(task.await.is_err(), "killed");
        if is_stuck {
            raise_base_fee(&chain).await;
            chain.mine(1).await.unwrap();
            assert_eq!(count_of(&chain, "latest").await, 0);
        }
        let settler = settler(&chain).await;
        transaction(settled(&chain, &settler, &next).await);
        // Mined as it was, or undone: then it is settled when it is presented again.
        let paid_already = paid(&chain).await == 2 * 490_000;
        assert_eq!(settler.verify(&left).await, Ok(if paid_already { Validity::Used } else { Validity::Valid }));
        assert!(paid_already || is_stuck, "what was sent is mined where nothing keeps it");
        if !paid_already {
            transaction(settled(&chain, &settler, &left).await);
        }
        assert_eq!(paid(&chain).await, 2 * 490_000);
    }
}

#[tokio::test]
async fn a_transaction_that_nodes_forget_is_sent_again() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let payment = payment(&chain, 1, 1).await;
    let task = tokio::spawn(async move { settler.settle(&payment, &TransactionRecorder::none()).await });
    until_waiting(&chain, 1).await;
    chain.rpc("anvil_dropAllTransactions", json!([])).await.unwrap();
    assert_eq!(count_of(&chain, "pending").await, 0);
    transaction(while_mining(&chain, task).await.unwrap());
}

/// The answer was delivered for it.
#[tokio::test]
async fn a_settlement_that_a_reorganisation_removes_is_sent_again() {
    let chain = quiet().await;
    let settler = builder(&chain).final_after(3).endpoint(chain.rpc_url()).connect().await.unwrap();
    let payment = payment(&chain, 1, 1).await;
    let first = transaction(settled(&chain, &settler, &payment).await);
    assert_eq!(paid(&chain).await, 490_000);
    let depth = 1 + chain.block_number().await.unwrap() - mined_at(&chain, first).await;
    chain.reorg(depth, &[]).await.unwrap();
    chain.rpc("anvil_dropAllTransactions", json!([])).await.unwrap();
    assert_eq!(paid(&chain).await, 0);
    while_mining(&chain, until(async || paid(&chain).await == 490_000)).await;
    assert_eq!(mined(&chain, first).await["hash"], first.to_string(), "the same transaction");
}

async fn mined_at(chain: &DevChain, hash: TxHash) -> u64 {
    let height = mined(chain, hash).await["blockNumber"].as_str().unwrap().to_owned();
    u64::from_str_radix(&height[2..], 16).unwrap()
}

/// A process that ended left a payment in the pool. What comes after it waits behind it.
async fn left_behind(chain: &DevChain, left: &SignedPayment) {
    let (killed, payment) = (settler(chain).await, left.clone());
    let process = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let task = process.spawn(async move { killed.settle(&payment, &TransactionRecorder::none()).await });
    until_waiting(chain, 1).await;
    process.shutdown_background();
    assert!(task.await.is_err(), "killed");
}

/// Its answer may be delivered: a reorganisation brings it back into the pool.
#[tokio::test]
async fn a_payment_that_a_dead_process_left_is_never_replaced() {
    for hidden in [false, true] {
        let chain = quiet().await;
        let (left, next) = (payment(&chain, 1, 1).await, payment(&chain, 2, 1).await);
        left_behind(&chain, &left).await;
        let proxy = Proxy::before(chain.rpc_url()).await;
        if hidden {
            // No node tells what waits, only that something does.
            for method in ["eth_getTransactionBySenderAndNonce", "txpool_contentFrom"] {
                proxy.set(method, Odd::Error(-32601, "the method does not exist"));
            }
        }
        let settler = builder(&chain).endpoint(proxy.url()).connect().await.unwrap();
        let task = {
            let settler = settler.clone();
            tokio::spawn(async move { settler.settle(&next, &TransactionRecorder::none()).await })
        };
        until_waiting(&chain, 2).await;
        // As long as it takes to give a nonce up that nobody cares for.
        let sent = proxy.asked("eth_sendRawTransaction");
        until(async || proxy.asked("eth_sendRawTransaction") > sent + 2).await;
        let waiting = waiting(&chain, 0).await;
        assert_eq!(waiting["to"], format!("{:x}", chain.usdc()), "what pays still waits: {waiting}");
        transaction(while_mining(&chain, task).await.unwrap());
        assert_eq!((paid(&chain).await, count_of(&chain, "latest").await), (2 * 490_000, 2));
    }
}

/// What can no longer pay gives way, and so does what never did.
#[tokio::test]
async fn a_nonce_that_pays_nobody_is_filled() {
    let chain = quiet().await;
    let (left, next) = (payment(&chain, 1, 1).await, payment(&chain, 2, 1).await);
    left_behind(&chain, &left).await;
    chain.fund(chain.accounts()[1].address(), Amount::ZERO).await.unwrap();
    let settler = settler(&chain).await;
    let account = settler.address();
    let task = tokio::spawn(async move { settler.settle(&next, &TransactionRecorder::none()).await });
    until(async || waiting(&chain, 0).await["to"] == format!("{account:x}")).await;
    transaction(while_mining(&chain, task).await.unwrap());
    assert_eq!((paid(&chain).await, count_of(&chain, "latest").await), (490_000, 2));
}

/// What waits under this nonce of the settling account.
async fn waiting(chain: &DevChain, nonce: u64) -> Value {
    let account = chain.accounts()[0].address().to_string();
    let told = chain.rpc("eth_getTransactionBySenderAndNonce", json!([account, format!("{nonce:#x}")])).await;
    told.unwrap()
}
