//! SECURITY rows 50 and 51: whether an authorization was used, where endpoints are behind, refuse or lie.

use serde_json::json;
use tower_x402::verify::NonceState;

use super::{
    node::{Fault, LOGS},
    token::Use,
    *,
};

const NONCE: [u8; 32] = [0x42; 32];
const UNAVAILABLE: Result<NonceState, VerifyErrorKind> = Err(VerifyErrorKind::Unavailable);

fn used_at(height: u64) -> Use {
    Use { payer: PAYER, nonce: NONCE, height, transaction: tx(1), canceled: false }
}

/// A node with that many blocks, on which the nonce was used in that one.
async fn node(head: u64, height: Option<u64>) -> Node {
    let node = Node::start().await;
    node.script().blocks = (0..=head).map(|number| (number, 0)).collect();
    node.script().usdc.uses.extend(height.map(used_at));
    node
}

async fn connect_at(nodes: &[&Node], head: u64) -> EvmVerifier {
    builder(nodes, &TestClock::at(head)).connect().await.expect("the nodes answer")
}

async fn state_since(verifier: &EvmVerifier, height: u64) -> Result<NonceState, VerifyErrorKind> {
    let since = ChainTime::from_unix(time_of(height));
    verifier.nonce_state(Asset::USDC_BASE.contract(), PAYER, &NONCE, since).await.map_err(kind)
}

async fn state(verifier: &EvmVerifier) -> Result<NonceState, VerifyErrorKind> {
    state_since(verifier, 90).await
}

fn used() -> Result<NonceState, VerifyErrorKind> {
    Ok(NonceState::Used(tx(1)))
}

#[tokio::test]
async fn one_endpoint_that_says_used_is_enough_to_look_further() {
    let (unaware, good) = (node(100, None).await, node(100, Some(95)).await);
    for nodes in [[&unaware, &good], [&good, &unaware]] {
        assert_eq!(state(&connect_at(&nodes, 100).await).await, used());
    }
}

/// The payer of an authorization that is unused is told to sign anew, and would pay twice.
#[tokio::test]
async fn unused_is_said_only_where_all_that_answer_say_so() {
    let (one, other) = (node(100, None).await, node(100, None).await);
    let verifier = connect_at(&[&one, &other], 100).await;
    assert_eq!(state(&verifier).await, Ok(NonceState::Unused));
    assert_eq!((one.calls("eth_call"), other.calls("eth_call")), (1, 1));
    // One that answers without sense has not agreed.
    for fault in [Fault::RpcError, Fault::Result(json!("0x")), Fault::Result(json!(format!("0x{:064x}", 2)))] {
        other.fault("eth_call", fault.clone());
        assert_eq!(state(&connect_at(&[&one, &other], 100).await).await, UNAVAILABLE, "{fault:?}");
    }
    // One that is down has no say.
    other.fault("eth_call", Fault::Status(503));
    assert_eq!(state(&connect_at(&[&one, &other], 100).await).await, Ok(NonceState::Unused));
    one.fault("eth_call", Fault::Status(503));
    assert_eq!(state(&connect_at(&[&one, &other], 100).await).await, UNAVAILABLE);
}

#[tokio::test]
async fn an_endpoint_that_is_behind_does_not_say_unused() {
    let (behind, good) = (node(99, None).await, node(100, None).await);
    let verifier = connect_at(&[&good, &behind], 100).await;
    assert_eq!(verifier.head().await.map(|head| head.unix()), Ok(time_of(100)));
    assert_eq!(state(&verifier).await, Ok(NonceState::Unused), "the other is not behind");
    good.fault_all(Fault::Status(503));
    assert_eq!(state(&verifier).await, UNAVAILABLE);
    behind.mine();
    assert_eq!(state(&verifier).await, Ok(NonceState::Unused));
}

/// Behind one address there may be several nodes.
#[tokio::test]
async fn the_state_is_asked_for_at_the_height_that_was_named() {
    let node = node(100, Some(100)).await;
    let verifier = connect_at(&[&node], 100).await;
    assert_eq!(state(&verifier).await, used());
    assert_eq!(node.script().last_call[1], "0x64");
}

