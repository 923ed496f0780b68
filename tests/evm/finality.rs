//! How deep a payment must be.

use tower_x402::verify::Finality;

use super::*;

async fn with(finality: Finality, node: &Node) -> (EvmVerifier, TestClock) {
    let clock = TestClock::at(100);
    (builder(&[node], &clock).finality(finality).connect().await.expect("connects"), clock)
}

#[tokio::test]
async fn its_own_block_is_the_first_confirmation() {
    let node = Node::start().await;
    let (verifier, clock) = with(Finality::Confirmations(3), &node).await;
    node.pay(tx(1), 98, 490_000);
    node.pay(tx(2), 99, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
    assert_not_confirmed(verify(&verifier, tx(2)).await);
    node.mine();
    clock.advance(BLOCK_TIME);
    assert_paid(verify(&verifier, tx(2)).await);
}

#[tokio::test]
async fn safe_and_finalized_are_what_the_node_says() {
    for (finality, highest) in [(Finality::Safe, 60), (Finality::Finalized, 20)] {
        let node = Node::start().await;
        let (verifier, clock) = with(finality, &node).await;
        node.pay(tx(1), highest, 490_000);
        node.pay(tx(2), highest + 1, 490_000);
        assert_paid(verify(&verifier, tx(1)).await);
        let later = verify(&verifier, tx(2)).await;
        let Ok(Verdict::NotConfirmed { retry_after }) = later else { panic!("{later:?}") };
        assert!(retry_after >= Duration::from_secs(10));
        {
            let mut script = node.script();
            (script.safe, script.finalized) = (61, 21);
        }
        node.mine();
        clock.advance(BLOCK_TIME);
        assert_paid(verify(&verifier, tx(2)).await);
    }
}

#[tokio::test]
async fn nothing_counts_while_nothing_is_safe() {
    let node = Node::start().await;
    let (verifier, _) = with(Finality::Safe, &node).await;
    node.script().safe = 5_000;
    node.pay(tx(1), 60, 490_000);
    assert!(matches!(verify(&verifier, tx(1)).await, Ok(Verdict::NotConfirmed { .. })));
}
