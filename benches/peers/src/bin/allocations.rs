//! Counts the allocations of one answer, contender by contender: one line each, path, contender and count between tabs.
//!
//! A separate program, because its allocator counts, which takes time. Growing an existing allocation counts as one
//! too.

use std::alloc::System;

use peers::{contenders, measure};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: usize = 1_000;

fn main() {
    let runtime = measure::runtime();
    for case in &mut contenders::all(&runtime) {
        // Allocates everything that is created once.
        case.time(&runtime, REQUESTS);
        let requests = case.requests(&runtime, REQUESTS);
        let before = ALLOCATOR.stats();
        case.send(&runtime, requests);
        let counted = ALLOCATOR.stats() - before;
        let count = counted.allocations + counted.reallocations;
        println!("{}\t{}\t{}", case.path.name(), case.contender, count as f64 / REQUESTS as f64);
    }
}
