//! What is sold and not claimed, and what of it can be lost, as a turn leaves it: in gauges.

use std::time::Duration;

use tower_x402::{
    ChannelPolicy,
    protocol::{Asset, ChainTime, v2::Reason},
    settle::ChannelOnChain,
    testing::ChannelStep,
};

use crate::{
    counter::{PRICE, Stall, id, offered, serving, told, units},
    support::{
        NOW, ask,
        metrics::{Metrics, counted},
    },
};

/// Channels that owe something, base units that are not claimed, and those at risk.
fn gauges(metrics: &Metrics) -> [f64; 3] {
    let token = Asset::USDC_BASE.contract().to_string();
    let labels = [("network", "eip155:8453"), ("token", token.as_str())];
    ["unclaimed", "unclaimed_base_units", "at_risk_base_units"]
        .map(|name| metrics.of(&format!("x402_channels_{name}"), &labels))
}

#[test]
fn what_is_owed_and_what_is_at_risk_is_told_by_each_turn() {
    counted(async |metrics| {
        let stall = Stall::open_with(ChannelPolicy::new().claim_after(Duration::from_secs(600))).await;
        let (service, _, offer, config) = serving(&stall).await;
        let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
        let price = PRICE as f64;
        // A worker's turn: nothing is due.
        let worker = tokio::spawn(stall.shop.merchant.claimer().run());
        while gauges(&metrics) != [1.0, price, 0.0] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        worker.abort();
        let refused = ChannelStep::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_CLAIM_SIMULATION_FAILED);
        for step in [refused, ChannelStep::Unknown] {
            stall.channels.script([step]);
            let _ = stall.shop.merchant.claim_now().await.unwrap();
            assert_eq!(gauges(&metrics), [1.0, price, price], "its claim failed");
        }
        let claimed = stall.shop.merchant.claim_now().await.unwrap();
        assert_eq!((claimed.channels, gauges(&metrics)), (1, [0.0; 3]));
    });
}

#[test]
fn a_withdrawal_that_cannot_be_claimed_is_at_risk_and_a_loss_is_no_longer() {
    counted(async |metrics| {
        let stall = Stall::open().await;
        let (service, _, offer, config) = serving(&stall).await;
        let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
        let state = ChannelOnChain::new(units(1_000), units(0));
        stall.channels.set_state(id(&config), state.with_withdrawal(units(1_000), ChainTime::from_unix(NOW)));
        stall.shop.clock.advance(Duration::from_secs(30));
        stall.channels.script([ChannelStep::Unknown]);
        let _ = stall.shop.merchant.claim_now().await.unwrap();
        assert_eq!(gauges(&metrics), [1.0, PRICE as f64, PRICE as f64]);
        // The payer has it.
        stall.channels.set_state(id(&config), ChannelOnChain::new(units(0), units(0)).at_block(20));
        stall.shop.clock.advance(Duration::from_secs(30));
        let _ = stall.shop.merchant.claim_now().await.unwrap();
        assert_eq!(gauges(&metrics), [0.0; 3]);
    });
}

/// It is left to the next turn: what this one was about to claim is told all the same.
#[test]
fn a_claim_that_hangs_is_at_risk() {
    counted(async |metrics| {
        let stall = Stall::open().await;
        let (service, _, offer, config) = serving(&stall).await;
        let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
        stall.channels.script([ChannelStep::Hanging]);
        tokio::time::pause();
        assert_eq!(stall.shop.merchant.claim_now().await.unwrap().left, 1);
        assert_eq!(gauges(&metrics), [1.0, PRICE as f64, PRICE as f64]);
    });
}

/// Too few nodes answer for the ledger to take the claim over. The chain shows it, and it was counted.
#[test]
fn a_claim_is_counted_once_however_often_it_is_repeated() {
    counted(async |metrics| {
        let token = Asset::USDC_BASE.contract().to_string();
        let counted =
            || metrics.of("x402_channels_claimed_base_units_total", &[("network", "eip155:8453"), ("token", &token)]);
        let stall = Stall::open().await;
        let (service, _, offer, config) = serving(&stall).await;
        let state = ChannelOnChain::new(units(1_000), units(0));
        stall.channels.set_state(id(&config), state.at_block(10));
        let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
        stall.channels.set_state(id(&config), state);
        for _ in 0..3 {
            stall.shop.clock.advance(Duration::from_secs(30));
            let _ = stall.shop.merchant.claim_now().await.unwrap();
            assert_eq!(counted(), PRICE as f64);
        }
        assert_eq!(stall.channels.claims().len(), 3, "the ledger does not know it");
        // More is sold, and claimed: that is counted as well.
        let offer = offered(&service).await;
        let _ = told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await);
        let _ = stall.shop.merchant.claim_now().await.unwrap();
        assert_eq!(counted(), 2.0 * PRICE as f64);
    });
}
