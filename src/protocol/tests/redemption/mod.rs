//! Proofs: two members, read strictly, from a body or from the header.

mod arbitrary;
mod body;
mod header;

use http::{HeaderMap, HeaderValue};

use super::cases;
use crate::protocol::{
    IntentId, InvalidRedemption, Proof, Redemption, TxHash,
    headers::X402_PAYMENT,
    redemption::{ScanResult, scan_body},
};

const TX: &str = "0x9b1d2e3f4a5c60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8fa";

/// Scans a body in which `«tx»` stands for a well-formed hash.
fn body(template: &str) -> ScanResult {
    scan_body(template.replace("«tx»", TX).as_bytes())
}

fn intent(text: &str) -> IntentId {
    IntentId::new(text).unwrap()
}

fn tx() -> TxHash {
    TX.parse().unwrap()
}

fn both(text: &str) -> ScanResult {
    ScanResult::Proof(Proof::Redemption(Redemption::new(intent(text), tx())))
}

fn header(value: &[u8]) -> Result<Option<Proof>, InvalidRedemption> {
    let mut headers = HeaderMap::new();
    headers.insert(X402_PAYMENT, HeaderValue::from_bytes(value).unwrap());
    Proof::from_headers(&headers)
}

fn sold(text: &str) -> Result<Option<Proof>, InvalidRedemption> {
    Ok(Some(Proof::Redemption(Redemption::new(intent(text), tx()))))
}
