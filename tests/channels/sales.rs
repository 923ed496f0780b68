//! What a voucher buys, and what it never buys.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use tower_x402::{
    ChannelPolicy, MerchantBuilder, Redelivery,
    ledger::AccountLedger as _,
    protocol::{
        Address, ChainTime, Network, PaymentSignature,
        channel::{ChannelConfig, ChannelPayload, Voucher},
        headers::PAYMENT_RESPONSE,
    },
    settle::ChannelOnChain,
};

use crate::{
    counter::{
        PRICE, Stall, channel_in, counting, id, is_silent, number, offered, refused, serving, shows, told, units,
    },
    support::{
        Counter, answering, ask, assert_problem,
        faults::{Fault, Op},
        hanging, layered, read, with_status,
    },
};

#[tokio::test]
async fn each_voucher_buys_one_answer_and_the_chain_is_asked_once() {
    let stall = Stall::open().await;
    let (service, counter, _, config) = serving(&stall).await;
    for sale in 1..=5 {
        let offer = offered(&service).await;
        let answer = ask(&service, stall.pays(&offer, &config, sale * PRICE)).await;
        assert_eq!(told(&answer), (PRICE, sale * PRICE));
        assert_eq!(read(answer).await.1, format!("run {sale}"));
    }
    assert_eq!((counter.runs(), stall.channels.reads()), (5, 1));
    assert_eq!((stall.channels.deposits(), stall.channels.claims().len()), (0, 0));
}

#[tokio::test]
async fn a_voucher_over_another_total_is_corrected_and_the_correction_buys() {
    let stall = Stall::open().await;
    let (service, counter, first, config) = serving(&stall).await;
    let _ = told(&ask(&service, stall.pays(&first, &config, PRICE)).await);
    for total in [PRICE, PRICE + 1, 3 * PRICE] {
        let offer = offered(&service).await;
        let answer = ask(&service, stall.pays(&offer, &config, total)).await;
        assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_amount_mismatch");
        assert!(!answer.headers().contains_key(PAYMENT_RESPONSE), "with it the official client takes no correction");
        let corrected = channel_in(&answer);
        let state = corrected.channel_state().unwrap();
        assert_eq!((state.channel_id, state.charged_cumulative_amount), (id(&config), Some(units(PRICE))));
        let voucher = corrected.voucher_state().unwrap();
        assert_eq!((voucher.signed_max_claimable, voucher.signature), (PRICE, stall.voucher(&config, PRICE).signature));
        // The client's retry is built from its first quote.
        if total == 3 * PRICE {
            let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
            assert_eq!(told(&answer), (PRICE, 2 * PRICE));
        }
    }
    assert_eq!(counter.runs(), 2);
}

#[tokio::test]
async fn nobody_else_learns_of_a_channel_and_no_foreign_signature_buys() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    let genuine = stall.voucher(&config, 2 * PRICE);
    let bytes = genuine.signature.as_bytes();
    let mut unnormalised = bytes.to_vec();
    unnormalised[64] -= 27;
    let short = &bytes[..64];
    let others = [vec![7; 65], unnormalised, short.to_vec(), [bytes, &[0]].concat()];
    for signature in others {
        let offer = offered(&service).await;
        let voucher = Voucher::new(genuine.channel, 2 * PRICE, PaymentSignature::new(signature).unwrap());
        let answer = ask(&service, shows(&offer, ChannelPayload::Voucher { channel_config: config, voucher })).await;
        assert_eq!(refused(&answer), "invalid_batch_settlement_evm_voucher_signature");
        let told = channel_in(&answer);
        assert_eq!((told.channel_state(), told.voucher_state()), (None, None));
    }
    assert_eq!(counter.runs(), 1);
}

