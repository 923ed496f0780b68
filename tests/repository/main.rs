//! What must be true of the repository itself: its texts and its files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub
)]

mod imports;
mod payment_proof;
mod readme;
mod security_table;
