//! What foreign sellers answer where their facilitator misbehaves: a client that pays them has only this to go by.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{CHEAP, ForeignSeller, Make, WEATHER};
use crate::{
    PATIENT, Token, World,
    clients::{Client, Order},
};

/// What a fault does: whether the payer is charged, and whether the handler ran, which it does before anything is settled.
struct Fault {
    name: &'static str,
    charges: bool,
    runs: bool,
}

const fn fault(name: &'static str, charges: bool, runs: bool) -> Fault {
    Fault { name, charges, runs }
}

/// Each is answered with 402, but `settles-and-babbles` by `@x402/express`.
const FAULTS: [Fault; 9] = [
    fault("settles-and-errs", true, true),
    fault("settles-and-says-refused", true, true),
    fault("settles-and-says-failed", true, true),
    fault("settles-twice", true, true),
    fault("settles-and-babbles", true, true),
    fault("says-failed", false, true),
    fault("settle-errs", false, true),
    fault("verify-errs", false, false),
    fault("drops", false, false),
];

struct Stage {
    world: World,
    seller: ForeignSeller,
}

impl Stage {
    async fn open(make: Make) -> Option<Self> {
        let world = World::with(Token::Circles).await?;
        let seller = ForeignSeller::open(make, &world).await?;
        Some(Self { world, seller })
    }

    async fn sign(&self) -> String {
        Client::sign(&self.world, Order::get(&self.seller.url(WEATHER))).await
    }

    /// A payment of which nothing is known at the end but that it was refused, and then the same one without the fault.
    async fn meets(&self, fault: &Fault) {
        let Self { world, seller } = self;
        let (name, make) = (fault.name, seller.make);
        let (earned, runs) = (seller.earned(world).await, seller.runs(WEATHER).await);
        let payment = self.sign().await;
        seller.fault(name).await;
        let answer = seller.show(WEATHER, &payment).await;
        seller.fault("").await;

        let bad_gateway = make == Make::Express && name == "settles-and-babbles";
        assert_eq!(answer.status, if bad_gateway { 502 } else { 402 }, "{make:?}, {name}: {}", answer.body);
        assert!(!seller.reason(&answer).is_empty(), "{make:?}, {name}");
        assert_eq!(seller.runs(WEATHER).await, runs + u64::from(fault.runs), "{make:?}, {name}");
        let charged = earned + if fault.charges { CHEAP } else { 0 };
        assert_eq!(seller.earned(world).await, charged, "{make:?}, {name}");

        let again = seller.show(WEATHER, &payment).await;
        if fault.charges {
            assert_eq!(again.status, 402, "{make:?}, {name}: what was charged is not sold any more");
            assert_eq!(seller.reason(&again), "invalid_exact_evm_nonce_already_used", "{make:?}, {name}");
        } else {
            assert_eq!(again.status, 200, "{make:?}, {name}: {}", again.body);
        }
        assert_eq!(seller.earned(world).await, earned + CHEAP, "{make:?}, {name}");
    }

    async fn earns(&self, units: u128) {
        let deadline = Instant::now() + PATIENT;
        while self.seller.earned(&self.world).await != units {
            assert!(Instant::now() < deadline, "{:?} was not paid", self.seller.make);
            sleep(Duration::from_millis(200)).await;
        }
    }
}

async fn meets_every_fault(make: Make) {
    let Some(stage) = Stage::open(make).await else { return };
    for fault in &FAULTS {
        stage.meets(fault).await;
    }
}

#[tokio::test]
async fn express_over_a_facilitator_that_misbehaves() {
    meets_every_fault(Make::Express).await;
}

#[tokio::test]
async fn fastapi_over_a_facilitator_that_misbehaves() {
    meets_every_fault(Make::FastApi).await;
}

#[tokio::test]
async fn express_of_version_1_over_a_facilitator_that_misbehaves() {
    meets_every_fault(Make::ExpressV1).await;
}

/// The seller's own patience ends, and the payer was charged. Version 1 has none that ends within minutes.
#[tokio::test]
async fn a_facilitator_that_settles_and_hangs() {
    for (make, status) in [(Make::Express, 502), (Make::FastApi, 402)] {
        let Some(stage) = Stage::open(make).await else { continue };
        let payment = stage.sign().await;
        stage.seller.fault("settles-and-hangs").await;
        let answer = stage.seller.show(WEATHER, &payment).await;
        assert_eq!((answer.status, stage.seller.runs(WEATHER).await), (status, 1), "{make:?}: {}", answer.body);
        assert!(stage.seller.settled(&answer).is_none_or(|settled| settled["success"] == false), "{make:?}");
        stage.earns(CHEAP).await;
    }
}

/// What a facilitator invents is passed on.
#[tokio::test]
async fn a_facilitator_that_claims_what_it_did_not_settle() {
    for make in Make::ALL {
        let Some(stage) = Stage::open(make).await else { continue };
        let payment = stage.sign().await;
        stage.seller.fault("says-settled").await;
        let answer = stage.seller.show(WEATHER, &payment).await;
        let settled = stage.seller.settled(&answer).unwrap();
        assert_eq!((answer.status, &settled["success"]), (200, &true.into()), "{make:?}");
        assert_eq!(settled["transaction"], format!("0x{}", "ab".repeat(32)), "{make:?}");
        assert_eq!(stage.seller.earned(&stage.world).await, 0, "{make:?}");
    }
}

#[tokio::test]
async fn a_facilitator_that_is_gone() {
    for make in Make::ALL {
        let Some(mut stage) = Stage::open(make).await else { continue };
        let payment = stage.sign().await;
        stage.seller.facilitator.kill().await;
        let answer = stage.seller.show(WEATHER, &payment).await;
        assert_eq!((answer.status, stage.seller.runs(WEATHER).await), (402, 0), "{make:?}: {}", answer.body);
        // It goes on to ask for payments.
        assert_eq!(stage.seller.ask(WEATHER).await.status, 402, "{make:?}");
        assert_eq!(stage.seller.earned(&stage.world).await, 0, "{make:?}");
    }
}
