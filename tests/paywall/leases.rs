//! Leases: kept up while the handler works, ended by the longest hold, lost to whoever takes them over.

mod model;

use std::{
    convert::Infallible,
    future::{Future, pending, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use http::{Request, Response};
use tokio::{
    task::coop::consume_budget,
    time::{Instant, advance, sleep, timeout},
};
use tower::Service;
use tower_x402::RequestBody;

use crate::{
    support::faults::{Fault, Gone, Op, Stage, handler, ok, quoted, settle, start},
    support::{ask, assert_problem, layered, redemption},
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn retry_after<B>(response: &Response<B>) -> u64 {
    response.headers()["retry-after"].to_str().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_every_third_of_its_length_while_the_handler_works() {
    let stage = Stage::open().await;
    let service = layered(
        &stage.layer(),
        handler(|_| async {
            sleep(seconds(199)).await;
            ok()
        }),
    );
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let answer = start(&service, redemption(&intent, tx));
    let begun = Instant::now();
    for renewals in 0..=9 {
        sleep(seconds(19)).await;
        assert_eq!(stage.ledger.asked(Op::Renew), renewals, "after {:?}", begun.elapsed());
        let busy = ask(&service, redemption(&intent, tx)).await;
        assert!((1..=60).contains(&retry_after(&busy)));
        assert_problem(busy, 409, "redemption_in_progress").await;
        sleep(seconds(1)).await;
    }
    assert_eq!(answer.await.unwrap().status(), 200);
    assert_eq!(stage.ledger.asked(Op::Renew), 9);
}

#[tokio::test(start_paused = true)]
async fn a_handler_done_within_a_third_of_its_lease_is_never_renewed() {
    for work in [0, 19] {
        let stage = Stage::open().await;
        let service = layered(
            &stage.layer(),
            handler(move |_| async move {
                sleep(seconds(work)).await;
                ok()
            }),
        );
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
        sleep(seconds(600)).await;
        assert_eq!(stage.ledger.asked(Op::Renew), 0, "{work} s of work");
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_lease_outlives_a_renewal_that_hangs() {
    let stage = Stage::open_with(|builder| builder.lease(seconds(3))).await;
    let service = layered(
        &stage.layer(),
        handler(|_| async {
            sleep(seconds(10)).await;
            ok()
        }),
    );
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    stage.ledger.next(Op::Renew, [Fault::Hang]);
    let answer = start(&service, redemption(&intent, tx));
    for _ in 0..19 {
        sleep(Duration::from_millis(500)).await;
        assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "redemption_in_progress").await;
    }
    assert_eq!(answer.await.unwrap().status(), 200);
}

/// However short it is, and however a renewal goes wrong: the next one comes in time.
#[tokio::test(start_paused = true)]
async fn a_lease_of_a_second_outlives_one_failed_renewal() {
    for fault in [Fault::Fail, Fault::Hang] {
        let stage = Stage::open_with(|builder| builder.lease(seconds(1))).await;
        let service = layered(
            &stage.layer(),
            handler(|_| async {
                sleep(seconds(6)).await;
                ok()
            }),
        );
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        let answer = start(&service, redemption(&intent, tx));
        // Every second renewal fails.
        for half in 0..58 {
            if half % 5 == 0 {
                stage.ledger.next(Op::Renew, [fault]);
            }
            sleep(Duration::from_millis(100)).await;
            let rival = ask(&service, redemption(&intent, tx)).await;
            assert_eq!(rival.status(), 409, "{fault:?}, after {half} tenths of a second");
            assert_problem(rival, 409, "redemption_in_progress").await;
        }
        assert_eq!(answer.await.unwrap().status(), 200);
        assert_eq!(stage.counts().consumed, 1);
    }
}

/// Who lost the lease is told at the next renewal; what the answer then says is the ledger's word.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_handler_at_once_and_withholds_its_answer() {
    for (rival_works, code) in [(0, "already_consumed"), (300, "redemption_in_progress")] {
        let stage = Stage::open().await;
        let gone = Gone::default();
        let watched = gone.clone();
        let inner = handler(move |run| {
            let watched = watched.watch();
            async move {
                let _watched = watched;
                sleep(seconds(if run == 1 { 500 } else { rival_works })).await;
                ok()
            }
        });
        let service = layered(&stage.layer(), inner);
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        stage.ledger.always(Op::Renew, Fault::Fail);
        let slow = start(&service, redemption(&intent, tx));
        sleep(seconds(60)).await;
        let rival = start(&service, redemption(&intent, tx));
        settle().await;
        stage.ledger.heal();
        let healed = Instant::now();
        assert!(rival_works == 0 || !gone.is_gone());
        assert_problem(slow.await.unwrap(), 409, code).await;
        assert!(gone.is_gone());
        assert!(healed.elapsed() <= seconds(1), "noticed after {:?}", healed.elapsed());
        assert_eq!(rival.await.unwrap().status(), 200);
        assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
        assert_eq!((stage.counts().consumed, stage.counts().held), (1, 0));
    }
}

/// Its renewals fail all along, so that it hears of its loss only when it wants to deliver.
#[tokio::test(start_paused = true)]
async fn a_slow_worker_that_wakes_after_its_lease_was_taken_over_delivers_nothing() {
    for (rival_works, code) in [(0, "already_consumed"), (10, "already_consumed"), (300, "redemption_in_progress")] {
        let stage = Stage::open().await;
        let works = move |run| seconds(if run == 1 { 100 } else { rival_works });
        let service = layered(
            &stage.layer(),
            handler(move |run| async move {
                sleep(works(run)).await;
                ok()
            }),
        );
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        stage.ledger.always(Op::Renew, Fault::Hang);
        let slow = start(&service, redemption(&intent, tx));
        sleep(seconds(60)).await;
        stage.ledger.always(Op::Renew, Fault::Fail);
        let rival = start(&service, redemption(&intent, tx));
        settle().await;
        assert_problem(slow.await.unwrap(), 409, code).await;
        stage.ledger.heal();
        assert_eq!(rival.await.unwrap().status(), 200);
        assert_eq!(stage.counts().consumed, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_payment_taken_over_for_another_intent_is_not_sold_to_the_slow_one_too() {
    let stage = Stage::open().await;
    let works = |run| seconds(if run == 1 { 100 } else { 0 });
    let service = layered(
        &stage.layer(),
        handler(move |run| async move {
            sleep(works(run)).await;
            ok()
        }),
    );
    let (first, second, tx) = (quoted(&service).await, quoted(&service).await, stage.shop.pay(490_000));
    stage.ledger.always(Op::Renew, Fault::Fail);
    let slow = start(&service, redemption(&first, tx));
    sleep(seconds(60)).await;
    assert_eq!(ask(&service, redemption(&second, tx)).await.status(), 200);
    assert_problem(slow.await.unwrap(), 409, "redemption_in_progress").await;
    assert_problem(ask(&service, redemption(&first, tx)).await, 409, "tx_already_used").await;
    // The first intent is as good as new.
    assert_eq!(ask(&service, redemption(&first, stage.shop.pay(490_000))).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_but_was_not_taken_over_still_delivers() {
    let stage = Stage::open().await;
    let service = layered(
        &stage.layer(),
        handler(|_| async {
            sleep(seconds(300)).await;
            ok()
        }),
    );
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    stage.ledger.always(Op::Renew, Fault::Fail);
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_longest_hold_ends_the_handler_and_frees_the_payment_at_once() {
    let stage = Stage::open().await;
    let gone = Gone::default();
    let watched = gone.clone();
    let inner = handler(move |run| {
        let watched = watched.watch();
        async move {
            let _watched = watched;
            if run == 1 { pending().await } else { ok() }
        }
    });
    let service = layered(&stage.layer(), inner);
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let begun = Instant::now();
    let answer = ask(&service, redemption(&intent, tx)).await;
    assert!(gone.is_gone() && begun.elapsed() >= seconds(600) && begun.elapsed() < seconds(601));
    assert_eq!((stage.counts().held, stage.counts().consumed), (0, 0));
    assert_problem(answer, 504, "answer_timeout").await;
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
}

/// What tokio's resources do when they always have something: the task's budget is used up in every poll.
#[tokio::test(start_paused = true)]
async fn a_handler_that_always_uses_up_its_budget_is_renewed_and_ended_all_the_same() {
    let stage = Stage::open_with(|builder| builder.max_hold(seconds(90))).await;
    let greedy = handler(|_| async {
        let mut work = pin!(async {
            for _ in 0..1_000 {
                advance(seconds(1)).await;
            }
        });
        poll_fn(|cx| {
            while pin!(consume_budget()).poll(cx).is_ready() {}
            work.as_mut().poll(cx)
        })
        .await;
        ok()
    });
    let service = layered(&stage.layer(), greedy);
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    assert_problem(ask(&service, redemption(&intent, tx)).await, 504, "answer_timeout").await;
    assert!(stage.ledger.asked(Op::Renew) >= 3);
}

/// A service that is ready when it is told to be, and fails.
#[derive(Clone)]
struct Gated {
    open: Arc<AtomicBool>,
    polled: bool,
}

impl Service<Request<RequestBody<Body>>> for Gated {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The first time it is the door that is asked, the second time the handler.
        if !std::mem::replace(&mut self.polled, true) || self.open.load(Ordering::SeqCst) {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }

    fn call(&mut self, _: Request<RequestBody<Body>>) -> Self::Future {
        Box::pin(async { Ok(ok()) })
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_handler_with_no_room_is_held_and_is_no_attempt() {
    let stage = Stage::open().await;
    let open = Arc::new(AtomicBool::new(false));
    let service = layered(&stage.layer(), Gated { open: Arc::clone(&open), polled: false });
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    for _ in 0..20 {
        let waiting = start(&service, redemption(&intent, tx));
        settle().await;
        assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "redemption_in_progress").await;
        assert_problem(waiting.await.unwrap(), 504, "answer_timeout").await;
    }
    open.store(true, Ordering::SeqCst);
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
}

/// Invariant 5, where nothing else works: the ledger takes nothing back, and nobody renews.
#[tokio::test(start_paused = true)]
async fn a_reservation_that_nobody_ends_runs_out() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|run| async move { if run == 1 { pending().await } else { ok() } }));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    stage.ledger.always(Op::Release, Fault::Hang);
    assert!(timeout(seconds(1), ask(&service, redemption(&intent, tx))).await.is_err(), "the client leaves");
    let begun = Instant::now();
    loop {
        let answer = ask(&service, redemption(&intent, tx)).await;
        if answer.status() == 200 {
            break;
        }
        let wait = retry_after(&answer);
        assert_problem(answer, 409, "redemption_in_progress").await;
        sleep(seconds(wait)).await;
    }
    assert!(begun.elapsed() <= seconds(60));
}
