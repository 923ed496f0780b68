//! Payment channels in a token without EIP-3009: the official client and ours deposit by Permit2, and the seller's key or an official
//! facilitator makes the deposit.

use std::time::Duration;

use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    client::{Body, Budget, MemoryJournal, PayLayer, PaymentMethod, Purchase, ReqwestClient, WalletPayer, reqwest},
    protocol::{Address, Amount, Asset, Network, channel::BATCH_SETTLEMENT},
    settle::{ChannelSettings, FacilitatorSettler},
    testing::contracts::{self, Word},
};

use super::{
    SELLER, Token, World,
    channels::{SIX, official, sold},
    facilitator::Facilitator,
    metered::{allow, wish},
    seller::{By, merchant, wallet},
};
use crate::{metered_example::router, served::shop::Shop, support::Counter};

/// What the payer has of the token.
const PURSE: u128 = 5_000_000;
/// What the official client deposits: sixty times ten words.
const DEPOSIT: u128 = 600_000;

fn units(units: u128) -> Amount {
    Amount::from_base_units(units)
}

/// A seller of words by channels alone, in a token without EIP-3009.
struct Stage {
    world: World,
    coin: Asset,
    shop: Shop,
    _facilitator: Option<Facilitator>,
}

impl Stage {
    async fn open(by: By) -> Option<Self> {
        // With Multicall3, which the official facilitator reads by.
        let world = World::with(if by == By::Wallet { Token::Ours } else { Token::Circles }).await?;
        let coin = world.chain.deploy(contracts::COIN.creation, &[Word::from(6u128)]).await.unwrap();
        let mint = contracts::mint(world.buyer().address(), units(PURSE));
        let sent = world.chain.send(world.settler().address(), coin, &mint).await.unwrap();
        world.chain.wait_until_mined(sent).await.unwrap();
        let coin = Asset::new(Network::BASE, coin, 6, "COIN");
        let builder = merchant(&world).await.asset(coin.clone());
        let (builder, facilitator) = match by {
            By::Wallet => (builder.channel_settler(wallet(&world).await), None),
            By::Facilitator => {
                let facilitator = Facilitator::start(&world).await;
                let channels = ChannelSettings::new(Network::BASE)
                    .endpoint(world.chain.rpc_url())
                    .receiver_authorizer_key(world.chain.accounts()[3].private_key())
                    .final_after(0);
                let settler = FacilitatorSettler::builder().url(facilitator.url()).channels(channels).build().unwrap();
                (builder.channel_settler(settler), Some(facilitator))
            }
        };
        let merchant = builder.build().await.unwrap();
        let shop = Shop::serving(merchant.clone(), router(&merchant, true).unwrap(), Counter::default()).await;
        Some(Self { world, coin, shop, _facilitator: facilitator })
    }

    async fn owns(&self, account: Address) -> u128 {
        let word = self.world.chain.call(self.coin.contract(), &contracts::balance_of(account)).await.unwrap();
        Amount::from_be_bytes(word.try_into().unwrap()).to_string().parse().unwrap()
    }

    /// `claim_now`, while blocks come quickly.
    async fn claim(&self) {
        let blocks = async {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                self.world.chain.mine(1).await.unwrap();
            }
        };
        tokio::select! {
            claimed = self.shop.merchant.claim_now() => drop(claimed.unwrap()),
            () = blocks => {}
        }
    }
}

