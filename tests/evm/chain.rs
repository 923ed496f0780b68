//! SECURITY rows 6, 7, 9, 18, 42: blocks that come, go, and stop coming.

use serde_json::{Value, json};

use super::{
    node::{Fault, block_hash, receipt},
    *,
};

#[tokio::test]
async fn a_preconfirmed_receipt_that_changes_its_mind() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    // Before its block is sealed: reverted, with a hash that no block will have, or with none.
    for (n, hash) in [(1, json!(block_hash(101, 9))), (2, Value::Null)] {
        let mut preconfirmed = receipt(tx(n), 101, &block_hash(101, 9), &[]);
        preconfirmed["status"] = json!("0x0");
        preconfirmed["blockHash"] = hash;
        node.receipt(tx(n), preconfirmed);
        assert_not_confirmed(verify(&verifier, tx(n)).await);
    }
    assert_eq!(node.calls("eth_getBlockByNumber"), 1, "only the head: block 101 cannot be there yet");
    // The block is sealed, and there the payments are.
    node.mine();
    node.pay(tx(1), 101, 490_000);
    node.pay(tx(2), 101, 490_000);
    assert_not_confirmed(verify(&verifier, tx(1)).await);
    clock.advance(BLOCK_TIME);
    assert_paid(verify(&verifier, tx(1)).await);
    assert_paid(verify(&verifier, tx(2)).await);
}

#[tokio::test]
async fn a_foreign_block_hash_at_a_sealed_height_is_not_confirmed() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    for (n, height) in [(1, 100), (2, 99), (3, 5)] {
        node.receipt(tx(n), receipt(tx(n), height, &block_hash(height, 9), &[490_000]));
        assert_not_confirmed(verify(&verifier, tx(n)).await);
    }
}

