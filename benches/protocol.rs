//! The time of the protocol's parts alone: sealing and opening intents, reading proofs, writing and reading quotes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::hint::black_box;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use criterion::{Criterion, criterion_group, criterion_main};
use http::{HeaderMap, HeaderValue};
use tower_x402::protocol::{
    IntentId, Proof, Quote, TxHash,
    bench::{Desk, has_proof},
    headers::X402_PAYMENT,
};

fn seals(criterion: &mut Criterion) {
    let desk = Desk::default();
    criterion.bench_function("seal", |bencher| bencher.iter(|| desk.seal()));
    let sealed = String::from_utf8(desk.seal()).unwrap();
    let intent = IntentId::new(sealed.as_str()).unwrap();
    assert!(desk.open(&intent));
    criterion.bench_function("open", |bencher| bencher.iter(|| desk.open(black_box(&intent))));
    let forged = IntentId::new(sealed.replace('A', "B")).unwrap();
    assert!(!desk.open(&forged));
    criterion.bench_function("open a forgery", |bencher| bencher.iter(|| desk.open(black_box(&forged))));
}

fn quotes(criterion: &mut Criterion) {
    let desk = Desk::default();
    let intent = desk.seal();
    criterion.bench_function("write a quote", |bencher| bencher.iter(|| desk.quote(black_box(&intent))));
    let headers = desk.quote(&intent);
    criterion
        .bench_function("read a quote", |bencher| bencher.iter(|| Quote::from_headers(black_box(&headers)).unwrap()));
}

fn proofs(criterion: &mut Criterion) {
    let intent = String::from_utf8(Desk::default().seal()).unwrap();
    let proof = format!(r#"{{"intentId":"{intent}","txHash":"{}"}}"#, TxHash::new([0xab; 32]));
    for (name, value) in [("JSON", proof.clone()), ("base64", STANDARD.encode(&proof))] {
        let mut headers = HeaderMap::new();
        headers.insert(X402_PAYMENT, HeaderValue::try_from(value).unwrap());
        criterion.bench_function(&format!("proof in the header, {name}"), |bencher| {
            bencher.iter(|| Proof::from_headers(black_box(&headers)).unwrap().unwrap());
        });
    }
    for (name, length) in [("60 B", 60), ("4 KiB", 4 * 1024), ("60 KiB", 60 * 1024)] {
        let query = "x".repeat(length - 12);
        let without = format!(r#"{{"query":"{query}"}}"#);
        let with = format!(r#"{},"query":"{query}"}}"#, proof.trim_end_matches('}'));
        for (name, body, found) in
            [(format!("body of {name}, no proof"), without, false), (format!("body of {name}, with proof"), with, true)]
        {
            assert_eq!(has_proof(body.as_bytes()), found);
            criterion.bench_function(&name, |bencher| bencher.iter(|| has_proof(black_box(body.as_bytes()))));
        }
    }
}

criterion_group!(benches, seals, quotes, proofs);
criterion_main!(benches);
