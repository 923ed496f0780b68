//! SECURITY row 23: made-up hashes by the thousand.

use std::time::Instant;

use super::{node::Fault, *};

const FLOOD: u64 = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_stays_within_its_budget_and_leaves_the_known_alone() {
    let (node, clock) = (Node::start().await, TestClock::at(100));
    let limits = builder(&[&node], &clock).total_timeout(Duration::from_secs(12)).call_timeout(Duration::from_secs(10));
    let verifier = limits.max_concurrency(16).max_queue(500).connect().await.expect("connects");
    node.pay(tx(1), 95, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
    let mut idle = Vec::new();
    for _ in 0..500 {
        let started = Instant::now();
        assert_paid(verify(&verifier, tx(1)).await);
        idle.push(started.elapsed());
    }
    node.fault("eth_getTransactionReceipt", Fault::Slow(Duration::from_millis(20)));
    node.take_calls();

    let flood = (0..FLOOD).map(|n| {
        let verifier = verifier.clone();
        tokio::spawn(async move {
            let started = Instant::now();
            (verify(&verifier, tx(1_000 + n)).await, started.elapsed())
        })
    });
    let flood: Vec<_> = flood.collect();
    let mut waits = Vec::new();
    while !flood.iter().all(tokio::task::JoinHandle::is_finished) {
        let started = Instant::now();
        assert_paid(verify(&verifier, tx(1)).await);
        waits.push(started.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (mut unknown, mut turned_away) = (0, 0);
    for one in flood {
        let (answer, waited) = one.await.expect("no panic");
        // The limit is 12 s; a machine that is busy with other tests is not the verifier's.
        assert!(waited < Duration::from_secs(16), "{waited:?}");
        match answer {
            Ok(Verdict::NotConfirmed { .. }) => unknown += 1,
            Err(VerifyErrorKind::Overloaded) => turned_away += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(unknown + turned_away, FLOOD);
    assert!(turned_away > 0, "the queue has an end");
    assert_eq!(node.take_calls() as u64, 2 * unknown, "two calls each, none for those turned away");
    assert!(node.most_at_once() <= 2 * 16, "{}", node.most_at_once());
    let [idle, flooded] = [idle, waits].map(|mut waits| {
        waits.sort();
        [waits[waits.len() / 2], waits[waits.len() * 99 / 100]]
    });
    println!("{unknown} looked up, {turned_away} turned away; a known one: median and p99 {flooded:?}, idle {idle:?}");
    // Behind the flood it would wait for half a second. The median: other tests share the machine.
    assert!(flooded[0] < Duration::from_millis(100), "{flooded:?}");
}

/// More hashes that were looked for in vain before than there is room for: one that is asked about for the first time is
/// neither turned away nor behind them all.
#[tokio::test]
async fn a_flood_that_asks_again_starves_no_newcomer() {
    const FLOOD: u64 = 60;
    let (node, clock) = (Node::start().await, TestClock::at(100));
    let patient =
        builder(&[&node], &clock).call_timeout(Duration::from_secs(10)).total_timeout(Duration::from_secs(60));
    let verifier = patient.max_concurrency(1).max_queue(20).connect().await.expect("connects");
    for n in 0..FLOOD {
        assert_not_confirmed(verify(&verifier, tx(1_000 + n)).await);
    }
    clock.advance(BLOCK_TIME);
    verifier.head().await.expect("a head");
    node.fault("eth_getTransactionReceipt", Fault::Slow(Duration::from_millis(100)));
    node.take_calls();
    let flood: Vec<_> = (0..FLOOD)
        .map(|n| {
            let verifier = verifier.clone();
            tokio::spawn(async move { verify(&verifier, tx(1_000 + n)).await })
        })
        .collect();
    // One has its turn, twenty wait, the others were turned away.
    while flood.iter().filter(|one| one.is_finished()).count() < FLOOD as usize - 21 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let before = node.calls("eth_getTransactionReceipt");
    node.pay(tx(1), 100, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
    let calls = node.calls("eth_getTransactionReceipt") - before;
    assert!(calls <= 3, "{calls} calls: its own, and one that was under way or has its turn next");
    let mut turned_away = 0;
    for one in flood {
        match one.await.expect("no panic") {
            Err(VerifyErrorKind::Overloaded) => turned_away += 1,
            other => assert_not_confirmed(other),
        }
    }
    assert_eq!(turned_away, FLOOD - 21);
}
