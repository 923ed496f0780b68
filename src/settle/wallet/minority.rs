//! One of three nodes lies or lags: the majority decides. SECURITY row 50.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use alloy::primitives::keccak256;
use axum::{Json, Router, routing::post};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep, timeout},
};

use super::{
    checks,
    core::{Core, Policy},
    order::tests::order,
    reasons::Method,
    trial,
    watching::{Sent, keep, watch},
};
use crate::{
    evm::wallet::{account::Account, connect, fees::Fees},
    settle::TransactionRecorder,
};

/// The account's next nonce according to honest nodes.
const NONCE: u64 = 5;

/// How a node answers.
#[derive(Clone, Copy)]
struct Says {
    /// How many transactions the account has made.
    count: u64,
    ether: u64,
    /// Whether calls fail.
    fails: bool,
    /// Whether it returns a receipt for every transaction.
    mined: bool,
    /// How long it takes to accept a transaction.
    takes: Duration,
}

const HONEST: Says = Says { count: NONCE, ether: 1 << 60, fails: false, mined: false, takes: Duration::ZERO };

/// Starts a node. Returns its URL, and the number of transactions that it accepted.
async fn node(says: Says) -> (String, Arc<AtomicUsize>) {
    let taken = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&taken);
    let answer = move |Json(question): Json<Value>| async move {
        let word = |byte: &str| format!("0x{}", byte.repeat(32));
        let result = match question["method"].as_str() {
            Some("eth_chainId") => json!("0x2105"),
            Some("eth_getTransactionCount") => json!(format!("{:#x}", says.count)),
            Some("eth_getBlockByNumber") => {
                json!({ "number": "0x64", "hash": word("02"), "parentHash": word("01"), "timestamp": "0x66000000" })
            }
            Some("eth_getTransactionReceipt") if says.mined => json!({
                "transactionHash": question["params"][0], "blockNumber": "0x63", "blockHash": word("01"), "status": "0x1",
            }),
            Some("eth_getBalance") => json!(format!("{:#x}", says.ether)),
            Some("eth_feeHistory") => json!({ "baseFeePerGas": ["0x1"], "reward": [["0x1"]] }),
            Some("eth_call") if says.fails => {
                let error = json!({ "code": 3, "message": "execution reverted" });
                return Json(json!({ "jsonrpc": "2.0", "id": question["id"], "error": error }));
            }
            Some("eth_call") => json!(word("00")),
            Some("eth_sendRawTransaction") => {
                sleep(says.takes).await;
                counter.fetch_add(1, Ordering::SeqCst);
                let raw = const_hex::decode(question["params"][0].as_str().unwrap()).unwrap();
                json!(keccak256(raw))
            }
            _ => Value::Null,
        };
        Json(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }))
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(post(answer))).await });
    (url, taken)
}

/// Returns a settler on these nodes, and the number of transactions that each accepted.
async fn core(says: [Says; 3]) -> (Core, Vec<Arc<AtomicUsize>>) {
    let (mut urls, mut taken) = (Vec::new(), Vec::new());
    for says in says {
        let (url, counter) = node(says).await;
        urls.push(url);
        taken.push(counter);
    }
    let nodes = connect::connect_lazily(&urls, false, 8453).ok().unwrap();
    let signer = connect::key(&"11".repeat(32)).ok().unwrap();
    let replace_after = Duration::from_millis(500);
    let policy = Policy { final_after: 0, settled_within: Duration::ZERO, replace_after, ..Policy::default() };
    (Core::new(Account::new(nodes, signer), policy), taken)
}

async fn sent(core: &Core) -> Sent {
    let transaction = core.filler(NONCE, Fees { most: 2, tip: 1 });
    let signed = core.account.sign(transaction.clone()).await.unwrap();
    Sent::new(transaction, signed, true)
}

#[tokio::test]
async fn one_node_that_says_there_is_no_ether_stops_nothing() {
    let (core, _) = core([Says { ether: 0, ..HONEST }, HONEST, HONEST]).await;
    assert!(checks::affords(&core, 21_000).await.is_ok());
    assert!(checks::has_ether(&core, 1).await.is_ok());
}

/// The node accepts the transaction at once, and does not forward it.
#[tokio::test]
async fn one_node_that_keeps_a_transaction_keeps_it_from_no_other() {
    let slow = Says { takes: Duration::from_millis(700), ..HONEST };
    let (core, taken) = core([HONEST, slow, slow]).await;
    let sent = core.account.sign(core.filler(NONCE, Fees { most: 2, tip: 1 })).await.unwrap();
    let start = Instant::now();
    assert_eq!(core.account.send(NONCE, &sent).await, Ok(()));
    assert!(start.elapsed() < slow.takes, "one that takes it is enough");
    sleep(slow.takes * 3).await;
    assert_eq!(taken.iter().map(|taken| taken.load(Ordering::SeqCst)).collect::<Vec<_>>(), [1, 1, 1]);
}

/// The node counts the nonce as used, but the transaction is in no block, so it is sent again.
#[tokio::test]
async fn one_node_that_counts_too_high_keeps_no_transaction_from_being_sent_again() {
    let (core, taken) = core([Says { count: NONCE + 1, ..HONEST }, HONEST, HONEST]).await;
    let (order, mut all) = (order(1, 9), vec![sent(&core).await]);
    let (_progress, flight) = core.flights.enter(&order).unwrap();
    let (flight, held, none) = (flight.unwrap(), core.hold(NONCE), TransactionRecorder::none());
    let watched = watch(&core, &order, &flight, &none, &mut all, &held);
    assert!(timeout(Duration::from_secs(5), watched).await.is_err(), "it waits");
    assert!(taken[1].load(Ordering::SeqCst) > 1, "{taken:?}");
}

/// The answer is delivered on the strength of its receipt; meanwhile the transaction is sent to the nodes again.
#[tokio::test]
async fn one_node_that_invents_a_receipt_keeps_no_transaction_from_being_sent_again() {
    let (core, taken) = core([Says { mined: true, ..HONEST }, HONEST, HONEST]).await;
    let _ = keep(&core, &[sent(&core).await], &core.hold(NONCE)).await;
    assert!(taken[1].load(Ordering::SeqCst) > 0, "{taken:?}");
}

#[tokio::test]
async fn one_node_calls_nothing_dead() {
    for method in [Method::Claim, Method::Authorization] {
        let mut order = order(1, 9);
        order.method = method;
        let fails = Says { fails: true, ..HONEST };
        let (core, _) = core([fails, HONEST, HONEST]).await;
        assert!(!trial::is_dead(&core, &order).await, "{method:?}");
        let (core, _) = self::core([fails; 3]).await;
        assert!(trial::is_dead(&core, &order).await, "{method:?}");
    }
}
