//! What is asked, and how often.

use super::{
    node::{Fault, RECEIPT, TRANSACTION},
    *,
};

#[tokio::test]
async fn cold_is_four_calls_warm_is_two() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    node.pay(tx(1), 95, 490_000);
    node.take_calls();
    assert_paid(verify(&verifier, tx(1)).await);
    assert_eq!(node.take_calls(), 4, "receipt and transaction, head, and the block of the payment");
    for n in 2..12 {
        node.pay(tx(n), 95, 490_000);
        node.take_calls();
        assert_paid(verify(&verifier, tx(n)).await);
        assert_eq!((node.calls(RECEIPT), node.calls(TRANSACTION)), (1, 1));
        assert_eq!(node.take_calls(), 2, "the receipt, and the transaction at once");
    }
    assert_paid(verify(&verifier, tx(1)).await);
    assert_eq!(node.take_calls(), 0, "all of it is known");
    // A block time later one refresh serves all.
    node.mine();
    clock.advance(BLOCK_TIME);
    for n in 1..12 {
        assert_paid(verify(&verifier, tx(n)).await);
    }
    assert_eq!(node.take_calls(), 1);
}

#[tokio::test]
async fn cold_is_two_round_trips() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    node.pay(tx(1), 95, 490_000);
    let slow = Duration::from_millis(300);
    node.fault_all(Fault::Slow(slow));
    let started = std::time::Instant::now();
    assert_paid(verify(&verifier, tx(1)).await);
    assert!((2 * slow..3 * slow).contains(&started.elapsed()), "{:?}", started.elapsed());
}

#[tokio::test]
async fn warm_is_one_round_trip() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    node.pay(tx(1), 100, 490_000);
    node.pay(tx(2), 100, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
    let slow = Duration::from_millis(300);
    node.fault_all(Fault::Slow(slow));
    let started = std::time::Instant::now();
    assert_paid(verify(&verifier, tx(2)).await);
    assert!((slow..2 * slow).contains(&started.elapsed()), "{:?}", started.elapsed());
}

#[tokio::test]
async fn nothing_is_asked_while_nobody_redeems() {
    let (node, clock) = (Node::start().await, TestClock::at(100));
    let verifier = builder(&[&node], &clock).block_time(Duration::from_millis(10)).connect().await.expect("connects");
    node.pay(tx(1), 100, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
    node.take_calls();
    tokio::time::sleep(Duration::from_millis(200)).await;
    clock.advance(Duration::from_secs(60));
    assert_eq!(node.take_calls(), 0);
}

#[tokio::test]
async fn many_who_ask_at_once_share_one_look_up() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    node.pay(tx(1), 95, 490_000);
    node.fault_all(Fault::Slow(Duration::from_millis(30)));
    node.take_calls();
    let all = (0..200).map(|_| {
        let verifier = verifier.clone();
        tokio::spawn(async move { verify(&verifier, tx(1)).await })
    });
    for one in futures_util::future::join_all(all).await {
        assert_paid(one.expect("no panic"));
    }
    assert_eq!(node.take_calls(), 4);
}

#[tokio::test]
async fn two_prices_at_once_are_two_verdicts() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    node.pay(tx(1), 95, 10_000);
    let (cheap, dear) = (terms_at(10_000), terms_at(10_000_000));
    for _ in 0..3 {
        let (cheap, dear) = tokio::join!(verifier.verify(&cheap, tx(1)), verifier.verify(&dear, tx(1)));
        assert_paid(cheap.map_err(kind));
        assert_eq!(dear, Ok(Verdict::Insufficient { paid: Amount::from_base_units(10_000) }));
    }
}

#[tokio::test]
async fn whoever_leaves_ends_nothing() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    node.pay(tx(1), 100, 490_000);
    node.fault_all(Fault::Slow(Duration::from_millis(300)));
    node.take_calls();
    let gone = tokio::time::timeout(Duration::from_millis(100), verify(&verifier, tx(1))).await;
    assert!(gone.is_err());
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(node.take_calls(), 3);
    assert_paid(verify(&verifier, tx(1)).await);
    assert_eq!(node.take_calls(), 0, "it came in after they had left");
}

#[tokio::test]
async fn a_waiter_inherits_an_answer_but_no_failure() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    verifier.head().await.expect("a head");
    node.pay(tx(1), 100, 490_000);
    node.fault(RECEIPT, Fault::Hang);
    let first = tokio::spawn({
        let verifier = verifier.clone();
        async move { verify(&verifier, tx(1)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    node.heal();
    assert_paid(verify(&verifier, tx(1)).await);
    assert_eq!(first.await.expect("no panic"), Err(VerifyErrorKind::Unavailable));
}

#[tokio::test]
async fn an_unknown_transaction_costs_one_call_per_endpoint_and_block_time() {
    let (one, other) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&one, &other]).await;
    for round in 1..=3 {
        for _ in 0..50 {
            assert_not_confirmed(verify(&verifier, tx(1)).await);
        }
        assert_eq!([RECEIPT, TRANSACTION].map(|what| (one.calls(what), other.calls(what))), [(round, round); 2]);
        one.mine();
        other.mine();
        clock.advance(BLOCK_TIME);
    }
    // Once it is there, it is seen.
    one.pay(tx(1), 103, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn one_that_nodes_make_no_sense_of_costs_no_more_than_an_unknown_one() {
    let (one, other) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&one, &other]).await;
    other.fault(RECEIPT, Fault::RpcError);
    for round in 1..=3 {
        // At once as well: nobody inherits a failure, and nobody needs to ask again for it.
        let all = (0..20).map(|_| verify(&verifier, tx(1)));
        for answer in futures_util::future::join_all(all).await {
            assert_eq!(answer, Err(VerifyErrorKind::Unavailable));
        }
        for _ in 0..20 {
            assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable));
        }
        assert_eq!((one.calls(RECEIPT), other.calls(RECEIPT)), (round, round));
        one.mine();
        other.mine();
        clock.advance(BLOCK_TIME);
    }
    // Other transactions are asked about, and this one a block time later.
    one.pay(tx(2), 103, 490_000);
    assert_paid(verify(&verifier, tx(2)).await);
    other.heal();
    other.pay(tx(1), 103, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn an_orphan_costs_no_more_than_an_unknown_one() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    node.receipt(tx(1), super::node::receipt(tx(1), 100, &super::node::block_hash(100, 9), &[490_000]));
    for round in 1..=3 {
        for _ in 0..50 {
            assert_not_confirmed(verify(&verifier, tx(1)).await);
        }
        assert_eq!(node.calls(RECEIPT), round);
        clock.advance(BLOCK_TIME);
    }
}
