//! Payment channels through a facilitator that hangs, lies or refuses: the seller's own nodes decide what became of a deposit or a claim.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tower_x402::{
    ChannelPolicy,
    protocol::{Amount, Network, channel::BATCH_SETTLEMENT},
    settle::{ChannelSettings, FacilitatorSettler},
};

use super::{
    PATIENT, SELLER, Token, World,
    channels::{SIX, official, sold},
    facilitator::Facilitator,
    metered::{allow, wish},
    seller::{merchant, show},
};
use crate::{
    metered_example::router,
    served::shop::{Answer, Shop},
    support::Counter,
};

/// A seller of words by channels alone, which a facilitator keeps that does not wait long.
struct Stage {
    world: World,
    facilitator: Facilitator,
    shop: Shop,
}

impl Stage {
    async fn open() -> Option<Self> {
        Self::open_with(ChannelPolicy::new()).await
    }

    /// Where that asks for deposits by Permit2, the payer allows them.
    async fn open_with(policy: ChannelPolicy) -> Option<Self> {
        let world = World::with(Token::Circles).await?;
        allow(&world, world.chain.usdc(), Amount::MAX).await;
        let facilitator = Facilitator::start(&world).await;
        let channels = ChannelSettings::new(Network::BASE)
            .endpoint(world.chain.rpc_url())
            .receiver_authorizer_key(world.chain.accounts()[3].private_key())
            .final_after(0);
        let limit = Duration::from_secs(4);
        let builder = FacilitatorSettler::builder().url(facilitator.url()).settle_timeout(limit).verify_timeout(limit);
        let settler = builder.channels(channels).build().unwrap();
        // The same header may be shown again once the lease is over.
        let builder = merchant(&world).await.lease(Duration::from_secs(2));
        let merchant = builder.channel_settler(settler).channel_policy(policy).build().await.unwrap();
        let app = router(&merchant, true).unwrap();
        let shop = Shop::serving(merchant, app, Counter::default()).await;
        Some(Self { world, facilitator, shop })
    }

    async fn client(&self, steps: &[&str]) -> Vec<Value> {
        official(&self.world, &self.shop.url("/words"), steps).await
    }

    async fn show(&self, signature: &str) -> Answer {
        show(&self.shop, "/words", &wish("one two three", 10), signature).await
    }

    /// What is said of it in the end.
    async fn answered(&self, signature: &str) -> Answer {
        let answered = async {
            loop {
                let answer = self.show(signature).await;
                if !matches!(answer.status, 409 | 503) || answer.code() == "already_consumed" {
                    return answer;
                }
                sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(PATIENT, answered).await.unwrap()
    }

    async fn deposited(&self) -> u128 {
        self.world.balance(BATCH_SETTLEMENT).await
    }
}

/// A deposit whose outcome the seller does not hear, or hears wrongly, is made once, and buys one answer by the same header.
async fn is_deposited_once(fault: &str) {
    for policy in [ChannelPolicy::new(), ChannelPolicy::new().deposits_by_permit2()] {
        is_deposited_once_by(fault, policy).await;
    }
}

async fn is_deposited_once_by(fault: &str, policy: ChannelPolicy) {
    let Some(stage) = Stage::open_with(policy).await else { return };
    stage.facilitator.fault(fault).await;
    let bought = stage.client(&["buy:one two three:10:1"]).await.remove(0);
    assert_eq!((bought["status"].as_u64(), &bought["words"]), (Some(503), &json!(0)), "{fault}: {bought}");
    let signature = bought["signature"].as_str().unwrap();
    stage.facilitator.fault("").await;
    let answer = stage.answered(signature).await;
    assert_eq!(answer.status, 200, "{fault}: {}", answer.body);
    assert_eq!(stage.deposited().await, 60 * 10_000, "{fault}");
    let again = stage.show(signature).await;
    assert_eq!((again.status, again.code()), (409, "already_consumed"), "{fault}: {}", again.body);
    // A client that never heard of it goes on where the seller is.
    let further = stage.client(&["buy:one two three:10:1"]).await;
    assert_eq!(sold(&further[0], &[402, 200]), 2 * SIX, "{fault}");
    assert_eq!(stage.deposited().await, 60 * 10_000, "{fault}");
}

#[tokio::test]
async fn a_deposit_of_which_nothing_is_heard_is_made_once() {
    is_deposited_once("settles-and-hangs").await;
}

#[tokio::test]
async fn a_deposit_that_is_made_and_said_to_be_refused_is_made_once() {
    is_deposited_once("settles-and-says-refused").await;
}

/// It sends it behind its answer.
#[tokio::test]
async fn a_deposit_that_is_said_to_be_refused_and_made_afterwards_is_made_once() {
    is_deposited_once("says-refused-and-settles").await;
}

#[tokio::test]
async fn a_deposit_that_is_only_said_to_be_made_buys_nothing_until_it_is() {
    is_deposited_once("says-settled").await;
}

#[tokio::test]
async fn what_became_of_a_claim_a_sweep_or_a_refund_the_chain_says() {
    let Some(stage) = Stage::open().await else { return };
    let merchant = &stage.shop.merchant;
    let _ = stage.client(&["buy:one two three:10:2"]).await;

    // Nothing is claimed, whatever is said.
    for fault in ["says-settled", "says-refused", "settle-errs"] {
        stage.facilitator.fault(fault).await;
        let claimed = merchant.claim_now().await.unwrap();
        assert_eq!((claimed.channels, claimed.left), (0, 1), "{fault}: {claimed:?}");
        assert_eq!(
            (stage.world.balance(SELLER).await, merchant.channels().await.unwrap()[0].claimed.is_zero()),
            (0, true)
        );
    }
    // It is claimed and swept, though nothing is heard of it.
    stage.facilitator.fault("settles-and-hangs").await;
    let claimed = merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (1, 0), "{claimed:?}");
    stage.facilitator.fault("").await;
    let _ = merchant.claim_now().await.unwrap();
    assert_eq!(stage.world.balance(SELLER).await, 2 * SIX);
    let calls = stage.facilitator.calls("/settle").await;
    assert_eq!(merchant.claim_now().await.unwrap().transactions, []);
    assert_eq!(stage.facilitator.calls("/settle").await, calls, "nothing is left to ask for");

    // A refund that is made, and said to be refused.
    let (payer, left) = (stage.world.buyer().address(), stage.deposited().await);
    let purse = stage.world.balance(payer).await;
    stage.facilitator.fault("settles-and-says-refused").await;
    let closed = stage.client(&["close"]).await;
    assert!(closed[0]["error"].as_str().unwrap().contains("503"), "{closed:?}");
    assert_eq!((stage.world.balance(payer).await, stage.deposited().await), (purse + left, 0));
}
