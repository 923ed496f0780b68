//! What is refused before anything is sold.

use serde_json::json;

use super::{
    node::{Fault, text},
    *,
};

async fn refused(builder: EvmVerifierBuilder) -> VerifyErrorKind {
    builder.connect().await.map_err(kind).expect_err("must be refused")
}

#[tokio::test]
async fn names_the_chain_that_the_endpoints_serve() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    assert_eq!(verifier.network(), Network::BASE);
    assert_eq!(verifier.check(Network::BASE, &[Asset::USDC_BASE]).await, Ok(()));
    assert_eq!(verifier.head().await.map(|head| head.unix()), Ok(time_of(100)));
}

/// A node behind the one that showed the last payment must not set the present back.
#[tokio::test]
async fn the_horizon_is_the_later_of_head_and_clock_where_the_chain_keeps_the_time() {
    let node = Node::start().await;
    for (behind, horizon) in [(7, time_of(100) + 7), (0, time_of(100)), (-7, time_of(100))] {
        let clock = TestClock::at(100);
        clock.0.0.store(time_of(100).saturating_add_signed(behind), Ordering::SeqCst);
        let verifier = builder(&[&node], &clock).connect().await.expect("connects");
        assert_eq!(verifier.horizon().await.map(|time| time.unix()), Ok(horizon));
        let on_demand = builder(&[&node], &clock).max_head_age(None).connect().await.expect("connects");
        assert_eq!(on_demand.horizon().await.map(|time| time.unix()), Ok(time_of(100)));
    }
}

#[tokio::test]
async fn refuses_what_is_no_endpoint() {
    for urls in [vec![], vec!["127.0.0.1:8545"], vec!["ws://127.0.0.1:1"], vec!["http://127.0.0.1:1", "nonsense"]] {
        let error = EvmVerifier::connect(urls).await.map_err(kind).expect_err("must be refused");
        assert_eq!(error, VerifyErrorKind::InvalidEndpoint);
    }
    let nobody = EvmVerifier::connect(["http://127.0.0.1:1"]).await.map_err(kind);
    assert_eq!(nobody.err(), Some(VerifyErrorKind::Unavailable));
}

#[tokio::test]
async fn refuses_senseless_settings() {
    let (node, clock) = (Node::start().await, TestClock::at(100));
    let good = || builder(&[&node], &clock);
    let settings = [
        ("finality", good().finality(tower_x402::verify::Finality::Confirmations(0))),
        ("block_time", good().block_time(Duration::ZERO)),
        ("call_timeout", good().call_timeout(Duration::ZERO)),
        ("total_timeout", good().total_timeout(Duration::from_millis(999))),
        ("max_concurrency", good().max_concurrency(0)),
        ("max_head_age", good().max_head_age(Some(Duration::ZERO))),
    ];
    for (what, builder) in settings {
        assert_eq!(refused(builder).await, VerifyErrorKind::InvalidSetting { what });
    }
}

#[tokio::test]
async fn refuses_endpoints_of_two_chains() {
    let (one, other) = (Node::start().await, Node::start().await);
    other.script().chain_id = 84532;
    let (expected, found) = (Network::BASE, Network::BASE_SEPOLIA);
    let error = refused(builder(&[&one, &other], &TestClock::at(100))).await;
    assert_eq!(error, VerifyErrorKind::WrongChain { expected, found });
}

#[tokio::test]
async fn one_endpoint_that_answers_is_enough() {
    for fault in [Fault::Hang, Fault::Status(503), Fault::Html] {
        let (one, other) = (Node::start().await, Node::start().await);
        one.fault_all(fault);
        other.pay(tx(1), 100, 490_000);
        let (verifier, _) = connect(&[&one, &other]).await;
        assert_eq!(verifier.check(Network::BASE, &[Asset::USDC_BASE]).await, Ok(()));
        assert_paid(verify(&verifier, tx(1)).await);
    }
}

