//! One deposit, and then a signature for each answer.

use futures_util::future::join_all;
use tower_x402::client::{ChannelPhase, PayErrorKind, PurchaseState};

use super::*;

#[tokio::test(start_paused = true)]
async fn one_deposit_buys_ten_answers_and_the_next_one_tops_it_up() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    for what in 0..11 {
        let (text, bought) = trade.buy(&layer, what).await.unwrap();
        assert_eq!(text, format!("run {}", what + 1));
        assert_eq!((bought.paid_by, bought.state), (PaymentMethod::Channel, PurchaseState::Answered));
        assert_eq!((bought.amount, bought.charged, bought.confirmed), (units(PRICE), Some(units(PRICE)), true));
        assert_eq!(bought.transaction.is_some(), what % 10 == 0, "{what}");
    }
    assert_eq!(trade.line.totals(), (1..=11).map(|sale| sale * PRICE).collect::<Vec<_>>());
    assert_eq!((trade.purse.deposits(), trade.stall.channels.deposits(), trade.channels()), (2, 2, 1));
    let held = layer.channels().remove(0);
    assert_eq!((held.deposited, held.charged), (units(2 * PRICE_OF_TEN), units(11 * PRICE)));
    assert_eq!((held.left(), held.waits_for, held.phase), (units(9 * PRICE), None, ChannelPhase::Open));
    // What is deposited is spent, and no answer more than that.
    assert_eq!(layer.spent(), units(2 * PRICE_OF_TEN));
    assert!(layer.unfinished().is_empty());
    // Another process goes on with the same channel.
    drop(layer);
    let layer = trade.layer().await;
    assert_eq!((layer.spent(), layer.channels().remove(0)), (units(2 * PRICE_OF_TEN), held));
    trade.buy(&layer, 12).await.unwrap();
    assert_eq!((trade.line.totals().last(), trade.channels()), (Some(&(12 * PRICE)), 1));
}

#[tokio::test(start_paused = true)]
async fn a_metered_answer_adds_its_charge_and_not_its_maximum() {
    let trade = Trade::selling(Some(40)).await;
    let layer = trade.layer().await;
    for what in 0..3 {
        let (_, bought) = trade.buy(&layer, what).await.unwrap();
        assert_eq!((bought.amount, bought.charged), (units(PRICE), Some(units(40))));
    }
    assert_eq!(trade.line.totals(), [PRICE, 40 + PRICE, 80 + PRICE]);
    assert_eq!(layer.channels().remove(0).charged, units(120));
    // Nothing is charged: the same total is signed again, for another answer.
    let free = Trade::selling(Some(0)).await;
    let layer = free.layer().await;
    for what in 0..3 {
        assert_eq!(free.buy(&layer, what).await.unwrap().0, format!("run {}", what + 1));
    }
    assert_eq!(free.line.totals(), [PRICE; 3]);
}

#[tokio::test(start_paused = true)]
async fn calls_at_the_same_time_wait_for_one_channel() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    let answers = join_all((0..8).map(|what| trade.buy(&layer, what))).await;
    let texts: HashSet<String> = answers.into_iter().map(|answer| answer.unwrap().0).collect();
    assert_eq!((texts.len(), trade.runs.runs(), trade.channels()), (8, 8, 1));
    assert_eq!(trade.line.totals(), (1..=8).map(|sale| sale * PRICE).collect::<Vec<_>>());
}

/// Without the setting nothing is locked in a channel.
#[tokio::test(start_paused = true)]
async fn a_channel_is_opened_only_where_it_is_preferred() {
    let trade = Trade::open().await;
    let layer = trade.layer_with(|builder| builder.prefer(PaymentMethod::Authorization)).await;
    let error = trade.buy(&layer, 0).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::Payer, "{error}");
    assert!((trade.purse.deposits(), trade.line.seen().len(), layer.channels().len()) == (0, 0, 0));
}

/// The answer is lost behind the sale: the same header has it again, and it is charged once.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again_by_the_same_voucher() {
    for lost in [0, 1] {
        let trade = Trade::open().await;
        let layer = trade.layer().await;
        trade.line.scripted(move |number, answer| if number == lost { Err("broken".to_owned()) } else { Ok(answer) });
        for what in 0..3 {
            assert_eq!(trade.buy(&layer, what).await.unwrap().0, format!("run {}", what + 1), "{lost}");
        }
        assert_eq!((trade.runs.runs(), trade.charged().await, trade.line.seen().len()), (3, 3 * PRICE, 4));
        let seen = trade.line.seen();
        assert_eq!(seen[lost], seen[lost + 1], "{lost}");
    }
}

/// The line stays broken: others of the channel wait for what was left, or go on once it is abandoned.
#[tokio::test(start_paused = true)]
async fn a_purchase_that_was_left_keeps_the_channel_until_it_is_resumed_or_abandoned() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    trade.line.scripted(|_, _| Err("broken".to_owned()));
    let error = trade.buy(&layer, 1).await.unwrap_err();
    assert_eq!((error.kind(), error.is_resumable()), (PayErrorKind::Unanswered, true), "{error}");
    let left = error.purchase().unwrap();
    trade.line.scripted(|_, answer| Ok(answer));
    let error = trade.buy(&layer, 2).await.unwrap_err();
    assert_eq!((error.kind(), error.purchase()), (PayErrorKind::Channel, Some(left)), "{error}");
    assert_eq!(layer.channels().remove(0).waits_for, Some(left));
    let (text, _) = trade.buy(&layer, 1).await.unwrap();
    assert_eq!((text.as_str(), trade.runs.runs(), trade.charged().await), ("run 2", 2, 2 * PRICE));
    trade.buy(&layer, 2).await.unwrap();
    assert_eq!(trade.channels(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_answer_costs_nothing_and_its_total_is_signed_again() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    // The service refuses the request itself.
    let refuse = tower::service_fn(async |_: Request<RequestBody<Body>>| {
        let answer = Response::builder().status(400).body(Full::<Bytes>::from("which?")).unwrap();
        Ok::<_, Infallible>(answer)
    });
    let honest = trade.line.seller.lock().unwrap().clone();
    let refusing = tower::util::BoxCloneService::new(trade.stall.fixed().layer(refuse));
    *trade.line.seller.lock().unwrap() = refusing;
    let (text, bought) = trade.buy(&layer, 1).await.unwrap();
    assert_eq!((text.as_str(), bought.charged), ("which?", Some(units(0))));
    *trade.line.seller.lock().unwrap() = honest;
    trade.buy(&layer, 2).await.unwrap();
    assert_eq!(trade.line.totals(), [PRICE, 2 * PRICE, 2 * PRICE]);
}
