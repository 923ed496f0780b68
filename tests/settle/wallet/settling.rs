//! What is settled, and by which call.

use tower_x402::protocol::{IntentId, PaymentTag};

use super::*;

#[tokio::test]
async fn a_plain_account_pays_by_its_signature_alone_and_once() {
    let (chain, secret) = (quiet().await, "AAAAAAAAAAAAAAAA");
    let settler = settler(&chain).await;
    let mut payment = payment(&chain, 1, 1).await;
    payment.requirements = payment.requirements.with_intent(&IntentId::new(secret).unwrap());
    assert_eq!(settler.health().await, Ok(()));
    assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid));
    assert_eq!(count_of(&chain, "pending").await, 0, "nothing is sent by a look");

    let hash = transaction(settled(&chain, &settler, &payment).await);
    let sent = mined(&chain, hash).await;
    let input = const_hex::decode(sent["input"].as_str().unwrap()).unwrap();
    assert!(PaymentTag::of(secret).is_in(&input), "the chain says for which quote");
    assert_eq!(input.len(), 4 + 9 * 32 + 36);
    assert_eq!(paid(&chain).await, 490_000);

    assert_eq!(settler.verify(&payment).await, Ok(Validity::Used));
    assert_eq!(settled(&chain, &settler, &payment).await, Settlement::Unknown(None), "the chain is to be asked");
    assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (490_000, 1));
}

#[tokio::test]
async fn that_a_nonce_is_used_is_said_to_who_signed_only() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let payment = payment(&chain, 1, 1).await;
    transaction(settled(&chain, &settler, &payment).await);
    let other = signed(&chain, payment.authorization.authorization.clone(), &key(&chain, 2));
    let refused = Validity::Refused(Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE);
    assert_eq!(settler.verify(&other).await, Ok(refused));
}

#[tokio::test]
async fn every_form_of_a_plain_signature_that_tokens_take() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let mut payment = payment(&chain, 1, 1).await;
    let mut bytes = payment.authorization.signature.as_bytes().to_vec();
    bytes[64] -= 27;
    payment.authorization.signature = PaymentSignature::new(bytes).unwrap();
    assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid), "v from 0");
    transaction(settled(&chain, &settler, &payment).await);
}

#[tokio::test]
async fn a_contract_account_pays_by_what_it_takes_for_a_signature() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let owner = key(&chain, 1);
    let wallet = chain.deploy(contracts::WALLET.creation, &[address(&owner).into()]).await.unwrap();
    // Accepts whatever it is shown: `return 0x1626ba7e << 224`.
    let easy = Address::new([0xea; 20]);
    chain.set_code(easy, "631626ba7e60e01b60005260206000f3").await.unwrap();
    for account in [wallet, easy] {
        chain.fund(account, price()).await.unwrap();
    }
    let by_owner = signed(&chain, authorized(&chain, wallet, 1).await, &owner);
    let by_thief = signed(&chain, authorized(&chain, wallet, 1).await, &key(&chain, 2));
    let long = shown(&chain, authorized(&chain, easy, 1).await, vec![7; 130]);
    let refused = Validity::Refused(Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE);
    assert_eq!(settler.verify(&by_thief).await, Ok(refused.clone()));
    for payment in [by_owner, long] {
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid));
        transaction(settled(&chain, &settler, &payment).await);
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Used));
    }
    assert_eq!(settler.verify(&by_thief).await, Ok(refused), "used, but not said to a thief");
    assert_eq!(paid(&chain).await, 2 * 490_000);
}

#[tokio::test]
async fn one_payment_presented_often_is_sent_once() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let payment = payment(&chain, 1, 1).await;
    let none = TransactionRecorder::none();
    let all = futures_util::future::join_all((0..5).map(|_| settler.settle(&payment, &none)));
    let outcomes = while_mining(&chain, all).await;
    let hash = transaction(outcomes[0].clone());
    assert!(outcomes.iter().all(|outcome| *outcome == Settlement::Settled(hash)), "{outcomes:?}");
    assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (490_000, 1));
}

#[tokio::test]
async fn a_payment_that_is_under_way_is_valid_still() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let payment = payment(&chain, 1, 1).await;
    let task = tokio::spawn({
        let (settler, payment) = (settler.clone(), payment.clone());
        async move { settler.settle(&payment, &TransactionRecorder::none()).await }
    });
    until_waiting(&chain, 1).await;
    assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid));
    // For another quote it has to wait for what comes of this: refused, it would be signed anew.
    let mut other = payment.clone();
    other.requirements = other.requirements.with_intent(&IntentId::new("AAAAAAAAAAAAAAAA").unwrap());
    assert_eq!(settler.verify(&other).await, Err(SettleError::unavailable()));
    assert_eq!(settler.settle(&other, &TransactionRecorder::none()).await, Settlement::Unknown(None));
    let again = settled(&chain, &settler, &payment).await;
    assert_eq!(task.await.unwrap(), again);
    transaction(again);
}

/// After a crash it is looked for by its hash.
#[tokio::test]
async fn a_transaction_is_recorded_before_it_is_sent_or_not_sent() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let payment = payment(&chain, 1, 1).await;
    let refuses = TransactionRecorder::new(|_| async { false });
    assert_eq!(settler.settle(&payment, &refuses).await, Settlement::Unknown(None));
    assert_eq!(count_of(&chain, "pending").await, 0);
    let (sender, mut recorded) = tokio::sync::mpsc::unbounded_channel();
    let recorder = TransactionRecorder::new(move |transaction| {
        let sent = sender.send(transaction);
        async move { sent.is_ok() }
    });
    let sent = transaction(while_mining(&chain, settler.settle(&payment, &recorder)).await);
    assert_eq!(recorded.recv().await, Some(sent));
}
