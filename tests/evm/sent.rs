//! SECURITY row 44: what binds a payment is in its transaction, and in what nodes say of that.

use alloy::{
    consensus::{SignableTransaction as _, TxEip1559, TxEnvelope},
    network::TxSignerSync as _,
    signers::local::PrivateKeySigner,
};
use serde_json::{Value, json};
use tower_x402::{protocol::PaymentTag, testing::contracts};

use super::{
    node::{Fault, RECEIPT, TRANSACTION, receipt, sent},
    *,
};

fn tag() -> PaymentTag {
    PaymentTag::of("AAAAAAAAAAAAAAAA")
}

/// A transfer, with this behind its arguments.
fn call_data(behind: &[u8]) -> Vec<u8> {
    [&contracts::transfer(RECIPIENT, Amount::from_base_units(490_000))[..], behind].concat()
}

fn only_transfer(verdict: Result<Verdict, VerifyErrorKind>) -> Transfer {
    match verdict {
        Ok(Verdict::Paid { mut transfers, .. }) if transfers.len() == 1 => transfers.remove(0),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_tag_of_the_payers_own_binds_and_a_relays_does_not() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    let relay = Address::new([0xdd; 20]);
    let tail = tag().to_call_data();
    for (n, sender, behind, bound) in
        [(1, PAYER, &tail[..], true), (2, relay, &tail, false), (3, PAYER, &tail[..35], false), (4, PAYER, &[], false)]
    {
        node.pay(tx(n), 100, 490_000);
        node.sent(tx(n), sent(tx(n), sender, &call_data(behind)));
        // The second time from memory.
        for _ in 0..2 {
            let transfer = only_transfer(verify(&verifier, tx(n)).await);
            assert_eq!((transfer.binding.is_bound(), transfer.binding.has_tag(&tag())), (bound, bound), "{n}");
        }
    }
    assert_eq!((node.calls(RECEIPT), node.calls(TRANSACTION)), (4, 4), "kept together");
}

#[tokio::test]
async fn one_that_has_the_receipt_alone_has_nothing() {
    let node = Node::start().await;
    let (verifier, clock) = connect(&[&node]).await;
    for round in 1..=3 {
        node.pay(tx(1), 100, 490_000);
        node.sent(tx(1), Value::Null);
        for _ in 0..20 {
            assert_not_confirmed(verify(&verifier, tx(1)).await);
        }
        assert_eq!((node.calls(RECEIPT), node.calls(TRANSACTION)), (round, round), "once a block time");
        clock.advance(BLOCK_TIME);
    }
    node.sent(tx(1), sent(tx(1), PAYER, &call_data(&tag().to_call_data())));
    assert!(only_transfer(verify(&verifier, tx(1)).await).binding.has_tag(&tag()));
}

#[tokio::test]
async fn one_that_has_the_transaction_alone_has_nothing() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    node.sent(tx(1), sent(tx(1), PAYER, &call_data(&tag().to_call_data())));
    assert_not_confirmed(verify(&verifier, tx(1)).await);
    // Nor does it matter then what it says.
    node.fault(TRANSACTION, Fault::RpcError);
    assert_not_confirmed(verify(&verifier, tx(2)).await);
}

#[tokio::test]
async fn the_other_endpoint_is_asked_where_one_lacks_the_transaction() {
    let (part, whole) = (Node::start().await, Node::start().await);
    for nodes in [[&part, &whole], [&whole, &part]] {
        let (verifier, _) = connect(&nodes).await;
        for node in nodes {
            node.pay(tx(1), 100, 490_000);
            node.sent(tx(1), sent(tx(1), PAYER, &call_data(&tag().to_call_data())));
        }
        part.sent(tx(1), Value::Null);
        assert!(only_transfer(verify(&verifier, tx(1)).await).binding.has_tag(&tag()));
    }
}

/// A transfer that its payer signed, as a node writes it, and its receipt.
fn signed(behind: &[u8]) -> (TxHash, Value, Value) {
    let key = PrivateKeySigner::random();
    let usdc = Asset::USDC_BASE.contract();
    let (to, input) = (usdc.as_bytes().into(), call_data(behind).into());
    let mut transaction =
        TxEip1559 { chain_id: 8453, to: alloy::primitives::TxKind::Call(to), input, ..TxEip1559::default() };
    let signature = key.sign_transaction_sync(&mut transaction).expect("signs");
    let envelope = TxEnvelope::from(transaction.into_signed(signature));
    let hash = TxHash::new(envelope.hash().0);
    let mut sent = serde_json::to_value(&envelope).expect("JSON");
    sent["from"] = json!(key.address());
    let mut receipt = receipt(hash, 100, &super::node::block_hash(100, 0), &[490_000]);
    receipt["logs"][0]["topics"][1] = json!(key.address().into_word());
    (hash, sent, receipt)
}

#[tokio::test]
async fn what_its_payer_signed_cannot_be_told_otherwise() {
    let (hash, truth, receipt) = signed(&tag().to_call_data());
    let stranger = json!(format!("{RECIPIENT:x}"));
    type Lie = fn(&mut Value, &Value);
    let lies: [(&str, Lie); 4] = [
        ("no tag", |sent, _| sent["input"] = json!(alloy::hex::encode_prefixed(call_data(&[])))),
        ("another tag", |sent, _| {
            let other = PaymentTag::of("BBBBBBBBBBBBBBBB").to_call_data();
            sent["input"] = json!(alloy::hex::encode_prefixed(call_data(&other)));
        }),
        ("another sender", |sent, stranger| sent["from"] = stranger.clone()),
        ("another transaction", |sent, _| *sent = signed(&[]).1),
    ];
    for (what, lie) in lies {
        let (liar, honest) = (Node::start().await, Node::start().await);
        let mut told = truth.clone();
        lie(&mut told, &stranger);
        for (node, sent) in [(&liar, told), (&honest, truth.clone())] {
            node.receipt(hash, receipt.clone());
            node.sent(hash, sent);
        }
        let (verifier, _) = connect(&[&liar]).await;
        for _ in 0..10 {
            assert_eq!(verify(&verifier, hash).await, Err(VerifyErrorKind::Unavailable), "{what}");
        }
        assert_eq!((liar.calls(RECEIPT), liar.calls(TRANSACTION)), (1, 1), "{what}: asked once a block time");
        let (verifier, _) = connect(&[&liar, &honest]).await;
        assert!(only_transfer(verify(&verifier, hash).await).binding.has_tag(&tag()), "{what}");
    }
}

#[tokio::test]
async fn an_authorization_in_a_receipt_binds_the_transfer_behind_it() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    let mut both = receipt(tx(1), 100, &super::node::block_hash(100, 0), &[0, 490_000]);
    let used = alloy::primitives::keccak256("AuthorizationUsed(address,bytes32)");
    both["logs"][0]["topics"][0] = json!(used);
    both["logs"][0]["topics"][2] = json!(tag().to_string());
    both["logs"][0]["data"] = json!("0x");
    node.receipt(tx(1), both);
    let transfer = only_transfer(verify(&verifier, tx(1)).await);
    assert_eq!((transfer.position, transfer.binding.has_nonce(&tag())), (1, true));
}
