#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub, dead_code)]
#[path = "it/browser/mod.rs"]
mod browser;
#[path = "it/page/mod.rs"]
mod page;
#[path = "it/support/mod.rs"]
mod support;
