//! A deposit whose answer was lost: no other is made before the chain tells what became of it.

use std::time::Duration;

use tower_x402::{
    client::{ChannelPhase, PayErrorKind},
    testing::ChannelStep,
};

use super::*;

/// At a seller that gives no answer again: it says that what was shown is consumed.
async fn without_redelivery() -> Trade {
    let trade = Trade::open().await;
    let counter = trade.runs.clone();
    let handler = tower::service_fn(move |_: Request<RequestBody<Body>>| {
        let answer = Response::new(Full::from(format!("run {}", counter.run())));
        async move { Ok::<_, Infallible>(answer) }
    });
    let seller = tower::util::BoxCloneService::new(trade.stall.fixed().layer(handler));
    *trade.line.seller.lock().unwrap() = seller;
    trade
}

/// The deposit was made, and a node that lags does not have it.
#[tokio::test(start_paused = true)]
async fn a_node_that_lags_has_nobody_deposit_a_second_time() {
    for restarted in [false, true] {
        let trade = without_redelivery().await;
        let mut layer = trade.layer().await;
        trade.line.scripted(|number, answer| if number == 0 { Err("broken".to_owned()) } else { Ok(answer) });
        let error = trade.buy(&layer, 0).await.unwrap_err();
        assert_eq!(error.kind(), PayErrorKind::AnswerLost, "{error}");
        *trade.purse.other_node.lock().unwrap() = Some(0);
        if restarted {
            layer = trade.layer().await;
        }
        // Its time is over by then, and another node has it.
        for hours in [0, 1] {
            trade.stall.shop.clock.advance(Duration::from_secs(hours * 3_600));
            let error = trade.buy(&layer, 1).await.unwrap_err();
            assert_eq!(error.kind(), PayErrorKind::Payer, "{hours}: {error}");
            assert_eq!((trade.purse.deposits(), trade.channels()), (1, 1), "{hours}");
        }
        *trade.purse.other_node.lock().unwrap() = None;
        let (text, _) = trade.buy(&layer, 1).await.unwrap();
        assert_eq!((text.as_str(), trade.charged().await, trade.purse.deposits()), ("run 2", 2 * PRICE, 1));
        assert_eq!((layer.spent(), layer.channels().remove(0).phase), (units(PRICE_OF_TEN), ChannelPhase::Open));
    }
}

/// It was never made: another one follows once it can be made no more.
#[tokio::test(start_paused = true)]
async fn a_deposit_that_was_not_made_is_followed_by_another_behind_its_end() {
    let trade = Trade::open().await;
    let layer = trade.layer_with(|builder| builder.patience(Duration::from_secs(20))).await;
    trade.stall.channels.always(ChannelStep::Unknown);
    let left = trade.buy(&layer, 0).await.unwrap_err().purchase().unwrap();
    assert!(layer.abandon(left).await.unwrap());
    trade.stall.channels.always(ChannelStep::Done);
    let error = trade.buy(&layer, 1).await.unwrap_err();
    assert_eq!((error.kind(), trade.purse.deposits()), (PayErrorKind::Payer, 1), "{error}");
    trade.stall.shop.clock.advance(Duration::from_secs(3_600));
    trade.buy(&layer, 1).await.unwrap();
    assert_eq!((trade.purse.deposits(), trade.channels(), layer.channels()[0].deposited), (2, 1, units(PRICE_OF_TEN)));
    // From there on it goes as ever: ten answers for a deposit.
    for what in 2..12 {
        trade.buy(&layer, what).await.unwrap();
    }
    assert_eq!((trade.purse.deposits(), layer.channels()[0].deposited), (3, units(2 * PRICE_OF_TEN)));
}

/// The purchase that deposited is so old that its journal has dropped it: the channel has its deposit still.
#[tokio::test(start_paused = true)]
async fn a_deposit_outlives_the_record_of_its_purchase() {
    let mut trade = without_redelivery().await;
    let layer = trade.layer().await;
    trade.line.scripted(|number, answer| if number == 0 { Err("broken".to_owned()) } else { Ok(answer) });
    let error = trade.buy(&layer, 0).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::AnswerLost, "{error}");
    trade.stall.shop.clock.advance(Duration::from_secs(26 * 60 * 60));
    let journal = MemoryJournal::new();
    for entry in trade.journal.entries().iter().filter(|entry| entry.is_channel()) {
        journal.record(entry).await.unwrap();
    }
    trade.line.journal = journal.clone();
    trade.journal = journal;
    let layer = trade.layer().await;
    *trade.purse.other_node.lock().unwrap() = Some(0);
    let error = trade.buy(&layer, 1).await.unwrap_err();
    assert_eq!((error.kind(), trade.purse.deposits()), (PayErrorKind::Payer, 1), "{error}");
    *trade.purse.other_node.lock().unwrap() = None;
    let (text, _) = trade.buy(&layer, 1).await.unwrap();
    assert_eq!((text.as_str(), trade.purse.deposits(), trade.channels()), ("run 2", 1, 1));
}
