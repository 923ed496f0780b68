//! The whole way on a real chain: a deposit, vouchers, a claim, a sweep, a refund. Every unit is where it belongs.

use std::{path::Path, sync::Arc, time::Duration};

use alloy::{
    primitives::B256,
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use tower_x402::{
    ChannelPolicy, Merchant,
    ledger::SqliteLedger,
    protocol::{
        Address, ChainTime, Network, PaymentSignature, SealingKeys, TokenDomain,
        channel::{ChannelConfig, ChannelDeposit, ChannelPayload, Erc3009Deposit, Voucher},
        v2::{ChannelRequirements, SettleResponse},
    },
    settle::{WalletSettler, WalletSettlerBuilder},
    testing::DevChain,
    verify::EvmVerifier,
};

use crate::{
    counter::{PRICE, counting, number, offered, plain, refused, shows, told, units},
    support::{
        Counter, ask, assert_problem, by_header, intent_of, layered,
        node::{Proxy, stuck_at},
    },
};

const SELLER: Address = Address::new([0x5e; 20]);

fn signed(key: &PrivateKeySigner, digest: [u8; 32]) -> PaymentSignature {
    PaymentSignature::new(key.sign_hash_sync(&B256::new(digest)).unwrap().as_bytes()).unwrap()
}

fn voucher(key: &PrivateKeySigner, config: &ChannelConfig, total: u128) -> Voucher {
    let id = config.id(Network::BASE);
    Voucher::new(id, total, signed(key, id.voucher_digest(total, Network::BASE)))
}

fn pays(
    key: &PrivateKeySigner,
    offer: &ChannelRequirements,
    config: &ChannelConfig,
    total: u128,
) -> http::Request<axum::body::Body> {
    shows(offer, ChannelPayload::Voucher { channel_config: *config, voucher: voucher(key, config, total) })
}

/// Shows a first voucher with a deposit of twenty answers.
async fn opens(
    chain: &DevChain,
    key: &PrivateKeySigner,
    offer: &ChannelRequirements,
    config: &ChannelConfig,
) -> http::Request<axum::body::Body> {
    let end = chain.timestamp().await.unwrap().after(Duration::from_secs(900));
    let mut deposit = Erc3009Deposit::new([9; 32], [ChainTime::from_unix(0), end], signed(key, [0; 32]));
    let domain = TokenDomain::new(chain.usdc(), "USD Coin", "2");
    deposit.signature = signed(key, deposit.digest(config, 20 * PRICE, &domain, Network::BASE));
    let deposit = ChannelDeposit::new(20 * PRICE, deposit);
    shows(offer, ChannelPayload::Deposit { channel_config: *config, voucher: voucher(key, config, PRICE), deposit })
}

fn settler(chain: &DevChain) -> WalletSettlerBuilder {
    let key = chain.accounts()[0].private_key();
    WalletSettler::builder().key(key).final_after(0).max_fee_per_gas(1_000_000_000_000)
}

async fn selling(chain: &DevChain, settler: WalletSettler, folder: &Path) -> Merchant {
    Merchant::builder(SELLER)
        .verifier(EvmVerifier::connect([chain.rpc_url()]).await.unwrap())
        .channel_settler(settler)
        .channel_policy(ChannelPolicy::new().withdraw_delay(Duration::from_secs(900)))
        .ledger(Arc::new(SqliteLedger::open(folder.join("ledger.db")).await.unwrap()))
        .sealing_keys(SealingKeys::new([7; 32]))
        .build()
        .await
        .unwrap()
}

/// One of three nodes names the same old block for ever: no deposit is made for an answer that is then not sold.
#[tokio::test]
async fn a_node_that_is_stuck_at_an_old_block_keeps_no_deposit_from_buying() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).with_channels();
    let chain = builder.start().await.unwrap();
    let key: PrivateKeySigner = chain.accounts()[1].private_key().parse().unwrap();
    let [stuck, third] = [Proxy::before(chain.rpc_url()).await, Proxy::before(chain.rpc_url()).await];
    stuck.set("eth_getBlockByNumber", stuck_at(&chain, chain.block_number().await.unwrap(), 300).await);
    let settler = settler(&chain).endpoints([chain.rpc_url(), stuck.url(), third.url()]).connect().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let merchant = selling(&chain, settler, folder.path()).await;
    let service = layered(&merchant.charge("answer", "0.0001 USDC").unwrap(), counting(&Counter::default(), None));
    let offer = offered(&service).await;
    let config = offer.channel_of(chain.accounts()[1].address(), [1; 32]).unwrap();
    let answer = ask(&service, opens(&chain, &key, &offer, &config).await).await;
    assert_eq!(told(&answer), (PRICE, PRICE));
}

#[tokio::test]
async fn what_is_sold_is_what_the_seller_gets_and_the_rest_goes_back() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).with_channels();
    let chain = builder.start().await.unwrap();
    let key: PrivateKeySigner = chain.accounts()[1].private_key().parse().unwrap();
    let payer = chain.accounts()[1].address();
    let settler = settler(&chain).endpoint(chain.rpc_url()).connect().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let merchant = selling(&chain, settler, folder.path()).await;
    let counter = Counter::default();
    let service = layered(&merchant.charge("answer", "0.0001 USDC").unwrap(), counting(&counter, None));

    let before = number(chain.usdc_balance(payer).await.unwrap());
    let offer = offered(&service).await;
    let config = offer.channel_of(payer, [1; 32]).unwrap();
    let first = opens(&chain, &key, &offer, &config).await;
    assert_eq!(told(&ask(&service, first).await), (PRICE, PRICE));
    for sale in 2..=12 {
        let offer = offered(&service).await;
        assert_eq!(told(&ask(&service, pays(&key, &offer, &config, sale * PRICE)).await), (PRICE, sale * PRICE));
    }
    assert_eq!(counter.runs(), 12);

    let claimed = merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left, claimed.transactions.len()), (1, 0, 2));
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), units(12 * PRICE));
    assert_eq!(merchant.claim_now().await.unwrap().transactions, []);

    // What is swept was sold before: nobody buys anything by it.
    let sweep = claimed.transactions[1];
    tokio::time::sleep(Duration::from_secs(7)).await;
    let quote = ask(&service, plain()).await;
    let intent = intent_of(&quote);
    let answer = ask(&service, by_header("GET", &intent, sweep)).await;
    let _ = assert_problem(answer, 422, "transfer_not_found").await;
    assert_eq!(counter.runs(), 12);

    // One more, and the rest goes back.
    let offer = offered(&service).await;
    assert_eq!(told(&ask(&service, pays(&key, &offer, &config, 13 * PRICE)).await), (PRICE, 13 * PRICE));
    let back = ChannelPayload::Refund {
        channel_config: config,
        voucher: self::voucher(&key, &config, 13 * PRICE),
        amount: None,
    };
    let answer = ask(&service, shows(&offer, back)).await;
    assert_eq!(answer.status(), 200, "{:?}", answer.headers());
    let settled = SettleResponse::from_headers(answer.headers()).unwrap().unwrap();
    assert_eq!((settled.success, settled.amount), (true, Some(units(7 * PRICE))));
    assert_eq!(number(chain.usdc_balance(payer).await.unwrap()), before - 13 * PRICE);
    let offer = offered(&service).await;
    let answer = ask(&service, pays(&key, &offer, &config, 14 * PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
    // The refund claimed the thirteenth; what waits is swept with the next claim.
    let swept = merchant.claim_now().await.unwrap();
    assert_eq!((swept.channels, swept.left), (0, 0));
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), units(13 * PRICE));
}
