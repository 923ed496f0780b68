//! What is left in a channel goes back to its payer, and nothing that was sold.

use tower_x402::{
    protocol::{Network, v2::SettleResponse},
    settle::ChannelOnChain,
    testing::ChannelStep,
};

use crate::{
    counter::{PRICE, Stall, channel_in, counting, id, offered, refused, serving, told, units},
    support::{Counter, ask, assert_problem, layered, read},
};

#[tokio::test]
async fn all_of_it_goes_back_and_what_was_sold_is_claimed_first() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    let offer = offered(&service).await;
    // One over another total is corrected.
    let answer = ask(&service, stall.asks_back(&offer, &config, 2 * PRICE, None)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_amount_mismatch");
    assert!(channel_in(&answer).voucher_state().is_some());
    let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, None)).await;
    assert_eq!(answer.status(), 200);
    let settled = SettleResponse::from_headers(answer.headers()).unwrap().unwrap();
    assert_eq!((settled.success, settled.amount, settled.charged_amount()), (true, Some(units(1_000 - PRICE)), None));
    assert_eq!(read(answer).await.1["channelId"], id(&config).to_string());
    let refunds = stall.channels.refunds();
    assert_eq!((refunds.len(), refunds[0].amount, refunds[0].nonce), (1, 1_000 - PRICE, 0));
    assert_eq!(refunds[0].claim.as_ref().unwrap().total_claimed, PRICE);
    // Nothing is left, to give back or to buy by.
    let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, None)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_refund_no_balance");
    let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
    assert_eq!(counter.runs(), 1, "a refund runs no handler");
}

#[tokio::test]
async fn a_part_goes_back_and_no_more_than_is_left() {
    let stall = Stall::open().await;
    let (service, _, offer, config) = serving(&stall).await;
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    let offer = offered(&service).await;
    for amount in [0, 1_000 - PRICE + 1] {
        let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, Some(amount))).await;
        assert_eq!(refused(&answer), "invalid_batch_settlement_evm_refund_amount_invalid");
    }
    let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, Some(300))).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(stall.channels.state(config.id(Network::BASE)).balance, units(700));
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await), (PRICE, 2 * PRICE));
}

#[tokio::test]
async fn what_may_be_on_its_way_back_covers_nothing() {
    let stall = Stall::open().await;
    let (service, _, offer, config) = serving(&stall).await;
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    stall.channels.script([ChannelStep::Unknown]);
    let offer = offered(&service).await;
    let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, None)).await;
    let _ = assert_problem(answer, 503, "outcome_unknown").await;
    let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
}

/// This process read the channel before a refund that another one had made, and that one has signed the next.
#[tokio::test]
async fn what_another_process_gave_back_covers_nothing_here() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (PRICE, PRICE));
    let settler = stall.channels.clone();
    let other = stall.shop.sibling(|builder| builder.channel_settler(settler)).await;
    let other = layered(&other.charge("answer", units(PRICE)).unwrap(), counting(&counter, None));
    let offer = offered(&other).await;
    assert_eq!(ask(&other, stall.asks_back(&offer, &config, PRICE, Some(500))).await.status(), 200);
    stall.channels.script([ChannelStep::Unknown]);
    let answer = ask(&other, stall.asks_back(&offer, &config, PRICE, None)).await;
    let _ = assert_problem(answer, 503, "outcome_unknown").await;
    // Of 500 that are left 400 may go back, and 100 were sold.
    let offer = offered(&service).await;
    let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
    let _ = assert_problem(answer, 503, "verification_unavailable").await;
    stall.shop.clock.advance(std::time::Duration::from_secs(3));
    let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
    assert_eq!(counter.runs(), 1);
}

/// The settling account lacked the fee, and by the time of the next purchase it has it.
#[tokio::test]
async fn a_refund_that_was_not_sent_is_sent_when_its_payer_buys() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    let _ = stall.shop.merchant.claim_now().await.unwrap();
    stall.channels.script([ChannelStep::Unknown]);
    let offer = offered(&service).await;
    let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, None)).await;
    let _ = assert_problem(answer, 503, "outcome_unknown").await;
    for _ in 0..3 {
        let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
        assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
    }
    let sent = async {
        while stall.channels.state(id(&config)).balance != units(PRICE) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), sent).await.expect("it is sent again");
    let refunds = stall.channels.refunds();
    assert_eq!((refunds.len(), refunds[1].amount, refunds[1].nonce), (2, 1_000 - PRICE, 0));
    assert_eq!(refunds[1].claim, None, "it shows no voucher");
    // The payer has it back, and goes on by a deposit.
    stall.shop.clock.advance(std::time::Duration::from_secs(3));
    let offer = offered(&service).await;
    assert_eq!(told(&ask(&service, stall.deposits(&offer, &config, 2 * PRICE, 500)).await), (PRICE, 2 * PRICE));
    assert_eq!(counter.runs(), 2);
}

