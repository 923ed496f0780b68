//! Nodes that lie, alone and beside others: one node's word makes no payment free to be made again.

use tower_x402::client::WalletErrorKind;

use super::{
    node::{Odd, Proxy},
    *,
};

const NO_RECEIPT: (&str, Odd) = ("eth_getTransactionReceipt", Odd::Result(Value::Null));

/// A wallet that pays through so many nodes of one chain.
pub(super) async fn through(nodes: usize) -> (DevChain, Vec<Proxy>, WalletPayer) {
    let chain = quiet().await;
    let mut proxies = Vec::new();
    for _ in 0..nodes {
        proxies.push(Proxy::before(chain.rpc_url()).await);
    }
    let builder = WalletPayer::builder().key(chain.accounts()[0].private_key());
    let wallet = builder.endpoints(proxies.iter().map(Proxy::url)).connect().await.unwrap();
    (chain, proxies, wallet)
}

async fn paid(chain: &DevChain, wallet: &WalletPayer, deep: u64) -> [PreparedTransfer; 1] {
    let prepared = [wallet.prepare(&in_usdc()).await.unwrap()];
    wallet.send(&prepared[0]).await.unwrap();
    chain.mine(1 + deep).await.unwrap();
    prepared
}

/// A payment in whose place another transaction of the account was mined.
async fn displaced(chain: &DevChain, wallet: &WalletPayer, deep: u64) -> [PreparedTransfer; 1] {
    let prepared = [wallet.prepare(&in_usdc()).await.unwrap()];
    used_elsewhere(chain).await;
    chain.mine(deep).await.unwrap();
    prepared
}

fn is_unavailable(answer: &Result<TransferStatus, PayerError>) -> bool {
    matches!(answer, Err(PayerError::Unavailable(_)))
}

const REVERTED: Odd = Odd::Changed(|receipt| receipt["status"] = json!("0x0"));

/// Hides every receipt that there is, and has one of every other transaction: in the block in which the payment is.
fn made_up(params: &Value, receipt: &mut Value) {
    *receipt = if receipt.is_null() {
        json!({"transactionHash": params[0], "blockNumber": "0x15", "blockHash": HASH, "status": "0x1"})
    } else {
        Value::Null
    };
}

const HASH: &str = "0x2222222222222222222222222222222222222222222222222222222222222222";

/// A block in which the account's transaction is another than it signed.
fn invented(block: &mut Value) {
    block["hash"] = json!(HASH);
    for transaction in block["transactions"].as_array_mut().into_iter().flatten().filter(|one| one.is_object()) {
        transaction["hash"] = json!(format!("0x{}", "11".repeat(32)));
        transaction["input"] = json!("0x");
        transaction["value"] = json!("0x1");
    }
}

#[tokio::test]
async fn the_transaction_that_took_the_nonce_cannot_be_invented() {
    let (chain, proxies, wallet) = through(1).await;
    let prepared = paid(&chain, &wallet, 30).await;
    let [proxy] = &proxies[..] else { unreachable!() };
    let tamper: [fn(&mut Value); 4] = [
        invented,
        // A signature of somebody's, under the account's name.
        |block| {
            invented(block);
            block["transactions"][0]["s"] = json!("0x1");
        },
        // Signed by nobody, as a deposit from another layer.
        |block| {
            invented(block);
            block["transactions"][0]["type"] = json!("0x7e");
        },
        // The payment itself, signed for another chain.
        |block| {
            block["hash"] = json!(HASH);
            block["transactions"][0]["chainId"] = json!("0x1");
        },
    ];
    for (case, change) in tamper.into_iter().enumerate() {
        proxy.set("eth_getTransactionReceipt", Odd::Replaced(made_up));
        proxy.set("eth_getBlockByNumber", Odd::Changed(change));
        let answer = wallet.status(&prepared).await;
        assert!(is_unavailable(&answer), "{case}: {answer:?}");
    }
    proxy.clear();
    assert!(matches!(fate(&wallet, &prepared).await, TransferStatus::Mined { .. }));
}

/// Its nonces and receipts mean nothing here.
#[tokio::test]
async fn a_node_that_now_serves_another_chain_makes_nothing_impossible() {
    let (chain, proxies, wallet) = through(1).await;
    let prepared = displaced(&chain, &wallet, 20).await;
    proxies[0].set("eth_chainId", Odd::Result(json!("0x1")));
    let answer = wallet.status(&prepared).await;
    assert!(is_unavailable(&answer), "{answer:?}");
    proxies[0].clear();
    assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Impossible);
}

