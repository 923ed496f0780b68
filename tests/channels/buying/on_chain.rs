//! The whole way on a real chain, by a wallet and a file: opened, used, topped up, closed. Every unit is where it belongs.

use std::time::Duration;

use tower_x402::{
    ChannelPolicy, Merchant,
    client::{ChannelPhase, FileJournal, WalletPayer},
    ledger::SqliteLedger,
    protocol::SealingKeys,
    settle::WalletSettler,
    testing::DevChain,
    verify::EvmVerifier,
};

use super::*;

const SELLER: Address = Address::new([0x5f; 20]);

#[tokio::test]
async fn a_channel_is_opened_topped_up_and_closed_to_the_unit() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).with_channels();
    let chain = builder.start().await.unwrap();
    let settler = WalletSettler::builder()
        .key(chain.accounts()[0].private_key())
        .final_after(0)
        .max_fee_per_gas(1_000_000_000_000)
        .endpoint(chain.rpc_url())
        .connect()
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let merchant = Merchant::builder(SELLER)
        .verifier(EvmVerifier::connect([chain.rpc_url()]).await.unwrap())
        .channel_settler(settler)
        .channel_policy(ChannelPolicy::new().withdraw_delay(Duration::from_secs(900)))
        .ledger(SqliteLedger::open(folder.path().join("ledger.db")).await.unwrap())
        .sealing_keys(SealingKeys::new([7; 32]))
        .build()
        .await
        .unwrap();
    let runs = Counter::default();
    let counter = runs.clone();
    let handler = tower::service_fn(move |_: Request<RequestBody<Body>>| {
        let answer = Response::new(Full::<Bytes>::from(format!("run {}", counter.run())));
        async move { Ok::<_, Infallible>(answer) }
    });
    let seller = merchant.charge("answer", "0.0001 USDC").unwrap().layer(handler);
    let wallet = WalletPayer::builder().key(chain.accounts()[1].private_key()).endpoint(chain.rpc_url());
    let wallet = wallet.connect().await.unwrap().max_fee_per_gas(1_000_000_000_000).final_after(0);
    let payer = wallet.address();
    let usdc = Asset::new(wallet.network(), chain.usdc(), 6, "USDC");
    let journal = FileJournal::open(folder.path().join("purchases.jsonl")).await.unwrap();
    let budget = Budget::in_assets([usdc]).per_payment("1").per_day("10").build().unwrap();
    let layer = PayLayer::builder(wallet, budget, journal).prefer(PaymentMethod::Channel).deposit_for(15);
    let layer = layer.poll_every(Duration::from_millis(200)).build().await.unwrap();
    let client = layer.layer(seller);
    let before = number(chain.usdc_balance(payer).await.unwrap());

    for what in 0..20 {
        let answer = client.clone().oneshot(question(what)).await.unwrap();
        let bought = answer.extensions().get::<Purchase>().cloned().unwrap();
        assert_eq!((bought.paid_by, bought.charged), (PaymentMethod::Channel, Some(units(PRICE))));
        // The first one opens the channel, and the sixteenth tops it up.
        assert_eq!(bought.transaction.is_some(), what % 15 == 0, "{what}");
        answer.into_body().collect().await.unwrap();
    }
    assert_eq!(runs.runs(), 20);
    let held = layer.channels().remove(0);
    assert_eq!((held.deposited, held.charged), (units(30 * PRICE), units(20 * PRICE)));
    assert_eq!(number(chain.usdc_balance(payer).await.unwrap()), before - 30 * PRICE);

    let closed = client.close_channel(held.id).await.unwrap().unwrap();
    assert_eq!((closed.phase, closed.refunded), (ChannelPhase::Closed, units(10 * PRICE)));
    assert_eq!(number(chain.usdc_balance(payer).await.unwrap()), before - 20 * PRICE);
    assert_eq!(layer.spent(), units(20 * PRICE));
    merchant.claim_now().await.unwrap();
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), units(20 * PRICE));
}