/// More was sold since, by a voucher over more than was charged, which no claim may show unnoted; and a payer who withdraws leaves nothing for it.
#[tokio::test]
async fn what_is_sent_again_takes_nothing_that_was_sold() {
    let stall = Stall::open().await;
    let service = layered(&stall.metered(), counting(&Counter::default(), Some(PRICE)));
    let offer = offered(&service).await;
    let config = stall.channel(&offer, 1_000);
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    stall.channels.script([ChannelStep::Unknown]);
    let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, Some(750))).await;
    let _ = assert_problem(answer, 503, "outcome_unknown").await;
    let cheap = layered(&stall.metered(), counting(&Counter::default(), Some(40)));
    let offer = offered(&cheap).await;
    assert_eq!(told(&ask(&cheap, stall.pays(&offer, &config, 2 * PRICE)).await), (40, 140));
    // It is withdrawn from: what is left is sold.
    stall.channels.set_state(id(&config), ChannelOnChain::new(units(800), units(0)));
    stall.shop.clock.advance(std::time::Duration::from_secs(301));
    let offer = offered(&cheap).await;
    let answer = ask(&cheap, stall.pays(&offer, &config, 140 + PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(stall.channels.refunds().len(), 1);
    stall.channels.set_state(id(&config), ChannelOnChain::new(units(900), units(0)));
    stall.shop.clock.advance(std::time::Duration::from_secs(3));
    let answer = ask(&cheap, stall.pays(&offer, &config, 140 + PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let refunds = stall.channels.refunds();
    assert_eq!((refunds.len(), refunds[1].amount), (2, 750));
    assert_eq!((&refunds[1].claim, &refunds[1].voucher), (&None, &None));
    assert_eq!(stall.channels.state(id(&config)).balance, units(150));
}

/// A stranger with one quote invents channels. Each reading asks every node.
#[tokio::test]
async fn a_channel_in_which_there_is_nothing_is_read_once_a_block() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let invented = config.with_salt([7; 32]);
    for _ in 0..3 {
        let answer = ask(&service, stall.asks_back(&offer, &invented, 0, None)).await;
        assert_eq!(refused(&answer), "invalid_batch_settlement_evm_refund_no_balance");
        let answer = ask(&service, stall.pays(&offer, &invented, PRICE)).await;
        assert_eq!(refused(&answer), "invalid_batch_settlement_evm_channel_not_found");
    }
    assert_eq!(stall.channels.reads(), 1);
    stall.shop.clock.advance(std::time::Duration::from_secs(2));
    stall.channels.set_state(id(&invented), ChannelOnChain::new(units(1_000), units(0)));
    assert_eq!(told(&ask(&service, stall.pays(&offer, &invented, PRICE)).await), (PRICE, PRICE));
    assert_eq!((stall.channels.reads(), counter.runs()), (2, 1));
}

/// Its voucher stands in a claim, where a stranger reads it: each refund costs the seller a transaction.
#[tokio::test]
async fn by_a_voucher_that_was_claimed_all_goes_back_or_nothing() {
    for is_read in [true, false] {
        let stall = Stall::open().await;
        let (service, _, offer, config) = serving(&stall).await;
        let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
        // The claim may be on its way, and not on the chain.
        let step = if is_read { ChannelStep::Done } else { ChannelStep::Unknown };
        stall.channels.script([step]);
        let _ = stall.shop.merchant.claim_now().await.unwrap();
        let offer = offered(&service).await;
        for amount in [90, 450, 899] {
            let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, Some(amount))).await;
            assert_eq!(refused(&answer), "invalid_batch_settlement_evm_refund_amount_invalid");
        }
        assert_eq!(stall.channels.refunds().len(), 0);
        let amount = is_read.then_some(1_000 - PRICE);
        assert_eq!(ask(&service, stall.asks_back(&offer, &config, PRICE, amount)).await.status(), 200);
        let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, None)).await;
        assert_eq!(refused(&answer), "invalid_batch_settlement_evm_refund_no_balance");
        assert_eq!(stall.channels.refunds().len(), 1, "one for each deposit");
    }
}

