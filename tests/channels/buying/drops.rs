//! The call is dropped, and the process dies, at each step: the next one goes on, and nothing is signed that the record does not explain.

use std::{future::poll_fn, pin::pin};

use tower_x402::{
    ChannelPolicy,
    client::{ChannelPhase, PurchaseState},
};

use super::{corrections::given_up, *};

/// Polls it so often at most; whether it came to its end.
async fn polled<T>(work: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut work = pin!(work);
    let mut left = times;
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// `before`: how many answers are bought before the one that is dropped: with none, it carries the deposit.
async fn dropped_everywhere(before: usize, policy: ChannelPolicy) {
    let mut drops = 0;
    for times in 0.. {
        let trade = Trade::at(Stall::open_with(policy).await, None);
        let layer = trade.layer().await;
        for what in 0..before {
            trade.buy(&layer, what).await.unwrap();
        }
        let is_done = polled(trade.buy(&layer, 100), times).await.is_some();
        drops += usize::from(!is_done);
        drop(layer);
        // At its very end the answer is with the caller, by the journal.
        let is_answered = |entry: &JournalEntry| !entry.is_channel() && entry.state == PurchaseState::Answered;
        let is_over = trade.journal.entries().iter().filter(|entry| is_answered(entry)).count() > before;
        // A lease that was left behind ends.
        trade.stall.shop.clock.advance(std::time::Duration::from_secs(61));
        let layer = trade.layer().await;
        let text = trade.buy(&layer, 100).await.unwrap_or_else(|error| panic!("after {times}: {error}")).0;
        assert!(text.starts_with("run "), "after {times}");
        trade.buy(&layer, 101).await.unwrap_or_else(|error| panic!("next after {times}: {error}"));
        let (charged, sales) = (trade.charged().await, before as u128 + 2);
        assert_eq!(charged, (sales + u128::from(is_over)) * PRICE, "after {times}");
        assert_eq!((trade.channels(), layer.channels().len()), (1, 1), "after {times}");
        assert_eq!(trade.stall.channels.deposits(), 1, "after {times}");
        let highest = trade.purse.signed.lock().unwrap().1.iter().copied().max().unwrap();
        assert_eq!(highest, charged, "after {times}: signed and never sold");
        assert_eq!(layer.channels().remove(0).charged, units(charged), "after {times}");
        if is_done {
            break;
        }
    }
    assert!(drops > 10, "{drops}");
}

/// The call that the seller corrects, in a process that goes on, and in one that dies.
#[tokio::test(start_paused = true)]
async fn a_purchase_that_is_corrected_is_dropped_at_each_step() {
    for restarted in [false, true] {
        let mut drops = 0;
        for times in 0.. {
            let context = format!("{restarted}, after {times}");
            let trade = Trade::open().await;
            let mut layer = trade.layer().await;
            given_up(&trade, &layer).await;
            let is_done = polled(trade.buy(&layer, 2), times).await.is_some();
            drops += usize::from(!is_done);
            trade.stall.shop.clock.advance(std::time::Duration::from_secs(61));
            if restarted {
                layer = trade.layer().await;
            }
            for what in [2, 3] {
                trade.buy(&layer, what).await.unwrap_or_else(|error| panic!("{context}, {what}: {error}"));
            }
            let (held, charged) = (layer.channels().remove(0), trade.charged().await);
            assert_eq!((held.phase, held.charged), (ChannelPhase::Open, units(charged)), "{context}");
            let highest = trade.purse.signed.lock().unwrap().1.iter().copied().max();
            assert_eq!(highest, Some(charged), "{context}: signed and never sold");
            assert_eq!((trade.channels(), trade.stall.channels.deposits()), (1, 1), "{context}");
            if is_done {
                break;
            }
        }
        assert!(drops > 10, "{drops}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_purchase_in_a_channel_is_dropped_at_each_step() {
    dropped_everywhere(1, ChannelPolicy::new()).await;
}

#[tokio::test(start_paused = true)]
async fn a_purchase_that_opens_a_channel_is_dropped_at_each_step() {
    dropped_everywhere(0, ChannelPolicy::new()).await;
}

#[tokio::test(start_paused = true)]
async fn a_purchase_that_opens_a_channel_by_permit2_is_dropped_at_each_step() {
    dropped_everywhere(0, ChannelPolicy::new().deposits_by_permit2()).await;
}