#[tokio::test]
async fn a_token_that_says_used_and_has_no_log_of_it_lately_says_nothing() {
    let liar = node(200, None).await;
    liar.script().usdc.uses.push(used_at(190));
    // The log is there some blocks late.
    liar.script().usdc.indexed = 189;
    let verifier = connect_at(&[&liar], 200).await;
    assert_eq!(state_since(&verifier, 190).await, UNAVAILABLE);
    liar.script().usdc.indexed = 200;
    assert_eq!(state_since(&verifier, 190).await, used());
    // Used long before what is asked for, it is gone for good.
    liar.script().usdc.uses[0].height = 20;
    liar.script().usdc.indexed = 0;
    assert_eq!(state_since(&verifier, 190).await, Ok(NonceState::Spent));
}

#[tokio::test]
async fn an_endpoint_that_makes_up_a_use_takes_nothing_for_good() {
    let (liar, good) = (node(200, None).await, node(200, None).await);
    liar.script().usdc.claims = Some(true);
    for nodes in [[&liar, &good], [&good, &liar]] {
        assert_eq!(state_since(&connect_at(&nodes, 200).await, 190).await, UNAVAILABLE);
    }
}

#[tokio::test]
async fn a_log_that_was_not_asked_for_is_no_answer() {
    let (liar, good) = (node(100, Some(95)).await, node(100, Some(95)).await);
    let bends: [fn(&mut serde_json::Value); 5] = [
        |log| log["removed"] = json!(true),
        |log| log["topics"][2] = json!(format!("0x{:064x}", 1)),
        |log| log["topics"][1] = json!(format!("0x{:064x}", 1)),
        |log| log["topics"][0] = json!(format!("0x{:064x}", 1)),
        |log| log["address"] = json!(format!("0x{:040x}", 1)),
    ];
    for bend in bends {
        liar.script().usdc.bend = bend;
        assert_eq!(state(&connect_at(&[&liar], 100).await).await, UNAVAILABLE);
        assert_eq!(state(&connect_at(&[&liar, &good], 100).await).await, used());
    }
}

#[tokio::test]
async fn a_cancelled_one_is_spent() {
    let node = node(100, Some(95)).await;
    node.script().usdc.uses[0].canceled = true;
    assert_eq!(state(&connect_at(&[&node], 100).await).await, Ok(NonceState::Spent));
}

#[tokio::test]
async fn a_range_that_is_refused_is_halved() {
    for widest in [2_000, 1_999, 500, 10] {
        let node = node(5_000, Some(4_950)).await;
        node.script().usdc.widest = widest;
        let verifier = connect_at(&[&node], 5_000).await;
        assert_eq!(state_since(&verifier, 4_940).await, used(), "{widest}");
        let ranges = node.script().usdc.ranges.clone();
        let (refused, taken): (Vec<(u64, u64)>, Vec<_>) = ranges.iter().partition(|(from, to)| to - from >= widest);
        assert!(refused.len() <= 8, "{widest}: {ranges:?}");
        // They follow each other, and none is asked for twice.
        assert!(taken.windows(2).all(|pair| pair[1].1 + 1 == pair[0].0), "{widest}: {ranges:?}");
        assert!(ranges.iter().all(|(from, to)| to - from < 2_000), "{ranges:?}");
    }
}

/// Many say so with a status.
#[tokio::test]
async fn an_endpoint_that_refuses_ranges_is_not_down() {
    let node = node(100, Some(95)).await;
    node.fault(LOGS, Fault::Status(400));
    let verifier = connect_at(&[&node], 100).await;
    assert_eq!(state(&verifier).await, UNAVAILABLE);
    assert_eq!(node.calls(LOGS), 11, "down to a single block");
    node.heal();
    assert_eq!(state(&verifier).await, used(), "at once");
}

#[tokio::test]
async fn the_search_ends_where_it_was_told_to_and_after_so_many_calls() {
    let node = node(10_000, Some(500)).await;
    let verifier = connect_at(&[&node], 10_000).await;
    // Two minutes are sixty blocks.
    for (since, state, calls) in [
        (9_900, NonceState::Spent, 1),
        (8_062, NonceState::Spent, 1),
        (8_061, NonceState::Spent, 2),
        (0, used().expect("used"), 5),
    ] {
        node.take_calls();
        assert_eq!(state_since(&verifier, since).await, Ok(state), "{since}");
        assert_eq!(node.calls(LOGS), calls, "{since}");
    }
    node.script().usdc.widest = 20;
    node.take_calls();
    assert_eq!(state_since(&verifier, 0).await, UNAVAILABLE, "not that it is spent");
    assert!(node.calls(LOGS) <= 64, "{}", node.calls(LOGS));
}

