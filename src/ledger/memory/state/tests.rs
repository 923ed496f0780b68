//! How much memory the ledger takes: tests of what cannot be seen from outside.

use std::{
    mem::size_of,
    time::{Duration, UNIX_EPOCH},
};

use super::{AttemptOutcome, Claim, CommitOutcome, KEPT, ReserveOutcome, State};
use crate::protocol::{Address, Amount, ChainTime, IntentKey, Network, Transfer, TxHash};

const MINED: u64 = 2_000;

/// Everything about sale number `n` is its own: time, transaction, intent.
fn claim(intent: u64, payment: u64, head: u64) -> Claim {
    // Spread like real hashes.
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
    state.begin(ChainTime::from_unix(1_000));
    state
}

fn sell(state: &mut State, claim: &Claim, now: Duration) {
    let Some(ReserveOutcome::Granted(lease)) = state.reserve(claim, now) else { panic!("it is free") };
    assert_eq!(state.commit(&lease, None, Duration::ZERO, UNIX_EPOCH), CommitOutcome::Done);
}

/// The promise in the docs, with the tables as full and as empty as a million leaves them.
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
    assert_eq!(state.tried().0, 0, "what is sold is not tried again");
}

/// A crowd that comes and goes: what is remembered follows the last two days, not all of history.
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

/// The owner of one payment can make any number of intents, and let a handler fail for each.
#[test]
fn attempts_in_vain_are_bounded() {
    let (mut state, now) = (begun(), Duration::ZERO);
    for n in 0..200_000 {
        let Some(ReserveOutcome::Granted(lease)) = state.reserve(&claim(n, 0, MINED), now) else {
            panic!("it is free")
        };
        state.release(&lease, AttemptOutcome::Started, now);
    }
    let (pairs, due) = state.tried();
    assert!(pairs <= due && due <= (1 << 16) + 1, "{pairs}, {due}");
}

#[test]
fn attempts_are_forgotten_an_hour_after_the_last() {
    let (mut state, mut now) = (begun(), Duration::ZERO);
    let vain = claim(1, 1, MINED);
    let mut fail = |now| match state.reserve(&vain, now).unwrap() {
        ReserveOutcome::Granted(lease) => {
            state.release(&lease, AttemptOutcome::Started, now);
            true
        }
        _ => false,
    };
    assert_eq!((0..17).filter(|_| fail(now)).count(), 16);
    now += Duration::from_secs(60);
    assert_eq!((0..2).filter(|_| fail(now)).count(), 1);
    // It is looked at an hour after its first attempt; the last one was later.
    now += KEPT - Duration::from_secs(61);
    assert_eq!((0..2).filter(|_| fail(now)).count(), 1);
    now += KEPT - Duration::from_secs(1);
    assert_eq!((0..2).filter(|_| fail(now)).count(), 1, "still remembered, and the pause long over");
    now += 2 * KEPT;
    assert_eq!((0..17).filter(|_| fail(now)).count(), 16, "a fresh start");
}

/// A worker died, and its pair is not asked for again: the lease is forgotten all the same.
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
    assert_eq!(state.counts().low_water_mark, Some(ChainTime::from_unix(1_000)));
    assert!(matches!(state.reserve(&claim(1, 1, MINED), 2 * KEPT), Some(ReserveOutcome::Granted(_))));
}
