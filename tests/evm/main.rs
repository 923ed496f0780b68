//! `EvmVerifier` against a scripted node, and once against a real one.
#![cfg(all(
    feature = "axum",
    feature = "devchain",
    feature = "evm",
    feature = "facilitator",
    feature = "metrics",
    feature = "page",
    feature = "postgres",
    feature = "redis",
    feature = "reqwest",
    feature = "sqlite",
    feature = "wallet"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub
)]

mod anvil;
mod authorizations;
mod calls;
mod chain;
mod channels;
mod contract_accounts;
mod counted;
mod devchain;
mod domains;
mod endpoints;
mod faults;
mod finality;
mod flood;
mod logs;
mod node;
mod nonces;
mod one_of_two;
mod permit2;
mod secrets;
mod sent;
mod signatures;
mod start;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
mod token;
mod waiting;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tower_x402::{
    clock::Clock,
    protocol::{Address, Amount, Asset, ChainTime, Network, Terms, Transfer, TxHash},
    verify::{EvmVerifier, EvmVerifierBuilder, Signatures as _, Verdict, Verifier as _, VerifyError, VerifyErrorKind},
};

use node::{Node, time_of};

const RECIPIENT: Address = Address::new([0xaa; 20]);
const PAYER: Address = Address::new([0xbb; 20]);
const BLOCK_TIME: Duration = Duration::from_secs(2);
/// What stands in every URL, and must stand nowhere else.
const CANARY: &str = "c4n4rykey";

/// A clock that stands still until it is told to move.
#[derive(Clone, Debug)]
struct TestClock(Arc<(AtomicU64, AtomicU64)>);

impl TestClock {
    /// At the time of that block.
    fn at(block: u64) -> Self {
        Self(Arc::new((AtomicU64::new(time_of(block)), AtomicU64::new(1_000_000))))
    }

    fn advance(&self, span: Duration) {
        self.0.0.fetch_add(span.as_secs(), Ordering::SeqCst);
        self.0.1.fetch_add(span.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn unix(&self) -> u64 {
        self.0.0.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.1.load(Ordering::SeqCst))
    }
}

/// Time-outs half as long as the real ones.
fn builder(nodes: &[&Node], clock: &TestClock) -> EvmVerifierBuilder {
    EvmVerifier::builder()
        .endpoints(nodes.iter().map(|node| node.url()))
        .clock(clock.clone())
        .call_timeout(Duration::from_millis(1_000))
        .total_timeout(Duration::from_millis(2_500))
}

async fn connect(nodes: &[&Node]) -> (EvmVerifier, TestClock) {
    let clock = TestClock::at(100);
    let verifier = builder(nodes, &clock).connect().await.expect("the nodes answer");
    (verifier, clock)
}

fn terms() -> Terms {
    terms_at(490_000)
}

fn terms_at(price: u128) -> Terms {
    let day = Duration::from_secs(86_400);
    Terms::builder(Network::BASE, RECIPIENT, Amount::from_base_units(price))
        .resource("answers")
        .assets([Asset::USDC_BASE].as_slice())
        .max_payment_age(day)
        .build()
}

fn tx(n: u64) -> TxHash {
    let mut bytes = [0x11; 32];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    TxHash::new(bytes)
}

async fn verify(verifier: &EvmVerifier, transaction: TxHash) -> Result<Verdict, VerifyErrorKind> {
    verifier.verify(&terms(), transaction).await.map_err(kind)
}

fn kind(error: VerifyError) -> VerifyErrorKind {
    error.kind().clone()
}

#[track_caller]
fn assert_paid(verdict: Result<Verdict, VerifyErrorKind>) {
    assert!(matches!(verdict, Ok(Verdict::Paid { .. })), "{verdict:?}");
}

#[track_caller]
fn assert_not_confirmed(verdict: Result<Verdict, VerifyErrorKind>) {
    assert_eq!(verdict, Ok(Verdict::NotConfirmed { retry_after: Duration::from_secs(1) }));
}
