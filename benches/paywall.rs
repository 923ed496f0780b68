//! The time that the layer adds to a request, beside the same request without it.
//!
//! Everything is in this process: no network, and no backend that could wait. Each path's name includes its
//! allocations, which `tests/allocations.rs` asserts, and its instructions when `instructions.baseline` was written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[allow(dead_code, unreachable_pub)]
mod paths;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::Criterion;
use paths::Path;

/// The number of requests created ahead: few enough to stay in the allocator's own cache.
const AHEAD: u64 = 8;
const INSTRUCTIONS: &str = include_str!("instructions.baseline");

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _context = runtime.enter();
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for mut path in paths::all() {
        println!("{}: {} allocations, {} instructions", path.name, path.allocations, instructions(path.name));
        criterion.bench_function(path.name, |bencher| bencher.iter_custom(|times| time(&mut path, times)));
    }
    criterion.final_summary();
}

/// Returns how long serving `times` requests takes, without creating them.
fn time(path: &mut Path, times: u64) -> Duration {
    let (mut took, mut left) = (Duration::ZERO, times);
    while left > 0 {
        let count = left.min(AHEAD);
        let requests: Vec<_> = (0..count).map(|_| path.prepare()).collect();
        let start = Instant::now();
        for request in requests {
            black_box(path.serve(request));
        }
        took += start.elapsed();
        left -= count;
    }
    took
}

fn instructions(name: &str) -> &'static str {
    let mut lines = INSTRUCTIONS.lines().filter_map(|line| line.rsplit_once('|'));
    lines.find_map(|(path, count)| (path.trim() == name).then_some(count.trim())).unwrap_or("unknown")
}
