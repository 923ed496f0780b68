//! SECURITY row 50, for nodes: silent, gone, forgetful at every point; and an account without ether.

use super::*;

async fn behind(chain: &DevChain) -> (Proxy, WalletSettler) {
    let proxy = Proxy::before(chain.rpc_url()).await;
    let settler = builder(chain).endpoint(proxy.url()).connect().await.unwrap();
    (proxy, settler)
}

#[tokio::test]
async fn nothing_is_taken_on_while_no_node_answers() {
    let chain = quiet().await;
    let (proxy, settler) = behind(&chain).await;
    let payment = payment(&chain, 1, 1).await;
    for method in ["eth_call", "eth_estimateGas", "eth_feeHistory", "eth_getBalance"] {
        // What gas costs is remembered for a block.
        tokio::time::sleep(Duration::from_secs(2)).await;
        proxy.set(method, Odd::Status(500));
        assert_eq!(settler.verify(&payment).await, Err(SettleError::unavailable()), "{method}");
        assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Unknown(None), "{method}");
        proxy.clear();
    }
    proxy.set("eth_getTransactionCount", Odd::Html);
    assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Unknown(None));
    proxy.set("eth_getBalance", Odd::Status(500));
    assert_eq!(settler.health().await, Err(SettleError::unavailable()));
    proxy.clear();
    assert_eq!(count_of(&chain, "pending").await, 0);
    assert_eq!(settler.health().await, Ok(()));
    transaction(settled(&chain, &settler, &payment).await);
}

#[tokio::test]
async fn a_transaction_whose_answer_was_lost_is_watched_all_the_same() {
    let chain = quiet().await;
    let (proxy, settler) = behind(&chain).await;
    proxy.set("eth_sendRawTransaction", Odd::Lost);
    let payment = payment(&chain, 1, 1).await;
    transaction(settled(&chain, &settler, &payment).await);
    assert_eq!(count_of(&chain, "pending").await, 1);
}

/// Mined at once, so that another node refuses it: it is what settled the payment, and no second one is sent.
#[tokio::test]
async fn a_transaction_whose_answer_was_lost_and_that_others_call_used_is_the_one_that_settled() {
    let chain = quiet().await;
    chain.rpc("evm_setAutomine", json!([true])).await.unwrap();
    let (lost, late) = (Proxy::before(chain.rpc_url()).await, Proxy::before(chain.rpc_url()).await);
    lost.set("eth_sendRawTransaction", Odd::Lost);
    late.set("eth_sendRawTransaction", Odd::Error(-32000, "nonce too low: next nonce 1, tx nonce 0"));
    let settler = builder(&chain).endpoints([lost.url(), late.url()]).connect().await.unwrap();
    let payment = payment(&chain, 1, 1).await;
    transaction(settled(&chain, &settler, &payment).await);
    assert_eq!((paid(&chain).await, count_of(&chain, "latest").await), (490_000, 1));
}

#[tokio::test]
async fn a_transaction_that_no_node_took_is_sent_until_one_does() {
    let chain = quiet().await;
    let (proxy, settler) = behind(&chain).await;
    proxy.set("eth_sendRawTransaction", Odd::Status(500));
    let payment = payment(&chain, 1, 1).await;
    let task = tokio::spawn(async move { settler.settle(&payment, &TransactionRecorder::none()).await });
    until(async || proxy.asked("eth_sendRawTransaction") > 1).await;
    assert_eq!(count_of(&chain, "pending").await, 0);
    proxy.clear();
    transaction(while_mining(&chain, task).await.unwrap());
}

#[tokio::test]
async fn a_node_that_is_gone_after_sending_is_waited_for() {
    let chain = quiet().await;
    let (proxy, settler) = behind(&chain).await;
    let payment = payment(&chain, 1, 1).await;
    let task = tokio::spawn(async move { settler.settle(&payment, &TransactionRecorder::none()).await });
    until_waiting(&chain, 1).await;
    for method in ["eth_getTransactionReceipt", "eth_getTransactionCount", "eth_feeHistory", "eth_sendRawTransaction"] {
        proxy.set(method, Odd::Status(503));
    }
    chain.mine(2).await.unwrap();
    let asked = proxy.asked("eth_getTransactionReceipt");
    until(async || proxy.asked("eth_getTransactionReceipt") > asked + 2).await;
    assert!(!task.is_finished());
    proxy.clear();
    transaction(task.await.unwrap());
}

/// A node that has the account's count and not the receipt does not make a payment refused: its token's state is asked on one block.
#[tokio::test]
async fn a_node_without_receipts_refuses_nothing() {
    let chain = quiet().await;
    let (proxy, settler) = behind(&chain).await;
    proxy.set("eth_getTransactionReceipt", Odd::Result(Value::Null));
    let payment = payment(&chain, 1, 1).await;
    let outcome = settled(&chain, &settler, &payment).await;
    assert!(matches!(outcome, Settlement::Unknown(Some(_))), "{outcome:?}");
    assert_eq!(paid(&chain).await, 490_000);
}

