//! Uses passes: calls that were paid for at once.
//!
//! A [`PassLayer`] stands outside a [`PayLayer`](super::PayLayer). It shows the pass of a shop with each request there, and buys one, by the
//! layer inside and within its budget, where there is none.

mod address;
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
mod word;

pub use held::{HeldPass, PassError};
pub use layer::PassLayer;
pub(crate) use order::{BILL_MAX, Ending, PassOrder, PassSale};
pub use service::UsePass;
