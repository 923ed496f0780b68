//! The time of signing an authorization, beside alloy's time for the same signature alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::hint::black_box;

use alloy::{
    primitives::{Address, B256, U256, address},
    signers::{SignerSync as _, local::PrivateKeySigner},
    sol,
    sol_types::{Eip712Domain, SolStruct as _, eip712_domain},
};
use criterion::{Criterion, criterion_group, criterion_main};
use tower_x402::{client::bench, protocol};

sol! {
    struct TransferWithAuthorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }
}

const DOMAIN: Eip712Domain = eip712_domain! {
    name: "USD Coin",
    version: "2",
    chain_id: 8453,
    verifying_contract: address!("833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
};

/// Signs the same message with alloy directly.
fn by_alloy(key: &PrivateKeySigner, nonce: [u8; 32]) -> (B256, [u8; 65]) {
    let message = TransferWithAuthorization {
        from: key.address(),
        to: Address::repeat_byte(0x5a),
        value: U256::from(490_000),
        validAfter: U256::ZERO,
        validBefore: U256::from(1_795_280_060),
        nonce: nonce.into(),
    };
    let digest = message.eip712_signing_hash(&DOMAIN);
    (digest, key.sign_hash_sync(&digest).unwrap().as_bytes())
}

fn authorize(criterion: &mut Criterion) {
    let key = PrivateKeySigner::random();
    let sign = bench::signing(key.clone());
    let ours = sign().unwrap();
    let (digest, signature) = by_alloy(&key, ours.authorization.nonce);
    assert_eq!(bench::digest(protocol::Address::new(key.address().into_array())), Some(digest));
    assert_eq!(ours.signature.as_bytes(), signature);
    let mut group = criterion.benchmark_group("sign an authorization");
    group.bench_function("alloy", |bencher| bencher.iter(|| black_box(by_alloy(&key, ours.authorization.nonce))));
    group.bench_function("wallet", |bencher| bencher.iter(|| black_box(sign())));
    group.finish();
}

criterion_group!(benches, authorize);
criterion_main!(benches);
