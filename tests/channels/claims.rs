//! What was sold is claimed: when it is due, once, and by one process.

use std::time::Duration;

use tower_x402::{
    ChannelPolicy, HealthError, X402,
    protocol::{Address, ChainTime, channel::ChannelConfig, v2::Reason},
    settle::ChannelOnChain,
    testing::ChannelStep,
};

use crate::{
    counter::{PRICE, Stall, counting, id, offered, refused, serving, told, units},
    support::{
        Counter, Handler, NOW, ask,
        faults::{Fault, Op},
        hanging, layered,
    },
};

async fn sold(stall: &Stall) -> ChannelConfig {
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

#[tokio::test(start_paused = true)]
async fn what_is_worth_its_gas_is_claimed_before_it_is_old() {
    let policy = ChannelPolicy::new().claim_after(Duration::from_secs(3_600)).claim_at_gas_share(2);
    let stall = Stall::open_with(policy).await;
    let _ = sold(&stall).await;
    let worker = tokio::spawn(stall.shop.merchant.claimer().run());
    let claims_soon = async || {
        tokio::time::sleep(Duration::from_secs(30)).await;
        stall.channels.claims().len()
    };
    assert_eq!(claims_soon().await, 0, "what its gas costs is not known");
    // Three answers are owed.
    let two_percent = 3 * PRICE * 2 / 100;
    stall.channels.answer_claim_cost(units(two_percent + 1));
    assert_eq!(claims_soon().await, 0, "its gas costs too much");
    stall.channels.answer_claim_cost(units(two_percent));
    assert_eq!(claims_soon().await, 1);
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

/// A request may hold its payment for an hour, and a payer withdraws within less.
#[tokio::test(start_paused = true)]
async fn the_turn_of_a_process_that_died_is_over_within_minutes() {
    let stall = Stall::open().await;
    let _ = sold(&stall).await;
    let settler = stall.channels.clone();
    let longest = Duration::from_secs(3_600);
    let died = stall.shop.sibling(|builder| builder.lease(longest).channel_settler(settler)).await;
    stall.channels.script([ChannelStep::Hanging]);
    stall.shop.faults.always(Op::ReleaseDraw, Fault::Fail);
    assert!(tokio::time::timeout(Duration::from_secs(10), died.claim_now()).await.is_err(), "it claims");
    tokio::time::sleep(Duration::from_secs(10)).await;
    stall.shop.faults.heal();
    assert!(stall.shop.merchant.claim_now().await.unwrap().elsewhere);
    stall.shop.clock.advance(Duration::from_secs(120));
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left, claimed.elsewhere), (1, 0, false));
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
    // What it holds is known once no node has all of it.
    let totals = || stall.channels.claims().iter().map(|rows| rows[0].total_claimed).collect::<Vec<_>>();
    assert_eq!(totals(), [3 * PRICE, PRICE / 2]);
    stall.shop.merchant.health().await.unwrap();
    // There is nothing more to be claimed, however often that is tried.
    stall.shop.clock.advance(Duration::from_secs(u64::from(config.withdraw_delay)));
    let again = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((again.channels, again.left, totals().len()), (0, 0, 2));
    stall.shop.merchant.health().await.unwrap();
    // Deposited again, it is owed, and claimed.
    stall.channels.set_state(id(&config), ChannelOnChain::new(units(1_000), units(PRICE / 2)).at_block(30));
    stall.shop.clock.advance(Duration::from_secs(30));
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (1, 0));
    assert_eq!(totals(), [3 * PRICE, PRICE / 2, 3 * PRICE]);
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

/// What was withdrawn is gone, by a block behind the one that had it: no time has to pass.
#[tokio::test]
async fn a_loss_is_told_by_a_later_block_and_never_by_a_node_that_is_behind() {
    let state = |balance, block| ChannelOnChain::new(units(balance), units(0)).at_block(block);
    let cases = [(PRICE / 2, 20, 30, true), (PRICE / 2, 9, 600, false), (0, 20, 30, true), (0, 9, 600, false)];
    for (balance, block, waits, is_lost) in cases {
        let stall = Stall::open().await;
        let (service, _, offer, config) = serving(&stall).await;
        stall.channels.set_state(id(&config), state(1_000, 10));
        let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
        stall.channels.set_state(id(&config), state(balance, block));
        for _ in 0..2 {
            stall.shop.clock.advance(Duration::from_secs(waits));
            let _ = stall.shop.merchant.claim_now().await.unwrap();
        }
        stall.shop.clock.advance(Duration::from_secs(u64::from(config.withdraw_delay)));
        assert_eq!(stall.shop.merchant.health().await.is_ok(), is_lost, "{balance} {block}");
        // Also by the report of a turn.
        let _ = stall.shop.merchant.claim_now().await.unwrap();
        assert_eq!(stall.shop.merchant.health().await.is_ok(), is_lost, "{balance} {block}");
    }
}

