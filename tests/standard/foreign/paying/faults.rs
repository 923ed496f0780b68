//! Facilitators that fail, lie, hang and settle twice: a purchase costs one price at most, and its errors say where the money is.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use tower_x402::{
    client::{PayError, PayErrorKind, PurchaseState},
    testing::FakeClock,
};

use super::{
    super::{CHEAP, ForeignSeller, Make, WEATHER},
    Buyer, Got, open,
};
use crate::World;

/// Those that settle, after which these servers give the answer to nobody.
const SETTLE: [&str; 5] =
    ["settles-and-errs", "settles-and-says-refused", "settles-and-says-failed", "settles-twice", "settles-and-babbles"];
/// Those that do not.
const DO_NOT: [&str; 7] = ["says-refused", "says-failed", "settle-errs", "verify-errs", "drops", "redirects", "floods"];
/// How often each is asked for.
const CALLS: usize = 4;
/// Longer than a payment that bought nothing is kept.
const OLD: Duration = Duration::from_secs(26 * 60 * 60);
/// Longer than any call may take.
const ENDLESS: Duration = Duration::from_secs(300);

struct Stage {
    world: World,
    seller: ForeignSeller,
    buyer: Buyer,
}

impl Stage {
    async fn open(make: Make) -> Option<Self> {
        let (world, seller, buyer) = open(make).await?;
        Some(Self { world, seller, buyer })
    }

    /// Each purchase is one of its own.
    async fn buy(&self, what: &str) -> Result<Got, PayError> {
        timeout(ENDLESS, self.buyer.buy(&self.url(what))).await.expect("it ends")
    }

    fn url(&self, what: &str) -> String {
        format!("{}?{what}", self.seller.url(WEATHER))
    }

    async fn earned(&self) -> u128 {
        self.seller.earned(&self.world).await
    }

    /// The first call meets the fault, and the others do not: until there is an answer. Where there is none to be had, the error names
    /// the transaction, and the payment is the only one until it is too old.
    async fn meets(&self, fault: &str) -> Result<Got, PayError> {
        let (make, before) = (self.seller.make, self.earned().await);
        self.seller.fault(fault).await;
        for call in 1..=CALLS {
            let outcome = self.buy(fault).await;
            self.seller.fault("").await;
            let charged = self.earned().await - before;
            assert!(charged <= CHEAP, "{make:?}, {fault}: charged {charged} after {call} calls");
            let error = match outcome {
                Ok(got) => {
                    println!("{make:?}, {fault}: {} after {call} calls, charged {charged}", got.status);
                    return Ok(got);
                }
                Err(error) => error,
            };
            assert_eq!(error.transaction().is_some(), charged > 0, "{make:?}, {fault}, call {call}: {error}");
            assert!(error.is_resumable(), "{make:?}, {fault}, call {call}: {error}");
            if call == CALLS {
                println!("{make:?}, {fault}: charged {charged}, {error}");
                self.is_on_chain(&error).await;
                return Err(error);
            }
        }
        unreachable!()
    }

    /// A day later the payment is given up, and the error says so.
    async fn ends(&self, what: &str) {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap() + OLD;
        let layer = self.buyer.layer_with(|builder| builder.clock(FakeClock::new(now.as_secs()))).await;
        let error = super::buy(&layer, super::get(&self.url(what))).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::BilledAgain && !error.is_resumable(), "{error}");
        assert!(layer.unfinished().iter().all(|entry| entry.transaction != error.transaction()));
    }

    async fn is_on_chain(&self, error: &PayError) {
        let receipt: Value = self.world.chain.receipt(error.transaction().unwrap()).await.unwrap().unwrap();
        assert_eq!(receipt["status"], "0x1");
    }

    async fn signatures(&self) -> usize {
        self.buyer.entries().await.iter().filter(|entry| entry.authorization().is_some()).count()
    }
}

