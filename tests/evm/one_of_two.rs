//! SECURITY rows 6, 9, 10: of two endpoints one is wrong and listed first, and what it says passes every test of its own.

use serde_json::json;

use super::{
    node::{Fault, RECEIPT, block_hash, receipt},
    *,
};

async fn head(verifier: &EvmVerifier) -> Result<u64, VerifyErrorKind> {
    verifier.head().await.map(|head| head.unix()).map_err(kind)
}

/// The node names a head of that height and time, which the others do not have.
fn rise(node: &Node, number: u64, time: u64) {
    let mut script = node.script();
    script.blocks.insert(number, 0);
    script.times.insert(number, time);
}

#[tokio::test]
async fn a_higher_head_that_stands_still_gives_way_to_one_that_moves() {
    for (ahead, fork) in [(1, 0), (100, 7), (179, 0)] {
        let (stuck, good) = (Node::start().await, Node::start().await);
        let (verifier, clock) = connect(&[&stuck, &good]).await;
        good.pay(tx(1), 90, 490_000);
        // On a fork it has other blocks at every height.
        stuck.script().blocks.extend((101..250).map(|number| (number, fork)).filter(|_| fork > 0));
        let named = time_of(100) + ahead;
        rise(&stuck, 250, named);
        assert_eq!(head(&verifier).await, Ok(named));
        let mut given_up_after = None;
        for seconds in (2..400).step_by(2) {
            clock.advance(BLOCK_TIME);
            let mined = good.mine();
            good.pay(tx(mined), mined, 490_000);
            let head = head(&verifier).await;
            if head == Ok(time_of(mined)) {
                given_up_after.get_or_insert(seconds);
                assert_paid(verify(&verifier, tx(1)).await);
                assert_paid(verify(&verifier, tx(mined)).await);
            } else {
                assert_eq!((head, given_up_after), (Ok(named), None), "{ahead}: {seconds}");
            }
        }
        assert!(given_up_after.is_some_and(|seconds| (6..=10).contains(&seconds)), "{ahead}: {given_up_after:?}");
    }
}

#[tokio::test]
async fn an_endpoint_that_comes_back_with_the_head_it_was_given_up_with_is_not_followed() {
    let (stuck, good) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&stuck, &good]).await;
    rise(&stuck, 200, time_of(100) + 100);
    head(&verifier).await.expect("a head");
    stuck.fault_all(Fault::Status(503));
    for _ in 0..10 {
        clock.advance(BLOCK_TIME);
        good.mine();
        head(&verifier).await.expect("a head");
    }
    stuck.heal();
    for _ in 0..70 {
        clock.advance(BLOCK_TIME);
        let mined = good.mine();
        assert_eq!(head(&verifier).await, Ok(time_of(mined)));
    }
    // With another head it counts again.
    rise(&stuck, 220, clock.unix() + 1);
    clock.advance(Duration::from_secs(60));
    assert_eq!(head(&verifier).await, Ok(clock.unix() - 59));
}

#[tokio::test]
async fn a_head_does_not_go_back_by_lag_alone() {
    for ahead_first in [true, false] {
        let (ahead, behind) = (Node::start().await, Node::start().await);
        let nodes = if ahead_first { [&ahead, &behind] } else { [&behind, &ahead] };
        let (verifier, clock) = connect(&nodes).await;
        for _ in 0..20 {
            ahead.mine();
        }
        clock.advance(Duration::from_secs(40));
        let mut highest = head(&verifier).await.expect("a head");
        // The one keeps up, the other is some blocks late; then the chain stands still, and the other comes after.
        for round in 0..50 {
            clock.advance(BLOCK_TIME);
            if round < 20 {
                ahead.mine();
            }
            if behind.script().head() < ahead.script().head() {
                behind.mine();
            }
            let now = head(&verifier).await.expect("a head");
            assert!(now >= highest, "{round}: {now} after {highest}");
            highest = now;
        }
        assert_eq!(highest, time_of(140));
    }
}

/// The times of all its blocks, and of those to come, are that many seconds back.
fn set_back(node: &Node, seconds: u64) {
    node.script().times = (0..=400).map(|number| (number, time_of(number) - seconds)).collect();
}

#[tokio::test]
async fn a_head_from_long_ago_does_not_settle_what_another_knows_better() {
    for late in [false, true] {
        let (bad, good) = (Node::start().await, Node::start().await);
        let (verifier, clock) = connect(&[&bad, &good]).await;
        if late {
            assert_eq!(head(&verifier).await, Ok(time_of(100)));
        }
        set_back(&bad, 4_000);
        for n in 0..100 {
            clock.advance(BLOCK_TIME);
            let mined = good.mine();
            bad.mine();
            assert_eq!(head(&verifier).await, Ok(time_of(mined)), "{late}");
            for (transaction, number) in [(tx(2 * n), mined), (tx(2 * n + 1), mined - 80)] {
                good.pay(transaction, number, 490_000);
                bad.pay(transaction, number, 490_000);
                let Ok(Verdict::Paid { transfers, .. }) = verify(&verifier, transaction).await else {
                    panic!("{late}: not paid at {number}")
                };
                assert_eq!(transfers[0].block_time.unix(), time_of(number), "{late}");
            }
        }
    }
}