/// What is in the channel again, and what is not, counts behind a loss also while its payer withdraws.
#[tokio::test]
async fn a_withdrawal_behind_a_loss_hides_no_debt_and_none_that_cannot_be_claimed_is_told_for_ever() {
    let stall = Stall::open().await;
    let (service, _, offer, config) = serving(&stall).await;
    let state = |balance, block| ChannelOnChain::new(units(balance), units(0)).at_block(block);
    stall.channels.set_state(id(&config), state(1_000, 10));
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    stall.channels.set_state(id(&config), state(0, 20));
    for _ in 0..2 {
        stall.shop.clock.advance(Duration::from_secs(30));
        assert_eq!(stall.shop.merchant.claim_now().await.unwrap().channels, 0);
    }
    // One unit comes back, and can be claimed.
    let withdrawing = |claimed, block| {
        let state = ChannelOnChain::new(units(1), units(claimed)).at_block(block);
        state.with_withdrawal(units(1), ChainTime::from_unix(NOW))
    };
    stall.channels.set_state(id(&config), withdrawing(0, 30));
    stall.shop.clock.advance(Duration::from_secs(30));
    assert_eq!(stall.shop.merchant.claim_now().await.unwrap().channels, 1);
    assert_eq!(stall.channels.state(id(&config)).total_claimed, units(1));
    stall.channels.set_state(id(&config), withdrawing(1, 40));
    for _ in 0..2 {
        stall.shop.clock.advance(Duration::from_secs(30));
        assert_eq!(stall.shop.merchant.claim_now().await.unwrap().left, 0);
    }
    stall.shop.clock.advance(Duration::from_secs(u64::from(config.withdraw_delay)));
    let _ = stall.shop.merchant.claim_now().await.unwrap();
    stall.shop.merchant.health().await.unwrap();
}

/// A contract account can make its claim fail, or take long, whenever it wants.
#[tokio::test(start_paused = true)]
async fn a_claim_that_hangs_takes_the_time_of_no_other_again() {
    let stall = Stall::open_with(ChannelPolicy::new().accept_contract_payers()).await;
    let (service, ..) = serving(&stall).await;
    let mut channels = Vec::new();
    for salt in [1, 2] {
        let offer = offered(&service).await;
        let config = offer.channel_of(stall.payer(), [salt; 32]).unwrap().with_payer_authorizer(Address::ZERO);
        stall.channels.set_state(id(&config), ChannelOnChain::new(units(1_000), units(0)));
        assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (PRICE, PRICE));
        channels.push(id(&config));
    }
    // The first one withdraws, to be before the other.
    let withdrawn =
        ChannelOnChain::new(units(1_000), units(0)).with_withdrawal(units(1_000), ChainTime::from_unix(NOW));
    stall.channels.set_state(channels[0], withdrawn);
    stall.shop.clock.advance(Duration::from_secs(30));
    stall.channels.script([ChannelStep::Hanging]);
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (1, 1), "the other is claimed meanwhile");
    // Tried again it is still the first, since its money can be lost; but not for the whole turn.
    stall.channels.script([ChannelStep::Hanging]);
    let start = tokio::time::Instant::now();
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (0, 1));
    assert!(start.elapsed() < Duration::from_secs(90), "{:?}", start.elapsed());
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (1, 0));
    let order: Vec<_> = stall.channels.claims().iter().map(|rows| rows[0].voucher.channel).collect();
    assert_eq!(order, [channels[0], channels[1], channels[0], channels[0]]);
}

/// The payer of one withdraws, and its claim failed once: the money of no other can be lost so soon.
#[tokio::test]
async fn a_withdrawal_whose_claim_failed_comes_before_what_is_merely_due() {
    let stall = Stall::open().await;
    let (service, _, offer, config) = serving(&stall).await;
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    let state = ChannelOnChain::new(units(1_000), units(0));
    stall.channels.set_state(id(&config), state.with_withdrawal(units(1_000), ChainTime::from_unix(NOW)));
    stall.shop.clock.advance(Duration::from_secs(30));
    stall.channels.script([ChannelStep::Unknown]);
    assert_eq!(stall.shop.merchant.claim_now().await.unwrap().left, 1);
    let offer = offered(&service).await;
    let other = offer.channel_of(stall.payer(), [1; 32]).unwrap();
    stall.channels.set_state(id(&other), state);
    let _ = told(&ask(&service, stall.pays(&offer, &other, PRICE)).await);
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (2, 0));
    let order: Vec<_> = stall.channels.claims().iter().map(|rows| rows[0].voucher.channel).collect();
    assert_eq!(order, [id(&config), id(&config), id(&other)]);
}