/// The official client: refused without an allowance, then it buys, forgets, is corrected, and has the rest back.
async fn the_official_client_buys(by: By) {
    let Some(stage) = Stage::open(by).await else { return };
    let (token, payer, url) = (stage.coin.contract(), stage.world.buyer().address(), stage.shop.url("/words"));
    let refused = official(&stage.world, &url, &["buy:one two three:10:1"]).await.remove(0);
    assert_eq!((refused["status"].as_u64(), stage.owns(payer).await), (Some(402), PURSE), "{by:?}: {refused}");
    allow(&stage.world, token, units(2 * DEPOSIT)).await;
    let bought = official(&stage.world, &url, &["buy:one two three:10:3", "forget", "buy:one two three:10:2"]).await;
    for (sale, bought) in bought.iter().enumerate() {
        let statuses: &[u64] = if sale == 3 { &[402, 200] } else { &[200] };
        assert_eq!(sold(bought, statuses), SIX * (sale as u128 + 1), "{by:?}");
    }
    assert_eq!((stage.owns(payer).await, stage.owns(BATCH_SETTLEMENT).await), (PURSE - DEPOSIT, DEPOSIT), "{by:?}");
    stage.claim().await;
    assert_eq!(stage.owns(SELLER).await, 5 * SIX, "{by:?}");
    let last = official(&stage.world, &url, &["buy:one two three:10:1", "close"]).await;
    assert_eq!(sold(&last[0], &[200]), 6 * SIX, "{by:?}");
    assert_eq!(stage.owns(payer).await, PURSE - 6 * SIX, "{by:?}: {last:?}");
    stage.claim().await;
    assert_eq!((stage.owns(SELLER).await, stage.owns(BATCH_SETTLEMENT).await), (6 * SIX, 0), "{by:?}");
}

#[tokio::test]
async fn the_official_client_buys_by_a_channel_in_a_token_without_authorizations() {
    the_official_client_buys(By::Wallet).await;
}

#[tokio::test]
async fn the_official_facilitator_keeps_channels_in_a_token_without_authorizations() {
    the_official_client_buys(By::Facilitator).await;
}

/// Our client, by the official facilitator: opened, used, topped up, closed.
#[tokio::test]
async fn our_client_buys_in_a_token_without_authorizations_by_the_official_facilitator() {
    let Some(stage) = Stage::open(By::Facilitator).await else { return };
    let (payer, url) = (stage.world.buyer().address(), stage.shop.url("/words"));
    let builder = WalletPayer::builder().key(stage.world.buyer().private_key()).endpoint(stage.world.chain.rpc_url());
    let wallet = builder.connect().await.unwrap().final_after(0);
    wallet.allow_permit2(&stage.coin, units(PURSE)).await.unwrap();
    let budget = Budget::in_assets([stage.coin.clone()]).per_payment("1").per_day("9").build().unwrap();
    let layer = PayLayer::builder(wallet, budget, MemoryJournal::new()).prefer(PaymentMethod::Channel).deposit_for(3);
    let layer = layer.poll_every(Duration::from_millis(200)).patience(Duration::from_secs(120)).build().await.unwrap();
    let client = layer.layer(ReqwestClient::new(reqwest::Client::builder().no_proxy()).unwrap());
    let mut deposits = 0;
    for sale in 1..=6 {
        let body = Body::from(wish("one two three", 10).to_string());
        let request = http::Request::post(&url).header("content-type", "application/json").body(body).unwrap();
        let answer = client.clone().oneshot(request).await.unwrap();
        let bought = answer.extensions().get::<Purchase>().cloned().unwrap();
        assert_eq!((answer.status().as_u16(), bought.charged), (200, Some(units(SIX))), "{sale}");
        deposits += u128::from(bought.transaction.is_some());
        drop(http_body_util::BodyExt::collect(answer.into_body()).await.unwrap());
    }
    // Thirty thousand at a time; the fifth answer may cost more than what is left.
    assert_eq!((deposits, layer.channels().len()), (2, 1));
    assert_eq!((stage.owns(payer).await, layer.spent()), (PURSE - 60_000, units(60_000)));
    let held = layer.channels().remove(0);
    let closed = client.close_channel::<Body, _>(held.id).await.unwrap().unwrap();
    assert_eq!((closed.refunded, layer.spent()), (units(60_000 - 6 * SIX), units(6 * SIX)));
    stage.claim().await;
    assert_eq!((stage.owns(SELLER).await, stage.owns(payer).await), (6 * SIX, PURSE - 6 * SIX));
}
