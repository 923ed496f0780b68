//! SECURITY rows 9, 10, 17: one endpoint that is wrong, dead or busy costs no other, and is heard again once it is right.

use serde_json::json;

use super::{
    node::{Fault, RECEIPT, text},
    *,
};
/// A height that Base has not for years.
const FAR_UP: u64 = 300_000_000;

fn usdc() -> String {
    format!("{:x}", Asset::USDC_BASE.contract())
}

/// The node names a head of that height and time, which the others do not have.
fn rise(node: &Node, number: u64, time: u64) {
    let mut script = node.script();
    script.blocks.insert(number, 0);
    script.times.insert(number, time);
}

#[tokio::test]
async fn a_head_of_another_chain_is_not_adopted_and_its_endpoint_costs_nobody_anything() {
    let (bad, good) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&bad, &good]).await;
    for node in [&bad, &good] {
        node.pay(tx(1), 90, 490_000);
    }
    assert_paid(verify(&verifier, tx(1)).await);
    bad.script().chain_id = 10;
    for _ in 0..300 {
        clock.advance(BLOCK_TIME);
        let height = good.mine();
        rise(&bad, FAR_UP, clock.unix());
        assert_eq!(verifier.head().await.map(|head| head.unix()), Ok(time_of(height)));
        assert_paid(verify(&verifier, tx(1)).await);
    }
}

#[tokio::test]
async fn a_leap_counts_only_where_nobody_knows_better() {
    let (bad, good) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&bad, &good]).await;
    verifier.head().await.expect("a head");
    rise(&bad, FAR_UP, clock.unix() + 1);
    clock.advance(BLOCK_TIME);
    assert_eq!(verifier.head().await.map(|head| head.unix()), Ok(time_of(100)));
    // A chain that was idle may be asked after a year, and one that mines on demand makes blocks as it likes.
    let before = bad.calls("eth_chainId");
    good.fault_all(Fault::Status(503));
    clock.advance(BLOCK_TIME);
    assert_eq!(verifier.head().await.map(|head| head.unix()), Ok(time_of(100) + 1));
    assert_eq!(bad.calls("eth_chainId"), before + 1, "proved again");
}

#[tokio::test]
async fn a_higher_head_whose_endpoint_is_silent_gives_way_to_the_others() {
    for (height, gap) in [(FAR_UP, 1), (200, 100)] {
        let (bad, good) = (Node::start().await, Node::start().await);
        let (verifier, clock) = connect(&[&bad, &good]).await;
        good.pay(tx(1), 90, 490_000);
        good.fault_all(Fault::Status(503));
        rise(&bad, height, time_of(100) + gap);
        assert_eq!(verifier.head().await.map(|head| head.unix()), Ok(time_of(100) + gap), "named once");
        bad.fault_all(Fault::Status(503));
        good.heal();
        let mut given_up_after = None;
        for seconds in (2..400).step_by(2) {
            clock.advance(BLOCK_TIME);
            let mined = good.mine();
            let head = verifier.head().await.map(|head| head.unix());
            if head == Ok(time_of(mined)) {
                given_up_after.get_or_insert(seconds);
                assert_paid(verify(&verifier, tx(1)).await);
            } else {
                assert_eq!((head.as_ref().ok(), given_up_after), (Some(&(time_of(100) + gap)), None), "{head:?}");
            }
        }
        assert!(given_up_after.is_some_and(|seconds| (4..=10).contains(&seconds)), "{height}: {given_up_after:?}");
    }
}

#[tokio::test]
async fn nodes_that_take_turns_in_being_behind_bring_nothing_newer() {
    let (node, clock) = (Node::start().await, TestClock::at(100));
    let day = Some(Duration::from_secs(86_400));
    let verifier = builder(&[&node], &clock).max_head_age(day).connect().await.expect("connects");
    verifier.head().await.expect("a head");
    let mut stale_after = None;
    for round in 1..60 {
        clock.advance(BLOCK_TIME);
        match round % 2 {
            1 => node.script().blocks.remove(&100),
            _ => node.script().blocks.insert(100, 0),
        };
        if verifier.head().await.map_err(kind) == Err(VerifyErrorKind::StaleHead) {
            stale_after.get_or_insert(2 * round);
        }
    }
    assert!(stale_after.is_some_and(|seconds| (60..=70).contains(&seconds)), "{stale_after:?}");
}