/// A claim shows a voucher to everyone, and a metered one is signed over more than was charged.
#[tokio::test]
async fn what_a_claim_shows_buys_nothing_for_who_reads_it() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let metered = layered(&stall.metered(), counting(&Counter::default(), Some(30)));
    let other = layered(&stall.shop.merchant.charge("other", "0.00007 USDC").unwrap(), counting(&counter, None));
    let offer = offered(&metered).await;
    let config = stall.channel(&offer, 1_000);
    assert_eq!(told(&ask(&metered, stall.pays(&offer, &config, PRICE)).await), (30, 30));
    let _ = stall.shop.merchant.claim_now().await.unwrap();
    let public = stall.channels.claims()[0][0].voucher.clone();
    assert_eq!(public, stall.voucher(&config, PRICE));
    // Exactly what was signed and not charged, in each way a voucher can be shown.
    for request in [stall.pays(&offered(&other).await, &config, PRICE), {
        let offer = offered(&other).await;
        stall.deposits(&offer, &config, PRICE, 500)
    }] {
        let answer = ask(&other, request).await;
        assert_eq!(refused(&answer), "invalid_batch_settlement_evm_voucher_signature");
        assert!(!format!("{:?}", answer.headers()).contains("voucherState"));
    }
    assert_eq!((counter.runs(), stall.channels.deposits()), (0, 0));
    // Its payer goes on: by the next answer of that route, and by any total that no claim has shown.
    let offer = offered(&metered).await;
    assert_eq!(told(&ask(&metered, stall.pays(&offer, &config, 30 + PRICE)).await), (30, 60));
    let offer = offered(&other).await;
    assert_eq!(told(&ask(&other, stall.pays(&offer, &config, 60 + 70)).await), (70, 130), "not claimed yet");
}

/// One of a few nodes says that far more is claimed: which vouchers a claim has shown is not forgotten for that.
#[tokio::test]
async fn what_few_nodes_say_makes_no_voucher_secret_again() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let selling = |charge| layered(&stall.metered(), counting(&Counter::default(), Some(charge)));
    let cheap = layered(&stall.shop.merchant.charge("cheap", "0.000005 USDC").unwrap(), counting(&counter, None));
    let metered = selling(90);
    let offer = offered(&metered).await;
    let config = stall.channel(&offer, 1_000);
    assert_eq!(told(&ask(&metered, stall.pays(&offer, &config, PRICE)).await), (90, 90));
    let _ = stall.shop.merchant.claim_now().await.unwrap();
    let sound = stall.channels.state(id(&config));
    let mut lie = sound.of_few_nodes();
    lie.claimed_at_most = units(1_000);
    let read = |state| {
        stall.channels.set_state(id(&config), state);
        stall.shop.clock.advance(Duration::from_secs(301));
    };
    read(lie);
    let metered = selling(5);
    let offer = offered(&metered).await;
    assert_eq!(told(&ask(&metered, stall.pays(&offer, &config, 90 + PRICE)).await), (5, 95));
    // The voucher over 100 stands in the claim, and 5 more are what the other route costs.
    read(sound);
    let answer = ask(&cheap, stall.pays(&offered(&cheap).await, &config, PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_voucher_signature");
    assert_eq!(counter.runs(), 0);
}

/// The process dies while it notes what a claim shows: what it held is free soon.
#[tokio::test(start_paused = true)]
async fn a_crash_while_a_note_is_written_blocks_a_channel_for_a_moment_only() {
    let stall = Stall::open().await;
    let (service, _, offer, config) = serving(&stall).await;
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    stall.shop.faults.always(Op::Charge, Fault::Fail);
    stall.shop.faults.always(Op::ReleaseDraw, Fault::Fail);
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (0, 1));
    tokio::time::sleep(Duration::from_secs(30)).await;
    stall.shop.faults.heal();
    stall.shop.clock.advance(Duration::from_secs(30));
    let offer = offered(&service).await;
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await), (PRICE, 2 * PRICE));
}

/// Lets the worker take turns for a minute, and counts the claims since.
async fn claims_in_a_minute(stall: &Stall) -> usize {
    let before = stall.channels.claims().len();
    let worker = tokio::spawn(stall.shop.merchant.claimer().run());
    tokio::time::sleep(Duration::from_secs(60)).await;
    worker.abort();
    stall.channels.claims().len() - before
}

