//! SECURITY rows 8, 9, 10, 11, 17: nodes that are down, slow, wrong or lying.

use serde_json::{Value, json};

use super::{
    node::{Fault, RECEIPT, TRANSACTION, block_hash, receipt},
    *,
};

const BLOCK: &str = "eth_getBlockByNumber";

/// Everything that can be wrong with an answer, whatever was asked.
fn faults() -> Vec<Fault> {
    vec![
        Fault::Hang,
        Fault::Status(429),
        Fault::Status(500),
        Fault::Status(503),
        Fault::Status(404),
        Fault::Html,
        Fault::Truncated,
        Fault::Huge { announced: true },
        Fault::Huge { announced: false },
        Fault::WrongId,
        Fault::TextId,
        Fault::RpcError,
        Fault::Result(json!("0x1")),
        Fault::Result(json!([])),
        Fault::Result(json!({})),
    ]
}

#[tokio::test]
async fn no_fault_of_the_only_node_is_a_verdict() {
    for method in [RECEIPT, TRANSACTION, BLOCK] {
        for fault in faults() {
            let node = Node::start().await;
            let (verifier, clock) = connect(&[&node]).await;
            node.pay(tx(1), 100, 490_000);
            node.fault(method, fault.clone());
            let started = std::time::Instant::now();
            let answer = verify(&verifier, tx(1)).await;
            assert_eq!(answer, Err(VerifyErrorKind::Unavailable), "{method}: {fault:?}");
            assert!(started.elapsed() < Duration::from_millis(3_000), "{method}: {fault:?}");
            node.heal();
            // What it said of the very transaction is not asked again at once; a node that was down is.
            if method != BLOCK && matches!(fault, Fault::Huge { .. } | Fault::RpcError | Fault::Result(_)) {
                clock.advance(BLOCK_TIME);
            }
            assert_paid(verify(&verifier, tx(1)).await);
        }
    }
}

#[tokio::test]
async fn another_node_makes_up_for_it() {
    for method in [RECEIPT, TRANSACTION, BLOCK] {
        for fault in faults() {
            let (bad, good) = (Node::start().await, Node::start().await);
            let (verifier, _) = connect(&[&bad, &good]).await;
            good.pay(tx(1), 100, 490_000);
            bad.pay(tx(1), 100, 490_000);
            bad.fault(method, fault.clone());
            let answer = verify(&verifier, tx(1)).await;
            assert!(matches!(answer, Ok(Verdict::Paid { .. })), "{method}: {fault:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (node, elsewhere) = (Node::start().await, Node::start().await);
    elsewhere.pay(tx(1), 100, 490_000);
    let (verifier, _) = connect(&[&node]).await;
    node.fault(RECEIPT, Fault::Redirect(elsewhere.url()));
    assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable));
    assert_eq!(elsewhere.take_calls(), 0);
}

#[tokio::test]
async fn a_fast_null_waits_for_a_slow_truth() {
    for liar_first in [true, false] {
        let (liar, truth) = (Node::start().await, Node::start().await);
        truth.pay(tx(1), 100, 490_000);
        truth.fault(RECEIPT, Fault::Slow(Duration::from_millis(500)));
        let nodes = if liar_first { [&liar, &truth] } else { [&truth, &liar] };
        let (verifier, _) = connect(&nodes).await;
        assert_paid(verify(&verifier, tx(1)).await);
    }
}

#[tokio::test]
async fn null_counts_when_all_that_are_up_say_it() {
    let (one, other) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&one, &other]).await;
    assert_not_confirmed(verify(&verifier, tx(1)).await);
    assert_eq!((one.calls(RECEIPT), other.calls(RECEIPT)), (1, 1));

    // One that is down has no say.
    other.fault_all(Fault::Status(503));
    assert_not_confirmed(verify(&verifier, tx(2)).await);
    // One that is up and answers nonsense has not said it.
    other.heal();
    clock.advance(Duration::from_secs(2));
    other.fault(RECEIPT, Fault::RpcError);
    assert_eq!(verify(&verifier, tx(3)).await, Err(VerifyErrorKind::Unavailable));
}

#[tokio::test]
async fn another_transactions_receipt_is_not_believed() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    let hash = node.script().hash(100);
    node.receipt(tx(1), receipt(tx(2), 100, &hash, &[490_000]));
    assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable));
    // Its own receipt with another's logs.
    let mut mixed = receipt(tx(2), 100, &hash, &[490_000]);
    mixed["transactionHash"] = json!(tx(3).to_string());
    node.receipt(tx(3), mixed);
    assert_not_confirmed(verify(&verifier, tx(3)).await);
}

