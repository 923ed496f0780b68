//! SECURITY row 46: who signed, by key or by code, and what that may cost.

use alloy::signers::{SignerSync as _, local::PrivateKeySigner};
use serde_json::{Value, json};
use tower_x402::protocol::PaymentSignature;

use super::{node::Fault, *};

const CALL: &str = "eth_call";
const MESSAGE: &str = "x402 redemption\nchain: eip155:8453";
const CONTRACT: Address = Address::new([0xcc; 20]);

fn garbage() -> PaymentSignature {
    PaymentSignature::new(vec![0x11; 65]).expect("65 bytes")
}

async fn signer(
    verifier: &EvmVerifier,
    signature: &PaymentSignature,
    accounts: &[Address],
) -> Result<Option<Address>, VerifyErrorKind> {
    verifier.signer(MESSAGE, signature, accounts).await.map_err(kind)
}

/// The magic value of EIP-1271 in a word.
fn yes() -> Value {
    json!(format!("0x1626ba7e{:056x}", 0))
}

#[tokio::test]
async fn a_plain_account_signs_without_any_call() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    let key = PrivateKeySigner::random();
    let account = Address::new(key.address().into_array());
    let signature = key.sign_message_sync(MESSAGE.as_bytes()).expect("signs");
    let forms = [signature.as_bytes().to_vec(), signature.as_erc2098().to_vec()];
    node.take_calls();
    for form in forms {
        let signature = PaymentSignature::new(form).expect("short");
        assert_eq!(signer(&verifier, &signature, &[PAYER, account, CONTRACT]).await, Ok(Some(account)));
    }
    assert_eq!(node.take_calls(), 0);
    // Whoever signs for an account that did not pay has signed for nobody.
    let signature = PaymentSignature::new(signature.as_bytes().to_vec()).expect("short");
    node.script().contracts.insert(format!("{PAYER:x}"), json!("0x"));
    assert_eq!(signer(&verifier, &signature, &[PAYER]).await, Ok(None));
    assert_eq!(signer(&verifier, &signature, &[]).await, Ok(None));
    assert_eq!(node.take_calls(), 1);
}

#[tokio::test]
async fn a_contract_is_asked_once_with_little_gas() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    node.script().contracts.insert(format!("{CONTRACT:x}"), yes());
    assert_eq!(signer(&verifier, &garbage(), &[CONTRACT]).await, Ok(Some(CONTRACT)));
    assert_eq!(node.calls(CALL), 1);
    let call = node.script().last_call.clone();
    assert_eq!(
        (&call[0]["to"], &call[0]["gas"], &call[1]),
        (&json!(format!("{CONTRACT:x}")), &json!("0x2dc6c0"), &json!("latest"))
    );
    let hash = alloy::primitives::eip191_hash_message(MESSAGE);
    let data = call[0]["data"].as_str().expect("hex");
    assert!(data.starts_with(&format!("0x1626ba7e{}", alloy::hex::encode(hash))), "{data}");
}

#[tokio::test]
async fn only_a_clean_yes_is_one() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    let answers = [
        json!("0x"),
        json!("0x1626ba7e"),
        json!(format!("0x1626ba7e{:056x}", 1)),
        json!(format!("0x{:064x}", 0x1626_ba7e)),
        json!(format!("0x1626ba7e{:0120x}", 0)),
        json!(format!("0x{:064x}", 1)),
        json!(format!("0xffffffff{:056x}", 0)),
    ];
    for answer in answers {
        node.script().contracts.insert(format!("{CONTRACT:x}"), answer.clone());
        assert_eq!(signer(&verifier, &garbage(), &[CONTRACT]).await, Ok(None), "{answer}");
    }
    node.script().contracts.clear();
    assert_eq!(signer(&verifier, &garbage(), &[CONTRACT]).await, Ok(None), "it reverts");
}

#[tokio::test]
async fn four_accounts_are_asked_at_most_and_each_once() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    let many: Vec<_> = (1..=20).chain(1..=20).map(|n| Address::new([n; 20])).collect();
    assert_eq!(
        signer(&verifier, &garbage(), &many).await,
        Err(VerifyErrorKind::Unavailable),
        "one that was not asked may have signed"
    );
    assert_eq!(node.calls(CALL), 4);
    assert_eq!(signer(&verifier, &garbage(), &many[..4]).await, Ok(None));
    assert_eq!(node.calls(CALL), 8);
    let few: Vec<_> = many.iter().cycle().take(3).chain(&many[..3]).copied().collect();
    node.script().contracts.insert(format!("{:x}", few[1]), yes());
    assert_eq!(signer(&verifier, &garbage(), &few).await, Ok(Some(few[1])));
    assert_eq!(node.calls(CALL), 11);
}

/// A thief adds payments of his own, from addresses of his choice, to the transaction that carries a contract account's payment.
#[tokio::test]
async fn no_crowd_of_payers_keeps_a_contract_account_from_being_asked() {
    for place in [0x01, 0x7f, 0xff] {
        let node = Node::start().await;
        let (verifier, _) = connect(&[&node]).await;
        let own = Address::new([place; 20]);
        node.script().contracts.insert(format!("{own:x}"), yes());
        let crowd = (0x10..0x20).chain(0x80..0x90).map(|n| Address::new([n; 20]));
        let payers: Vec<_> = crowd.chain([own]).collect();
        let mut said = Vec::new();
        while said.len() < 400 && !said.contains(&Ok(Some(own))) {
            said.push(signer(&verifier, &garbage(), &payers).await);
        }
        assert_eq!(said.pop(), Some(Ok(Some(own))), "after {} more", said.len());
        assert!(said.iter().all(|said| *said == Err(VerifyErrorKind::Unavailable)), "asked again: {said:?}");
    }
}

