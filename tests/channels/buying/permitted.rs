//! Deposits by Permit2: where the seller asks for them, and the account allows them.

use std::time::Duration;

use tower_x402::{
    ChannelPolicy, Merchant,
    client::{FileJournal, MissingAllowance, WalletPayer},
    ledger::SqliteLedger,
    protocol::SealingKeys,
    settle::{ChannelOnChain, Validity, WalletSettler},
    testing::{DevChain, contracts},
    verify::EvmVerifier,
};

use super::*;
use crate::support::faults::{Fault, Op};

/// A seller that asks for deposits by Permit2.
async fn trading() -> Trade {
    Trade::at(Stall::open_with(ChannelPolicy::new().deposits_by_permit2()).await, None)
}

#[tokio::test(start_paused = true)]
async fn a_channel_is_opened_and_topped_up_by_permits_for_that_channel_alone() {
    let trade = trading().await;
    let layer = trade.layer().await;
    for what in 0..12 {
        trade.buy(&layer, what).await.unwrap();
    }
    let seen = trade.line.seen();
    let deposits = seen.iter().filter_map(|payment| match payment {
        ChannelPayload::Deposit { deposit, .. } => Some(deposit),
        _ => None,
    });
    let deposits: Vec<_> = deposits.collect();
    assert_eq!((deposits.len(), trade.channels(), layer.spent()), (2, 1, units(2 * PRICE_OF_TEN)));
    let config = *seen[0].config();
    let permits = deposits.iter().map(|deposit| match &deposit.authorization {
        DepositAuthorization::Permit2(permit) => (permit, deposit.amount),
        other => panic!("{other:?}"),
    });
    let permits: Vec<_> = permits.collect();
    for (permit, amount) in &permits {
        assert_eq!((permit.from, permit.token, permit.amount), (trade.purse.account(), config.token, *amount));
        assert_eq!((permit.channel, *amount), (config.id(Network::BASE), PRICE_OF_TEN));
        let left = permit.deadline.unix().saturating_sub(NOW);
        assert!((1..=720).contains(&left), "the quote asks for {left} s");
    }
    assert_ne!(permits[0].0.nonce, permits[1].0.nonce);
}

/// The error names what is missing, so that the payer can allow it; nothing is signed, and the channel that was begun is dropped.
#[tokio::test(start_paused = true)]
async fn without_balance_or_allowance_nothing_is_signed() {
    for (is_rich, allowance) in [(true, PRICE_OF_TEN - 1), (false, PRICE_OF_TEN)] {
        let mut trade = trading().await;
        (trade.purse.is_rich, trade.purse.allowance) = (is_rich, allowance);
        let layer = trade.layer().await;
        let error = trade.buy(&layer, 0).await.unwrap_err();
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<PayerError>());
        let missing = |missing: &MissingAllowance| (missing.allowance, missing.needed);
        let missing = match source.unwrap() {
            PayerError::Allowance(error) => Some(missing(error)),
            _ => None,
        };
        assert_eq!(missing, is_rich.then_some((units(allowance), units(PRICE_OF_TEN))), "{error}");
        assert_eq!((trade.purse.deposits(), trade.journal.entries().len(), layer.channels().len()), (0, 0, 0));
        trade.purse.allowance = PRICE_OF_TEN;
        trade.purse.is_rich = true;
        let layer = trade.layer().await;
        trade.buy(&layer, 0).await.unwrap();
        assert_eq!((trade.purse.deposits(), layer.spent()), (1, units(PRICE_OF_TEN)));
    }
}

/// The quote ends while the outcome of the deposit is not known: the same voucher is taken under that one where the seller began the deposit,
/// and under the next one where the seller knows nothing of it. Permit2 does not tell which transaction made the deposit, and a token does.
#[tokio::test(start_paused = true)]
async fn behind_a_deposit_that_was_made_the_same_voucher_is_shown_under_a_fresh_quote() {
    let [by_token, by_permit2] = [ChannelPolicy::new(), ChannelPolicy::new().deposits_by_permit2()];
    for (policy, is_begun) in [(by_token, true), (by_permit2, true), (by_token, false), (by_permit2, false)] {
        let trade = Trade::at(Stall::open_with(policy).await, None);
        let layer = trade.layer().await;
        match is_begun {
            true => trade.stall.channels.script([tower_x402::testing::ChannelStep::DoneUnsure]),
            false => trade.stall.shop.faults.next(Op::Settling, [Fault::Fail]),
        }
        let (channels, line) = (trade.stall.channels.clone(), trade.line.clone());
        let (clock, statuses) = (trade.stall.shop.clock.clone(), Arc::new(Mutex::new(Vec::new())));
        let told = statuses.clone();
        trade.line.scripted(move |number, answer| {
            told.lock().unwrap().push(answer.status().as_u16());
            if number == 0 {
                clock.advance(Duration::from_secs(1_000));
                if !is_begun {
                    channels.answer_verify(Validity::Used);
                    let state = ChannelOnChain::new(units(PRICE_OF_TEN), units(0));
                    channels.set_state(line.seen()[0].config().id(Network::BASE), state);
                }
            }
            Ok(answer)
        });
        let (text, purchase) = trade.buy(&layer, 0).await.unwrap();
        assert_eq!((text.as_str(), purchase.charged), ("run 2", Some(units(PRICE))), "what was not sold is made again");
        let statuses = statuses.lock().unwrap().clone();
        let (first, last) = (statuses[0], statuses.last().copied());
        assert_eq!((first, last, statuses.contains(&402)), (503, Some(200), !is_begun), "{statuses:?}");
        trade.line.scripted(|_, answer| Ok(answer));
        trade.buy(&layer, 1).await.unwrap();
        assert_eq!((trade.purse.deposits(), trade.charged().await), (1, 2 * PRICE));
        assert_eq!(trade.stall.channels.deposits(), usize::from(is_begun));
        assert_eq!((layer.spent(), layer.channels().remove(0).charged), (units(PRICE_OF_TEN), units(2 * PRICE)));
    }
}

