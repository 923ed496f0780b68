//! What payers can make the settling account spend, and how much they can make it ask.

use futures_util::future::join_all;

use super::*;

/// Accepts every signature.
const EASY: &str = "631626ba7e60e01b60005260206000f3";
/// Accepts every signature where gas costs nothing, and burns all its gas where it costs something.
const TRIAL_ONLY: &str = "3a15600657fe5b631626ba7e60e01b60005260206000f3";
/// Burns all its gas.
const BURNS: &str = "fe";
const CONTRACT: Address = Address::new([0xea; 20]);

/// A payment of that account, which its code accepts.
async fn by_contract(chain: &DevChain, nonce: u8) -> SignedPayment {
    shown(chain, authorized(chain, CONTRACT, nonce).await, vec![7; 65])
}

async fn contract_payer(chain: &DevChain, code: &str) {
    chain.set_code(CONTRACT, code).await.unwrap();
    chain.fund(CONTRACT, Amount::from_base_units(100_000_000)).await.unwrap();
}

#[tokio::test]
async fn an_account_that_accepts_in_trials_alone_is_never_sent() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    contract_payer(&chain, TRIAL_ONLY).await;
    for nonce in 1..=3 {
        let payment = by_contract(&chain, nonce).await;
        assert!(matches!(settler.verify(&payment).await, Ok(Validity::Refused(_))));
        assert!(matches!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Refused(_)));
    }
    assert_eq!(count_of(&chain, "pending").await, 0);
    chain.set_code(CONTRACT, EASY).await.unwrap();
    assert_eq!(settler.verify(&by_contract(&chain, 4).await).await, Ok(Validity::Valid));
}

#[tokio::test]
async fn an_account_whose_code_reverts_a_payment_is_refused_from_then_on() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    contract_payer(&chain, EASY).await;
    let first = by_contract(&chain, 1).await;
    let task = tokio::spawn({
        let settler = settler.clone();
        async move { settler.settle(&first, &TransactionRecorder::none()).await }
    });
    until_waiting(&chain, 1).await;
    chain.set_code(CONTRACT, BURNS).await.unwrap();
    chain.mine(1).await.unwrap();
    assert!(matches!(task.await.unwrap(), Settlement::Refused(_)));
    // It is all smiles again.
    chain.set_code(CONTRACT, EASY).await.unwrap();
    for nonce in 2..=4 {
        let payment = by_contract(&chain, nonce).await;
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Refused(Reason::INVALID_TRANSACTION_STATE)));
        assert_eq!(
            settler.settle(&payment, &TransactionRecorder::none()).await,
            Settlement::Refused(Reason::INVALID_TRANSACTION_STATE)
        );
    }
    assert_eq!(count_of(&chain, "pending").await, 1);
    // Others are not concerned.
    assert_eq!(settler.verify(&payment(&chain, 1, 1).await).await, Ok(Validity::Valid));
}

/// Its payment was never mined: its code had no part in that.
#[tokio::test]
async fn an_account_whose_payment_was_replaced_by_an_empty_transaction_goes_on_paying() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    contract_payer(&chain, EASY).await;
    let first = by_contract(&chain, 1).await;
    let task = tokio::spawn({
        let settler = settler.clone();
        async move { settler.settle(&first, &TransactionRecorder::none()).await }
    });
    until_waiting(&chain, 1).await;
    raise_base_fee(&chain).await;
    chain.mine(1).await.unwrap();
    chain.fund(CONTRACT, Amount::ZERO).await.unwrap();
    let outcome = while_mining(&chain, task).await.unwrap();
    assert_eq!(outcome, Settlement::Refused(Reason::INVALID_TRANSACTION_STATE));
    chain.fund(CONTRACT, Amount::from_base_units(100_000_000)).await.unwrap();
    assert_eq!(settler.verify(&by_contract(&chain, 2).await).await, Ok(Validity::Valid));
}

