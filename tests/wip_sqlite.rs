#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::duplicate_mod
)]
#[path = "/tmp/w/sqlite/tests/it/ledger/mod.rs"]
mod ledger;
#[path = "/tmp/w/sqlite/tests/it/ledgers/mod.rs"]
mod ledgers;
#[path = "/tmp/w/sqlite/tests/it/servers.rs"]
mod servers;
