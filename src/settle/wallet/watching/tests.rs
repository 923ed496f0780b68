//! SECURITY row 50: one of two nodes is gone, so nothing ever becomes certain.

use std::{net::TcpListener as Closed, sync::Arc};

use axum::{Json, Router, routing::post};
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::timeout};

use super::*;
use crate::{
    evm::wallet::{account::Account, connect},
    settle::{
        Settler as _,
        wallet::{WalletSettler, core::Policy, order::tests::order},
    },
};

/// Longer than a settler waits for certainty.
const PATIENCE: Duration = Duration::from_secs(30);

/// A node's answers about transactions.
#[derive(Clone, Copy, Default)]
struct Says {
    /// The status in the receipts; `None` if there are none.
    status: Option<&'static str>,
    /// Whether it reports the payment's nonce as used.
    used: bool,
    /// The block time; `None` if no block follows.
    block_time: Option<Duration>,
}

/// Returns a settler on one node, and on a port where nothing listens.
async fn core(says: Says) -> Core {
    let gone = format!("http://{}", Closed::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    core_on(&[node(says).await, gone])
}

/// Returns a settler on these nodes.
fn core_on(urls: &[String]) -> Core {
    let nodes = connect::connect_lazily(urls, false, 8453).ok().unwrap();
    let signer = connect::key(&"11".repeat(32)).ok().unwrap();
    let policy = Policy { final_after: 0, settled_within: Duration::ZERO, ..Policy::default() };
    Core::new(Account::new(nodes, signer), policy)
}

/// Returns a node that counts five transactions and reports code at every account.
async fn node(says: Says) -> String {
    let start = Instant::now();
    let answer = move |Json(question): Json<Value>| async move {
        let word = |byte: &str| format!("0x{}", byte.repeat(32));
        let blocks = says.block_time.map_or(0, |time| start.elapsed().as_secs() / time.as_secs());
        let result = match question["method"].as_str() {
            Some("eth_chainId") => json!("0x2105"),
            Some("eth_getTransactionCount") => json!("0x5"),
            Some("eth_getBlockByNumber") => {
                json!({ "number": format!("0x{:x}", 100 + blocks), "hash": word("02"), "parentHash": word("01"), "timestamp": "0x66000000" })
            }
            Some("eth_getTransactionReceipt") if says.status.is_some() => json!({
                "transactionHash": question["params"][0], "blockNumber": "0x63", "blockHash": word("01"), "status": says.status,
            }),
            Some("eth_getBalance") => json!("0xde0b6b3a7640000"),
            Some("eth_getCode") => json!("0x60"),
            Some("eth_call") => json!(format!("0x{:064x}", u8::from(says.used))),
            _ => Value::Null,
        };
        Json(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }))
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(post(answer))).await });
    url
}

async fn sent(core: &Core, nonce: u64) -> Sent {
    let transaction = core.filler(nonce, Fees { most: 2, tip: 1 });
    let signed = core.account.sign(transaction.clone()).await.unwrap();
    Sent::new(transaction, signed, true)
}

#[tokio::test]
async fn what_is_settled_is_watched_for_a_while_where_a_node_is_gone() {
    let core = core(Says { status: Some("0x1"), ..Says::default() }).await;
    let sent = sent(&core, 3).await;
    let kept = timeout(PATIENCE, keep(&core, &[sent], &core.hold(3))).await;
    assert_eq!(kept, Ok(false), "no node but one says that it stays");
    assert!(core.account.next_nonce().await.is_ok_and(|next| next.is_ok_and(|nonce| nonce == 5)));
}

#[tokio::test]
async fn a_nonce_that_something_else_used_gives_its_place_back_where_a_node_is_gone() {
    let core = core(Says::default()).await;
    let order = order(1, 9);
    let (progress, flight) = core.flights.enter(&order).unwrap();
    let mut all = vec![sent(&core, 3).await];
    let hash = all[0].signed.hash;
    let (flight, held, none) = (flight.unwrap(), core.hold(3), TransactionRecorder::none());
    let outcome = timeout(PATIENCE, watch(&core, &order, &flight, &none, &mut all, &held)).await;
    assert_eq!(outcome, Ok(Settlement::Unknown(Some(hash))), "the chain says, later, what became of it");
    assert!(progress.borrow().outcome.is_none());
}

/// Its block time is twice that of Base, so three blocks take twelve seconds.
#[tokio::test]
async fn what_is_settled_is_watched_for_as_long_as_a_slow_chain_takes() {
    let block_time = Some(Duration::from_secs(4));
    let core = core(Says { status: Some("0x1"), block_time, ..Says::default() }).await;
    let (sent, start) = (sent(&core, 3).await, Instant::now());
    assert_eq!(timeout(PATIENCE, keep(&core, &[sent], &core.hold(3))).await, Ok(false));
    assert!(start.elapsed() >= Duration::from_secs(10), "{:?}", start.elapsed());
}

/// More than half of the nodes report a next nonce, and a hanging node is not waited for.
#[tokio::test]
async fn a_settler_is_well_by_the_word_of_most_nodes() {
    let hangs = Closed::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", hangs.local_addr().unwrap());
    let core = core_on(&[node(Says::default()).await, node(Says::default()).await, url]);
    let settler = WalletSettler { core: Arc::new(core) };
    assert_eq!(timeout(Duration::from_secs(4), settler.health()).await, Ok(Ok(())));
}

/// Another sender's identical call was mined first and made ours fail: its payer paid.
#[tokio::test]
async fn a_payer_is_not_refused_for_a_call_that_failed_because_another_had_paid_by_it() {
    for used in [true, false] {
        let core = core(Says { status: Some("0x0"), used, ..Says::default() }).await;
        let order = order(1, 9);
        let (_progress, flight) = core.flights.enter(&order).unwrap();
        let mut all = vec![sent(&core, 3).await];
        let hash = all[0].signed.hash;
        let (flight, held, none) = (flight.unwrap(), core.hold(3), TransactionRecorder::none());
        let outcome = timeout(PATIENCE, watch(&core, &order, &flight, &none, &mut all, &held)).await;
        assert_eq!(outcome, Ok(Settlement::Unknown(Some(hash))));
        assert_eq!(core.reverted.get(&order.payer).is_none(), used, "used: {used}");
    }
}