#[tokio::test]
async fn contract_accounts_can_be_switched_off() {
    let chain = quiet().await;
    let settler = builder(&chain).contract_accounts(false).endpoint(chain.rpc_url()).connect().await.unwrap();
    contract_payer(&chain, EASY).await;
    let refused = Validity::Refused(Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE);
    assert_eq!(settler.verify(&by_contract(&chain, 1).await).await, Ok(refused.clone()));
    assert!(matches!(
        settler.settle(&by_contract(&chain, 1).await, &TransactionRecorder::none()).await,
        Settlement::Refused(_)
    ));
    assert_eq!(settler.verify(&payment(&chain, 1, 1).await).await, Ok(Validity::Valid));
    // A key that delegates to a contract has code.
    chain.set_code(chain.accounts()[2].address(), EASY).await.unwrap();
    assert_eq!(settler.verify(&payment(&chain, 2, 1).await).await, Ok(refused));
    assert_eq!(count_of(&chain, "pending").await, 0);
}

/// A node whose `pending` state is its `latest` does not know what waits.
async fn forgetful(chain: &DevChain) -> (Proxy, WalletSettler) {
    let proxy = Proxy::before(chain.rpc_url()).await;
    for method in ["eth_call", "eth_estimateGas", "eth_getBalance"] {
        proxy.set(method, Odd::PendingIsLatest);
    }
    let settler = builder(chain).endpoint(proxy.url()).connect().await.unwrap();
    (proxy, settler)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_authorizations_over_one_balance_cost_the_gas_of_one() {
    let chain = quiet().await;
    let (_proxy, settler) = forgetful(&chain).await;
    chain.fund(chain.accounts()[1].address(), price()).await.unwrap();
    let mut payments = Vec::new();
    for nonce in 1..=64 {
        payments.push(payment(&chain, 1, nonce).await);
    }
    let none = TransactionRecorder::none();
    let settling = join_all(payments.iter().map(|payment| settler.settle(payment, &none)));
    let outcomes = while_mining(&chain, settling).await;
    let settled = outcomes.iter().filter(|outcome| matches!(outcome, Settlement::Settled(_))).count();
    let refused = Settlement::Refused(Reason::INSUFFICIENT_FUNDS);
    assert_eq!((settled, outcomes.iter().filter(|outcome| **outcome == refused).count()), (1, 63));
    assert_eq!((count_of(&chain, "latest").await, paid(&chain).await), (1, 490_000));
}

#[tokio::test]
async fn what_is_promised_already_counts_against_the_balance() {
    let chain = quiet().await;
    let (_proxy, settler) = forgetful(&chain).await;
    let payer = chain.accounts()[1].address();
    chain.fund(payer, price()).await.unwrap();
    let (first, second) = (payment(&chain, 1, 1).await, payment(&chain, 1, 2).await);
    let overloaded = Err(SettleError::new(SettleErrorKind::Overloaded));
    assert_eq!(settler.verify(&second.clone().with_promised(price())).await, overloaded, "of the seller's");
    let task = tokio::spawn({
        let settler = settler.clone();
        async move { settler.settle(&first, &TransactionRecorder::none()).await }
    });
    until_waiting(&chain, 1).await;
    assert_eq!(settler.verify(&second).await, overloaded, "under way");
    chain.mine(1).await.unwrap();
    transaction(task.await.unwrap());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(settler.verify(&second).await, Ok(Validity::Refused(Reason::INSUFFICIENT_FUNDS)));
    chain.fund(payer, price()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(settler.verify(&second).await, Ok(Validity::Valid));
}

/// Payments that cost their sender nothing cost few questions, and none when they are shown again.
#[tokio::test]
async fn a_worthless_payment_costs_two_questions_and_its_repetition_none() {
    let chain = quiet().await;
    let proxy = Proxy::before(chain.rpc_url()).await;
    let settler = builder(&chain).endpoint(proxy.url()).connect().await.unwrap();
    let forged = shown(&chain, authorized(&chain, Address::new([0x99; 20]), 1).await, vec![0; 65]);
    let poor = PrivateKeySigner::random();
    let poor = signed(&chain, authorized(&chain, address(&poor), 1).await, &poor);
    for (payment, questions) in [(&forged, 1), (&poor, 2)] {
        let before = proxy.asked_in_all();
        for _ in 0..20 {
            assert!(matches!(settler.verify(payment).await, Ok(Validity::Refused(_))));
        }
        assert_eq!(proxy.asked_in_all() - before, questions, "{payment:?}");
    }
}

/// Twenty worthless payments a second, of all kinds, through a node that answers a hundred questions a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_without_money_do_not_keep_payers_out() {
    let chain = quiet().await;
    let proxy = Proxy::before(chain.rpc_url()).await;
    let settler = builder(&chain).endpoint(proxy.url()).connect().await.unwrap();
    let template = authorized(&chain, CONTRACT, 0).await;
    proxy.limit(100);
    let flood = {
        let (settler, chain_id) = (settler.clone(), chain.chain_id());
        let worthless: Vec<_> = (0..60_u8)
            .map(|n| {
                let key = PrivateKeySigner::random();
                let mut authorization = template.clone();
                authorization.from = address(&key);
                match n % 2 {
                    0 => signed(&chain, authorization, &key),
                    _ => shown(&chain, authorization, vec![n; 65]),
                }
            })
            .collect();
        assert_eq!(chain_id, 8453);
        tokio::spawn(async move {
            let checks = worthless.into_iter().enumerate().map(|(n, payment)| {
                let settler = settler.clone();
                async move {
                    tokio::time::sleep(Duration::from_millis(50 * n as u64)).await;
                    settler.verify(&payment).await
                }
            });
            join_all(checks).await
        })
    };
    for n in 0..10_u8 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let payment = payment(&chain, 1 + usize::from(n % 6), n).await;
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid), "{n}");
    }
    assert!(flood.await.unwrap().iter().all(|said| matches!(said, Ok(Validity::Refused(_)))));
}