#[tokio::test]
async fn an_endpoint_that_fails_says_nothing_and_another_is_asked() {
    let faults = [
        Fault::Hang,
        Fault::Status(429),
        Fault::Status(500),
        Fault::Html,
        Fault::Truncated,
        Fault::WrongId,
        Fault::RpcError,
        Fault::Result(json!({})),
        Fault::Result(json!("garbage")),
    ];
    for fault in faults {
        let (bad, good) = (Node::start().await, Node::start().await);
        good.script().contracts.insert(format!("{CONTRACT:x}"), yes());
        bad.fault(CALL, fault.clone());
        let (verifier, _) = connect(&[&bad]).await;
        assert_eq!(
            signer(&verifier, &garbage(), &[CONTRACT]).await,
            Err(VerifyErrorKind::Unavailable),
            "{fault:?}: not that nobody signed"
        );
        let (verifier, _) = connect(&[&bad, &good]).await;
        assert_eq!(signer(&verifier, &garbage(), &[CONTRACT]).await, Ok(Some(CONTRACT)), "{fault:?}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_no_yes() {
    for announced in [true, false] {
        let (bad, good) = (Node::start().await, Node::start().await);
        good.script().contracts.insert(format!("{CONTRACT:x}"), yes());
        bad.script().contracts.insert(format!("{CONTRACT:x}"), yes());
        bad.fault(CALL, Fault::Huge { announced });
        let (verifier, _) = connect(&[&bad]).await;
        assert_eq!(signer(&verifier, &garbage(), &[CONTRACT]).await, Ok(None), "the contract may be what talks");
        let (verifier, _) = connect(&[&bad, &good]).await;
        assert_eq!(signer(&verifier, &garbage(), &[CONTRACT]).await, Ok(Some(CONTRACT)), "or the endpoint");
    }
}

/// An account of a payment is often made in the same transaction: a node that is behind has no code there yet.
#[tokio::test]
async fn that_there_is_no_code_is_believed_only_when_every_endpoint_says_so() {
    let (behind, good) = (Node::start().await, Node::start().await);
    behind.script().contracts.insert(format!("{CONTRACT:x}"), json!("0x"));
    good.script().contracts.insert(format!("{CONTRACT:x}"), yes());
    let (verifier, _) = connect(&[&behind, &good]).await;
    assert_eq!(signer(&verifier, &garbage(), &[CONTRACT]).await, Ok(Some(CONTRACT)));
    good.script().contracts.insert(format!("{CONTRACT:x}"), json!("0x"));
    assert_eq!(signer(&verifier, &garbage(), &[CONTRACT]).await, Ok(None));
    // What its code says, the first to run it says for all.
    for node in [&behind, &good] {
        node.script().contracts.insert(format!("{CONTRACT:x}"), json!(format!("0xffffffff{:056x}", 0)));
    }
    let asked = || behind.calls(CALL) + good.calls(CALL);
    let before = asked();
    assert_eq!(signer(&verifier, &garbage(), &[CONTRACT]).await, Ok(None));
    assert_eq!(asked(), before + 1);
}

/// Whoever shows a signature chooses what code is run: that this takes long says nothing of the endpoint.
#[tokio::test]
async fn a_contract_that_keeps_the_nodes_busy_closes_no_shop() {
    for fault in [Fault::Hang, Fault::Status(500), Fault::Status(504), Fault::Html, Fault::Truncated] {
        let nodes = [Node::start().await, Node::start().await];
        let (verifier, _) = connect(&nodes.each_ref()).await;
        for node in &nodes {
            node.pay(tx(1), 100, 490_000);
            node.fault(CALL, fault.clone());
        }
        for _ in 0..3 {
            let said = signer(&verifier, &garbage(), &[CONTRACT]).await;
            assert_eq!(said, Err(VerifyErrorKind::Unavailable), "{fault:?}: not that nobody signed");
        }
        assert_paid(verify(&verifier, tx(1)).await);
    }
}

#[tokio::test]
async fn a_yes_counts_where_another_account_cannot_be_asked_and_a_no_does_not() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    let broken = Address::new([0xbe; 20]);
    node.script().contracts.insert(format!("{broken:x}"), json!("garbage"));
    node.script().contracts.insert(format!("{CONTRACT:x}"), yes());
    assert_eq!(signer(&verifier, &garbage(), &[broken, CONTRACT]).await, Ok(Some(CONTRACT)));
    node.script().contracts.insert(format!("{CONTRACT:x}"), json!("0x"));
    assert_eq!(signer(&verifier, &garbage(), &[broken, CONTRACT]).await, Err(VerifyErrorKind::Unavailable));
}

#[tokio::test]
async fn made_up_signatures_wait_for_their_turn_and_hold_up_no_payment() {
    let (node, clock) = (Node::start().await, TestClock::at(100));
    let verifier = builder(&[&node], &clock).max_concurrency(2).max_queue(3).connect().await.expect("connects");
    node.pay(tx(1), 100, 490_000);
    assert_paid(verify(&verifier, tx(1)).await);
    node.fault(CALL, Fault::Slow(Duration::from_millis(300)));
    let flood: Vec<_> = (0..20)
        .map(|_| {
            let verifier = verifier.clone();
            tokio::spawn(async move { signer(&verifier, &garbage(), &[CONTRACT]).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    node.pay(tx(2), 100, 490_000);
    assert_paid(verify(&verifier, tx(2)).await);
    let mut turned_away = 0;
    for one in flood {
        match one.await.expect("no panic") {
            Err(VerifyErrorKind::Overloaded) => turned_away += 1,
            other => assert_eq!(other, Ok(None)),
        }
    }
    assert_eq!((turned_away, node.calls(CALL)), (15, 5));
}
