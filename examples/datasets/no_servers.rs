//! In their place where this program was built without them, as `cargo demo` builds it.

use tower_x402::ledger::MemoryLedger;

use super::{run::Failure, secret::Secret};

fn missing<T>() -> Result<T, Failure> {
    Err(Failure::flags("the demo has no PostgreSQL and no Redis: cargo run --example datasets --all-features"))
}

pub(crate) async fn postgres(_: &Secret) -> Result<MemoryLedger, Failure> {
    missing()
}

pub(crate) async fn migrated(_: &Secret) -> Result<MemoryLedger, Failure> {
    missing()
}

pub(crate) async fn redis(_: &Secret, _: bool) -> Result<MemoryLedger, Failure> {
    missing()
}
