//! Which transaction is whose: two purchases at one price are told apart by their tags.

use alloy::{network::TxSignerSync as _, primitives::Signature, signers::local::PrivateKeySigner};
use tower_x402::protocol::{IntentId, PaymentTag, redemption_message};

use super::*;

/// What somebody with the same key sends in the place of a payment, by hand.
async fn by_hand(chain: &DevChain, change: impl FnOnce(&mut TxEip1559), of: &PreparedTransfer) -> TxHash {
    use alloy::{consensus::SignableTransaction as _, eips::eip2718::Encodable2718 as _};
    let signer: PrivateKeySigner = chain.accounts()[0].private_key().parse().unwrap();
    let mut transaction = raw(of);
    transaction.max_fee_per_gas *= 2;
    transaction.max_priority_fee_per_gas *= 2;
    transaction.gas_limit = 200_000;
    change(&mut transaction);
    let signature = signer.sign_transaction_sync(&mut transaction).unwrap();
    let bytes = TxEnvelope::from(transaction.into_signed(signature)).encoded_2718();
    let sent = chain.rpc("eth_sendRawTransaction", json!([const_hex::encode_prefixed(bytes)])).await.unwrap();
    chain.mine(1).await.unwrap();
    sent.as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_transfer_ends_with_the_tag_of_what_it_is_for() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = wallet.prepare(&payment_for("AAAAAAAAAAAAAAAA")).await.unwrap();
    wallet.send(&prepared).await.unwrap();
    let dearer = wallet.replace(std::slice::from_ref(&prepared)).await.unwrap().unwrap();
    assert_eq!(raw(&dearer).input, raw(&prepared).input, "what outbids it is for the same");
    chain.mine(1).await.unwrap();
    let mined = chain.rpc("eth_getTransactionByHash", json!([hash(&prepared)])).await.unwrap();
    let input = mined["input"].as_str().unwrap();
    assert!(input.ends_with("7834303255a64c2aa2ae2a8977ab666b2dea9362a47cd3804c9c5f7aeac74df80e88373f"), "{input}");
    assert_eq!(input.len(), 2 + 2 * (68 + PaymentTag::CALL_DATA_LEN));
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), usdc(ASK), "the token does not mind");
    let bare = wallet.clone().tagged(false).prepare(&in_usdc()).await.unwrap();
    assert_eq!(raw(&bare).input.len(), 68);
}

/// One key in two processes that know nothing of each other, at one price and with the same fees.
#[tokio::test]
async fn of_two_processes_that_take_one_nonce_one_pays_and_the_other_knows() {
    let chain = quiet().await;
    for (round, first) in [true, false, true].into_iter().enumerate() {
        let (one, two) = (wallet(&chain).await, wallet(&chain).await);
        let a = [one.prepare(&payment_for(&format!("a{round}"))).await.unwrap()];
        let b = [two.prepare(&payment_for(&format!("b{round}"))).await.unwrap()];
        assert!(a[0].nonce() == b[0].nonce() && a[0].transaction() != b[0].transaction());
        let (paying, other) = if first { ((&one, &a), (&two, &b)) } else { ((&two, &b), (&one, &a)) };
        paying.0.send(&paying.1[0]).await.unwrap();
        assert!(other.0.send(&other.1[0]).await.is_err());
        chain.mine(1).await.unwrap();
        let mined = TransferStatus::Mined { transaction: hash(&paying.1[0]), confirmations: 1 };
        assert_eq!(fate(paying.0, paying.1).await, mined);
        assert_eq!(fate(other.0, other.1).await, TransferStatus::Unknown);
        chain.mine(12).await.unwrap();
        assert!(matches!(fate(paying.0, paying.1).await, TransferStatus::Mined { .. }));
        assert_eq!(fate(other.0, other.1).await, TransferStatus::Impossible);
        let again = other.0.prepare(&payment_for(&format!("c{round}"))).await.unwrap();
        other.0.send(&again).await.unwrap();
        chain.mine(1).await.unwrap();
        let paid = u128::try_from(round + 1).unwrap() * 2 * ASK;
        assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), usdc(paid));
    }
}

