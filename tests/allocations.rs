//! What serving a request allocates, counted: a guard that hangs on no clock. A binary of its own, for the allocator's sake.
//!
//! `cargo test --all-features --test allocations -- --nocapture` prints the table.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
#![cfg(all(feature = "axum", feature = "client", feature = "evm", feature = "test-util"))]

#[allow(dead_code, unreachable_pub)]
#[path = "../benches/paths/mod.rs"]
mod paths;

use paths::Path;

/// A server's tables grow now and then: the median of so many requests is not about that.
const REQUESTS: usize = 21;

#[test]
fn every_path_allocates_what_its_table_says() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _context = runtime.enter();
    let mut wrong = Vec::new();
    for mut path in paths::all() {
        let found = allocations(&mut path);
        println!("| {} | {found} |", path.name);
        let expected = path.allocations + if cfg!(feature = "metrics") { counted(path.name) } else { 0 };
        if found != expected {
            wrong.push(format!("{}: {found} allocations, and {expected} in the table", path.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What counting it takes, with the feature `metrics` and without a recorder: the labels of each series that is not a route's own. A quote
/// and an answer that is free take nothing.
fn counted(path: &str) -> u64 {
    match path {
        "intent_required"
        | "tx_required"
        | "invalid_redemption"
        | "intent_not_found"
        | "invalid_body"
        | "body_too_large"
        | "unsupported_encoding" => 1,
        "tx_not_confirmed"
        | "transfer_not_found"
        | "insufficient_amount"
        | "intent_expired"
        | "payment_too_old"
        | "verification_unavailable"
        | "already_consumed"
        | "tx_already_used"
        | "redemption_in_progress" => 3,
        "too_many_attempts" | "answer delivered again" => 4,
        "upstream_payment_required" | "call by pass" => 5,
        "redemption by body"
        | "redemption by header"
        | "redemption, tagged"
        | "redemption, bound by nonce"
        | "redemption, answer kept" => 16,
        "sale by voucher" => 17,
        "signed payment" => 21,
        // What was allowed is counted beside the charge.
        "metered sale" => 30,
        _ => 0,
    }
}

fn allocations(path: &mut Path) -> u64 {
    let mut counts: Vec<u64> = (0..REQUESTS).map(|_| count(path)).collect();
    counts.sort_unstable();
    counts[REQUESTS / 2]
}

fn count(path: &mut Path) -> u64 {
    let request = path.prepare();
    let mut status = None;
    let counted = allocation_counter::measure(|| status = Some(path.serve(request)));
    assert_eq!(status.unwrap().as_u16(), path.status, "{}", path.name);
    counted.count_total
}
