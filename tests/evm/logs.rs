//! SECURITY row 4: where a transfer stands in its receipt decides what it is; a receipt that leaves room for doubt is none.

use serde_json::{Value, json};

use super::{
    node::{RECEIPT, block_hash, receipt},
    *,
};

/// A way to spoil the list of logs.
type Spoil = fn(&mut Vec<Value>);

const SPOILT: [(&str, Spoil); 9] = [
    ("reversed", |logs| logs.reverse()),
    ("swapped", |logs| logs.swap(1, 2)),
    ("one listed twice", |logs| logs.insert(1, logs[0].clone())),
    ("the last listed twice", |logs| logs.push(logs[2].clone())),
    ("one missing in the middle", |logs| drop(logs.remove(1))),
    ("all of one place", |logs| logs.iter_mut().for_each(|log| log["logIndex"] = json!("0x28"))),
    ("no place", |logs| logs[1]["logIndex"] = Value::Null),
    ("a place without end", |logs| logs[2]["logIndex"] = json!("0xffffffffffffffff")),
    ("counted from the last", |logs| logs[0]["logIndex"] = json!("0xffffffffffffffff")),
];

fn batch(transaction: TxHash) -> Value {
    receipt(transaction, 100, &block_hash(100, 0), &[490_000, 490_001, 490_002])
}

fn spoilt(transaction: TxHash, spoil: Spoil) -> Value {
    let mut receipt = batch(transaction);
    spoil(receipt["logs"].as_array_mut().expect("logs"));
    receipt
}

/// Position and amount of each transfer.
fn transfers(verdict: Result<Verdict, VerifyErrorKind>) -> Vec<(u32, Amount)> {
    let Ok(Verdict::Paid { transfers, .. }) = verdict else { panic!("{verdict:?}") };
    transfers.iter().map(|transfer| (transfer.position, transfer.amount)).collect()
}

fn whole_batch() -> Vec<(u32, Amount)> {
    (0..3).zip([490_000, 490_001, 490_002].map(Amount::from_base_units)).collect()
}

#[tokio::test]
async fn logs_out_of_order_are_no_answer() {
    for (what, spoil) in SPOILT {
        let node = Node::start().await;
        let (verifier, clock) = connect(&[&node]).await;
        node.receipt(tx(1), spoilt(tx(1), spoil));
        for _ in 0..3 {
            assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable), "{what}");
        }
        assert_eq!(node.calls(RECEIPT), 1, "{what}: asked once a block time");
        node.receipt(tx(1), batch(tx(1)));
        clock.advance(BLOCK_TIME);
        assert_eq!(transfers(verify(&verifier, tx(1)).await), whole_batch(), "{what}");
    }
}

#[tokio::test]
async fn a_node_that_orders_logs_in_its_own_way_does_not_move_a_transfer() {
    for (what, spoil) in SPOILT {
        let (odd, good) = (Node::start().await, Node::start().await);
        odd.receipt(tx(1), spoilt(tx(1), spoil));
        good.receipt(tx(1), batch(tx(1)));
        for nodes in [[&odd, &good], [&good, &odd]] {
            let (verifier, _) = connect(&nodes).await;
            assert_eq!(transfers(verify(&verifier, tx(1)).await), whole_batch(), "{what}");
        }
        // What it says beside a `null` is no agreement that there is none.
        good.forget(tx(1));
        let (verifier, _) = connect(&[&odd, &good]).await;
        assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable), "{what}");
    }
}

/// Where the first are missing the others still follow each other; the receipt's own summary of its logs tells.
#[tokio::test]
async fn logs_that_the_receipts_own_bloom_does_not_have_or_has_beyond_are_no_answer() {
    let other_payer = format!("0x{:0>64}", "cc".repeat(20));
    let mut whole = batch(tx(1));
    whole["logs"][0]["topics"][1] = json!(other_payer);
    whole["logsBloom"] = json!(bloom_of(&whole));
    let mut headless = whole.clone();
    headless["logs"].as_array_mut().expect("logs").remove(0);
    let mut foreign = whole.clone();
    foreign["logs"][2]["topics"][1] = json!(format!("0x{:0>64}", "dd".repeat(20)));
    for (what, broken) in [("the first is missing", headless), ("one was exchanged", foreign)] {
        let (odd, good) = (Node::start().await, Node::start().await);
        odd.receipt(tx(1), broken);
        good.receipt(tx(1), whole.clone());
        let (verifier, _) = connect(&[&odd]).await;
        assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable), "{what}");
        let (verifier, _) = connect(&[&odd, &good]).await;
        assert_eq!(transfers(verify(&verifier, tx(1)).await), whole_batch(), "{what}");
    }
}

fn bloom_of(receipt: &Value) -> String {
    let logs: Vec<alloy::rpc::types::Log> = serde_json::from_value(receipt["logs"].clone()).expect("logs");
    alloy::primitives::logs_bloom(logs.iter().map(|log| &log.inner)).to_string()
}

#[tokio::test]
async fn a_position_counts_all_logs_not_transfers_alone() {
    let node = Node::start().await;
    let mut mixed = batch(tx(1));
    // An approval before the first transfer, and something without topics before the last.
    mixed["logs"][0]["topics"][0] = json!(format!("0x{:064x}", 0xabc));
    mixed["logs"][1]["topics"] = json!([]);
    node.receipt(tx(1), mixed);
    let (verifier, _) = connect(&[&node]).await;
    assert_eq!(transfers(verify(&verifier, tx(1)).await), [(2, Amount::from_base_units(490_002))]);
}

/// A receipt that is in no block yet states no places, and is no payment either.
#[tokio::test]
async fn logs_without_a_place_in_no_block_are_not_confirmed() {
    let node = Node::start().await;
    let mut pending = batch(tx(1));
    (pending["blockHash"], pending["blockNumber"]) = (Value::Null, Value::Null);
    for log in pending["logs"].as_array_mut().expect("logs") {
        (log["logIndex"], log["blockHash"], log["blockNumber"]) = (Value::Null, Value::Null, Value::Null);
    }
    node.receipt(tx(1), pending);
    let (verifier, _) = connect(&[&node]).await;
    assert_not_confirmed(verify(&verifier, tx(1)).await);
}