async fn costs_one_payment(make: Make) {
    let Some(stage) = Stage::open(make).await else { return };
    for (number, fault) in SETTLE.into_iter().enumerate() {
        let before = stage.earned().await;
        match stage.meets(fault).await {
            Err(error) => assert!(error.kind() == PayErrorKind::BilledAgain, "{make:?}, {fault}: {error}"),
            Ok(got) => panic!("{make:?}, {fault}: {got:?}"),
        }
        assert_eq!(stage.earned().await, before + CHEAP, "{make:?}, {fault}");
        assert_eq!(stage.signatures().await, number + 1, "{make:?}, {fault}");
    }
    stage.ends(SETTLE[0]).await;
    assert_eq!(stage.earned().await, SETTLE.len() as u128 * CHEAP, "{make:?}");
}

async fn costs_one_payment_and_is_answered(make: Make) {
    let Some(stage) = Stage::open(make).await else { return };
    for (number, fault) in DO_NOT.into_iter().enumerate() {
        let before = stage.earned().await;
        let got = stage.meets(fault).await.unwrap_or_else(|error| panic!("{make:?}, {fault}: {error}"));
        assert_eq!((got.status, stage.earned().await), (200, before + CHEAP), "{make:?}, {fault}");
        assert_eq!(got.purchase.unwrap().state, PurchaseState::Answered, "{make:?}, {fault}");
        assert_eq!(stage.signatures().await, number + 1, "{make:?}, {fault}");
    }
}

#[tokio::test]
async fn what_express_has_settled_and_does_not_answer_is_paid_once() {
    costs_one_payment(Make::Express).await;
}

#[tokio::test]
async fn what_fastapi_has_settled_and_does_not_answer_is_paid_once() {
    costs_one_payment(Make::FastApi).await;
}

#[tokio::test]
async fn what_version_1_has_settled_and_does_not_answer_is_paid_once() {
    costs_one_payment(Make::ExpressV1).await;
}

#[tokio::test]
async fn what_express_has_not_settled_is_answered_for_one_payment() {
    costs_one_payment_and_is_answered(Make::Express).await;
}

#[tokio::test]
async fn what_fastapi_has_not_settled_is_answered_for_one_payment() {
    costs_one_payment_and_is_answered(Make::FastApi).await;
}

#[tokio::test]
async fn what_version_1_has_not_settled_is_answered_for_one_payment() {
    costs_one_payment_and_is_answered(Make::ExpressV1).await;
}

/// The server is silent until its own limit, which version 1 does not have.
#[tokio::test]
async fn a_facilitator_that_settles_and_hangs_is_paid_once() {
    for make in Make::ALL {
        let Some(stage) = Stage::open(make).await else { continue };
        let outcome = stage.meets("settles-and-hangs").await;
        assert!(outcome.is_err(), "{make:?}: {outcome:?}");
        assert_eq!((stage.earned().await, stage.signatures().await), (CHEAP, 1), "{make:?}");
    }
}

/// Nothing is settled, and a transaction is named that nobody sent: the seller gave the answer, and that is all that was bought.
#[tokio::test]
async fn a_facilitator_that_invents_a_settlement_is_paid_nothing() {
    for make in [Make::Express, Make::FastApi] {
        let Some(stage) = Stage::open(make).await else { continue };
        let got = stage.meets("says-settled").await.unwrap();
        assert_eq!((got.status, got.purchase.unwrap().state), (200, PurchaseState::Answered), "{make:?}");
        assert_eq!((stage.earned().await, stage.signatures().await), (0, 1), "{make:?}");
    }
}

#[tokio::test]
async fn where_the_facilitator_or_the_server_is_gone_nothing_is_paid() {
    for make in Make::ALL {
        let Some(mut stage) = Stage::open(make).await else { continue };
        // Nothing is signed while nobody asks for it.
        stage.seller.kill().await;
        let error = stage.buy("server").await.unwrap_err();
        assert!(error.kind() == PayErrorKind::Http && !error.is_resumable(), "{make:?}: {error}");
        assert_eq!(stage.signatures().await, 0, "{make:?}");
        stage.seller.restart().await;

        // It has asked what the facilitator supports.
        assert_eq!(stage.buy("first").await.unwrap().status, 200, "{make:?}");
        stage.seller.facilitator.kill().await;
        for _ in 0..2 {
            let error = stage.buy("facilitator").await.unwrap_err();
            assert!(error.is_resumable() && error.transaction().is_none(), "{make:?}: {error}");
        }
        assert_eq!((stage.earned().await, stage.signatures().await), (CHEAP, 2), "{make:?}");
    }
}
