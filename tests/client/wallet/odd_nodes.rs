//! Nodes that lag, forget, contradict themselves, hang: nothing of it may lead to a second payment.

use super::{
    node::{CANARY, Odd, Proxy},
    *,
};

struct Paid {
    chain: DevChain,
    proxy: Proxy,
    wallet: WalletPayer,
    prepared: [PreparedTransfer; 1],
}

/// A payment that was made, and stands so many blocks deep.
async fn paid(blocks: u64) -> Paid {
    let chain = quiet().await;
    let proxy = Proxy::before(chain.rpc_url()).await;
    let wallet =
        WalletPayer::builder().key(chain.accounts()[0].private_key()).endpoint(proxy.url()).connect().await.unwrap();
    let prepared = [wallet.prepare(&in_usdc()).await.unwrap()];
    wallet.send(&prepared[0]).await.unwrap();
    chain.mine(1).await.unwrap();
    chain.mine(blocks).await.unwrap();
    Paid { chain, proxy, wallet, prepared }
}

/// Whatever it is, it must not be one of the two answers that allow a second payment.
fn is_harmless(answer: &Result<TransferStatus, PayerError>) -> bool {
    !matches!(answer, Ok(TransferStatus::Impossible | TransferStatus::Reverted { .. }))
}

#[tokio::test]
async fn a_node_without_the_receipt_of_a_paid_one_never_says_impossible() {
    let Paid { chain, proxy, wallet, prepared } = paid(40).await;
    assert!(matches!(fate(&wallet, &prepared).await, TransferStatus::Mined { confirmations: 41, .. }));
    let odd = [
        vec![("eth_getTransactionReceipt", Odd::Result(Value::Null))],
        vec![
            ("eth_getTransactionReceipt", Odd::Result(Value::Null)),
            ("eth_getTransactionByHash", Odd::Result(Value::Null)),
        ],
        vec![
            ("eth_getTransactionReceipt", Odd::Result(Value::Null)),
            ("eth_getTransactionByHash", Odd::Result(Value::Null)),
            ("eth_getTransactionCount", Odd::Result(json!("0x7"))),
        ],
        vec![
            ("eth_getTransactionReceipt", Odd::Result(Value::Null)),
            ("eth_getTransactionCount", Odd::Error(-32000, "missing trie node")),
        ],
        vec![
            ("eth_getTransactionReceipt", Odd::Result(Value::Null)),
            ("eth_getBlockByNumber", Odd::Changed(|block| block["transactions"] = json!([]))),
        ],
    ];
    for (case, odd) in odd.into_iter().enumerate() {
        proxy.clear();
        odd.into_iter().for_each(|(method, odd)| proxy.set(method, odd));
        let answer = wallet.status(&prepared).await;
        assert!(is_harmless(&answer) && !matches!(answer, Ok(TransferStatus::Mined { .. })), "{case}: {answer:?}");
    }
    // All null: not even that there is a head is believed.
    for method in [
        "eth_getTransactionReceipt",
        "eth_getTransactionByHash",
        "eth_getTransactionCount",
        "eth_getBlockByNumber",
        "eth_chainId",
    ] {
        proxy.set(method, Odd::Result(Value::Null));
    }
    assert!(matches!(wallet.status(&prepared).await, Err(PayerError::Unavailable(_))));
    drop(chain);
}

#[tokio::test]
async fn a_receipt_is_believed_only_for_its_transaction_in_its_block_with_its_status() {
    let Paid { chain, proxy, wallet, prepared } = paid(20).await;
    let changes: [fn(&mut Value); 9] = [
        |receipt| receipt["transactionHash"] = json!(format!("0x{}", "11".repeat(32))),
        |receipt| receipt["blockHash"] = json!(format!("0x{}", "11".repeat(32))),
        |receipt| receipt["blockHash"] = Value::Null,
        |receipt| receipt["blockNumber"] = Value::Null,
        |receipt| receipt["blockNumber"] = json!("0xffff"),
        |receipt| receipt["blockNumber"] = json!("0x1"),
        |receipt| receipt["status"] = Value::Null,
        |receipt| receipt["status"] = json!("0x2"),
        |receipt| *receipt = json!("0x"),
    ];
    for (case, change) in changes.into_iter().enumerate() {
        proxy.set("eth_getTransactionReceipt", Odd::Changed(change));
        let answer = wallet.status(&prepared).await;
        assert!(matches!(answer, Ok(TransferStatus::Pending) | Err(PayerError::Unavailable(_))), "{case}: {answer:?}");
    }
    // One that says "reverted", of a block that is not there: announced too early, or orphaned.
    proxy.set(
        "eth_getTransactionReceipt",
        Odd::Changed(|receipt| {
            receipt["status"] = json!("0x0");
            receipt["blockHash"] = json!(format!("0x{}", "11".repeat(32)));
        }),
    );
    assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Pending);
    // The same in a block that is there, behind an address where there is now another chain.
    proxy.set("eth_getTransactionReceipt", Odd::Changed(|receipt| receipt["status"] = json!("0x0")));
    assert!(matches!(fate(&wallet, &prepared).await, TransferStatus::Reverted { .. }));
    proxy.set("eth_chainId", Odd::Result(json!("0x1")));
    assert!(matches!(wallet.status(&prepared).await, Err(PayerError::Unavailable(_))));
    drop(chain);
}

