//! The time of judging a receipt, by the number of its logs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tower_x402::verify::{Verdict, bench::judging};

fn judge(criterion: &mut Criterion) {
    for logs in [1, 10, 500] {
        let judge = judging(logs);
        assert!(matches!(judge(), Verdict::Paid { transfers, .. } if transfers.len() == 1));
        criterion.bench_function(&format!("judge a receipt, logs: {logs}"), |bencher| {
            bencher.iter(|| black_box(judge()));
        });
    }
}

criterion_group!(benches, judge);
criterion_main!(benches);
