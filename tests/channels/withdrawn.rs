//! A payer withdraws on a real chain while the worker runs: what was sold is the seller's, and the rest is the payer's, to the last unit.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use http::Request;
use tokio::time::{Instant, sleep};
use tower_x402::{
    ChannelPolicy, Merchant,
    ledger::SqliteLedger,
    protocol::{Address, Network, SealingKeys, headers::PAYMENT_SIGNATURE, v2::PaymentPayload},
    settle::{ChannelSettler as _, SettleErrorKind, WalletSettler},
    testing::DevChain,
    verify::EvmVerifier,
};

use crate::{
    counter::{PRICE, counting, number, offered, refused, told},
    support::{Counter, ask, channel_payer::ChannelPayer, layered},
};

const SELLER: Address = Address::new([0x5e; 20]);
/// In that time a withdrawal is claimed.
const SOON: Duration = Duration::from_secs(60);
const DEPOSIT: u128 = 60 * PRICE;
const DELAY: Duration = Duration::from_secs(900);

async fn merchant(chain: &DevChain, ledger: SqliteLedger) -> Merchant {
    let settler = WalletSettler::builder()
        .key(chain.accounts()[0].private_key())
        .max_fee_per_gas(1_000_000_000_000)
        .endpoint(chain.rpc_url())
        .connect()
        .await
        .unwrap();
    Merchant::builder(SELLER)
        .verifier(EvmVerifier::connect([chain.rpc_url()]).await.unwrap())
        .channel_settler(settler)
        .channel_policy(ChannelPolicy::new().withdraw_delay(DELAY))
        .ledger(Arc::new(ledger))
        .sealing_keys(SealingKeys::new([7; 32]))
        .build()
        .await
        .unwrap()
}

fn shows(payment: &PaymentPayload) -> Request<Body> {
    Request::get("/answer").header(PAYMENT_SIGNATURE, payment.to_header()).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_withdrawal_is_claimed_within_a_minute_and_takes_nothing_that_was_sold() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).with_channels();
    let chain = builder.start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ledger = SqliteLedger::open(folder.path().join("ledger.db")).await.unwrap();
    let merchant = merchant(&chain, ledger).await;
    let counter = Counter::default();
    let service = layered(&merchant.charge("answer", "0.0001 USDC").unwrap(), counting(&counter, None));
    let worker = tokio::spawn(merchant.claimer().run());

    let offer = offered(&service).await;
    let payer = ChannelPayer::of(&chain, 1, &offer);
    let before = number(chain.usdc_balance(payer.address).await.unwrap());
    let first = payer.deposits(&offer, PRICE, DEPOSIT).await;
    assert_eq!(told(&ask(&service, shows(&first)).await), (PRICE, PRICE));
    let mut sold = 1;
    while sold < 5 {
        let offer = offered(&service).await;
        sold += 1;
        let _ = told(&ask(&service, shows(&payer.pays(&offer, sold * PRICE))).await);
    }
    assert_eq!(payer.state().await, (DEPOSIT, 0), "nothing is due");

    payer.withdraws(DEPOSIT).await;
    let begun = Instant::now();
    // The payer goes on buying: each answer is claimed too, or refused.
    let mut refusals = 0;
    while refusals == 0 || payer.state().await.1 < sold * PRICE {
        assert!(begun.elapsed() < SOON, "{sold} sold, {:?} on the chain", payer.state().await);
        let offer = offered(&service).await;
        let answer = ask(&service, shows(&payer.pays(&offer, (sold + 1) * PRICE))).await;
        match answer.status().as_u16() {
            200 if sold * PRICE < DEPOSIT => sold += 1,
            409 => {}
            _ => {
                assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
                refusals += 1;
            }
        }
        sleep(Duration::from_millis(1_500)).await;
    }
    assert_eq!(counter.runs() as u128, sold);

    chain.increase_time(DELAY).await.unwrap();
    payer.takes_it().await;
    let swept = Instant::now();
    while number(chain.usdc_balance(SELLER).await.unwrap()) < sold * PRICE {
        assert!(swept.elapsed() < SOON, "not swept");
        sleep(Duration::from_secs(1)).await;
    }
    worker.abort();
    assert_eq!(number(chain.usdc_balance(SELLER).await.unwrap()), sold * PRICE);
    assert_eq!(number(chain.usdc_balance(payer.address).await.unwrap()), before - sold * PRICE);
}

/// Its claims would outlast the turns of the worker, which would send them again and again.
#[tokio::test]
async fn who_waits_too_long_for_a_final_block_offers_no_channels() {
    let chain = DevChain::builder().install_with_npm(true).with_channels().start().await.unwrap();
    let authorizer = async |blocks| {
        let builder = WalletSettler::builder().key(chain.accounts()[0].private_key()).endpoint(chain.rpc_url());
        let settler = builder.final_after(blocks).connect().await.unwrap();
        settler.receiver_authorizer(Network::BASE, chain.usdc()).await
    };
    assert!(matches!(authorizer(100).await, Ok(Some(_))));
    let error = authorizer(101).await.unwrap_err();
    assert!(matches!(error.kind(), SettleErrorKind::InvalidSetting { what: "final_after" }), "{error}");
}
