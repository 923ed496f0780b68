//! The ledger forgets beside the requests, and by itself.

use std::time::Duration;

use crate::support::{
    Counter, PRICE, Shop, ask, echo,
    faults::{Fault, Op, settle},
    layered, quoted, redemption,
};

async fn sell(shop: &Shop) {
    let service = layered(&shop.merchant.charge("answer", PRICE).unwrap(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn the_ledger_is_swept_at_the_first_reservation_and_once_a_minute() {
    let shop = Shop::open().await;
    assert_eq!(shop.faults.asked(Op::Sweep), 0);
    for sweeps in 1..=3 {
        for _ in 0..5 {
            sell(&shop).await;
            assert_eq!(shop.faults.asked(Op::Sweep), sweeps);
        }
        tokio::time::advance(Duration::from_secs(60)).await;
    }
}

/// What they leave behind is bounded.
#[tokio::test(start_paused = true)]
async fn many_reservations_have_the_ledger_swept_earlier() {
    let shop = Shop::open().await;
    for _ in 0..1_024 {
        sell(&shop).await;
    }
    assert_eq!(shop.faults.asked(Op::Sweep), 1);
    sell(&shop).await;
    assert_eq!(shop.faults.asked(Op::Sweep), 2);
}

/// A sweep that hangs delays no sale, and there is no second one beside it.
#[tokio::test(start_paused = true)]
async fn a_sweep_that_hangs_is_left_alone() {
    let shop = Shop::open().await;
    shop.faults.always(Op::Sweep, Fault::Hang);
    for _ in 0..3 {
        sell(&shop).await;
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    assert_eq!(shop.faults.asked(Op::Sweep), 1);
}
