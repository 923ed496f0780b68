//! Passes: several calls paid for at once.
//!
//! A [`PassLayer`] wraps a [`PayLayer`](super::PayLayer). It shows a shop's pass with each request there. If there is
//! none, it buys one through the inner layer and within its budget.

mod address;
mod attempt;
mod buying;
mod errand;
mod held;
mod in_use;
mod layer;
mod limits;
mod notes;
mod offered;
mod order;
mod promise;
mod purse;
mod service;
mod shop;
mod showing;
mod turn;
mod word;

pub use held::{HeldPass, PassError};
pub use layer::PassLayer;
pub(crate) use order::{BILL_MAX, Ending, PassOrder, PassSale};
pub use service::UsePass;
