//! Tools for testing a service behind the layer: a scripted verifier, a fake clock and, with `evm`, a local chain.

mod clock;
#[cfg(feature = "evm")]
pub mod contracts;
#[cfg(feature = "evm")]
mod devchain;
#[cfg(feature = "client")]
mod payer;
mod verifier;

pub use clock::FakeClock;
#[cfg(feature = "client")]
pub use payer::{ScriptedPayer, Sending};
pub use verifier::ScriptedVerifier;

#[cfg(feature = "evm")]
pub use devchain::*;