/// The coin costs 4,000 USDC, and a payment 0.49: half of it buys gas for 61 thousandths of a thousandth of an ether.
#[tokio::test]
async fn a_payment_whose_gas_costs_more_than_its_share_is_not_sent() {
    let chain = quiet().await;
    let coin = Amount::from_base_units(4_000_000_000);
    let build = async |share: Option<u32>| {
        let builder = builder(&chain).coin_price(chain.usdc(), coin).endpoint(chain.rpc_url());
        match share {
            Some(percent) => builder.max_gas_share(percent).connect().await,
            None => builder.connect().await,
        }
    };
    assert_eq!(*build(Some(0)).await.unwrap_err().kind(), SettleErrorKind::InvalidSetting { what: "max_gas_share" });
    let (settler, generous) = (build(None).await.unwrap(), build(Some(100_000)).await.unwrap());
    let elsewhere = builder(&chain).coin_price(Address::new([7; 20]), coin).endpoint(chain.rpc_url());
    let elsewhere = elsewhere.connect().await.unwrap();
    // What the estimate of the next block's base fee is made of.
    let base_fee = async |wei: u64| {
        chain.rpc("anvil_setNextBlockBaseFeePerGas", json!([format!("{wei:#x}")])).await.unwrap();
        chain.mine(1).await.unwrap();
        // What gas costs is remembered for a block.
        tokio::time::sleep(Duration::from_millis(2_100)).await;
    };
    let first = payment(&chain, 1, 1).await;
    base_fee(20_000_000_000).await;
    let too_dear = SettleError::new(SettleErrorKind::GasAbovePrice);
    assert!(too_dear.is_transient());
    assert_eq!(settler.verify(&first).await, Err(too_dear));
    assert_eq!(settler.settle(&first, &TransactionRecorder::none()).await, Settlement::Unknown(None));
    assert_eq!(count_of(&chain, "pending").await, 0, "nothing is sent");
    assert_eq!(generous.verify(&first).await, Ok(Validity::Valid));
    assert_eq!(elsewhere.verify(&first).await, Ok(Validity::Valid), "whose price in this token is not known");
    base_fee(200_000_000).await;
    assert_eq!(settler.verify(&first).await, Ok(Validity::Valid));
    transaction(settled(&chain, &settler, &first).await);
}