#[tokio::test]
async fn a_receipt_in_memory_does_not_outlive_its_block() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    node.pay(tx(1), 99, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);

    // Reorganised away, the chain as long as before.
    node.script().blocks.extend([(99, 1), (100, 1)]);
    node.forget(tx(1));
    clock.advance(BLOCK_TIME);
    assert_not_confirmed(verify(&verifier, tx(1)).await);

    // Mined again, one block later, as another transaction's neighbour.
    node.mine();
    node.pay(tx(1), 101, 490_000);
    clock.advance(BLOCK_TIME);
    assert_paid(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn a_reorganisation_hidden_by_a_jump_is_noticed() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    node.pay(tx(1), 100, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
    node.script().blocks.extend((100..=110).map(|number| (number, 1)));
    node.forget(tx(1));
    clock.advance(BLOCK_TIME);
    assert_not_confirmed(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn a_chain_that_got_shorter_is_noticed() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    node.pay(tx(1), 100, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
    node.script().blocks.retain(|number, _| *number < 98);
    clock.advance(BLOCK_TIME);
    assert_not_confirmed(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn a_node_that_is_behind_does_not_take_the_head_back() {
    let (ahead, behind) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&ahead, &behind]).await;
    for _ in 0..10 {
        ahead.mine();
    }
    for node in [&ahead, &behind] {
        node.receipt(tx(1), receipt(tx(1), 110, &block_hash(110, 0), &[490_000]));
    }
    clock.advance(BLOCK_TIME);
    assert_eq!(verifier.head().await.map(|head| head.unix()), Ok(time_of(110)));
    ahead.fault("eth_getBlockByNumber", Fault::Hang);
    clock.advance(BLOCK_TIME);
    assert_eq!(verifier.head().await.map(|head| head.unix()), Ok(time_of(110)));
    assert_paid(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn a_first_node_that_got_stuck_is_noticed() {
    let (stuck, good) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&stuck, &good]).await;
    for _ in 0..8 {
        good.mine();
        clock.advance(BLOCK_TIME);
        verifier.head().await.expect("a head");
    }
    assert_eq!(verifier.head().await.map(|head| head.unix()), Ok(time_of(108)));
}

#[tokio::test]
async fn the_age_of_a_payment_is_chain_time_to_the_second() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    node.pay(tx(1), 50, 490_000);
    let within = |seconds| {
        let age = Duration::from_secs(seconds);
        Terms::builder(Network::BASE, RECIPIENT, Amount::from_base_units(1))
            .resource("x")
            .assets([Asset::USDC_BASE])
            .max_payment_age(age)
            .build()
    };
    for _ in 0..2 {
        // The second time from a warm cache: verdicts are not kept.
        let verdict = verifier.verify(&within(100), tx(1)).await;
        assert!(matches!(verdict, Ok(Verdict::Paid { .. })), "{verdict:?}");
        assert_eq!(verifier.verify(&within(99), tx(1)).await, Ok(Verdict::TooOld));
    }
}

#[tokio::test]
async fn a_payment_in_memory_grows_old() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    node.pay(tx(1), 100, 490_000);
    let hundred = Duration::from_secs(100);
    let terms = Terms::builder(Network::BASE, RECIPIENT, Amount::from_base_units(1))
        .resource("x")
        .assets([Asset::USDC_BASE])
        .max_payment_age(hundred)
        .build();
    for (blocks, young) in [(50, true), (1, false)] {
        for _ in 0..blocks {
            node.mine();
            clock.advance(BLOCK_TIME);
        }
        let verdict = verifier.verify(&terms, tx(1)).await;
        assert_eq!(matches!(verdict, Ok(Verdict::Paid { .. })), young, "{verdict:?}");
        assert_eq!(verdict == Ok(Verdict::TooOld), !young);
    }
}

#[tokio::test]
async fn a_head_behind_the_clock_is_stale() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    node.pay(tx(1), 100, 490_000);
    clock.advance(Duration::from_secs(180));
    assert_paid(verify(&verifier, tx(1)).await);
    clock.advance(Duration::from_secs(1));
    assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::StaleHead));
    assert_eq!(verifier.head().await.map_err(kind), Err(VerifyErrorKind::StaleHead));
    for _ in 0..90 {
        node.mine();
    }
    clock.advance(BLOCK_TIME);
    assert_paid(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn a_head_that_does_not_move_is_stale_after_a_minute_of_refreshes() {
    let node = Node::start().await;
    let clock = TestClock::at(100);
    let verifier =
        builder(&[&node], &clock).max_head_age(Some(Duration::from_secs(86_400))).connect().await.expect("connects");
    node.pay(tx(1), 100, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
    // Nobody asked for an hour: that alone is no sign of anything.
    clock.advance(Duration::from_secs(3600));
    assert_paid(verify(&verifier, tx(1)).await);
    clock.advance(Duration::from_secs(60));
    assert_paid(verify(&verifier, tx(1)).await);
    clock.advance(BLOCK_TIME);
    assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::StaleHead));
    node.mine();
    clock.advance(BLOCK_TIME);
    assert_paid(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn a_chain_that_mines_on_demand_is_never_stale() {
    let (node, clock) = (Node::start().await, TestClock::at(100));
    let verifier = builder(&[&node], &clock).max_head_age(None).connect().await.expect("connects");
    node.pay(tx(1), 100, 490_000);
    for _ in 0..100 {
        clock.advance(Duration::from_secs(20));
        assert_paid(verify(&verifier, tx(1)).await);
    }
}

#[tokio::test]
async fn a_payment_that_vanished_after_delivery_is_counted_and_not_taken_back() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    for n in 1..=3 {
        node.pay(tx(n), 100, 490_000);
        assert_paid(verify(&verifier, tx(n)).await);
    }
    // One stays, one moves to another block, one is gone.
    node.pay(tx(4), 99, 490_000);
    assert_paid(verify(&verifier, tx(4)).await);
    node.script().blocks.insert(100, 1);
    for _ in 0..31 {
        node.mine();
    }
    node.pay(tx(1), 101, 490_000);
    node.pay(tx(2), 100, 490_000);
    node.forget(tx(3));
    clock.advance(Duration::from_secs(62));

    // Not before it is safe.
    assert_paid(verify(&verifier, tx(4)).await);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(verifier.vanished_payments(), 0);

    node.script().safe = 120;
    clock.advance(Duration::from_secs(60));
    for _ in 0..30 {
        node.mine();
    }
    assert_paid(verify(&verifier, tx(4)).await);
    for _ in 0..100 {
        if verifier.vanished_payments() == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(verifier.vanished_payments(), 1);
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Looked at once.
    clock.advance(Duration::from_secs(60));
    for _ in 0..30 {
        node.mine();
    }
    node.take_calls();
    assert_paid(verify(&verifier, tx(4)).await);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(node.calls("eth_getTransactionReceipt"), 0);
    assert_eq!(verifier.vanished_payments(), 1);
}
