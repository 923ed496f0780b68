//! Tests of the ledger's memory use, which its interface does not show.

use std::{
    mem::size_of,
    time::{Duration, UNIX_EPOCH},
};

use super::{Claim, CommitOutcome, KEPT, ReserveOutcome, State};
use crate::protocol::{Address, Amount, ChainTime, IntentKey, Network, Transfer, TxHash};

const MINED: u64 = 2_000;

/// A claim whose time, transaction and intent are unique to its number.
fn claim(intent: u64, payment: u64, head: u64) -> Claim {
    // Spreads the bits like a real hash.
    let mix = |n: u64| n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let (mut key, mut hash) = ([0; 16], [0; 32]);
    key[..8].copy_from_slice(&mix(intent));
    hash[..8].copy_from_slice(&mix(payment));
    let transfer = Transfer::new(Network::BASE, TxHash::new(hash), 0)
        .with_token(Address::ZERO)
        .with_payer(Address::ZERO)
        .with_recipient(Address::ZERO)
        .with_amount(Amount::from_base_units(1))
        .with_block(payment, ChainTime::from_unix(MINED + payment));
    let (until, head) = (transfer.block_time, ChainTime::from_unix(head));
    let (age, lease) = (Duration::from_secs(86_400), Duration::from_secs(60));
    Claim::builder("r", IntentKey::new(key))
        .pay_until(until)
        .payments(vec![transfer])
        .head(head)
        .max_payment_age(age)
        .lease(lease)
        .build()
}

fn begun() -> State {
    let mut state = State::default();
    state.begin(Network::BASE, ChainTime::from_unix(1_000));
    state
}

fn sell(state: &mut State, claim: &Claim, now: Duration) {
    let Some(ReserveOutcome::Granted(lease)) = state.reserve(claim, now) else { panic!("it is free") };
    assert_eq!(state.commit(&lease, None, Duration::ZERO, UNIX_EPOCH), CommitOutcome::Done);
}

/// Checks the promise in the docs, with the tables as full and as empty as a million sales leave them.
#[test]
fn a_sale_takes_300_bytes_at_most() {
    let (mut state, now) = (begun(), Duration::ZERO);
    for n in 0..1_000_000 {
        sell(&mut state, &claim(n, n, MINED), now);
        if [200_000, 1_000_000].contains(&(n + 1)) {
            let each = state.bytes() as u64 / (n + 1);
            assert!(each <= 300, "{each} bytes a sale after {} sales", n + 1);
        }
    }
    assert!(size_of::<State>() < 1_000);
}

/// With steady sales, the records follow the last two days, not the whole history.
#[test]
fn a_steady_trade_takes_steady_memory() {
    let (mut state, now) = (begun(), Duration::ZERO);
    let window = 2 * 86_400 + 180 + 60 + 240;
    for n in 0..3 * window {
        sell(&mut state, &claim(n, n, MINED + n), now);
        assert!(state.counts().remembered as u64 <= window + 1);
    }
    assert_eq!(state.counts().consumed, 3 * window);
    assert!(state.bytes() as u64 <= 2 * 300 * window);
}

/// A worker died, and its pair is not claimed again: the lease is forgotten even so.
#[test]
fn an_idle_lease_is_forgotten() {
    let mut state = begun();
    let Some(ReserveOutcome::Granted(orphan)) = state.reserve(&claim(1, 1, MINED), Duration::ZERO) else {
        panic!("it is free")
    };
    let run_out = Duration::from_secs(60);
    let last = (run_out + KEPT - Duration::from_secs(1), 1);
    for (now, held) in [(Duration::ZERO, 1), (KEPT, 1), last, (2 * KEPT, 0)] {
        let _ = state.reserve(&claim(2, 2, MINED), now);
        let others = state.counts().held - held;
        assert_eq!(others, 1, "at {now:?}");
    }
    assert_eq!(state.commit(&orphan, None, Duration::ZERO, UNIX_EPOCH), CommitOutcome::LeaseLost);
    assert_eq!(state.move_mark(Network::BASE, |mark| mark), Some(ChainTime::from_unix(1_000)));
    assert!(matches!(state.reserve(&claim(1, 1, MINED), 2 * KEPT), Some(ReserveOutcome::Granted(_))));
}