#[tokio::test]
async fn another_height_than_asked_for_is_not_believed() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    node.pay(tx(1), 90, 490_000);
    // To "latest" a good answer; to block 90 another block that bears its hash.
    let mut block_100 = node_head(&node).await;
    block_100["hash"] = json!(block_hash(90, 0));
    verifier.head().await.expect("the head");
    node.fault(BLOCK, Fault::Result(block_100));
    assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable));
}

#[tokio::test]
async fn reverted_and_legacy_receipts_are_no_payment() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    let hash = node.script().hash(100);
    let mut reverted = receipt(tx(1), 100, &hash, &[490_000]);
    reverted["status"] = json!("0x0");
    node.receipt(tx(1), reverted);
    assert_eq!(verify(&verifier, tx(1)).await, Ok(Verdict::NoTransfer));

    let mut legacy = receipt(tx(2), 100, &hash, &[490_000]);
    legacy.as_object_mut().expect("an object").remove("status");
    legacy["root"] = json!(hash);
    node.receipt(tx(2), legacy.clone());
    assert_eq!(verify(&verifier, tx(2)).await, Ok(Verdict::NoTransfer), "alloy alone takes it for a success");

    legacy.as_object_mut().expect("an object").remove("root");
    legacy["transactionHash"] = json!(tx(3).to_string());
    node.receipt(tx(3), legacy);
    assert_eq!(verify(&verifier, tx(3)).await, Err(VerifyErrorKind::Unavailable), "no outcome stated at all");
}

#[tokio::test]
async fn a_head_without_a_time_is_not_believed() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    node.pay(tx(1), 100, 490_000);
    let mut head = node_head(&node).await;
    head.as_object_mut().expect("an object").remove("timestamp");
    node.fault(BLOCK, Fault::Result(head));
    assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable));
}

/// In Unix seconds: the year 2100.
const FAR: u64 = 4_102_444_800;

#[tokio::test]
async fn a_head_from_the_future_is_not_believed() {
    // From the first look, as a merchant's start is, and later.
    for late in [false, true] {
        let node = Node::start().await;
        let (verifier, clock) = connect(&[&node]).await;
        node.pay(tx(1), 90, 490_000);
        if late {
            assert_paid(verify(&verifier, tx(1)).await);
        }
        clock.advance(BLOCK_TIME);
        for time in [FAR, clock.unix() + 181] {
            node.script().times.insert(101, time);
            node.script().blocks.insert(101, 0);
            assert_eq!(verifier.head().await.map_err(kind), Err(VerifyErrorKind::Unavailable));
            assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable));
        }
        // It leaves nothing behind: minutes later heads are newer than what was known.
        node.script().times.clear();
        clock.advance(Duration::from_secs(30));
        for _ in 0..40 {
            assert_paid(verify(&verifier, tx(1)).await);
            node.mine();
            clock.advance(BLOCK_TIME);
        }
    }
}

#[tokio::test]
async fn a_head_may_be_as_far_ahead_as_behind() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    node.script().times.insert(100, clock.unix() + 180);
    assert_eq!(verifier.head().await.map(|head| head.unix()), Ok(clock.unix() + 180));

    // On a chain that mines on demand, anywhere.
    node.script().times.insert(100, FAR);
    let verifier = builder(&[&node], &clock).max_head_age(None).connect().await.expect("connects");
    assert_eq!(verifier.head().await.map(|head| head.unix()), Ok(FAR));
}

#[tokio::test]
async fn another_nodes_head_stands_in_for_one_from_the_future() {
    let (bad, good) = (Node::start().await, Node::start().await);
    let (verifier, _) = connect(&[&bad, &good]).await;
    good.pay(tx(1), 90, 490_000);
    bad.script().times.insert(100, FAR);
    assert_eq!(verifier.head().await.map(|head| head.unix()), Ok(time_of(100)));
    assert_paid(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn a_block_younger_than_the_head_on_it_is_not_believed() {
    let (bad, good) = (Node::start().await, Node::start().await);
    bad.script().times.insert(90, time_of(100) + 1);
    for node in [&bad, &good] {
        node.pay(tx(1), 90, 490_000);
    }
    let (verifier, _) = connect(&[&bad]).await;
    assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable));
    let (verifier, _) = connect(&[&bad, &good]).await;
    let Ok(Verdict::Paid { transfers, .. }) = verify(&verifier, tx(1)).await else { panic!("not paid") };
    assert_eq!(transfers[0].block_time.unix(), time_of(90));
    // As young is possible: some chains have several blocks a second.
    bad.script().times.insert(90, time_of(100));
    let (verifier, _) = connect(&[&bad]).await;
    assert_paid(verify(&verifier, tx(1)).await);
}

