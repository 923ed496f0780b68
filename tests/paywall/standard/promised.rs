//! One payer's payments that are taken on and not settled yet.

use std::time::Duration;

use futures_util::future::join_all;
use tower_x402::{protocol::Address, testing::Settling};

use super::{Stall, authorization, offered, paid, sign};
use crate::support::{
    Counter, ask, assert_problem, echo,
    faults::{Fault, Op},
    layered,
};

#[tokio::test(start_paused = true)]
async fn a_payer_has_so_many_unsettled_payments_and_no_more() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let offer = offered(&service).await;
    let mut payments = Vec::new();
    for nonce in 0..33 {
        let offer = offered(&service).await;
        payments.push(sign(&offer, authorization(&offer, [nonce; 32])));
    }
    stall.settler.always(Settling::Hanging);
    let under_way = join_all(payments[..32].iter().map(|payment| ask(&service, paid(payment))));
    let mut under_way = Box::pin(under_way);
    let waited = tokio::time::timeout(std::time::Duration::from_secs(1), &mut under_way).await;
    assert!(waited.is_err() && counter.runs() == 32);
    assert_problem(ask(&service, paid(&payments[32])).await, 503, "verification_unavailable").await;
    assert_eq!(counter.runs(), 32, "no further handler runs");
    stall.settler.always(None);
    // Another payer is not concerned.
    let mut other = authorization(&offer, [99; 32]);
    other.from = Address::new([0x77; 20]);
    assert_eq!(ask(&service, paid(&sign(&offer, other))).await.status(), 200);
    // Who leaves has promised no less: the settlements go on until they end.
    drop(under_way);
    crate::support::faults::settle().await;
    assert_problem(ask(&service, paid(&payments[32])).await, 503, "verification_unavailable").await;
    tokio::time::sleep(Duration::from_secs(181)).await;
    assert_eq!(ask(&service, paid(&payments[32])).await.status(), 200);
}

/// What a stranger shows in a payer's name takes no place from the payer: a copy of what was sold is public.
#[tokio::test(start_paused = true)]
async fn copies_of_a_sold_payment_do_not_keep_its_payer_out() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let offer = offered(&service).await;
    assert_eq!(ask(&service, paid(&sign(&offer, authorization(&offer, [1; 32])))).await.status(), 200);
    let mut copies = Vec::new();
    for _ in 0..32 {
        let offer = offered(&service).await;
        copies.push(sign(&offer, authorization(&offer, [1; 32])));
    }
    let fresh = offered(&service).await;
    // A ledger that takes its time.
    stall.shop.faults.next(Op::Reserve, [Fault::Late(Duration::from_secs(1)); 32]);
    let mut under_way = Box::pin(join_all(copies.iter().map(|copy| ask(&service, paid(copy)))));
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut under_way).await.is_err());
    assert_eq!(ask(&service, paid(&sign(&fresh, authorization(&fresh, [2; 32])))).await.status(), 200);
    assert!(under_way.await.iter().all(|answer| answer.status() == 409));
}
