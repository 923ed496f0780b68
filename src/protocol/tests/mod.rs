//! Tests of the texts on the wire, one file per subject.

mod address;
mod amount;
mod digest;
mod headers;
mod intent;
mod network;
mod problem;
mod quote;
mod redemption;
mod seal;
mod text;
mod tx_hash;

use proptest::prelude::ProptestConfig;

use super::{Address, Network, SealingKeys, Seals};

/// The recipient of every example.
const RECIPIENT: Address = Address::new([0x5a; 20]);

/// Properties print their smallest counter-example and write no file of it.
pub(super) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn keys(byte: u8) -> SealingKeys {
    SealingKeys::new([byte; 32])
}

fn seals(keys: &SealingKeys) -> Seals {
    Seals::new(keys, "", Network::BASE, &[RECIPIENT], "demand-insights")
}