#[tokio::test]
async fn a_head_from_long_ago_gives_way_when_another_is_up_again_even_with_a_lower_one() {
    for behind in [0, 3] {
        let (bad, good) = (Node::start().await, Node::start().await);
        let (verifier, clock) = connect(&[&bad, &good]).await;
        set_back(&bad, 4_000);
        good.fault_all(Fault::Status(503));
        assert_eq!(head(&verifier).await, Err(VerifyErrorKind::StaleHead));
        good.heal();
        for _ in 0..behind {
            bad.mine();
        }
        clock.advance(BLOCK_TIME);
        assert_eq!(head(&verifier).await, Ok(time_of(100)));
        good.pay(tx(1), 100, 490_000);
        assert_paid(verify(&verifier, tx(1)).await);
    }
}

#[tokio::test]
async fn a_receipt_of_a_foreign_block_is_asked_of_the_others() {
    let (bad, good) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&bad, &good]).await;
    for n in 1..=20 {
        let number = [100, 97][n as usize % 2];
        bad.receipt(tx(n), receipt(tx(n), number, &block_hash(number, 9), &[490_000]));
        good.pay(tx(n), number, 490_000);
        assert_paid(verify(&verifier, tx(n)).await);
        assert!(bad.calls(RECEIPT) <= n as usize);
        assert_eq!(good.calls(RECEIPT), n as usize);
    }
    for _ in 0..10 {
        clock.advance(BLOCK_TIME);
        assert_paid(verify(&verifier, tx(1)).await);
    }
    assert_eq!(good.calls(RECEIPT), 20, "what is paid is remembered");
}

#[tokio::test]
async fn a_receipt_with_the_logs_of_a_foreign_block_is_asked_of_the_others() {
    let (bad, good) = (Node::start().await, Node::start().await);
    let (verifier, _) = connect(&[&bad, &good]).await;
    let mut mixed = receipt(tx(1), 99, &block_hash(99, 9), &[490_000]);
    mixed["blockHash"] = json!(block_hash(99, 0));
    bad.receipt(tx(1), mixed);
    good.pay(tx(1), 99, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn a_receipt_of_another_height_is_asked_of_the_others_a_block_later() {
    // Among three, two of which are wrong in different ways.
    let nodes = [Node::start().await, Node::start().await, Node::start().await];
    let (verifier, clock) = connect(&nodes.each_ref()).await;
    let [one, other, good] = nodes.each_ref();
    one.receipt(tx(1), receipt(tx(1), 5_000, &block_hash(5_000, 9), &[490_000]));
    other.receipt(tx(1), receipt(tx(1), 98, &block_hash(98, 9), &[490_000]));
    good.pay(tx(1), 97, 490_000);
    good.fault(RECEIPT, Fault::Slow(Duration::from_millis(300)));
    assert_not_confirmed(verify(&verifier, tx(1)).await);
    clock.advance(BLOCK_TIME);
    assert_paid(verify(&verifier, tx(1)).await);
    assert_paid(verify(&verifier, tx(1)).await);
    assert_eq!(nodes.each_ref().map(|node| node.calls(RECEIPT)), [2, 1, 1]);
}

#[tokio::test]
async fn an_orphan_costs_one_call_per_endpoint_and_block_time() {
    let (one, other) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&one, &other]).await;
    for node in [&one, &other] {
        node.receipt(tx(1), receipt(tx(1), 100, &block_hash(100, 9), &[490_000]));
    }
    for round in 1..=4 {
        for _ in 0..50 {
            assert_not_confirmed(verify(&verifier, tx(1)).await);
        }
        assert_eq!((one.calls(RECEIPT), other.calls(RECEIPT)), (round, round));
        clock.advance(BLOCK_TIME);
    }
    // That the other cannot be asked now makes it no worse.
    one.receipt(tx(2), receipt(tx(2), 100, &block_hash(100, 9), &[490_000]));
    other.fault_all(Fault::Status(503));
    assert_not_confirmed(verify(&verifier, tx(2)).await);
}

#[tokio::test]
async fn what_does_not_pay_is_remembered_for_one_block_time_and_what_pays_for_longer() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    let hash = node.script().hash(100);
    let mut failed = receipt(tx(1), 100, &hash, &[490_000]);
    failed["status"] = json!("0x0");
    let empty = receipt(tx(2), 100, &hash, &[]);
    let short = receipt(tx(3), 100, &hash, &[1]);
    for (n, wrong) in [(1, failed), (2, empty), (3, short)] {
        let verdict = match n {
            3 => Verdict::Insufficient { paid: Amount::from_base_units(1) },
            _ => Verdict::NoTransfer,
        };
        node.receipt(tx(n), wrong.clone());
        let before = node.calls(RECEIPT);
        for round in 1..=3 {
            for _ in 0..50 {
                assert_eq!(verify(&verifier, tx(n)).await, Ok(verdict.clone()));
            }
            assert_eq!(node.calls(RECEIPT) - before, round, "once a block time");
            clock.advance(BLOCK_TIME);
        }
        node.pay(tx(n), 100, 490_000);
        assert_paid(verify(&verifier, tx(n)).await);
        node.receipt(tx(n), wrong);
        clock.advance(BLOCK_TIME);
        assert_paid(verify(&verifier, tx(n)).await);
        assert_eq!(node.calls(RECEIPT) - before, 4);
    }
}