#[tokio::test]
async fn no_secret_comes_out_whatever_goes_wrong() {
    let Paid { chain, proxy, wallet, prepared } = paid(1).await;
    let methods = [
        "eth_chainId",
        "eth_getBlockByNumber",
        "eth_getTransactionCount",
        "eth_getTransactionReceipt",
        "eth_feeHistory",
        "eth_estimateGas",
        "eth_getBalance",
        "eth_call",
        "eth_sendRawTransaction",
    ];
    let key = chain.accounts()[0].private_key();
    let builder = || WalletPayer::builder().key(key).endpoint(format!("http://{CANARY}:{CANARY}@127.0.0.1:9/{CANARY}"));
    let mut said = format!("{wallet:?} {prepared:?} {:?} {:?}", builder(), builder().connect().await);
    for odd in [Odd::Html, Odd::Error(-32000, "no"), Odd::Result(json!(CANARY)), Odd::Result(Value::Null)] {
        for method in methods {
            proxy.clear();
            proxy.set(method, odd.clone());
            let fate = wallet.status(&prepared).await;
            assert!(is_harmless(&fate));
            let send = wallet.send(&prepared[0]).await;
            assert!(send.is_err(), "its nonce is used");
            let connect = WalletPayer::builder().key(key).endpoint(proxy.url()).connect().await;
            let (prepare, replace) = (wallet.prepare(&in_usdc()).await, wallet.replace(&prepared).await);
            said += &format!("{fate:?} {send:?} {connect:?} {prepare:?} {replace:?}");
            said += &[fate.err(), prepare.err(), replace.err()]
                .into_iter()
                .flatten()
                .map(|e| e.to_string())
                .collect::<String>();
        }
    }
    assert!(!said.contains(CANARY) && !said.contains("127.0.0.1") && !said.contains(&key[2..]), "{said}");
}

#[tokio::test]
async fn a_node_that_hangs_is_given_ten_seconds() {
    let Paid { chain, proxy, wallet, prepared } = paid(1).await;
    proxy.set("eth_getTransactionReceipt", Odd::Hang);
    proxy.set("eth_sendRawTransaction", Odd::Hang);
    let begun = std::time::Instant::now();
    let (fate, sent) = tokio::join!(wallet.status(&prepared), wallet.send(&prepared[0]));
    assert!(matches!(fate, Err(PayerError::Unavailable(_))) && matches!(sent, Err(PayerError::Unavailable(_))));
    assert!((9..20).contains(&begun.elapsed().as_secs()));
    drop(chain);
}

#[tokio::test]
async fn a_node_that_lags_does_not_lead_to_one_nonce_twice_and_a_gas_price_of_fools_is_refused() {
    let chain = quiet().await;
    let proxy = Proxy::before(chain.rpc_url()).await;
    let wallet =
        WalletPayer::builder().key(chain.accounts()[0].private_key()).endpoint(proxy.url()).connect().await.unwrap();
    proxy.set("eth_getTransactionCount", Odd::Result(json!("0x0")));
    for nonce in 0..3 {
        let prepared = wallet.prepare(&in_usdc()).await.unwrap();
        assert_eq!(prepared.nonce(), Some(nonce));
        wallet.send(&prepared).await.unwrap();
    }
    chain.mine(1).await.unwrap();
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), usdc(3 * ASK));

    proxy.set("eth_estimateGas", Odd::Result(json!("0x65b9d")));
    assert!(matches!(wallet.prepare(&in_usdc()).await, Err(PayerError::Refused(why)) if why.contains("gas")));
    for text in ["already known", "ALREADY_EXISTS: already known", "transaction already imported"] {
        proxy.clear();
        let prepared = wallet.prepare(&in_usdc()).await.unwrap();
        proxy.set("eth_sendRawTransaction", Odd::Error(-32000, text));
        assert_eq!(wallet.send(&prepared).await.unwrap(), hash(&prepared), "{text}");
    }
    proxy.set("eth_sendRawTransaction", Odd::Result(json!(format!("0x{}", "11".repeat(32)))));
    let prepared = wallet.prepare(&in_usdc()).await.unwrap();
    assert!(matches!(wallet.send(&prepared).await, Err(PayerError::Unavailable(_))));
}
