//! SECURITY rows 51 and 52: what cannot be settled costs nothing, and is refused in the standard's words.

use super::*;

#[tokio::test]
async fn what_is_not_as_asked_is_refused_by_name_and_never_sent() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let good = payment(&chain, 1, 1).await;
    let payer = key(&chain, 1);
    let authorization = || good.authorization.authorization.clone();
    let now = chain.timestamp().await.unwrap();
    let later = |seconds| now.after(Duration::from_secs(seconds));
    let zero = ChainTime::from_unix(0);

    let poor = PrivateKeySigner::random();
    let poor = signed(&chain, authorized(&chain, address(&poor), 1).await, &poor);
    let mut elsewhere = good.clone();
    elsewhere.requirements.network = Network::BASE_SEPOLIA;
    let mut no_token = good.clone();
    no_token.requirements.asset = SELLER;
    no_token.domain.token = SELLER;

    let mut other_domain = good.clone();
    other_domain.domain.name = "USDC".to_owned();
    let mut undeployed = vec![0; 65];
    undeployed.extend([0x64, 0x92].repeat(16));

    let signed = |authorization| signed(&chain, authorization, &payer);
    let to_another = authorization().paying(Address::new([9; 20]), price());
    let too_little = authorization().paying(SELLER, Amount::from_base_units(489_999));
    for (payment, reason) in [
        (elsewhere, Reason::INVALID_NETWORK),
        (no_token, Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE),
        (other_domain, Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE),
        (signed(to_another), Reason::INVALID_EXACT_EVM_PAYLOAD_RECIPIENT_MISMATCH),
        (signed(too_little), Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALUE_MISMATCH),
        (
            signed(authorization().valid_between(zero, now)),
            Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALID_BEFORE,
        ),
        (
            signed(authorization().valid_between(later(1_800), later(3_600))),
            Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALID_AFTER,
        ),
        (poor, Reason::INSUFFICIENT_FUNDS),
        (super::signed(&chain, authorization(), &key(&chain, 2)), Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE),
        (shown(&chain, authorization(), undeployed), Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE),
        (shown(&chain, authorization(), vec![0; 64]), Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE),
    ] {
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Refused(reason.clone())), "{payment:?}");
        assert_eq!(
            settler.settle(&payment, &TransactionRecorder::none()).await,
            Settlement::Refused(reason),
            "{payment:?}"
        );
    }
    assert_eq!(count_of(&chain, "pending").await, 0);
    assert_eq!(settler.verify(&good).await, Ok(Validity::Valid));
}

#[tokio::test]
async fn what_is_no_token_settles_nothing_though_no_call_of_it_fails() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    // Any call of an account without code succeeds, and so does any call of this one.
    let blank = Address::new([0xb1; 20]);
    chain.set_code(blank, "00").await.unwrap();
    let easy = Address::new([0xea; 20]);
    chain.set_code(easy, "631626ba7e60e01b60005260206000f3").await.unwrap();
    for token in [Address::new([0xb2; 20]), blank] {
        let mut payment = shown(&chain, authorized(&chain, easy, 1).await, vec![7; 65]);
        payment.requirements.asset = token;
        payment.domain.token = token;
        let reason = Reason::INVALID_PAYMENT_REQUIREMENTS;
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Refused(reason.clone())));
        assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Refused(reason));
    }
    assert_eq!(count_of(&chain, "pending").await, 0);
}

#[tokio::test]
async fn an_authorization_that_dies_between_verify_and_settle_is_not_sent() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let (cancelled, robbed) = (payment(&chain, 1, 1).await, payment(&chain, 2, 1).await);
    for payment in [&cancelled, &robbed] {
        assert_eq!(settler.verify(payment).await, Ok(Validity::Valid));
    }
    cancel(&chain, 1, 1).await;
    chain.fund(chain.accounts()[2].address(), Amount::ZERO).await.unwrap();
    chain.mine(1).await.unwrap();
    assert_eq!(
        settler.settle(&cancelled, &TransactionRecorder::none()).await,
        Settlement::Unknown(None),
        "used: by whom, the chain tells"
    );
    assert_eq!(
        settler.settle(&robbed, &TransactionRecorder::none()).await,
        Settlement::Refused(Reason::INSUFFICIENT_FUNDS)
    );
    assert_eq!((count_of(&chain, "pending").await, paid(&chain).await), (0, 0));
}