/// A node that does not follow the chain keeps the ledger from taking a claim over: it would cost its gas again in each turn.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_sent_is_sent_again_after_its_time_and_not_in_each_turn() {
    for step in [ChannelStep::Done, ChannelStep::DoneUnsure] {
        let is_known = step == ChannelStep::Done;
        let stall = Stall::open_with(ChannelPolicy::new().claim_after(Duration::from_secs(600))).await;
        let (service, _, offer, config) = serving(&stall).await;
        let state = ChannelOnChain::new(units(1_000), units(0));
        stall.channels.set_state(id(&config), state.at_block(10));
        let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
        stall.channels.set_state(id(&config), state);
        stall.channels.always(step);
        for (waits, claims) in [(601, 1), (30, 0), (30, 0)] {
            stall.shop.clock.advance(Duration::from_secs(waits));
            assert_eq!(claims_in_a_minute(&stall).await, claims);
        }
        // Long after, it is well where the settler said that it is claimed.
        stall.shop.clock.advance(Duration::from_secs(u64::from(config.withdraw_delay) / 2));
        let first = claims_in_a_minute(&stall).await;
        assert_eq!((first > 0, stall.shop.merchant.health().await.is_ok()), (true, is_known));
        // Its payer withdraws: then nothing waits.
        let withdrawing = state.with_withdrawal(units(1_000), ChainTime::from_unix(NOW)).at_block(11);
        stall.channels.set_state(id(&config), withdrawing);
        stall.shop.clock.advance(Duration::from_secs(30));
        assert!(claims_in_a_minute(&stall).await > 0);
    }
}

/// One answer is sold in another channel of the same payer; its service, and that channel.
async fn sold_in_another(stall: &Stall) -> (X402<impl Handler + use<>>, ChannelConfig) {
    let service = layered(&stall.fixed(), counting(&Counter::default(), None));
    let offer = offered(&service).await;
    let other = offer.channel_of(stall.payer(), [1; 32]).unwrap();
    stall.channels.set_state(id(&other), ChannelOnChain::new(units(1_000), units(0)));
    let _ = told(&ask(&service, stall.pays(&offer, &other, PRICE)).await);
    (service, other)
}

/// What is in use at each look is no part of a sum that makes everything due in each turn.
#[tokio::test(start_paused = true)]
async fn a_channel_in_use_makes_no_others_due() {
    let stall = Stall::open_with(ChannelPolicy::new().claim_from(units(3 * PRICE))).await;
    let config = sold(&stall).await;
    let hung = layered(&stall.fixed(), hanging(Counter::default()));
    let offer = offered(&hung).await;
    let request = stall.pays(&offer, &config, 4 * PRICE);
    let under_way = tokio::spawn(async move { ask(&hung, request).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(claims_in_a_minute(&stall).await, 0);
    let _ = sold_in_another(&stall).await;
    assert_eq!(claims_in_a_minute(&stall).await, 0);
    under_way.abort();
}

/// What cannot be claimed is no part of a sum that makes everything due in each turn.
#[tokio::test(start_paused = true)]
async fn what_was_tried_makes_no_sum_and_is_not_worth_its_gas_again() {
    let policy = ChannelPolicy::new().claim_after(Duration::from_secs(3_600));
    let refused = ChannelStep::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_CLAIM_SIMULATION_FAILED);
    for policy in [policy.claim_from(units(3 * PRICE)), policy.claim_at_gas_share(100)] {
        let stall = Stall::open_with(policy).await;
        stall.channels.answer_claim_cost(units(2 * PRICE + 1));
        let config = sold(&stall).await;
        stall.channels.script([refused.clone()]);
        assert_eq!(claims_in_a_minute(&stall).await, 1);
        // Another channel owes less than that sum.
        let (service, other) = sold_in_another(&stall).await;
        assert_eq!(claims_in_a_minute(&stall).await, 0);
        // As much is sold as was tried: everything is due.
        for sale in 4..=6 {
            let offer = offered(&service).await;
            let _ = told(&ask(&service, stall.pays(&offer, &config, sale * PRICE)).await);
        }
        assert!(claims_in_a_minute(&stall).await > 0);
        assert_eq!(
            [&config, &other].map(|of| stall.channels.state(id(of)).total_claimed),
            [6, 1].map(|n| units(n * PRICE))
        );
    }
}

/// So many channels of one payer could be in use that no claim is made before a short delay ends.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_channel_in_use_whose_payer_withdraws() {
    let stall = Stall::open().await;
    let (service, _, offer, config) = serving(&stall).await;
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    let state = ChannelOnChain::new(units(1_000), units(0));
    stall.channels.set_state(id(&config), state.with_withdrawal(units(10), ChainTime::from_unix(NOW)));
    let hung = layered(&stall.fixed(), hanging(Counter::default()));
    let offer = offered(&hung).await;
    let request = stall.pays(&offer, &config, 2 * PRICE);
    let under_way = tokio::spawn(async move { ask(&hung, request).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    stall.channels.set_state(id(&config), state.with_withdrawal(units(1_000), ChainTime::from_unix(NOW)));
    stall.shop.clock.advance(Duration::from_secs(30));
    let begun = tokio::time::Instant::now();
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left), (1, 0));
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    under_way.abort();
}
