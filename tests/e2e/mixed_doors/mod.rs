//! Payments of all kinds, shown over and over at four processes on one ledger, also by thieves, and while processes are killed: each
//! buys one answer, and nobody is charged without one.

mod book;
mod payments;
mod stall;
mod street;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use alloy::primitives::keccak256;
use futures_util::future::join_all;
use payments::{Kind, Payment, THIEF};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};
use serde_json::{Value, json};
use street::{Program, Street};
use tokio::time::{Instant, sleep};

use super::market::PRICE;

/// How many show something at any time.
const HANDS: usize = 40;
/// For machines that are busy with other things.
const PATIENT: Duration = Duration::from_secs(300);

/// What the losers of a race are told.
const REFUSALS: [&str; 13] = [
    "400 invalid_query",
    "400 invalid_redemption",
    "403 invalid_signature",
    "403 payment_bound",
    "409 already_consumed",
    "409 redemption_in_progress",
    "409 tx_already_used",
    "409 tx_not_confirmed",
    "422 payment_too_old",
    "429 too_many_attempts",
    "503 ledger_unavailable",
    "503 outcome_unknown",
    "503 verification_unavailable",
];

/// Before what those are told who show worthless signatures; and the bill that they alone are given.
const FORGED: &str = "forged: ";
const BILL: &str = "402 authorization_refused";

/// What those are told whose seller is killed.
const NOT_TOLD: [&str; 2] = ["nothing", "half of an answer"];

/// As many payments of each kind.
async fn payments(street: &Street, each: usize) -> Vec<Payment> {
    let mut kinds: Vec<_> = Kind::all(street.crashes()).flat_map(|kind| std::iter::repeat_n(kind, each)).collect();
    kinds.shuffle(&mut rand::rng());
    let mut all = Vec::new();
    for some in kinds.chunks(HANDS) {
        all.extend(join_all(some.iter().map(|kind| Payment::make(street, *kind))).await);
    }
    all
}

/// Shows any of them at any seller, that many times.
async fn storm(street: &Street, payments: &[Payment], presentations: usize) {
    let shown = AtomicUsize::new(0);
    let hand = async |_| {
        let mut rng = StdRng::from_rng(&mut rand::rng());
        while shown.fetch_add(1, Ordering::Relaxed) < presentations {
            let payment = &payments[rng.random_range(0..payments.len())];
            match payment.any(&mut rng) {
                Some(one) => street.present(payment, one).await,
                None => sleep(Duration::from_millis(1)).await,
            }
        }
    };
    join_all((0..HANDS).map(hand)).await;
}

/// Somebody else sends the authorizations that are to be sent by somebody else.
async fn relay(street: &Street, payments: &[Payment]) {
    let relayer = street.chain.accounts()[THIEF].address();
    for payment in payments.iter().filter(|payment| payment.kind == Kind::Relayed) {
        sleep(Duration::from_millis(rand::rng().random_range(0..100))).await;
        let (_, call) = payment.authorization().unwrap();
        street.chain.send(relayer, street.chain.usdc(), call).await.unwrap();
    }
}

/// Reads from the chain which transactions used which authorizations, while this is done.
async fn watched<T>(street: &Street, payments: &[Payment], done: impl Future<Output = T>) -> T {
    tokio::select! {
        done = done => done,
        never = watch(street, payments) => match never {},
    }
}

async fn watch(street: &Street, payments: &[Payment]) -> Infallible {
    let used = keccak256("AuthorizationUsed(address,bytes32)");
    let filter = json!([{ "address": street.chain.usdc().to_string(), "fromBlock": "0x0", "topics": [used] }]);
    let authorized = |payment: &Payment| payment.authorization().map(|(nonce, _)| nonce);
    loop {
        let logs = street.chain.rpc("eth_getLogs", filter.clone()).await.unwrap();
        let logs: BTreeMap<_, _> = logs.as_array().unwrap().iter().map(nonce_and_transaction).collect();
        for payment in payments.iter().filter(|payment| !payment.is_known()) {
            let transaction = authorized(payment).and_then(|nonce| logs.get(&alloy::hex::encode_prefixed(nonce)));
            if let Some(transaction) = transaction {
                payment.learn(transaction.parse().unwrap());
            }
        }
        sleep(Duration::from_millis(500)).await;
    }
}