const SELLER: Address = Address::new([0x5d; 20]);

/// A token without EIP-3009 on a real chain, by a wallet and a file: allowed, opened, used, topped up, closed, to the unit.
#[tokio::test]
async fn in_a_token_without_authorizations_a_channel_is_opened_topped_up_and_closed_to_the_unit() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).with_channels();
    let chain = builder.start().await.unwrap();
    let [settles, pays] = [0, 1].map(|account| &chain.accounts()[account]);
    let token = chain.deploy(contracts::COIN.creation, &[6u128.into()]).await.unwrap();
    let minted =
        chain.send(settles.address(), token, &contracts::mint(pays.address(), units(1_000_000))).await.unwrap();
    chain.wait_until_mined(minted).await.unwrap();
    let owns = async |account| {
        let word = chain.call(token, &contracts::balance_of(account)).await.unwrap();
        number(Amount::from_be_bytes(word.try_into().unwrap()))
    };
    let coin = Asset::new(Network::BASE, token, 6, "COIN");
    let settler = WalletSettler::builder().key(settles.private_key()).final_after(0);
    let settler = settler.max_fee_per_gas(1_000_000_000_000).endpoint(chain.rpc_url()).connect().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let merchant = Merchant::builder(SELLER)
        .asset(coin.clone())
        .verifier(EvmVerifier::connect([chain.rpc_url()]).await.unwrap())
        .channel_settler(settler)
        .channel_policy(ChannelPolicy::new().withdraw_delay(Duration::from_secs(900)))
        .ledger(SqliteLedger::open(folder.path().join("ledger.db")).await.unwrap())
        .sealing_keys(SealingKeys::new([7; 32]));
    let merchant = merchant.build().await.unwrap();
    let runs = Counter::default();
    let counter = runs.clone();
    let handler = tower::service_fn(move |_: Request<RequestBody<Body>>| {
        let answer = Response::new(Full::<Bytes>::from(format!("run {}", counter.run())));
        async move { Ok::<_, Infallible>(answer) }
    });
    let seller = merchant.charge("answer", units(PRICE)).unwrap().layer(handler);
    let wallet = WalletPayer::builder().key(pays.private_key()).endpoint(chain.rpc_url());
    let wallet = wallet.connect().await.unwrap().max_fee_per_gas(1_000_000_000_000).final_after(0);
    let journal = FileJournal::open(folder.path().join("purchases.jsonl")).await.unwrap();
    let budget = Budget::in_assets([coin.clone()]).per_payment("1").per_day("10").build().unwrap();
    let layer = PayLayer::builder(wallet.clone(), budget, journal).prefer(PaymentMethod::Channel).deposit_for(15);
    let layer = layer.poll_every(Duration::from_millis(200)).build().await.unwrap();
    let client = layer.layer(seller);
    wallet.allow_permit2(&coin, units(40 * PRICE)).await.unwrap();

    for what in 0..20 {
        let answer = client.clone().oneshot(question(what)).await.unwrap();
        let bought = answer.extensions().get::<Purchase>().cloned().unwrap();
        assert_eq!((bought.paid_by, bought.charged), (PaymentMethod::Channel, Some(units(PRICE))));
        // The first one opens the channel, and the sixteenth tops it up.
        assert_eq!(bought.transaction.is_some(), what % 15 == 0, "{what}");
        answer.into_body().collect().await.unwrap();
    }
    let held = layer.channels().remove(0);
    assert_eq!((held.deposited, held.charged, runs.runs()), (units(30 * PRICE), units(20 * PRICE), 20));
    assert_eq!((owns(pays.address()).await, layer.spent()), (1_000_000 - 30 * PRICE, units(30 * PRICE)));
    assert_eq!(wallet.permit2_allowance(&coin).await.unwrap(), units(10 * PRICE), "each deposit uses it up");

    let closed = client.close_channel(held.id).await.unwrap().unwrap();
    assert_eq!(closed.refunded, units(10 * PRICE));
    assert_eq!((owns(pays.address()).await, layer.spent()), (1_000_000 - 20 * PRICE, units(20 * PRICE)));
    merchant.claim_now().await.unwrap();
    assert_eq!(owns(SELLER).await, 20 * PRICE);
}

