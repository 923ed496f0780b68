//! The head follows the receipts: a payment counts when its block is there, and waiting for it costs next to nothing.

use serde_json::Value;
use tower_x402::verify::Finality;

use super::{
    node::{block_hash, receipt},
    *,
};

const RECEIPT: &str = "eth_getTransactionReceipt";
const BLOCK: &str = "eth_getBlockByNumber";
/// Two looks at the head are at least so far apart.
const HURRY: Duration = Duration::from_millis(250);

#[tokio::test]
async fn a_payment_counts_when_its_block_is_there() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    assert_not_confirmed(verify(&verifier, tx(1)).await);
    clock.advance(HURRY);
    assert_not_confirmed(verify(&verifier, tx(1)).await);
    node.mine();
    node.pay(tx(1), 101, 490_000);
    clock.advance(HURRY);
    node.take_calls();
    assert_paid(verify(&verifier, tx(1)).await);
    assert_eq!((node.calls(BLOCK), node.calls(RECEIPT)), (1, 1), "the head, and the receipt once more");
}

#[tokio::test]
async fn a_receipt_that_is_there_before_its_block_counts_with_its_block() {
    // As preconfirmed with the hash that its block will have, with another one, and with none.
    for hash in [Value::from(block_hash(101, 0)), Value::from(block_hash(101, 9)), Value::Null] {
        let node = Node::start().await;
        let (verifier, clock) = connect(&[&node]).await;
        let mut early = receipt(tx(1), 101, &block_hash(101, 9), &[]);
        (early["blockHash"], early["status"]) = (hash.clone(), "0x0".into());
        node.receipt(tx(1), early);
        for _ in 0..4 {
            assert_not_confirmed(verify(&verifier, tx(1)).await);
            clock.advance(HURRY);
        }
        assert_eq!(node.calls(RECEIPT), 1);
        node.mine();
        if hash != block_hash(101, 0) {
            node.pay(tx(1), 101, 490_000);
            assert_paid(verify(&verifier, tx(1)).await);
        } else {
            assert_eq!(verify(&verifier, tx(1)).await, Ok(Verdict::NoTransfer), "what its own block says");
        }
    }
}

#[tokio::test]
async fn a_receipt_of_a_block_that_only_one_node_has_asks_them_all() {
    let (behind, ahead) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&behind, &ahead]).await;
    ahead.mine();
    ahead.pay(tx(1), 101, 490_000);
    assert_not_confirmed(verify(&verifier, tx(1)).await);
    clock.advance(HURRY);
    assert_paid(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn however_many_wait_the_head_is_looked_at_four_times_a_second() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    verifier.head().await.expect("a head");
    node.take_calls();
    for _ in 0..40 {
        for n in 0..25 {
            assert_not_confirmed(verify(&verifier, tx(n)).await);
        }
        clock.advance(Duration::from_millis(50));
    }
    assert_eq!(node.calls(RECEIPT), 25, "once until the next block");
    let heads = node.calls(BLOCK);
    assert!((4..=8).contains(&heads), "{heads}");
}

#[tokio::test]
async fn invented_receipts_from_above_the_head_cost_no_more() {
    let (liar, good) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&liar, &good]).await;
    verifier.head().await.expect("a head");
    for n in 0..25 {
        let height = [101, 5_000, u64::MAX][n as usize % 3];
        liar.receipt(tx(n), receipt(tx(n), height, &block_hash(101, 9), &[490_000]));
    }
    liar.take_calls();
    good.take_calls();
    for _ in 0..40 {
        for n in 0..25 {
            assert_not_confirmed(verify(&verifier, tx(n)).await);
        }
        clock.advance(Duration::from_millis(50));
    }
    assert_eq!((liar.calls(RECEIPT), good.calls(RECEIPT)), (25, 0));
    let heads = [liar.calls(BLOCK), good.calls(BLOCK)];
    assert!(heads.iter().all(|heads| *heads <= 8), "{heads:?}");
}

#[tokio::test]
async fn nothing_is_hurried_for_a_payment_that_counts_or_is_far_from_it() {
    for (finality, height, verdict) in [
        (Finality::Confirmations(1), 100, "paid"),
        (Finality::Confirmations(4), 99, "two blocks short"),
        (Finality::Safe, 100, "not safe"),
        (Finality::Safe, 1_000, "not even there"),
    ] {
        let (node, clock) = (Node::start().await, TestClock::at(100));
        let verifier = builder(&[&node], &clock).finality(finality).connect().await.expect("connects");
        node.receipt(tx(1), receipt(tx(1), height, &block_hash(height, 0), &[490_000]));
        let first = verify(&verifier, tx(1)).await;
        assert_eq!(matches!(first, Ok(Verdict::Paid { .. })), verdict == "paid");
        node.take_calls();
        for _ in 0..39 {
            clock.advance(Duration::from_millis(50));
            assert_eq!(verify(&verifier, tx(1)).await, first, "{verdict}");
        }
        assert_eq!(node.take_calls(), 0, "{verdict}");
    }
}

#[tokio::test]
async fn the_last_confirmation_is_not_waited_for_longer_than_its_block_takes() {
    let (node, clock) = (Node::start().await, TestClock::at(100));
    let verifier = builder(&[&node], &clock).finality(Finality::Confirmations(3)).connect().await.expect("connects");
    node.pay(tx(1), 99, 490_000);
    assert_not_confirmed(verify(&verifier, tx(1)).await);
    node.mine();
    clock.advance(HURRY);
    assert_paid(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn a_head_that_cannot_be_had_now_changes_no_answer() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    assert_not_confirmed(verify(&verifier, tx(1)).await);
    node.fault(BLOCK, super::node::Fault::Status(500));
    node.take_calls();
    for _ in 0..7 {
        clock.advance(HURRY);
        assert_not_confirmed(verify(&verifier, tx(1)).await);
    }
    let calls = node.take_calls();
    assert!(calls <= 6, "{calls}");
}

/// What every node says is gone is not judged by what is remembered of it, even where its block comes back.
#[tokio::test]
async fn a_receipt_that_is_gone_is_forgotten() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    node.pay(tx(1), 99, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
    node.script().blocks.extend([(99, 1), (100, 1)]);
    node.forget(tx(1));
    clock.advance(BLOCK_TIME);
    node.take_calls();
    for _ in 0..20 {
        assert_not_confirmed(verify(&verifier, tx(1)).await);
    }
    assert_eq!(node.calls(RECEIPT), 1);
    node.script().blocks.extend([(99, 0), (100, 0)]);
    clock.advance(BLOCK_TIME);
    assert_not_confirmed(verify(&verifier, tx(1)).await);
    node.pay(tx(1), 99, 490_000);
    clock.advance(BLOCK_TIME);
    assert_paid(verify(&verifier, tx(1)).await);
}
