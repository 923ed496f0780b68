//! What is left comes back, by the seller or without it, and the budget has it again.

use std::time::Duration;

use tower_x402::{
    client::{ChannelPhase, PayErrorKind},
    testing::ChannelStep,
};

use super::*;

#[tokio::test(start_paused = true)]
async fn the_seller_gives_the_rest_back_and_the_budget_has_it_again() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    for what in 0..3 {
        trade.buy(&layer, what).await.unwrap();
    }
    assert_eq!(layer.spent(), units(PRICE_OF_TEN));
    let id = layer.channels().remove(0).id;
    let closed = layer.layer(trade.line.clone()).close_channel(id).await.unwrap().unwrap();
    assert_eq!((closed.phase, closed.refunded), (ChannelPhase::Closed, units(7 * PRICE)));
    assert_eq!(layer.spent(), units(3 * PRICE));
    assert_eq!(trade.layer().await.spent(), units(3 * PRICE), "the journal has it");
    assert!(matches!(trade.line.seen().last().unwrap(), ChannelPayload::Refund { amount: None, .. }));
    assert_eq!((trade.runs.runs(), trade.line.totals().last()), (3, Some(&(3 * PRICE))));
    // Closed once more it is closed; the next answer opens another one.
    layer.layer(trade.line.clone()).close_channel(id).await.unwrap();
    trade.buy(&layer, 3).await.unwrap();
    assert_eq!((trade.channels(), layer.channels().len()), (2, 2));
}

/// The seller has not claimed yet, and nothing will come back when it does.
#[tokio::test(start_paused = true)]
async fn a_channel_that_is_used_up_is_closed_at_once() {
    let trade = Trade::open().await;
    let layer = trade.layer_with(|builder| builder.patience(Duration::from_secs(20))).await;
    for what in 0..10 {
        trade.buy(&layer, what).await.unwrap();
    }
    let id = layer.channels().remove(0).id;
    let closed = layer.layer(trade.line.clone()).close_channel(id).await.unwrap().unwrap();
    assert_eq!((closed.phase, closed.refunded), (ChannelPhase::Closed, units(0)));
    assert_eq!(layer.spent(), units(PRICE_OF_TEN));
    // One that is not is closed by the chain alone, though its seller says that nothing is left.
    trade.buy(&layer, 10).await.unwrap();
    let id = layer.channels().into_iter().find(|held| held.phase == ChannelPhase::Open).unwrap().id;
    trade.stall.channels.script([ChannelStep::Unknown]);
    trade.line.scripted(|_, answer| {
        let (mut parts, body) = answer.into_parts();
        if parts.status != http::StatusCode::PAYMENT_REQUIRED {
            use base64::{Engine as _, engine::general_purpose::STANDARD};
            let refusal = STANDARD.encode(r#"{"error":"invalid_batch_settlement_evm_refund_no_balance"}"#);
            parts.status = http::StatusCode::PAYMENT_REQUIRED;
            parts.headers.clear();
            parts.headers.insert("payment-required", refusal.parse().unwrap());
        }
        Ok(Response::from_parts(parts, body))
    });
    let error = layer.layer(trade.line.clone()).close_channel(id).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::Channel, "{error}");
    assert!(layer.channels().iter().any(|held| held.id == id && held.phase == ChannelPhase::Closing));
}

/// The seller says that it gave back what it did not: the chain tells.
#[tokio::test(start_paused = true)]
async fn a_refund_that_the_chain_does_not_show_frees_nothing() {
    let trade = Trade::open().await;
    let layer = trade.layer_with(|builder| builder.patience(Duration::from_secs(20))).await;
    trade.buy(&layer, 0).await.unwrap();
    let id = layer.channels().remove(0).id;
    trade.stall.channels.script([ChannelStep::Unknown]);
    trade.line.scripted(|_, answer| {
        let (mut parts, body) = answer.into_parts();
        parts.status = http::StatusCode::OK;
        Ok(Response::from_parts(parts, body))
    });
    let error = layer.layer(trade.line.clone()).close_channel(id).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::Channel, "{error}");
    assert_eq!((layer.spent(), layer.channels().remove(0).phase), (units(PRICE_OF_TEN), ChannelPhase::Closing));
    // Nothing more is bought by it.
    trade.line.scripted(|_, answer| Ok(answer));
    trade.buy(&layer, 1).await.unwrap();
    assert_eq!(trade.channels(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lost_count_is_corrected_before_the_refund() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    trade.line.scripted(|_, _| Err("broken".to_owned()));
    let left = trade.buy(&layer, 1).await.unwrap_err().purchase().unwrap();
    trade.line.scripted(|_, answer| Ok(answer));
    let id = layer.channels().remove(0).id;
    let client = layer.layer(trade.line.clone());
    let error = client.close_channel(id).await.unwrap_err();
    assert_eq!((error.kind(), error.purchase()), (PayErrorKind::Channel, Some(left)), "{error}");
    assert!(layer.abandon(left).await.unwrap());
    let closed = client.close_channel(id).await.unwrap().unwrap();
    assert_eq!((closed.phase, closed.charged, closed.refunded), (ChannelPhase::Closed, units(200), units(800)));
}

#[tokio::test(start_paused = true)]
async fn without_the_seller_it_takes_two_transactions_and_the_delay() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    let held = layer.channels().remove(0);
    let ready = ChainTime::from_unix(NOW + u64::from(held.config.withdraw_delay));
    for _ in 0..2 {
        let begun = layer.withdraw_channel(held.id).await.unwrap().unwrap();
        assert_eq!((begun.phase, begun.refunded), (ChannelPhase::Withdrawing(ready), units(0)));
        assert_eq!(layer.spent(), units(PRICE_OF_TEN));
    }
    // The seller claims what it sold.
    let state = trade.stall.channels.state(held.id);
    trade.stall.channels.set_state(
        held.id,
        ChannelOnChain::new(state.balance, units(PRICE)).with_withdrawal(units(9 * PRICE), ChainTime::from_unix(NOW)),
    );
    trade.stall.shop.clock.advance(Duration::from_secs(held.config.withdraw_delay.into()));
    let ended = layer.withdraw_channel(held.id).await.unwrap().unwrap();
    assert_eq!((ended.phase, ended.refunded), (ChannelPhase::Closed, units(9 * PRICE)));
    assert!(layer.withdraw_channel(ChannelId::new([9; 32])).await.is_err());
}