#[tokio::test]
async fn an_endpoint_that_was_wrong_rests_and_proves_itself_again() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    verifier.check(Network::BASE, &[Asset::USDC_BASE]).await.expect("checked");
    node.pay(tx(1), 100, 490_000);
    node.fault_all(Fault::Status(502));
    assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable));
    // It comes back while it still resyncs: the token is not there yet.
    node.heal();
    node.script().tokens.insert(usdc(), (json!("0x"), text("USDC")));
    let contract = Asset::USDC_BASE.contract();
    let wrong = Err(VerifyErrorKind::WrongToken { contract, expected: 6, found: None });
    assert_eq!(verify(&verifier, tx(1)).await, wrong);
    node.script().tokens.insert(usdc(), (json!(format!("0x{:064x}", 6)), text("USDC")));
    node.take_calls();
    for _ in 0..9 {
        assert_eq!(verify(&verifier, tx(1)).await, wrong, "it rests");
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(node.take_calls(), 0);
    clock.advance(Duration::from_secs(30));
    assert_paid(verify(&verifier, tx(1)).await);
    assert_eq!((node.calls("eth_chainId"), node.calls("eth_call")), (1, 1), "everything was proved");
}

#[tokio::test]
async fn an_endpoint_of_two_that_was_wrong_is_heard_again() {
    let (bad, good) = (Node::start().await, Node::start().await);
    let (verifier, clock) = connect(&[&bad, &good]).await;
    bad.script().chain_id = 10;
    clock.advance(Duration::from_secs(61));
    good.pay(tx(1), 100, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
    bad.script().chain_id = 8453;
    bad.pay(tx(2), 100, 490_000);
    assert_not_confirmed(verify(&verifier, tx(2)).await);
    clock.advance(Duration::from_secs(60));
    assert_paid(verify(&verifier, tx(2)).await);
}

/// A thousand polls of one hash in two seconds: what each is told, and how many calls they cost in all.
async fn poll(node: &Node, verifier: &EvmVerifier, clock: &TestClock) -> usize {
    node.take_calls();
    for _ in 0..1_000 {
        assert_eq!(verify(verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable));
        clock.advance(Duration::from_millis(2));
    }
    node.take_calls()
}

#[tokio::test]
async fn an_only_endpoint_that_asks_to_be_left_alone_is_left_alone() {
    for status in [429, 503] {
        let node = Node::start().await;
        let (verifier, clock) = connect(&[&node]).await;
        node.pay(tx(1), 100, 490_000);
        node.fault_all(Fault::Wait(status, "60"));
        let calls = poll(&node, &verifier, &clock).await;
        assert!(calls <= 3, "{calls}: the receipt, the transaction and the head");
        node.heal();
        clock.advance(Duration::from_secs(55));
        assert_eq!(poll(&node, &verifier, &clock).await.min(1), 0, "for the whole minute");
    }
}

#[tokio::test]
async fn an_only_endpoint_is_not_left_alone_for_longer_than_a_minute() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    node.pay(tx(1), 100, 490_000);
    node.fault_all(Fault::Wait(429, "86400"));
    assert_eq!(verify(&verifier, tx(1)).await, Err(VerifyErrorKind::Unavailable));
    node.heal();
    clock.advance(Duration::from_secs(60));
    assert_paid(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn an_only_endpoint_that_fails_is_asked_a_handful_of_times() {
    let faults = [
        Fault::Status(429),
        Fault::Status(503),
        Fault::Wait(429, "Fri, 31 Dec 1999 23:59:59 GMT"),
        Fault::Wait(429, "-1"),
        Fault::RpcError,
        Fault::Html,
    ];
    for fault in faults {
        let node = Node::start().await;
        let (verifier, clock) = connect(&[&node]).await;
        node.pay(tx(1), 100, 490_000);
        node.fault_all(fault.clone());
        let calls = poll(&node, &verifier, &clock).await;
        assert!((1..=10).contains(&calls), "{fault:?}: {calls}");
        node.heal();
        clock.advance(Duration::from_secs(30));
        assert_paid(verify(&verifier, tx(1)).await);
    }
}

/// Or else a payment waits for as many slow nodes as there are.
#[tokio::test]
async fn after_a_null_all_others_are_asked_at_once() {
    let nodes = [Node::start().await, Node::start().await, Node::start().await, Node::start().await];
    let clock = TestClock::at(100);
    let verifier = builder(&nodes.each_ref(), &clock).call_timeout(Duration::from_secs(5));
    let verifier = verifier.total_timeout(Duration::from_secs(10)).connect().await.expect("connects");
    verifier.head().await.expect("a head");
    for slow in &nodes[1..] {
        slow.fault(RECEIPT, Fault::Slow(Duration::from_millis(600)));
    }
    let asking = tokio::spawn(async move { verify(&verifier, tx(1)).await });
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(nodes.each_ref().map(|node| node.calls(RECEIPT)), [1; 4]);
    assert_not_confirmed(asking.await.expect("no panic"));
}
