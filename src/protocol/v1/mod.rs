//! Version 1 of the [x402 standard](https://github.com/x402-foundation/x402): many clients and sellers still speak it.
//!
//! The demand is the 402's body, the payment the header `X-PAYMENT`, the outcome `X-PAYMENT-RESPONSE`. Chains have
//! names, and the amount is called `maxAmountRequired`. The signed payment itself is the one of [version
//! 2](super::v2).

#[cfg(feature = "client")]
mod demand;
mod networks;
mod offers;
mod outcome;
mod payload;

#[cfg(feature = "client")]
pub(crate) use demand::{Demand, demands};
pub(crate) use offers::Offers;
pub(crate) use outcome::outcome;
pub use payload::PaymentPayload;