/// A refund that is seen later counts when it is seen.
#[tokio::test(start_paused = true)]
async fn a_refund_that_comes_late_is_counted_by_the_next_call() {
    let trade = Trade::open().await;
    let layer = trade.layer_with(|builder| builder.patience(Duration::from_secs(20))).await;
    trade.buy(&layer, 0).await.unwrap();
    let id = layer.channels().remove(0).id;
    let client = layer.layer(trade.line.clone());
    trade.stall.channels.script([ChannelStep::Unknown]);
    client.close_channel(id).await.unwrap_err();
    trade.stall.channels.set_state(id, ChannelOnChain::new(units(PRICE), units(PRICE)));
    let closed = client.close_channel(id).await.unwrap().unwrap();
    assert_eq!((closed.phase, closed.refunded), (ChannelPhase::Closed, units(9 * PRICE)));
    assert_eq!(layer.spent(), units(PRICE));
}

/// One node says that a channel is empty, another that it is not.
#[tokio::test(start_paused = true)]
async fn no_single_node_closes_a_channel() {
    let trade = Trade::open().await;
    let layer = trade.layer_with(|builder| builder.patience(Duration::from_secs(20))).await;
    trade.buy(&layer, 0).await.unwrap();
    let id = layer.channels().remove(0).id;
    trade.stall.channels.set_state(id, ChannelOnChain::new(units(0), units(0)));
    *trade.purse.other_node.lock().unwrap() = Some(PRICE_OF_TEN);
    layer.layer(trade.line.clone()).close_channel(id).await.unwrap_err();
    assert_eq!((layer.spent(), layer.channels().remove(0).phase), (units(PRICE_OF_TEN), ChannelPhase::Closing));
    // Nor does it keep the payer from the withdrawal, whichever is right.
    trade.stall.channels.set_state(id, ChannelOnChain::new(units(PRICE_OF_TEN), units(0)));
    *trade.purse.other_node.lock().unwrap() = Some(0);
    let begun = layer.withdraw_channel(id).await.unwrap().unwrap();
    assert!(matches!(begun.phase, ChannelPhase::Withdrawing(_)), "{:?}", begun.phase);
    assert_eq!((layer.spent(), begun.refunded), (units(PRICE_OF_TEN), units(0)));
}

/// The seller has a deposit that it did not make yet: it could make it once the channel is forgotten.
#[tokio::test(start_paused = true)]
async fn no_channel_is_closed_while_its_deposit_can_be_made() {
    for is_made in [false, true] {
        let trade = Trade::open().await;
        let layer = trade.layer_with(|builder| builder.patience(Duration::from_secs(20))).await;
        trade.stall.channels.always(ChannelStep::Unknown);
        let left = trade.buy(&layer, 0).await.unwrap_err().purchase().unwrap();
        assert!(layer.abandon(left).await.unwrap());
        let id = layer.channels().remove(0).id;
        let client = layer.layer(trade.line.clone());
        client.close_channel(id).await.unwrap_err();
        layer.withdraw_channel(id).await.unwrap_err();
        assert_eq!(layer.channels().remove(0).phase, ChannelPhase::Closing);
        // One node alone says that it was made, and takes that back.
        trade.stall.channels.set_state(id, ChannelOnChain::new(units(PRICE_OF_TEN), units(0)));
        *trade.purse.other_node.lock().unwrap() = Some(0);
        client.close_channel(id).await.unwrap_err();
        trade.stall.channels.set_state(id, ChannelOnChain::new(units(0), units(0)));
        *trade.purse.other_node.lock().unwrap() = None;
        client.close_channel(id).await.unwrap_err();
        let held = layer.channels().remove(0);
        assert_eq!((held.phase, held.refunded, layer.spent()), (ChannelPhase::Closing, units(0), units(PRICE_OF_TEN)));
        if is_made {
            trade.stall.channels.set_state(id, ChannelOnChain::new(units(PRICE_OF_TEN), units(0)));
            trade.stall.channels.always(ChannelStep::Done);
            // A block later.
            trade.stall.shop.clock.advance(Duration::from_secs(2));
        } else {
            trade.stall.shop.clock.advance(Duration::from_secs(3_600));
        }
        let closed = client.close_channel(id).await.unwrap().unwrap();
        let back = if is_made { PRICE_OF_TEN } else { 0 };
        assert_eq!((closed.phase, closed.refunded), (ChannelPhase::Closed, units(back)), "{is_made}");
    }
}