#[tokio::test]
async fn a_channel_of_other_terms_buys_nothing() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let other = Address::new([0xee; 20]);
    let between = |receiver, token| {
        let delay = config.withdraw_delay;
        let config =
            ChannelConfig::new(config.payer, receiver, token).with_receiver_authorizer(config.receiver_authorizer);
        config.with_withdraw_delay(delay)
    };
    for (wrong, reason) in [
        (between(other, config.token), "receiver_mismatch"),
        (config.with_receiver_authorizer(other), "receiver_authorizer_mismatch"),
        (between(config.receiver, other), "token_mismatch"),
        (config.with_withdraw_delay(900), "withdraw_delay_mismatch"),
        (config.with_withdraw_delay(899), "withdraw_delay_out_of_range"),
        (config.with_salt([1; 32]), "channel_not_found"),
    ] {
        let answer = ask(&service, stall.pays(&offer, &wrong, PRICE)).await;
        assert_eq!(refused(&answer), format!("invalid_batch_settlement_evm_{reason}"));
    }
    // The id of one channel with the config of another.
    let voucher = stall.voucher(&config.with_salt([1; 32]), PRICE);
    let answer = ask(&service, shows(&offer, ChannelPayload::Voucher { channel_config: config, voucher })).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_channel_id_mismatch");
    assert_eq!(counter.runs(), 0);
}

#[tokio::test]
async fn no_more_is_sold_than_the_channel_covers() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    stall.channels.set_state(id(&config), ChannelOnChain::new(units(2 * PRICE - 1), units(0)));
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    let offer = offered(&service).await;
    let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
    // What is being withdrawn covers nothing, and a deposit of the payer's own is found.
    stall.shop.clock.advance(std::time::Duration::from_secs(3));
    let state = ChannelOnChain::new(units(10 * PRICE), units(0));
    let since = ChainTime::from_unix(crate::support::NOW);
    stall.channels.set_state(id(&config), state.with_withdrawal(units(9 * PRICE), since));
    let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
    stall.shop.clock.advance(std::time::Duration::from_secs(3));
    stall.channels.set_state(id(&config), state);
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await), (PRICE, 2 * PRICE));
    assert_eq!(counter.runs(), 2);
}

#[tokio::test]
async fn a_ledger_without_the_channel_begins_at_what_is_claimed() {
    let stall = Stall::open().await;
    let (service, _, offer, config) = serving(&stall).await;
    stall.channels.set_state(id(&config), ChannelOnChain::new(units(1_000), units(300)));
    let answer = ask(&service, stall.pays(&offer, &config, PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_amount_mismatch");
    assert_eq!(channel_in(&answer).channel_state().unwrap().charged_cumulative_amount, Some(units(300)));
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, 300 + PRICE)).await), (PRICE, 300 + PRICE));
}

#[tokio::test]
async fn of_twenty_requests_at_once_one_is_sold() {
    let stall = Stall::open().await;
    let (service, counter, _, config) = serving(&stall).await;
    let mut asked = Vec::new();
    for _ in 0..20 {
        let offer = offered(&service).await;
        asked.push(ask(&service, stall.pays(&offer, &config, PRICE)));
    }
    let answers = futures_util::future::join_all(asked).await;
    assert_eq!(answers.iter().filter(|answer| answer.status() == 200).count(), 1);
    for answer in answers.iter().filter(|answer| answer.status() != 200) {
        assert!(matches!(answer.status().as_u16(), 402 | 409), "{answer:?}");
    }
    assert_eq!(counter.runs(), 1);
}

#[tokio::test]
async fn a_channel_in_use_is_busy_and_nothing_is_billed() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.fixed(), hanging(counter.clone()));
    let offer = offered(&service).await;
    let config = stall.channel(&offer, 1_000);
    let first = tokio::spawn({
        let (service, request) = (service.clone(), stall.pays(&offer, &config, PRICE));
        async move { ask(&service, request).await }
    });
    while counter.runs() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let another = offered(&service).await;
    let answer = ask(&service, stall.pays(&another, &config, PRICE)).await;
    is_silent(&answer);
    let _ = assert_problem(answer, 409, "channel_busy").await;
    first.abort();
}

/// Whatever is looked up for a reserved voucher may take longer than its lease.
#[tokio::test(start_paused = true)]
async fn the_lease_of_a_voucher_is_kept_while_its_channel_is_looked_at() {
    let stall = Stall::open().await;
    let settler = stall.channels.clone();
    let short = |builder: MerchantBuilder| builder.channel_settler(settler).lease(Duration::from_secs(3));
    let merchant = stall.shop.sibling(short).await;
    let service = layered(&merchant.charge("answer", units(PRICE)).unwrap(), counting(&Counter::default(), None));
    let offer = offered(&service).await;
    let config = stall.channel(&offer, 1_000);
    stall.shop.faults.next(Op::Draw, [Fault::Late(Duration::from_millis(3_500))]);
    let answer = ask(&service, stall.pays(&offer, &config, PRICE)).await;
    assert_eq!(told(&answer), (PRICE, PRICE));
    assert_eq!(stall.shop.faults.asked(Op::Renew), 3, "each third of it");
    // It is lost: what was found by then is another's to sell.
    stall.shop.faults.next(Op::Draw, [Fault::Late(Duration::from_millis(3_500))]);
    let offer = offered(&service).await;
    let mut slow = Box::pin(ask(&service, stall.pays(&offer, &config, 2 * PRICE)));
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut slow).await.is_err());
    stall.shop.clock.advance(Duration::from_secs(4));
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await), (PRICE, 2 * PRICE));
    let answer = slow.await;
    is_silent(&answer);
    let _ = assert_problem(answer, 409, "redemption_in_progress").await;
}

