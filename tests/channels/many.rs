//! Many vouchers by many buyers, with claims meanwhile: `benches/channels` sells a million, the suite sells some hundreds.

use std::time::Duration;

use tower_x402::ledger::AnyLedger;

use crate::fair::{Fair, sell};

const FAIR: Fair = Fair { vouchers: 400, buyers: 8, channels: 4, pause: Duration::from_millis(40) };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_claimed_of_many_vouchers_is_what_was_sold() {
    let seen = sell(AnyLedger::open("memory").await.unwrap(), FAIR).await;
    assert!(seen.claims > 1, "{seen:?}");
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_claimed_of_many_vouchers_is_what_was_sold_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite:{}", folder.path().join("many.db").display());
    let seen = sell(AnyLedger::open(&file).await.unwrap(), FAIR).await;
    assert!(seen.claims > 1, "{seen:?}");
}