fn nonce_and_transaction(log: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&log["topics"][2]), text(&log["transactionHash"]))
}

/// Shows whatever may buy its answer until somebody has that.
async fn redeem(street: &Street, payment: &Payment) {
    let deadline = Instant::now() + PATIENT;
    while !payment.book.is_sold() {
        assert!(Instant::now() < deadline, "{:?} buys nothing: {:?}", payment.kind, street.told());
        for shown in payment.good() {
            street.present(payment, &shown).await;
        }
        sleep(Duration::from_millis(500)).await;
    }
}

async fn redeem_all(street: &Street, payments: &[Payment]) {
    let payments = payments.iter().filter(|payment| payment.kind != Kind::InVain);
    join_all(payments.map(|payment| redeem(street, payment))).await;
}

/// Each payment bought one answer, and none was made that bought none. Nobody was told to pay again.
async fn assert_fair(street: &Street, payments: &[Payment]) {
    let told = street.told();
    let known = |told: &str| {
        if told.strip_prefix(FORGED) == Some(BILL) {
            return true;
        }
        let told = told.strip_prefix(FORGED).unwrap_or(told);
        told.starts_with("200") || REFUSALS.contains(&told) || street.crashes() && NOT_TOLD.contains(&told)
    };
    assert!(told.keys().all(|told| known(told)), "{told:#?}");
    assert!(told.contains_key(&format!("{FORGED}{BILL}")), "{told:#?}");
    let bought: Vec<_> = payments.iter().filter(|payment| payment.kind != Kind::InVain).collect();
    for payment in payments {
        payment.book.assert_fair(&format!("{:?}", payment.kind));
        assert_eq!(payment.book.is_sold(), payment.kind != Kind::InVain, "{:?}", payment.kind);
    }
    assert_eq!(street.takings().await, bought.len() as u128 * PRICE);
    assert_eq!(street.database.count("SELECT count(*) FROM ledger_sold").await, bought.len() as i64);
}

/// Sells that many of each kind of payment in a race of that many presentations.
async fn race(each: usize, presentations: usize) {
    let Some(street) = Street::open(Program::Datasets).await else { return };
    let payments = payments(&street, each).await;
    let start = Instant::now();
    watched(&street, &payments, async {
        tokio::join!(storm(&street, &payments, presentations), relay(&street, &payments));
        redeem_all(&street, &payments).await;
    })
    .await;
    println!(
        "{presentations} presentations of {} payments in {:?}: {:#?}",
        payments.len(),
        start.elapsed(),
        street.told()
    );
    assert_fair(&street, &payments).await;
    for payment in payments.iter().filter(|payment| payment.kind != Kind::InVain) {
        assert!(payment.book.is_heard(), "{:?}", payment.kind);
    }
    street.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_of_every_kind_are_sold_once() {
    race(6, 3_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: run it by name, with --ignored --nocapture"]
async fn in_a_hundred_thousand_presentations_each_payment_is_sold_once() {
    race(60, 100_000).await;
}

/// Kills that many sellers, one after the other, each while new payments are shown.
async fn crash(kills: usize, each: usize) {
    let Some(street) = Street::open(Program::Stall).await else { return };
    let mut all = Vec::new();
    for _ in 0..kills {
        let payments = payments(&street, each).await;
        watched(&street, &payments, async { tokio::join!(killed(&street, &payments), relay(&street, &payments)) })
            .await;
        all.extend(payments);
    }
    watched(&street, &all, redeem_all(&street, &all)).await;
    let lost = all.iter().filter(|payment| payment.book.is_sold() && !payment.book.is_heard()).count();
    println!("{kills} kills, {} payments, {lost} answers lost: {:#?}", all.len(), street.told());
    assert_fair(&street, &all).await;
    street.close().await;
}

/// Shows payments at all sellers until one was killed and is back.
async fn killed(street: &Street, payments: &[Payment]) {
    let life = Duration::from_millis(rand::rng().random_range(0..2_500));
    let killed = async {
        sleep(life).await;
        street.kill_one().await;
    };
    tokio::select! {
        () = killed => {}
        () = storm(street, payments, usize::MAX) => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_killed_nobody_pays_twice_or_for_nothing() {
    crash(6, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: run it by name, with --ignored --nocapture"]
async fn in_fifty_crashes_nobody_pays_twice_or_for_nothing() {
    crash(50, 3).await;
}