#[tokio::test]
async fn a_status_that_one_of_two_turns_round_is_not_believed() {
    let (chain, proxies, wallet) = through(2).await;
    let prepared = paid(&chain, &wallet, 30).await;
    for liar in [0, 1] {
        let honest = 1 - liar;
        proxies[liar].set("eth_getTransactionReceipt", REVERTED);
        let mined = TransferStatus::Mined { transaction: hash(&prepared[0]), confirmations: 31 };
        assert_eq!(fate(&wallet, &prepared).await, mined);
        // The other is silenced, or knows nothing.
        for (method, odd) in [NO_RECEIPT, ("eth_getTransactionReceipt", Odd::Status(503)), ("eth_chainId", Odd::Html)] {
            proxies[honest].clear();
            proxies[honest].set(method, odd);
            if method == "eth_chainId" {
                proxies[honest].set("eth_getTransactionReceipt", REVERTED);
            }
            let answer = wallet.status(&prepared).await;
            assert!(is_unavailable(&answer), "{liar} {method}: {answer:?}");
        }
        proxies.iter().for_each(Proxy::clear);
    }
    proxies.iter().for_each(|proxy| proxy.set("eth_getTransactionReceipt", REVERTED));
    assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Reverted { transaction: hash(&prepared[0]) });
}

#[tokio::test]
async fn impossible_is_what_all_that_answer_say_and_more_than_half_answer() {
    let (chain, proxies, wallet) = through(3).await;
    let prepared = displaced(&chain, &wallet, 20).await;
    assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Impossible);
    for odd_one in 0..3 {
        let odd = &proxies[odd_one];
        odd.set("eth_getBlockByNumber", Odd::Status(503));
        assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Impossible, "{odd_one} does not answer");
        let next = &proxies[(odd_one + 1) % 3];
        next.set("eth_getBlockByNumber", Odd::Status(503));
        let answer = wallet.status(&prepared).await;
        assert!(!matches!(answer, Ok(TransferStatus::Impossible)), "{odd_one} and the next do not answer: {answer:?}");
        proxies.iter().for_each(Proxy::clear);
        // One that does not see it, lags, or has another block there.
        let strange: [(&str, Odd); 3] = [
            NO_RECEIPT,
            ("eth_getBlockByNumber", Odd::Changed(|block| block["number"] = json!("0x16"))),
            ("eth_getBlockByNumber", Odd::Changed(|block| block["hash"] = json!(format!("0x{}", "11".repeat(32))))),
        ];
        for (case, (method, strange)) in strange.into_iter().enumerate() {
            odd.set(method, strange);
            let answer = wallet.status(&prepared).await;
            assert!(is_unavailable(&answer), "{odd_one}, {case}: {answer:?}");
            odd.clear();
        }
    }
}

/// The one transaction is in a block, the other was signed for the same nonce: a node that has both says it the other way round.
#[tokio::test]
async fn what_was_really_signed_and_never_mined_takes_no_place() {
    let (chain, proxies, wallet) = through(1).await;
    let other = super::wallet(&chain).await;
    let (ours, theirs) =
        (wallet.prepare(&payment_for("a")).await.unwrap(), other.prepare(&payment_for("b")).await.unwrap());
    assert_eq!(ours.nonce(), theirs.nonce());
    wallet.send(&ours).await.unwrap();
    chain.mine(30).await.unwrap();
    // It hides the receipt; that of the other transaction it would have to make up.
    proxies[0].set(NO_RECEIPT.0, NO_RECEIPT.1);
    let answer = wallet.status(std::slice::from_ref(&ours)).await;
    assert!(is_unavailable(&answer), "{answer:?}");
    let answer = other.status(std::slice::from_ref(&theirs)).await;
    assert_eq!(answer.unwrap(), TransferStatus::Impossible);
}