#[tokio::test]
async fn what_was_hurried_by_hand_is_still_the_payment() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    for suffix in [&b""[..], b"\x80\x21\x80\x21"] {
        let prepared = [wallet.prepare(&payment_for("hurried")).await.unwrap()];
        let with_suffix = |transaction: &mut TxEip1559| {
            transaction.input = [&transaction.input[..], suffix].concat().into();
        };
        let mined = by_hand(&chain, with_suffix, &prepared[0]).await;
        chain.mine(12).await.unwrap();
        assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Mined { transaction: mined, confirmations: 13 });
    }
    // And reverted, it is reverted.
    let prepared = [wallet.prepare(&payment_for("hurried")).await.unwrap()];
    chain.fund(wallet.address(), usdc(0)).await.unwrap();
    let mined = by_hand(&chain, |_| {}, &prepared[0]).await;
    chain.mine(12).await.unwrap();
    assert_eq!(fate(&wallet, &prepared).await, TransferStatus::Reverted { transaction: mined });
}

/// The tag in something that is not the payment: whoever sent it has to look at it.
#[tokio::test]
async fn a_tag_in_another_place_proves_nothing() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = [wallet.prepare(&payment_for("a")).await.unwrap()];
    by_hand(&chain, |transaction| transaction.to = alloy::primitives::TxKind::Call([7; 20].into()), &prepared[0]).await;
    chain.mine(12).await.unwrap();
    assert!(matches!(wallet.status(&prepared).await, Err(PayerError::Unavailable(_))));
}

/// Without tags two purchases cannot be told apart: then nothing is, and nothing is paid again.
#[tokio::test]
async fn without_tags_neither_of_two_is_credited_with_the_others_transfer() {
    let chain = quiet().await;
    let (one, two) = (wallet(&chain).await.tagged(false), wallet(&chain).await.tagged(false));
    let a = [one.prepare(&payment_for("a")).await.unwrap()];
    let b = [two.prepare(&payment_for("b")).await.unwrap()];
    assert_ne!(a[0].transaction(), b[0].transaction());
    one.send(&a[0]).await.unwrap();
    chain.mine(13).await.unwrap();
    assert!(matches!(fate(&one, &a).await, TransferStatus::Mined { .. }));
    assert!(matches!(two.status(&b).await, Err(PayerError::Unavailable(_))));
    // One whose place a tagged transfer took is impossible: that one is somebody else's for certain.
    let c = [two.prepare(&payment_for("c")).await.unwrap()];
    let d = [one.clone().tagged(true).prepare(&payment_for("d")).await.unwrap()];
    one.send(&d[0]).await.unwrap();
    chain.mine(13).await.unwrap();
    assert_eq!(fate(&two, &c).await, TransferStatus::Impossible);
}

/// What a seller that asks who paid is shown: a signature of the account, over the very text.
#[tokio::test]
async fn what_is_signed_is_signed_by_the_account_that_pays() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = wallet.prepare(&payment_for("AAAAAAAAAAAAAAAA")).await.unwrap();
    let intent = IntentId::new("AAAAAAAAAAAAAAAA").unwrap();
    let message = redemption_message(wallet.network(), hash(&prepared), &intent);
    let signature = wallet.sign(&message, prepared.payer).await.unwrap().unwrap();
    assert_eq!(signature.as_bytes().len(), 65);
    let read = Signature::from_raw(signature.as_bytes()).unwrap();
    let signer = |text: &str| Address::new(read.recover_address_from_msg(text).unwrap().into());
    assert_eq!(signer(&message), wallet.address());
    assert_ne!(signer(&format!("{message}\n")), wallet.address());
    assert!(matches!(wallet.sign(&message, SELLER).await, Err(PayerError::Foreign)));
    let untagged = wallet.tagged(false).sign(&message, prepared.payer).await.unwrap();
    assert_eq!(untagged, Some(signature), "whether it tags or not");
}