/// By a wallet on a real chain: a deposit can be made, was made, or can never be made any more. Only deep blocks past its deadline say the last.
#[tokio::test]
async fn what_became_of_a_deposit_permit2_says() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(None).with_channels();
    let chain = builder.start().await.unwrap();
    chain.mine(3).await.unwrap();
    let pays = &chain.accounts()[1];
    let wallet = WalletPayer::builder().key(pays.private_key()).endpoint(chain.rpc_url());
    let wallet = wallet.connect().await.unwrap().final_after(2);
    let other = WalletPayer::builder().key(chain.accounts()[2].private_key()).endpoint(chain.rpc_url());
    let other = other.connect().await.unwrap();
    let config = ChannelConfig::new(pays.address(), SELLER, chain.usdc());
    let config = config.with_receiver_authorizer(chain.accounts()[0].address()).with_salt([4; 32]);
    let purchase = tower_x402::client::PurchaseId::new([1; 16]);
    let now = chain.timestamp().await.unwrap();
    let request = |amount| PermitDepositRequest::new(purchase, Network::BASE, config, amount, now);
    let [used, left] =
        [wallet.permit_deposit(&request(500)).await.unwrap(), wallet.permit_deposit(&request(600)).await.unwrap()];
    assert!(matches!(other.permit_deposit(&request(500)).await, Err(PayerError::Foreign)));
    let elsewhere = PermitDepositRequest::new(purchase, Network::BASE_SEPOLIA, config, 5, now);
    assert!(matches!(wallet.permit_deposit(&elsewhere).await, Err(PayerError::WrongNetwork(_))));
    let deadline = left.deadline;
    let [used, left] = [(500, used), (600, left)].map(|(amount, permit)| ChannelDeposit::new(amount, permit));
    let status =
        async |deposit: &ChannelDeposit| wallet.deposit_status(Network::BASE, &config, deposit, now).await.unwrap();
    let void = AuthorizationStatus::Void;
    assert_eq!((status(&used).await, status(&left).await), (AuthorizationStatus::Unused, AuthorizationStatus::Unused));
    let foreign = other.deposit_status(Network::BASE, &config, &left, now).await;
    assert!(matches!(foreign, Err(PayerError::Foreign)), "{foreign:?}");

    chain
        .send(pays.address(), chain.usdc(), &contracts::approve(tower_x402::protocol::permit2::PERMIT2, units(500)))
        .await
        .unwrap();
    chain.mine(1).await.unwrap();
    let settler = WalletSettler::builder().key(chain.accounts()[0].private_key()).final_after(0);
    let settler = settler.max_fee_per_gas(1_000_000_000_000).endpoint(chain.rpc_url()).connect().await.unwrap();
    let voucher = Voucher::new(config.id(Network::BASE), 1, PaymentSignature::new([1; 65]).unwrap());
    let recorder = tower_x402::settle::TransactionRecorder::none();
    let making = async {
        tower_x402::settle::ChannelSettler::deposit(&settler, Network::BASE, &config, &used, &voucher, &recorder).await
    };
    let mining = async {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            chain.mine(1).await.unwrap();
        }
    };
    let made = tokio::select! { made = making => made, () = mining => unreachable!() };
    assert!(matches!(made, tower_x402::settle::Settlement::Settled(_)), "{made:?}");
    assert_eq!(status(&used).await, AuthorizationStatus::Used { transaction: None });
    assert_eq!(number(wallet.channel_funds(Network::BASE, config.id(Network::BASE)).await.unwrap().balance), 500);

    // At its deadline it can still be made, and behind it no block is deep enough at first.
    let at = |time: ChainTime| serde_json::json!([time.unix()]);
    chain.rpc("evm_setNextBlockTimestamp", at(deadline)).await.unwrap();
    chain.mine(1).await.unwrap();
    chain.rpc("anvil_setBlockTimestampInterval", serde_json::json!([0])).await.unwrap();
    chain.mine(3).await.unwrap();
    assert_eq!((chain.timestamp().await.unwrap(), status(&left).await), (deadline, AuthorizationStatus::Unused));
    chain.rpc("anvil_removeBlockTimestampInterval", serde_json::json!([])).await.unwrap();
    chain.rpc("evm_setNextBlockTimestamp", at(deadline.after(Duration::from_secs(1)))).await.unwrap();
    chain.mine(1).await.unwrap();
    assert_eq!(status(&left).await, AuthorizationStatus::Unused);
    chain.mine(2).await.unwrap();
    assert_eq!((status(&left).await, status(&used).await), (void, AuthorizationStatus::Used { transaction: None }));
}