#[tokio::test]
async fn a_node_that_refuses_old_state_says_nothing_about_the_payment() {
    let (chain, proxies, wallet) = through(1).await;
    let prepared = [wallet.prepare(&in_usdc()).await.unwrap()];
    let refusals = [
        Odd::OldState(403),
        Odd::OldState(429),
        Odd::OldState(500),
        Odd::Error(-32000, "missing trie node"),
        Odd::Html,
    ];
    for refusal in &refusals {
        proxies[0].set("eth_getTransactionCount", refusal.clone());
        assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Unknown);
    }
    wallet.send(&prepared[0]).await.unwrap();
    for refusal in &refusals {
        proxies[0].set("eth_getTransactionCount", refusal.clone());
        assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Pending);
    }
    chain.mine(31).await.unwrap();
    for refusal in &refusals {
        proxies[0].set("eth_getTransactionCount", refusal.clone());
        let mined = TransferStatus::Mined { transaction: hash(&prepared[0]), confirmations: 31 };
        assert_eq!(fate(&wallet, &prepared).await, mined);
    }
}

#[tokio::test]
async fn one_wrong_nonce_holds_up_nothing_that_comes_after_it() {
    let (chain, proxies, wallet) = through(1).await;
    proxies[0].set("eth_getTransactionCount", Odd::Pending("0x7fffffff"));
    let refused = wallet.prepare(&in_usdc()).await;
    assert!(matches!(refused, Err(PayerError::Unavailable(_))), "{refused:?}");
    // Within what is plausible, and sent: it waits behind a gap.
    proxies[0].set("eth_getTransactionCount", Odd::Pending("0x28"));
    let far = wallet.prepare(&payment_for("far")).await.unwrap();
    assert_eq!(far.nonce(), Some(40));
    wallet.send(&far).await.unwrap();
    proxies[0].clear();
    for nonce in 0..3 {
        let next = wallet.prepare(&payment_for(&format!("next {nonce}"))).await.unwrap();
        assert_eq!(next.nonce(), Some(nonce));
        wallet.send(&next).await.unwrap();
    }
    chain.mine(1).await.unwrap();
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), usdc(3 * ASK));
}

#[tokio::test]
async fn while_one_node_answers_the_wallet_pays() {
    for odd in [Odd::Html, Odd::Status(429), Odd::Error(-32005, "limit exceeded"), Odd::Result(Value::Null), Odd::Hang]
    {
        let (chain, proxies, wallet) = through(2).await;
        for method in [
            "eth_chainId",
            "eth_getBlockByNumber",
            "eth_getTransactionCount",
            "eth_getTransactionReceipt",
            "eth_getTransactionByHash",
            "eth_feeHistory",
            "eth_estimateGas",
            "eth_getBalance",
            "eth_call",
            "eth_sendRawTransaction",
        ] {
            proxies[0].set(method, odd.clone());
        }
        let begun = std::time::Instant::now();
        let prepared = paid(&chain, &wallet, 0).await;
        let mined = TransferStatus::Mined { transaction: hash(&prepared[0]), confirmations: 1 };
        assert_eq!(fate(&wallet, &prepared).await, mined);
        let dearer = wallet.replace(&prepared).await;
        assert!(matches!(dearer, Ok(Some(_))), "{dearer:?}");
        assert!(begun.elapsed().as_secs() < 15, "one that hangs is waited for once: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn nodes_of_two_chains_are_no_wallet_and_one_that_was_away_proves_itself() {
    let (chain, proxies, wallet) = through(2).await;
    let key = chain.accounts()[0].private_key();
    let connect = || WalletPayer::builder().key(key).endpoints(proxies.iter().map(Proxy::url)).connect();
    proxies[0].set("eth_chainId", Odd::Result(json!("0x1")));
    assert_eq!(connect().await.unwrap_err().kind(), WalletErrorKind::Chains);
    proxies[0].set("eth_chainId", Odd::Html);
    let later = connect().await.unwrap();
    let prepared = displaced(&chain, &wallet, 20).await;
    assert!(is_unavailable(&later.status(&prepared).await), "half of the nodes");
    proxies[0].set("eth_chainId", Odd::Result(json!("0x1")));
    assert!(is_unavailable(&later.status(&prepared).await), "and one of another chain");
    proxies[0].clear();
    assert_eq!(fate(&later, &prepared).await, TransferStatus::Impossible);
}

/// What a payment costs in questions does not grow with what the seller wrote.
#[tokio::test]
async fn a_token_is_asked_for_its_balance_once() {
    let (chain, proxies, wallet) = through(1).await;
    wallet.prepare(&in_usdc()).await.unwrap();
    let before = proxies[0].asked("eth_call");
    wallet.prepare(&in_usdc()).await.unwrap();
    assert_eq!((before, proxies[0].asked("eth_call")), (2, 3), "decimals once, the balance each time");
    drop(chain);
}