/// Without the seller: begun, claimed by the seller meanwhile, ended after the delay. While the chain is younger than the depth that is asked
/// for, nothing counts as come back.
#[tokio::test]
async fn a_withdrawal_brings_back_to_the_unit_what_the_seller_did_not_claim() {
    const DELAY: Duration = Duration::from_secs(900);
    let builder = DevChain::builder().install_with_npm(true).mine_every(Duration::from_millis(250)).with_channels();
    let chain = builder.start().await.unwrap();
    let settler = WalletSettler::builder().key(chain.accounts()[0].private_key()).final_after(0);
    let settler = settler.max_fee_per_gas(1_000_000_000_000).endpoint(chain.rpc_url()).connect().await.unwrap();
    let merchant = Merchant::builder(SELLER)
        .verifier(EvmVerifier::connect([chain.rpc_url()]).await.unwrap())
        .channel_settler(settler)
        .channel_policy(ChannelPolicy::new().withdraw_delay(DELAY))
        .ledger(tower_x402::ledger::MemoryLedger::new())
        .sealing_keys(SealingKeys::new([7; 32]));
    let merchant = merchant.build().await.unwrap();
    let handler = tower::service_fn(|_: Request<RequestBody<Body>>| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("sold")))
    });
    let seller = merchant.charge("answer", "0.0001 USDC").unwrap().layer(handler);
    let wallet = WalletPayer::builder().key(chain.accounts()[1].private_key()).endpoint(chain.rpc_url());
    let wallet = wallet.connect().await.unwrap().max_fee_per_gas(1_000_000_000_000);
    let payer = wallet.address();
    let usdc = Asset::new(wallet.network(), chain.usdc(), 6, "USDC");
    let clock = FakeClock::new(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs());
    let journal = MemoryJournal::new();
    let buyer = async |final_after, patience| {
        let budget = Budget::in_assets([usdc.clone()]).per_payment("1").per_day("10").build().unwrap();
        let layer = PayLayer::builder(wallet.clone().final_after(final_after), budget, journal.clone());
        let layer = layer.prefer(PaymentMethod::Channel).clock(clock.clone()).patience(Duration::from_secs(patience));
        layer.poll_every(Duration::from_millis(200)).build().await.unwrap()
    };
    let layer = buyer(1_000_000, 60).await;
    let client = layer.layer(seller);
    let before = number(chain.usdc_balance(payer).await.unwrap());
    for what in 0..3 {
        client.clone().oneshot(question(what)).await.unwrap().into_body().collect().await.unwrap();
    }
    let id = layer.channels().remove(0).id;
    let begun = layer.withdraw_channel(id).await.unwrap().unwrap();
    let ChannelPhase::Withdrawing(ready) = begun.phase else { panic!("{:?}", begun.phase) };
    let funds = layer.channel_funds(id).await.unwrap();
    assert_eq!((funds.balance, funds.withdrawing.map(|(units, _)| units)), (units(1_000), Some(units(1_000))));
    // Too early: it stays begun, and nothing moves.
    assert_eq!(layer.withdraw_channel(id).await.unwrap().unwrap().phase, ChannelPhase::Withdrawing(ready));
    merchant.claim_now().await.unwrap();
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), units(3 * PRICE));
    assert_eq!((layer.spent(), number(chain.usdc_balance(payer).await.unwrap())), (units(1_000), before - 1_000));

    chain.rpc("evm_increaseTime", serde_json::json!([2 * DELAY.as_secs()])).await.unwrap();
    chain.rpc("evm_mine", serde_json::json!([])).await.unwrap();
    clock.advance(2 * DELAY);
    let error = buyer(1_000_000, 10).await.withdraw_channel(id).await.unwrap_err();
    let reason = std::error::Error::source(&error).unwrap().to_string();
    assert!(reason.contains("younger"), "{reason}");
    assert_eq!(number(chain.usdc_balance(payer).await.unwrap()), before - 3 * PRICE);
    let layer = buyer(3, 60).await;
    let held = layer.channels().remove(0);
    assert!(matches!(held.phase, ChannelPhase::Withdrawing(_)), "{:?}", held.phase);
    assert_eq!((held.refunded, layer.spent()), (units(0), units(1_000)));
    let ended = layer.withdraw_channel(id).await.unwrap().unwrap();
    assert_eq!((ended.phase, ended.refunded), (ChannelPhase::Closed, units(7 * PRICE)));
    assert_eq!(number(chain.usdc_balance(payer).await.unwrap()), before - 3 * PRICE);
    assert_eq!((layer.spent(), number(layer.channel_funds(id).await.unwrap().claimed)), (units(3 * PRICE), 3 * PRICE));
    // Nothing of it can be taken twice.
    assert_eq!(layer.withdraw_channel(id).await.unwrap().unwrap().refunded, units(7 * PRICE));
    assert_eq!(number(chain.usdc_balance(payer).await.unwrap()), before - 3 * PRICE);
}