#[tokio::test]
async fn a_refusal_takes_more_than_half_of_the_nodes() {
    let chain = quiet().await;
    let (liar, silent) = (Proxy::before(chain.rpc_url()).await, Proxy::before(chain.rpc_url()).await);
    let nodes = builder(&chain).endpoints([liar.url(), silent.url(), chain.rpc_url()]);
    let settler = nodes.connect().await.unwrap();
    let payment = payment(&chain, 1, 1).await;
    // Used up by the payer, and two of three nodes do not know.
    cancel(&chain, 1, 1).await;
    chain.mine(1).await.unwrap();
    let unused = json!(format!("0x{}", "00".repeat(32)));
    liar.set("eth_call", Odd::Result(unused));
    silent.set("eth_call", Odd::Status(500));
    assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Unknown(None));
}

/// A node that was restored from an old snapshot, or that counts what no chain has.
#[tokio::test]
async fn one_of_three_nodes_that_counts_otherwise_stops_nothing() {
    let chain = quiet().await;
    let account = chain.accounts()[0].address().to_string();
    chain.rpc("anvil_setNonce", json!([account, "0x46"])).await.unwrap();
    let (odd, other) = (Proxy::before(chain.rpc_url()).await, Proxy::before(chain.rpc_url()).await);
    let nodes = [odd.url(), other.url(), chain.rpc_url()];
    let settler = builder(&chain).endpoints(nodes).connect().await.unwrap();
    for (nonce, count) in [(1, "0x0"), (2, "0xf4240")] {
        odd.set("eth_getTransactionCount", Odd::Result(json!(count)));
        assert_eq!(settler.health().await, Ok(()), "{count}");
        let payment = payment(&chain, 1, nonce).await;
        transaction(settled(&chain, &settler, &payment).await);
    }
    // With no majority there is no telling who errs, and health says so before a handler runs.
    other.set("eth_getTransactionCount", Odd::Status(500));
    assert_eq!(settler.health().await, Err(SettleError::unavailable()));
    let payment = payment(&chain, 2, 1).await;
    assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Unknown(None));
    assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (2 * 490_000, 72));
}

#[tokio::test]
async fn where_too_many_wait_no_more_are_taken_on() {
    let chain = quiet().await;
    let (proxy, settler) = behind(&chain).await;
    proxy.set("eth_estimateGas", Odd::Hang);
    let mut waiting = Vec::new();
    let (template, payer) = (authorized(&chain, chain.accounts()[1].address(), 0).await, key(&chain, 1));
    for n in 0..=255 {
        let mut authorization = template.clone();
        authorization.nonce[0] = n;
        waiting.push(signed(&chain, authorization, &payer));
    }
    for payment in &waiting {
        let begun = tokio::time::timeout(Duration::ZERO, settler.settle(payment, &TransactionRecorder::none())).await;
        assert!(begun.is_err());
    }
    let next = payment(&chain, 2, 1).await;
    assert_eq!(settler.verify(&next).await, Err(SettleError::new(SettleErrorKind::Overloaded)));
    assert_eq!(settler.verify(&waiting[0]).await, Ok(Validity::Valid), "which is under way");
    // None of them was sent: what it would do is not known. All have given up by now, also on a busy machine.
    tokio::time::sleep(Duration::from_secs(31)).await;
    proxy.clear();
    until(async || settler.verify(&next).await == Ok(Validity::Valid)).await;
    assert_eq!(count_of(&chain, "pending").await, 0);
}

#[tokio::test]
async fn an_account_without_ether_says_so_before_anything_runs() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let payment = payment(&chain, 1, 1).await;
    let account = settler.address();
    let out_of_gas = Err(SettleError::new(SettleErrorKind::OutOfGas { account }));
    for wei in ["0x0", "0x1"] {
        chain.rpc("anvil_setBalance", json!([account.to_string(), wei])).await.unwrap();
        assert_eq!(settler.health().await, out_of_gas.clone());
        assert_eq!(settler.verify(&payment).await, out_of_gas.clone().map(|()| Validity::Valid));
        assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Unknown(None));
    }
    assert_eq!(count_of(&chain, "pending").await, 0);
    let least = 7_000_000_000_000_000_000;
    let settler = builder(&chain).min_balance(least).endpoint(chain.rpc_url()).connect().await.unwrap();
    for (wei, is_well) in [(least - 1, false), (least, true)] {
        chain.rpc("anvil_setBalance", json!([account.to_string(), format!("{wei:#x}")])).await.unwrap();
        assert_eq!(settler.health().await.is_ok(), is_well);
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid), "enough for one");
    }
}

#[tokio::test]
async fn above_the_fee_limit_nothing_is_settled() {
    let chain = quiet().await;
    let settler = builder(&chain).max_fee_per_gas(1).endpoint(chain.rpc_url()).connect().await.unwrap();
    let payment = payment(&chain, 1, 1).await;
    assert_eq!(settler.verify(&payment).await, Err(SettleError::unavailable()));
    assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Unknown(None));
    assert_eq!(count_of(&chain, "pending").await, 0);
}
