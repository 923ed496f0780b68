//! A machine whose clock is wrong: what was signed is valid by the chain's time, and over by the chain's time.

use std::time::{Duration, SystemTime};

use tower_x402::{
    client::{PayError, PayErrorKind, PurchaseState},
    testing::FakeClock,
};

use super::{
    super::{CHEAP, ForeignSeller, Make, WEATHER},
    Buyer, Got, buy, get, open,
};

const HOUR: i64 = 3_600;
/// A clock that is behind by less than what a node is believed to be ahead.
const SLOW: i64 = -240;
/// More than what is needed until a block is taken as final.
const DEEP: u64 = 40;

fn wrong_by(seconds: i64) -> FakeClock {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    FakeClock::new(now.checked_add_signed(seconds).unwrap())
}

/// A process that is started with a wrong clock.
async fn buys(buyer: &Buyer, seller: &ForeignSeller, what: &str, by: i64) -> Result<Got, PayError> {
    let layer = buyer.layer_with(|builder| builder.clock(wrong_by(by))).await;
    buy(&layer, get(&format!("{}?{what}", seller.url(WEATHER)))).await
}

#[tokio::test]
async fn a_clock_that_is_wrong_buys_once_or_pays_nothing() {
    for make in Make::ALL {
        let Some((world, seller, buyer)) = open(make).await else { continue };
        for (bought, by) in [(1, HOUR), (2, SLOW)] {
            let got = buys(&buyer, &seller, "once", by).await.unwrap();
            assert_eq!((got.status, got.purchase.unwrap().attempts), (200, 1), "{make:?}, {by}");
            assert_eq!(seller.earned(&world).await, bought * CHEAP, "{make:?}, {by}");
        }
        // A chain that is an hour ahead is not believed: what is signed by this clock is over already.
        let error = buys(&buyer, &seller, "late", -HOUR).await.unwrap_err();
        assert!(matches!(error.kind(), PayErrorKind::Outstanding | PayErrorKind::Lapsed), "{make:?}: {error}");
        assert_eq!(seller.earned(&world).await, 2 * CHEAP, "{make:?}");
    }
}

#[tokio::test]
async fn what_was_settled_is_found_whatever_the_clock_says_and_not_paid_again() {
    for by in [HOUR, SLOW] {
        let Some((world, seller, buyer)) = open(Make::Express).await else { return };
        seller.fault("settles-and-errs").await;
        for call in 1..=3 {
            let error = buys(&buyer, &seller, "settled", by).await.unwrap_err();
            seller.fault("").await;
            assert!(error.transaction().is_some(), "{by}, {call}: {error}");
            assert_eq!(
                error.kind() == PayErrorKind::BilledAgain && !error.is_resumable(),
                call == 5,
                "{by}, {call}: {error}"
            );
            assert_eq!(seller.earned(&world).await, CHEAP, "{by}, {call}");
        }
    }
}

/// The clock jumps past the end of what was signed, and back: only the chain's time ends it.
#[tokio::test]
async fn only_the_chain_ends_what_was_signed() {
    for by in [HOUR, SLOW] {
        let Some((world, seller, buyer)) = open(Make::Express).await else { return };
        seller.fault("says-refused").await;
        for clock in [by, -by, 0, by] {
            let error = buys(&buyer, &seller, "refused", clock).await.unwrap_err();
            assert!(error.kind() == PayErrorKind::Outstanding, "{clock}: {error}");
        }
        assert_eq!(buyer.entries().await.len(), 1, "one signature");
        // Past the end that a clock which is fast gave it, too.
        world.chain.increase_time(Duration::from_secs(3 * HOUR.unsigned_abs())).await.unwrap();
        world.chain.mine(DEEP).await.unwrap();
        seller.fault("").await;

        let got = buys(&buyer, &seller, "refused", 3 * HOUR).await.unwrap();
        assert_eq!((got.status, seller.earned(&world).await), (200, CHEAP), "{by}");
        let states: Vec<_> = buyer.entries().await.iter().map(|entry| entry.state).collect();
        let count = |state| states.iter().filter(|one| **one == state).count();
        assert_eq!((count(PurchaseState::Void), count(PurchaseState::Answered), states.len()), (1, 1, 2), "{states:?}");
    }
}
