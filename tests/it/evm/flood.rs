//! SECURITY row 23: made-up hashes by the thousand.

use std::time::Instant;

use super::{node::Fault, *};

const FLOOD: u64 = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_stays_within_its_budget_and_leaves_the_known_alone() {
    let (node, clock) = (Node::start().await, TestClock::at(100));
    let limits = builder(&[&node], &clock).total_timeout(Duration::from_secs(5)).call_timeout(Duration::from_secs(2));
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
        assert!(waited < Duration::from_millis(5_500), "{waited:?}");
        match answer {
            Ok(Verdict::NotConfirmed { .. }) => unknown += 1,
            Err(VerifyErrorKind::Overloaded) => turned_away += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(unknown + turned_away, FLOOD);
    assert!(turned_away > 0, "the queue has an end");
    assert_eq!(node.take_calls() as u64, unknown, "one call each, none for those turned away");
    assert!(node.most_at_once() <= 16, "{}", node.most_at_once());
    let [idle, p99] = [idle, waits].map(|mut waits| {
        waits.sort();
        waits[waits.len() * 99 / 100]
    });
    println!("{unknown} looked up, {turned_away} turned away; a known one: p99 {p99:?}, idle {idle:?}");
    // Behind the flood it would wait for half a second.
    assert!(p99 < Duration::from_millis(100), "{p99:?}");
}