/// What waits counts: a payer with one price in its account has one transaction sent.
#[tokio::test]
async fn many_authorizations_over_one_balance_cost_the_gas_of_one() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let payer = chain.accounts()[1].address();
    chain.fund(payer, price()).await.unwrap();
    let first = payment(&chain, 1, 1).await;
    let task = tokio::spawn({
        let settler = settler.clone();
        async move { settler.settle(&first, &TransactionRecorder::none()).await }
    });
    until_waiting(&chain, 1).await;
    for nonce in 2..12 {
        let payment = payment(&chain, 1, nonce).await;
        assert!(matches!(settler.verify(&payment).await, Ok(Validity::Refused(_))));
        assert!(matches!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Refused(_)));
    }
    chain.mine(1).await.unwrap();
    transaction(task.await.unwrap());
    assert_eq!(count_of(&chain, "latest").await, 1);
}

/// SECURITY row 52: what would revert is never sent, however much of it there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_that_would_revert_cost_nothing() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let thief = PrivateKeySigner::random();
    let template = authorized(&chain, address(&thief), 0).await;
    for round in 0..20 {
        let settling = (0..50_u8).map(|n| {
            let mut authorization = template.clone();
            (authorization.nonce[0], authorization.nonce[1]) = (round, n);
            let payment = signed(&chain, authorization, &thief);
            let settler = settler.clone();
            async move { settler.settle(&payment, &TransactionRecorder::none()).await }
        });
        for outcome in futures_util::future::join_all(settling).await {
            assert_eq!(outcome, Settlement::Refused(Reason::INSUFFICIENT_FUNDS));
        }
    }
    assert_eq!(count_of(&chain, "pending").await, 0);
}

/// It dies after it was sent: mined, and reverted.
#[tokio::test]
async fn what_was_sent_and_reverted_is_refused_once_it_is_deep() {
    let chain = quiet().await;
    let settler = builder(&chain).final_after(3).endpoint(chain.rpc_url()).connect().await.unwrap();
    let payment = payment(&chain, 1, 1).await;
    let task = tokio::spawn(async move { settler.settle(&payment, &TransactionRecorder::none()).await });
    until_waiting(&chain, 1).await;
    chain.fund(chain.accounts()[1].address(), Amount::ZERO).await.unwrap();
    chain.mine(3).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!task.is_finished(), "not deep enough");
    chain.mine(1).await.unwrap();
    assert_eq!(task.await.unwrap(), Settlement::Refused(Reason::INVALID_TRANSACTION_STATE));
}

/// Another process sent it a moment ago: its payer must not sign anew.
#[tokio::test]
async fn nothing_is_refused_whose_nonce_is_used_by_what_waits() {
    let chain = quiet().await;
    let first = settler(&chain).await;
    let good = payment(&chain, 1, 1).await;
    let forged = shown(&chain, good.authorization.authorization.clone(), vec![0; 65]);
    let task = tokio::spawn(async move { first.settle(&good, &TransactionRecorder::none()).await });
    until_waiting(&chain, 1).await;
    let other = WalletSettler::builder().key(chain.accounts()[2].private_key()).max_fee_per_gas(1_000_000_000_000);
    let other = other.endpoint(chain.rpc_url()).connect().await.unwrap();
    assert_eq!(other.settle(&forged, &TransactionRecorder::none()).await, Settlement::Unknown(None));
    chain.mine(1).await.unwrap();
    transaction(task.await.unwrap());
}