#[tokio::test]
async fn one_endpoint_that_did_not_answer_is_not_believed_until_it_has() {
    let (silent, good) = (Node::start().await, Node::start().await);
    silent.script().chain_id = 1;
    silent.pay(tx(1), 100, 490_000);
    silent.fault("eth_chainId", Fault::RpcError);
    let (verifier, clock) = connect(&[&silent, &good]).await;
    silent.heal();
    clock.advance(BLOCK_TIME);
    assert_not_confirmed(verify(&verifier, tx(1)).await);
}

#[tokio::test]
async fn refuses_another_chain_than_the_merchants() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    let wrong = VerifyErrorKind::WrongChain { expected: Network::BASE_SEPOLIA, found: Network::BASE };
    assert_eq!(verifier.check(Network::BASE_SEPOLIA, &[]).await.map_err(kind), Err(wrong.clone()));
    let assets = [Asset::USDC_BASE_SEPOLIA];
    assert_eq!(verifier.check(Network::BASE, &assets).await.map_err(kind), Err(wrong.clone()));
    let terms = Terms::builder(Network::BASE_SEPOLIA, RECIPIENT, Amount::MAX)
        .resource("x")
        .assets(assets)
        .max_payment_age(Duration::from_secs(1))
        .build();
    assert_eq!(verifier.verify(&terms, tx(1)).await.map_err(kind), Err(wrong));
}

#[tokio::test]
async fn refuses_a_token_of_other_decimals() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    let contract = Asset::USDC_BASE.contract();
    for (answer, found) in [
        (json!(format!("0x{:064x}", 18)), Some(18)),
        (json!(format!("0x{:064x}", 256 + 6)), None),
        (json!("0x"), None),
        (json!("0x06"), None),
    ] {
        node.script().tokens.insert(format!("{contract:x}"), (answer, text("USDC")));
        let error = verifier.check(Network::BASE, &[Asset::USDC_BASE]).await.map_err(kind);
        assert_eq!(error, Err(VerifyErrorKind::WrongToken { contract, expected: 6, found }));
    }
    node.script().tokens.clear();
    let error = verifier.check(Network::BASE, &[Asset::USDC_BASE]).await.map_err(kind);
    assert_eq!(error, Err(VerifyErrorKind::WrongToken { contract, expected: 6, found: None }), "reverted");
    node.fault("eth_call", Fault::RpcError);
    let error = verifier.check(Network::BASE, &[Asset::USDC_BASE]).await.map_err(kind);
    assert_eq!(error, Err(VerifyErrorKind::Unavailable), "an error that is no revert says nothing about the token");
}

#[tokio::test]
async fn reads_a_token_from_the_chain() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    let read = verifier.asset(Asset::USDC_BASE.contract()).await;
    assert_eq!(read, Ok(Asset::USDC_BASE));

    let contract = Address::new([5; 20]);
    let eighteen = json!(format!("0x{:064x}", 18));
    let states = |symbol| node.script().tokens.insert(format!("{contract:x}"), (eighteen.clone(), symbol));
    states(json!(format!("0x{:0<64}", "4d4b52")));
    let read = verifier.asset(contract).await;
    assert_eq!(read, Ok(Asset::new(Network::BASE, contract, 18, "MKR")), "a symbol of bytes32");
    for shown_nowhere in [text(""), text("A\r\nPay: x"), text("a b"), text("ÜSDC"), json!("0x"), text(&"A".repeat(33))]
    {
        states(shown_nowhere);
        let error = verifier.asset(contract).await.map_err(kind);
        assert!(matches!(error, Err(VerifyErrorKind::WrongToken { .. })), "{error:?}");
    }
    let error = verifier.asset(Address::new([6; 20])).await.map_err(kind);
    assert!(matches!(error, Err(VerifyErrorKind::WrongToken { found: None, .. })), "{error:?}");
}