/// A refund was signed, and a node that does not know of the one before is asked about the next.
#[tokio::test]
async fn a_node_that_is_behind_takes_no_refund_from_the_note() {
    let stall = Stall::open().await;
    let (service, _, offer, config) = serving(&stall).await;
    let state = |nonce, block| ChannelOnChain::new(units(1_000), units(0)).with_refund_nonce(nonce).at_block(block);
    stall.channels.set_state(id(&config), state(1, 10));
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    let offer = offered(&service).await;
    for (nonce, block) in [(1, 11), (0, 9)] {
        stall.channels.set_state(id(&config), state(nonce, block));
        stall.channels.script([ChannelStep::Unknown]);
        let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, None)).await;
        let _ = assert_problem(answer, 503, "outcome_unknown").await;
    }
    // Of the first one nothing is mined yet: what it gives back covers nothing.
    stall.channels.set_state(id(&config), state(1, 12));
    stall.shop.clock.advance(std::time::Duration::from_secs(301));
    let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
}

/// Two of three nodes are down, and the last one lies about the nonce: it undoes no note of a refund.
#[tokio::test]
async fn what_few_nodes_say_undoes_no_note_of_a_refund() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let state = |balance| ChannelOnChain::new(units(balance), units(0));
    stall.channels.set_state(id(&config), state(1_000).at_block(10));
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    let offer = offered(&service).await;
    stall.channels.script([ChannelStep::Unknown]);
    let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, None)).await;
    let _ = assert_problem(answer, 503, "outcome_unknown").await;
    stall.channels.set_state(id(&config), state(1_000).with_refund_nonce(u64::MAX).of_few_nodes());
    stall.shop.clock.advance(std::time::Duration::from_secs(301));
    let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
    let _ = assert_problem(answer, 503, "verification_unavailable").await;
    assert_eq!(counter.runs(), 1);
    // Once most say that it is made, a deposit that came since covers vouchers.
    stall.channels.set_state(id(&config), state(1_000).with_refund_nonce(1).at_block(11));
    stall.shop.clock.advance(std::time::Duration::from_secs(301));
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await), (PRICE, 2 * PRICE));
}

/// A refund was just mined, and one of three nodes has its block: what it left must not be taken for what it still takes from.
#[tokio::test]
async fn while_nodes_differ_about_a_refund_nothing_is_refused_for_it() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    stall.channels.script([ChannelStep::Unknown]);
    let offer = offered(&service).await;
    let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, Some(500))).await;
    let _ = assert_problem(answer, 503, "outcome_unknown").await;
    let left = ChannelOnChain::new(units(500), units(0));
    stall.channels.set_state(id(&config), left.with_differing_refunds());
    stall.shop.clock.advance(std::time::Duration::from_secs(301));
    let answer = ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await;
    let _ = assert_problem(answer, 503, "verification_unavailable").await;
    let top_up = ask(&service, stall.deposits(&offer, &config, 2 * PRICE, PRICE)).await;
    let _ = assert_problem(top_up, 503, "verification_unavailable").await;
    assert_eq!((counter.runs(), stall.channels.deposits()), (1, 0));
    stall.channels.set_state(id(&config), left.with_refund_nonce(1));
    stall.shop.clock.advance(std::time::Duration::from_secs(3));
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await), (PRICE, 2 * PRICE));
    // What is more than any of them says is there is no such doubt.
    stall.channels.set_state(id(&config), left.with_refund_nonce(1).with_differing_refunds());
    let dear = layered(&stall.shop.merchant.charge("dear", "0.0005 USDC").unwrap(), counting(&counter, None));
    stall.shop.clock.advance(std::time::Duration::from_secs(301));
    let answer = ask(&dear, stall.pays(&offered(&dear).await, &config, 7 * PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance");
}

/// The same node while a refund is asked for: none is signed or noted under a nonce that most do not name.
#[tokio::test]
async fn by_the_word_of_few_nodes_no_refund_is_signed() {
    let stall = Stall::open().await;
    let (service, _, offer, config) = serving(&stall).await;
    let state = ChannelOnChain::new(units(1_000), units(0));
    stall.channels.set_state(id(&config), state.at_block(10));
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    let offer = offered(&service).await;
    stall.channels.set_state(id(&config), state.with_refund_nonce(u64::MAX).of_few_nodes());
    let answer = ask(&service, stall.asks_back(&offer, &config, PRICE, None)).await;
    let _ = assert_problem(answer, 503, "verification_unavailable").await;
    assert_eq!(stall.channels.refunds().len(), 0);
    stall.channels.set_state(id(&config), state.at_block(11));
    stall.shop.clock.advance(std::time::Duration::from_secs(301));
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await), (PRICE, 2 * PRICE));
}
