//! What was sold is claimed: when it is due, once, and by one process.

use std::time::Duration;

use tower_x402::{
    ChannelPolicy, HealthError,
    protocol::{ChainTime, v2::Reason},
    settle::ChannelOnChain,
    testing::ChannelStep,
};

use crate::{
    counter::{PRICE, Stall, id, offered, refused, serving, told, units},
    support::{NOW, ask},
};

async fn sold(stall: &Stall) -> tower_x402::protocol::channel::ChannelConfig {
    let (service, _, offer, config) = serving(stall).await;
    for sale in 1..=3 {
        let offer = if sale == 1 { offer.clone() } else { offered(&service).await };
        let _ = told(&ask(&service, stall.pays(&offer, &config, sale * PRICE)).await);
    }
    config
}

#[tokio::test]
async fn everything_is_claimed_once_by_the_last_voucher() {
    let stall = Stall::open().await;
    let config = sold(&stall).await;
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left, claimed.elsewhere), (1, 0, false));
    let claims = stall.channels.claims();
    assert_eq!((claims.len(), claims[0].len(), claims[0][0].total_claimed), (1, 1, 3 * PRICE));
    assert_eq!(claims[0][0].voucher, stall.voucher(&config, 3 * PRICE));
    assert_eq!(stall.channels.state(id(&config)).total_claimed, units(3 * PRICE));
    let again = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((again.channels, stall.channels.claims().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn the_worker_claims_what_is_due_and_withdrawals_at_once() {
    let stall = Stall::open_with(ChannelPolicy::new().claim_after(Duration::from_secs(600))).await;
    let config = sold(&stall).await;
    let worker = tokio::spawn(stall.shop.merchant.claimer().run());
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(stall.channels.claims().is_empty(), "nothing is due");
    let state = ChannelOnChain::new(units(1_000), units(0));
    stall.channels.set_state(id(&config), state.with_withdrawal(units(1_000), ChainTime::from_unix(NOW)));
    // What was read half a minute ago counts no more.
    stall.shop.clock.advance(Duration::from_secs(30));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(stall.channels.claims().len(), 1);
    worker.abort();
}

#[tokio::test]
async fn a_row_that_fails_keeps_no_other_back_and_unknown_claims_are_repeated() {
    let stall = Stall::open().await;
    let _ = sold(&stall).await;
    stall.channels.script([ChannelStep::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_CLAIM_SIMULATION_FAILED)]);
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (0, 1));
    for step in [ChannelStep::Unknown, ChannelStep::DoneUnheard] {
        stall.channels.script([step]);
        let claimed = stall.shop.merchant.claim_now().await.unwrap();
        assert_eq!((claimed.channels, claimed.left), (0, 1));
    }
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!(claimed.left, 0);
}

#[tokio::test]
async fn a_channel_that_is_withdrawn_from_and_not_claimed_is_no_health() {
    let stall = Stall::open().await;
    let config = sold(&stall).await;
    stall.shop.merchant.health().await.unwrap();
    let state = ChannelOnChain::new(units(1_000), units(0));
    let delay = u64::from(config.withdraw_delay);
    let requested = ChainTime::from_unix(NOW - delay / 2 - 1);
    stall.channels.set_state(id(&config), state.with_withdrawal(units(1_000), requested));
    stall.shop.clock.advance(Duration::from_secs(30));
    // The claim that learns of it is not known to have worked.
    stall.channels.script([ChannelStep::Unknown]);
    let _ = stall.shop.merchant.claim_now().await.unwrap();
    let at_risk = stall.shop.merchant.health().await.unwrap_err();
    assert!(matches!(at_risk, HealthError::ChannelAtRisk { channel } if channel == id(&config)), "{at_risk}");
    let _ = stall.shop.merchant.claim_now().await.unwrap();
    stall.shop.merchant.health().await.unwrap();
}

/// What was lost is told once, and the rest is claimed.
#[tokio::test]
async fn what_is_lost_for_good_is_noted_and_health_recovers() {
    let stall = Stall::open().await;
    let config = sold(&stall).await;
    // A withdrawal, or a reorganisation, has left half of one answer.
    stall.channels.set_state(id(&config), ChannelOnChain::new(units(PRICE / 2), units(0)).at_block(20));
    stall.shop.clock.advance(Duration::from_secs(u64::from(config.withdraw_delay)));
    let at_risk = stall.shop.merchant.health().await.unwrap_err();
    assert!(matches!(at_risk, HealthError::ChannelAtRisk { .. }), "{at_risk}");
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (1, 0));
    assert_eq!(stall.channels.claims()[0][0].total_claimed, PRICE / 2);
    stall.shop.merchant.health().await.unwrap();
    // There is nothing more to be claimed, however often that is tried.
    stall.shop.clock.advance(Duration::from_secs(u64::from(config.withdraw_delay)));
    let again = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((again.channels, again.left, stall.channels.claims().len()), (0, 0, 1));
    stall.shop.merchant.health().await.unwrap();
    // Deposited again, it is owed, and claimed.
    stall.channels.set_state(id(&config), ChannelOnChain::new(units(1_000), units(PRICE / 2)).at_block(30));
    stall.shop.clock.advance(Duration::from_secs(30));
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (1, 0));
    assert_eq!(stall.channels.claims()[1][0].total_claimed, 3 * PRICE);
}

#[tokio::test]
async fn where_no_worker_takes_its_turn_what_is_owed_for_long_is_no_health() {
    let stall = Stall::open().await;
    let _ = stall.shop.merchant.claim_now().await.unwrap();
    let config = sold(&stall).await;
    stall.shop.merchant.health().await.unwrap();
    stall.shop.clock.advance(Duration::from_secs(u64::from(config.withdraw_delay) / 2 + 1));
    let silent = stall.shop.merchant.health().await.unwrap_err();
    assert!(matches!(silent, HealthError::ChannelAtRisk { channel } if channel == id(&config)), "{silent}");
    let _ = stall.shop.merchant.claim_now().await.unwrap();
    stall.shop.merchant.health().await.unwrap();
}

/// The chain drops a claim, and later the deposit.
#[tokio::test]
async fn what_a_reorganisation_removes_is_owed_again_and_sells_no_more() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let state = |balance, claimed, block| ChannelOnChain::new(units(balance), units(claimed)).at_block(block);
    stall.channels.set_state(id(&config), state(1_000, 0, 10));
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    stall.channels.set_state(id(&config), state(1_000, 0, 11));
    let _ = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!(stall.channels.claims().len(), 1);
    // A node that is behind takes nothing back; a later block does.
    for (block, claims) in [(9, 1), (12, 2)] {
        stall.channels.set_state(id(&config), state(1_000, 0, block));
        stall.shop.clock.advance(Duration::from_secs(301));
        stall.shop.chain.set_head(ChainTime::from_unix(NOW + 301));
        let wrong = offered(&service).await;
        assert_eq!(ask(&service, stall.pays(&wrong, &config, 9 * PRICE)).await.status(), 402);
        let _ = stall.shop.merchant.claim_now().await.unwrap();
        assert_eq!(stall.channels.claims().len(), claims, "{block}");
    }
    let offer = offered(&service).await;
    let _ = told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await);
    // The worker, in this process or another, finds that the deposit is gone.
    stall.channels.set_state(id(&config), state(0, 0, 13));
    stall.shop.clock.advance(Duration::from_secs(30));
    let _ = stall.shop.merchant.claim_now().await.unwrap();
    let offer = offered(&service).await;
    let answer = ask(&service, stall.pays(&offer, &config, 3 * PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
    assert_eq!(counter.runs(), 2);
}
