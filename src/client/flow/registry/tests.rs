//! Races of two threads: a check and an entry in two steps would let both through.

use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use super::*;
use crate::{client::MemoryJournal, protocol::Asset, testing::FakeClock};

const ROUNDS: usize = 1_000;
const ENTRY: &str = r#"{"version":1,"entry":{"id":"01010101010101010101010101010101","at":1700000000,"state":"paying","host":"api.example","request":"POST /v1","fingerprint":"00ff","intent":"","secret":null,"expiry":1700000060,"recipient":"0x0202020202020202020202020202020202020202","network":"eip155:8453","isElsewhere":false,"amount":"1","decimals":6,"payment":"none","transaction":null,"settled":null,"delivered":false,"billed":0}}"#;

/// Waits until both threads have arrived. Spinning keeps both cores busy, so that the threads continue at the same
/// moment.
fn meet(counter: &AtomicUsize, round: usize) {
    counter.fetch_add(1, SeqCst);
    while counter.load(SeqCst) < 2 * (round + 1) {
        spin_loop();
    }
}

#[tokio::test]
async fn of_two_threads_one_takes_a_challenge() {
    let clock = Arc::new(FakeClock::new(1_700_000_000));
    let registry = PurchaseRegistry::load(Box::new(MemoryJournal::new()), clock).await.unwrap();
    let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment("1").per_day("1").build().unwrap();
    let reserve = || {
        let entry = JournalEntry { id: PurchaseId::random(), ..JournalEntry::from_record(ENTRY).unwrap() };
        registry.reserve(entry, &budget).unwrap()
    };
    let (starts, ends, taken) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let take = || {
        for round in 0..ROUNDS {
            let guard = reserve();
            let mut challenge = [0; 32];
            challenge[..8].copy_from_slice(&round.to_be_bytes());
            meet(&starts, round);
            taken.fetch_add(usize::from(guard.take_challenge(challenge)), SeqCst);
            meet(&ends, round);
        }
    };
    thread::scope(|scope| {
        scope.spawn(take);
        scope.spawn(take);
    });
    assert_eq!(taken.into_inner(), ROUNDS);
}
