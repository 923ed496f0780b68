//! What the verifier counts: calls and failures by an endpoint's place, the head's lag, and payments that were reorganised away.

use super::*;
use crate::support::metrics::counted;

#[test]
fn calls_and_failures_are_counted_by_the_place_of_the_endpoint() {
    counted(async |metrics| {
        let (first, second) = (Node::start().await, Node::start().await);
        let (verifier, _) = connect(&[&first, &second]).await;
        let calls = |place: &str| metrics.of("x402_rpc_calls_total", &[("endpoint", place)]);
        let failures = |place: &str| metrics.of("x402_rpc_failures_total", &[("endpoint", place)]);
        assert_eq!((calls("0"), calls("1")), (1.0, 1.0), "each was asked for its chain");
        for node in [&first, &second] {
            node.pay(tx(1), 100, 490_000);
        }
        first.fault_all(node::Fault::Status(500));
        assert_paid(verify(&verifier, tx(1)).await);
        assert!(failures("0") >= 1.0 && calls("0") > 1.0 && calls("1") > 1.0, "{}", metrics.text());
        assert_eq!(failures("1"), 0.0);
        // The head was looked at: block 100, by a clock that shows its time.
        assert_eq!(metrics.of("x402_head_lag_seconds", &[]), 0.0);
        assert!(!metrics.text().contains(CANARY));
    });
}

#[test]
fn the_head_lags_behind_the_clock() {
    counted(async |metrics| {
        let node = Node::start().await;
        let (verifier, clock) = connect(&[&node]).await;
        clock.advance(Duration::from_secs(40));
        verifier.head().await.expect("not stale yet");
        assert_eq!(metrics.of("x402_head_lag_seconds", &[]), 40.0);
    });
}

#[test]
fn a_payment_that_was_reorganised_away_is_counted_once_it_would_be_safe() {
    counted(async |metrics| {
        let node = Node::start().await;
        let (verifier, clock) = connect(&[&node]).await;
        let gone = || metrics.of("x402_reorganised_sales_total", &[]);
        node.pay(tx(1), 100, 490_000);
        node.pay(tx(2), 99, 490_000);
        for n in [1, 2] {
            assert_paid(verify(&verifier, tx(n)).await);
        }
        node.script().blocks.insert(100, 1);
        for _ in 0..31 {
            node.mine();
        }
        node.forget(tx(1));
        node.script().safe = 120;
        clock.advance(Duration::from_secs(62));
        assert_eq!(gone(), 0.0);
        assert_paid(verify(&verifier, tx(2)).await);
        let looked = async {
            while gone() == 0.0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), looked).await.expect("it is looked for");
        assert_eq!((gone(), verifier.vanished_payments()), (1.0, 1));
    });
}