#[tokio::test]
async fn an_answer_that_is_not_sold_costs_nothing_and_the_same_voucher_buys_the_next() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let runs = counter.clone();
    let service = layered(
        &stall.fixed(),
        answering(counter.clone(), move |_| if runs.runs() == 1 { with_status(500) } else { with_status(200) }),
    );
    let offer = offered(&service).await;
    let config = stall.channel(&offer, 1_000);
    assert_eq!(ask(&service, stall.pays(&offer, &config, PRICE)).await.status(), 500);
    // The same header again, and then none of it is left for another quote.
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (PRICE, PRICE));
    let another = offered(&service).await;
    let answer = ask(&service, stall.pays(&another, &config, PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_amount_mismatch");
}

#[tokio::test]
async fn a_lost_answer_is_delivered_again_and_charged_once() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let layer = stall.fixed().redeliver(Redelivery::lasting(std::time::Duration::from_secs(900)));
    let service = layered(&layer, counting(&counter, None));
    let offer = offered(&service).await;
    let config = stall.channel(&offer, 1_000);
    let first = ask(&service, stall.pays(&offer, &config, PRICE)).await;
    assert_eq!(told(&first), (PRICE, PRICE));
    let again = ask(&service, stall.pays(&offer, &config, PRICE)).await;
    assert_eq!(told(&again), (PRICE, PRICE));
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!((read(first).await, counter.runs()), (read(again).await, 1));
}

#[tokio::test]
async fn a_metered_answer_is_charged_by_the_handlers_word() {
    let stall = Stall::open().await;
    let mut charged = 0;
    for (number, charge) in [Some(30), Some(0), None, Some(PRICE)].into_iter().enumerate() {
        let counter = Counter::default();
        let service = layered(&stall.metered(), counting(&counter, charge));
        let offer = offered(&service).await;
        let config =
            if number == 0 { stall.channel(&offer, 1_000) } else { offer.channel_of(stall.payer(), [0; 32]).unwrap() };
        let cost = charge.unwrap_or(PRICE);
        charged += cost;
        let answer = ask(&service, stall.pays(&offer, &config, charged - cost + PRICE)).await;
        assert_eq!(told(&answer), (cost, charged));
    }
    // After an answer that cost nothing, the same total is signed again: for another answer.
    let (counter, total) = (Counter::default(), charged + PRICE);
    let service = layered(&stall.metered(), counting(&counter, Some(0)));
    for run in 1..=2 {
        let offer = offered(&service).await;
        let config = offer.channel_of(stall.payer(), [0; 32]).unwrap();
        let answer = ask(&service, stall.pays(&offer, &config, total)).await;
        assert_eq!(told(&answer), (0, charged));
        assert_eq!(read(answer).await.1, format!("run {run}"));
    }
    let above = layered(&stall.metered(), counting(&Counter::default(), Some(PRICE + 1)));
    let offer = offered(&above).await;
    let config = offer.channel_of(stall.payer(), [0; 32]).unwrap();
    assert_eq!(ask(&above, stall.pays(&offer, &config, total)).await.status(), 500);
    let account = tower_x402::ledger::AccountId::new(id(&config).account_bytes(Network::BASE));
    let account = stall.shop.ledger.account(account).await.unwrap().unwrap();
    assert_eq!((number(account.spent), account.held), (charged, units(0)));
}