async fn node_head(node: &Node) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": BLOCK, "params": ["latest", false] }).to_string();
    let answer = reqwest::Client::builder().no_proxy().build().expect("a client").post(node.url()).body(body);
    let answer = answer.send().await.expect("answers").text().await.expect("text");
    serde_json::from_str::<Value>(&answer).expect("JSON")["result"].take()
}

#[tokio::test]
async fn an_endpoint_that_changes_its_chain_is_not_believed_until_it_is_back() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    node.pay(tx(1), 100, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
    let wrong = VerifyErrorKind::WrongChain { expected: Network::BASE, found: Network::BASE_SEPOLIA };

    // Another chain behind the same address, within a block time of the last proof: its blocks give it away.
    {
        let mut script = node.script();
        script.chain_id = 84532;
        script.blocks = (0..=100).map(|number| (number, 7)).collect();
    }
    node.pay(tx(2), 100, 490_000);
    clock.advance(BLOCK_TIME);
    assert_eq!(verify(&verifier, tx(2)).await, Err(wrong.clone()));
    // Nor for transactions in memory.
    for transaction in [tx(1), tx(2), tx(3)] {
        assert_eq!(verify(&verifier, transaction).await, Err(wrong.clone()));
    }
    clock.advance(Duration::from_secs(30));
    assert_eq!(verify(&verifier, tx(2)).await, Err(wrong.clone()), "asked again, and still another chain");
    {
        let mut script = node.script();
        script.chain_id = 8453;
        script.blocks = (0..=150).map(|number| (number, 0)).collect();
    }
    node.forget(tx(2));
    clock.advance(Duration::from_secs(60));
    assert_paid(verify(&verifier, tx(1)).await);
    assert_not_confirmed(verify(&verifier, tx(2)).await);
}

#[tokio::test]
async fn an_endpoint_proves_its_chain_again_every_minute() {
    let (node, other) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&node, &other]).await;
    node.script().chain_id = 1;
    for _ in 0..40 {
        other.mine();
        node.mine();
    }
    clock.advance(Duration::from_secs(80));
    node.pay(tx(1), 140, 490_000);
    assert_not_confirmed(verify(&verifier, tx(1)).await);
    other.pay(tx(2), 140, 490_000);
    assert_paid(verify(&verifier, tx(2)).await);
}

#[tokio::test]
async fn an_endpoint_that_failed_proves_chain_and_tokens_first() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    verifier.check(Network::BASE, &[Asset::USDC_BASE]).await.expect("checked");
    node.pay(tx(1), 100, 490_000);
    node.fault_all(Fault::Status(502));
    assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable));
    node.heal();
    node.take_calls();
    assert_paid(verify(&verifier, tx(1)).await);
    assert_eq!((node.calls("eth_chainId"), node.calls("eth_call")), (1, 1));

    node.fault_all(Fault::Status(502));
    assert_eq!(verify(&verifier, tx(2)).await, Err(VerifyErrorKind::Unavailable));
    node.heal();
    node.script().tokens.clear();
    let answer = verify(&verifier, tx(2)).await;
    assert!(matches!(answer, Err(VerifyErrorKind::WrongToken { found: None, .. })), "{answer:?}");
}

#[tokio::test]
async fn an_endpoint_that_failed_is_not_believed_while_it_proves_nothing() {
    for silence in [Fault::Hang, Fault::RpcError, Fault::Status(429)] {
        let node = Node::start().await;
        let (verifier, _) = connect(&[&node]).await;
        node.pay(tx(1), 100, 490_000);
        node.fault_all(Fault::Status(502));
        assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable));
        node.heal();
        node.fault("eth_chainId", silence.clone());
        assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable), "{silence:?}");
    }
}

#[tokio::test]
async fn a_hanging_first_endpoint_costs_only_the_first_question() {
    let (slow, good) = (Node::start().await, Node::start().await);
    let (verifier, _) = connect(&[&slow, &good]).await;
    verifier.head().await.expect("the head");
    slow.fault(RECEIPT, Fault::Hang);
    for n in 0..20 {
        good.pay(tx(n), 100, 490_000);
    }
    assert_paid(verify(&verifier, tx(0)).await);
    let started = std::time::Instant::now();
    for n in 1..20 {
        assert_paid(verify(&verifier, tx(n)).await);
    }
    // Not a fifth of a second each.
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}
