//! Transactions of every type, and every false claim that a node can make about them.

#![allow(clippy::unwrap_used, reason = "tests")]

use alloy::{
    consensus::{SignableTransaction, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy},
    network::TxSignerSync as _,
    primitives::{Signature, TxKind},
    signers::local::PrivateKeySigner,
};
use serde_json::{Value, json};

use super::*;

const INPUT: [u8; 40] = [0x78; 40];

fn signed<T: SignableTransaction<Signature>>(key: &PrivateKeySigner, mut transaction: T) -> TxEnvelope
where
    TxEnvelope: From<alloy::consensus::Signed<T>>,
{
    let signature = key.sign_transaction_sync(&mut transaction).unwrap();
    transaction.into_signed(signature).into()
}

/// One transaction of each type, with the same sender and input.
fn of_every_type(key: &PrivateKeySigner) -> Vec<TxEnvelope> {
    let (chain_id, input) = (8453, INPUT.into());
    let to = alloy::primitives::Address::repeat_byte(7);
    vec![
        signed(key, TxLegacy { chain_id: Some(chain_id), input, to: TxKind::Create, ..TxLegacy::default() }),
        signed(key, TxLegacy { chain_id: None, input: INPUT.into(), to: to.into(), ..TxLegacy::default() }),
        signed(key, TxEip2930 { chain_id, input: INPUT.into(), to: to.into(), ..TxEip2930::default() }),
        signed(key, TxEip1559 { chain_id, input: INPUT.into(), to: to.into(), ..TxEip1559::default() }),
        signed(key, TxEip4844 { chain_id, input: INPUT.into(), to, ..TxEip4844::default() }),
        signed(key, TxEip7702 { chain_id, input: INPUT.into(), to, ..TxEip7702::default() }),
    ]
}

/// The JSON of a node.
fn told(transaction: &TxEnvelope, sender: alloy::primitives::Address) -> Value {
    let mut told = serde_json::to_value(transaction).unwrap();
    let place =
        json!({ "from": sender, "blockHash": null, "blockNumber": null, "transactionIndex": null, "l1Fee": "0x1" });
    told.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
    told
}

fn read(told: &Value, hash: TxHash) -> Result<Option<SentTransaction>, Fault> {
    SentTransaction::read(&told.to_string(), hash)
}

fn hash_of(transaction: &TxEnvelope) -> TxHash {
    TxHash::new(transaction.hash().0)
}

#[test]
fn sender_and_input_of_every_type_are_proven() {
    let key = PrivateKeySigner::random();
    let sender = Address::new(key.address().into_array());
    for transaction in of_every_type(&key) {
        let (mut told, hash) = (told(&transaction, key.address()), hash_of(&transaction));
        let to = transaction.to().map(|to| Address::new(to.into_array()));
        let expected = Ok(Some(SentTransaction { sender, to, input: INPUT.to_vec() }));
        assert_eq!(read(&told, hash), expected, "{told}");
        if transaction.is_legacy() {
            told.as_object_mut().unwrap().remove("type");
            assert_eq!(read(&told, hash), expected, "before EIP-2718");
        }
    }
}

#[test]
fn what_the_signature_does_not_prove_is_no_answer() {
    let (key, stranger) = (PrivateKeySigner::random(), PrivateKeySigner::random());
    for transaction in of_every_type(&key) {
        let (good, hash) = (told(&transaction, key.address()), hash_of(&transaction));
        let other = told(&signed(&stranger, TxEip1559::default()), stranger.address());
        type Lie = fn(&mut Value, &Value);
        let lies: [(&str, Lie); 9] = [
            ("another sender", |told, other| told["from"] = other["from"].clone()),
            ("another input", |told, _| told["input"] = json!("0x")),
            ("a byte of the input", |told, _| {
                told["input"] = json!(told["input"].to_string().replace("787878\"", "787879\"").trim_matches('"'))
            }),
            ("another signature", |told, other| (told["r"], told["s"]) = (other["r"].clone(), other["s"].clone())),
            ("half a signature", |told, _| told["r"] = json!("0x0")),
            ("no signature", |told, _| drop(told.as_object_mut().unwrap().remove("s"))),
            ("another type of the same chain", |told, _| {
                told["type"] = json!(if told["type"] == "0x2" { "0x1" } else { "0x2" })
            }),
            ("another hash", |told, other| told["hash"] = other["hash"].clone()),
            ("another transaction", |told, other| *told = other.clone()),
        ];
        for (what, lie) in lies {
            let mut told = good.clone();
            lie(&mut told, &other);
            assert_eq!(read(&told, hash), Err(Fault::Answer), "{what}: {told}");
        }
        // Another transaction with only the hash replaced by the one that was asked for.
        let mut disguised = other.clone();
        disguised["hash"] = good["hash"].clone();
        assert_eq!(read(&disguised, hash), Err(Fault::Answer), "disguised");
    }
}

#[test]
fn what_nobody_signed_is_as_the_node_says() {
    let (hash, from) = (TxHash::new([9; 32]), format!("0x{}", "de".repeat(20)));
    let expected = Ok(Some(SentTransaction { sender: Address::new([0xde; 20]), to: None, input: vec![1, 2, 3] }));
    let deposit = json!({
        "type": "0x7e", "hash": hash.to_string(), "from": from, "input": "0x010203", "sourceHash": hash.to_string(),
        "mint": "0x0", "value": "0x0", "gas": "0x5208", "v": "0x0", "r": "0x0", "s": "0x0",
    });
    assert_eq!(read(&deposit, hash), expected);
    let system =
        json!({ "type": "0x0", "hash": hash.to_string(), "from": from, "input": "0x010203", "r": "0x0", "s": "0x0" });
    assert_eq!(read(&system, hash), expected, "a signature of zeros");
    assert_eq!(read(&deposit, TxHash::new([8; 32])), Err(Fault::Answer), "another one's");
    for missing in ["hash", "from", "input"] {
        let mut part = deposit.clone();
        part.as_object_mut().unwrap().remove(missing);
        assert_eq!(read(&part, hash), Err(Fault::Answer), "{missing}");
    }
}

#[test]
fn none_is_none_and_nonsense_is_no_answer() {
    let hash = TxHash::new([9; 32]);
    assert_eq!(read(&Value::Null, hash), Ok(None));
    for nonsense in [json!({}), json!([]), json!("0x"), json!(1), json!(true)] {
        assert_eq!(read(&nonsense, hash), Err(Fault::Answer), "{nonsense}");
    }
}
