//! The datasets server on a local chain, in this process or in one of its own, for the tests that buy from it.

pub mod app;
pub mod datasets;
pub mod market;
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/datasets/app.rs"]
pub mod program;
pub mod shop;