#[tokio::test]
async fn a_cheap_quote_buys_no_dearer_answer() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let cheap = layered(&stall.fixed(), counting(&counter, None));
    let dear = layered(&stall.shop.merchant.charge("dear", "0.0002 USDC").unwrap(), counting(&counter, None));
    let offer = offered(&cheap).await;
    let config = stall.channel(&offer, 1_000);
    for total in [PRICE, 2 * PRICE] {
        assert_eq!(ask(&dear, stall.pays(&offer, &config, total)).await.status(), 402);
    }
    // The offer with another amount is none that was made.
    let mut forged = offered(&dear).await;
    forged.amount = units(1);
    assert_eq!(ask(&dear, stall.pays(&forged, &config, 1)).await.status(), 402);
    assert_eq!(counter.runs(), 0);
}

#[tokio::test]
async fn where_there_are_no_channels_a_voucher_is_refused() {
    let stall = Stall::open().await;
    let (_, _, offer, config) = serving(&stall).await;
    let without = crate::support::Shop::open().await;
    let service = layered(&without.layer(), counting(&Counter::default(), None));
    let request: Request<Body> = stall.pays(&offer, &config, PRICE);
    let answer = ask(&service, request).await;
    // It may have been sold while there were some.
    is_silent(&answer);
    let problem = assert_problem(answer, 400, "invalid_redemption").await;
    assert!(problem["detail"].as_str().unwrap().contains("on this network"), "it may be on others: {problem}");
}

#[tokio::test]
async fn a_contract_account_pays_only_where_the_seller_takes_that() {
    for accepts in [false, true] {
        let policy = if accepts { ChannelPolicy::new().accept_contract_payers() } else { ChannelPolicy::new() };
        let stall = Stall::open_with(policy).await;
        let (service, counter, offer, config) = serving(&stall).await;
        let config = config.with_payer_authorizer(Address::ZERO);
        stall.channels.set_state(id(&config), ChannelOnChain::new(units(1_000), units(0)));
        let answer = ask(&service, stall.pays(&offer, &config, PRICE)).await;
        match accepts {
            true => assert_eq!(told(&answer), (PRICE, PRICE)),
            false => assert_eq!(refused(&answer), "invalid_batch_settlement_evm_voucher_signature"),
        }
        assert_eq!(counter.runs(), usize::from(accepts));
        stall.channels.signed_by_account(false);
        let offer = offered(&service).await;
        let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
        assert_eq!(refused(&answer), "invalid_batch_settlement_evm_voucher_signature");
    }
}

/// A few nodes say that a channel holds something, and that all of it is claimed: one of them may lie, and where an account begins stays.
#[tokio::test]
async fn a_few_nodes_begin_no_account() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let lie = ChannelOnChain::new(units(1_000), units(1_000)).of_few_nodes();
    stall.channels.set_state(id(&config), lie);
    let answer = ask(&service, stall.pays(&offer, &config, PRICE)).await;
    let _ = assert_problem(answer, 503, "verification_unavailable").await;
    stall.channels.set_state(id(&config), ChannelOnChain::new(units(1_000), units(0)));
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (PRICE, PRICE));
    // What is known is sold in on their word as far as it lowers nothing.
    stall.channels.set_state(id(&config), ChannelOnChain::new(units(1_000), units(0)).of_few_nodes());
    let offer = offered(&service).await;
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await), (PRICE, 2 * PRICE));
    assert_eq!(counter.runs(), 2);
}

/// This process asks a node that is a block behind the deposit which another process has read.
#[tokio::test]
async fn a_node_that_is_behind_has_no_payer_deposit_again() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let state = |balance, block| ChannelOnChain::new(units(balance), units(0)).at_block(block);
    stall.channels.set_state(id(&config), state(2 * PRICE, 10));
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (PRICE, PRICE));
    stall.channels.set_state(id(&config), state(PRICE, 9));
    stall.shop.clock.advance(std::time::Duration::from_secs(301));
    let offer = offered(&service).await;
    let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
    is_silent(&answer);
    let _ = assert_problem(answer, 503, "verification_unavailable").await;
    // What the ledger does not know of, either, is no such doubt.
    let dear = layered(&stall.shop.merchant.charge("dear", "0.0002 USDC").unwrap(), counting(&counter, None));
    let answer = ask(&dear, stall.pays(&offered(&dear).await, &config, 3 * PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
    stall.channels.set_state(id(&config), state(2 * PRICE, 11));
    stall.shop.clock.advance(std::time::Duration::from_secs(3));
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await), (PRICE, 2 * PRICE));
    assert_eq!(counter.runs(), 2);
}
