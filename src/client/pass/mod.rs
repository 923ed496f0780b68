//! Uses passes: calls that were paid for at once.
//!
//! A [`PassLayer`] stands outside a [`PayLayer`](super::PayLayer). It shows the pass of a shop with each request there, and buys one, by the
//! layer inside and within its budget, where there is none.

mod held;
mod layer;
mod offered;
mod purse;
mod service;
mod shop;

pub use held::{HeldPass, PassError};
pub use layer::PassLayer;
pub use service::UsePass;
