//! What kept answers may take of the server's memory.

use std::time::Duration;
use tower_x402::protocol::Network;

use tower_x402::ledger::{CommitOutcome, KeptAnswer, Ledger, RedisLedger, ReserveOutcome};

use super::{
    super::{MARK, PATIENT, claim, hold, time},
    ledger_at, prefix, sell,
    server::{Private, command, shared},
};

const LARGE: usize = 200_000;
const HOUR: Duration = Duration::from_secs(3_600);

/// Sells an answer of that size; tells whether it is kept.
async fn keeps(ledger: &RedisLedger, name: u64, keep_for: Duration) -> bool {
    let lease = hold(ledger, &claim(name, name)).await;
    let answer = KeptAnswer::new(vec![7; LARGE], keep_for);
    assert_eq!(ledger.commit(&lease, Some(&answer)).await, Ok(CommitOutcome::Done), "{name}");
    let sale = ledger.consumed(lease.intent()).await.unwrap().unwrap();
    if let Some(kept) = &sale.answer {
        assert_eq!(kept, answer.content());
    }
    sale.answer.is_some()
}

/// Answers of 53 MB in 60 MB: the server was then too full to grant a reservation.
#[tokio::test]
async fn kept_answers_leave_a_fifth_of_the_memory_to_sales() {
    let Some(server) = Private::start(&["--maxmemory", "60mb"]).await else { return };
    let ledger = ledger_at(&server.url(), "ledger").await;
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let mut kept = 0;
    for name in 1..=400 {
        kept += usize::from(keeps(&ledger, name, HOUR).await);
    }
    assert!((100..240).contains(&kept), "{kept} answers of 200 kB are kept in four fifths of 60 MB");
    assert_eq!(ledger.health().await, Ok(()));
}

#[tokio::test]
async fn kept_answers_take_no_more_than_is_said() {
    let Some(url) = shared().await else { return };
    let builder = RedisLedger::builder().key_prefix(prefix()).time_limit(PATIENT).answers_up_to(5 * LARGE);
    let ledger = builder.connect(url).await.unwrap();
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let brief = Duration::from_secs(2);
    for name in 1..=8 {
        let is_kept = keeps(&ledger, name, if name % 2 == 0 { HOUR } else { brief }).await;
        // Each takes a little more than its content.
        assert_eq!(is_kept, name <= 4, "{name}");
    }
    tokio::time::sleep(brief).await;
    for name in 9..=12 {
        assert_eq!(keeps(&ledger, name, HOUR).await, name <= 10, "{name}: two have made room");
    }
}

/// A policy that is changed while processes sell: a record that was evicted is still in the index.
#[tokio::test]
async fn a_sale_whose_record_was_evicted_is_not_sold_again() {
    let Some(url) = shared().await else { return };
    let prefix = prefix();
    let ledger = ledger_at(url, &prefix).await;
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let sold = sell(&ledger, &claim(1, 1)).await;
    let payment = format!("{{{prefix}}}:payment:{}", sold.payment().id());
    let _: () = command(url, &["DEL", &payment]).await;
    // Another process: its last sale is not that one.
    let other = ledger_at(url, &prefix).await;
    assert_eq!(other.reserve(&claim(2, 1)).await, Ok(ReserveOutcome::PaymentUsed));
    assert_eq!(other.reserve(&claim(1, 3)).await, Ok(ReserveOutcome::IntentConsumed));
    // Nor does the process itself take its sale for lost: the index has it.
    assert_eq!(ledger.reserve(&claim(2, 1)).await, Ok(ReserveOutcome::PaymentUsed));
    assert_eq!(ledger.health().await, Ok(()));
}