#[tokio::test]
async fn a_nonce_costs_a_call_and_the_block_of_it() {
    let node = node(100, None).await;
    let verifier = connect_at(&[&node], 100).await;
    verifier.head().await.expect("a head");
    node.take_calls();
    assert_eq!(state(&verifier).await, Ok(NonceState::Unused));
    assert_eq!(node.take_calls(), 2);
    node.script().usdc.uses.push(used_at(95));
    assert_eq!(state(&verifier).await, used());
    assert_eq!(node.take_calls(), 5, "the receipt of what used it, and its transaction");
    let _ = verifier.verify(&terms(), tx(1)).await.expect("a verdict");
    assert_eq!(node.take_calls(), 1, "of which neither is asked for again");
}

#[tokio::test]
async fn a_node_that_hangs_is_not_waited_for_beyond_the_total_time_out() {
    let node = node(100, Some(95)).await;
    let verifier = connect_at(&[&node], 100).await;
    node.fault(LOGS, Fault::Hang);
    let started = std::time::Instant::now();
    assert_eq!(state(&verifier).await, UNAVAILABLE);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

/// After a cancellation its payer signs anew: one endpoint of two is not enough to say so.
#[tokio::test]
async fn a_cancellation_counts_from_every_endpoint_and_in_a_block_of_the_chain() {
    let (liar, good) = (node(200, Some(195)).await, node(200, None).await);
    liar.script().usdc.uses[0].canceled = true;
    for nodes in [[&liar, &good], [&good, &liar]] {
        assert_eq!(state_since(&connect_at(&nodes, 200).await, 190).await, UNAVAILABLE, "unused");
    }
    good.script().usdc.uses.push(used_at(195));
    for nodes in [[&liar, &good], [&good, &liar]] {
        assert_eq!(state_since(&connect_at(&nodes, 200).await, 190).await, used(), "paid");
    }
    good.script().usdc.uses[0].canceled = true;
    for nodes in [[&liar, &good], [&good, &liar]] {
        assert_eq!(state_since(&connect_at(&nodes, 200).await, 190).await, Ok(NonceState::Spent), "cancelled");
    }
    for node in [&liar, &good] {
        node.script().usdc.bend = |log| log["blockHash"] = json!(format!("0x{:064x}", 1));
    }
    assert_eq!(state_since(&connect_at(&[&liar, &good], 200).await, 190).await, UNAVAILABLE, "in a foreign block");
}

/// The log of one endpoint names an unrelated transaction, which pays nothing here: its payer would be told to sign anew.
#[tokio::test]
async fn a_transaction_counts_only_if_its_receipt_says_that_it_used_the_nonce() {
    let (liar, good) = (node(200, Some(195)).await, node(200, Some(195)).await);
    let unrelated = tx(9);
    for node in [&liar, &good] {
        node.pay(unrelated, 194, 1);
    }
    liar.script().usdc.bend = |log| log["transactionHash"] = json!(tx(9).to_string());
    for nodes in [[&liar, &good], [&good, &liar]] {
        assert_eq!(state_since(&connect_at(&nodes, 200).await, 190).await, used(), "the other one names the right one");
    }
    assert_eq!(state_since(&connect_at(&[&liar], 200).await, 190).await, UNAVAILABLE);
    // One that no node knows is no use either.
    liar.forget(unrelated);
    assert_eq!(state_since(&connect_at(&[&liar], 200).await, 190).await, UNAVAILABLE);
    // Nor is a receipt whose log is about something else.
    let logs: [fn(&mut serde_json::Value); 6] = [
        |receipt| receipt["logs"][0]["topics"][1] = json!(format!("0x{:064x}", 1)),
        |receipt| receipt["logs"][0]["topics"][2] = json!(format!("0x{:064x}", 1)),
        |receipt| receipt["logs"][0]["address"] = json!(format!("0x{:040x}", 1)),
        |receipt| receipt["logs"][0]["data"] = json!(format!("0x{:064x}", 1)),
        |receipt| receipt["status"] = json!("0x0"),
        |receipt| receipt["logs"] = json!([]),
    ];
    for canceled in [false, true] {
        good.script().usdc.uses[0].canceled = canceled;
        let honest = good.used_receipt(tx(1));
        for spoil in logs {
            let mut receipt = honest.clone();
            spoil(&mut receipt);
            good.receipt(tx(1), receipt.clone());
            assert_eq!(state_since(&connect_at(&[&good], 200).await, 190).await, UNAVAILABLE, "{receipt}");
        }
        good.forget(tx(1));
        let state = state_since(&connect_at(&[&good], 200).await, 190).await;
        assert_eq!(state, if canceled { Ok(NonceState::Spent) } else { used() });
    }
}
