//! A quote leaves no trace: memory is flat under any number of unpaid requests.

use tower::Service as _;
use tower_x402::{Price, protocol::Amount};

use crate::support::{Counter, PRICE, Shop, echo, layered, post};

/// Unoptimised, a quote takes some tens of microseconds.
const QUOTES: usize = if cfg!(debug_assertions) { 40_000 } else { 1_000_000 };

/// Runs this very program again for one test, so that nothing else is measured.
#[test]
#[cfg(target_os = "linux")]
fn unpaid_quotes_leave_memory_flat() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::quotes_alone", "--ignored", "--nocapture", "--test-threads=1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&child.stderr));
}

/// This process's resident memory, without what is mapped from files, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
#[ignore = "run in a process of its own, by the test above"]
async fn quotes_alone() {
    let shop = Shop::open().await;
    let service = layered(&shop.merchant.charge("answer", PRICE).unwrap(), echo(Counter::default()));
    let by_closure =
        shop.merchant.price_with("closure", |_, _| Price::Charge(Amount::from_base_units(490_000))).unwrap();
    let dear = layered(&by_closure, echo(Counter::default()));
    let mut resident_after = Vec::new();
    for _ in 0..4 {
        for number in 0..QUOTES / 4 {
            let request = post(format!(r#"{{"query":"{number}"}}"#));
            let mut service = if number % 2 == 0 { service.clone() } else { dear.clone() };
            assert_eq!(service.call(request).await.unwrap().status(), 402);
        }
        resident_after.push(resident());
    }
    // The first half fills the allocator's caches; from then on there is nothing to grow for.
    let (warm, last) = (resident_after[1], resident_after[3]);
    println!("KiB after each quarter: {resident_after:?}");
    assert!(last <= warm + 128, "grew by {} KiB over {} quotes", last - warm, QUOTES / 2);
    assert_eq!(shop.ledger.counts().unwrap().reserved, 0);
}
