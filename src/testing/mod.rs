//! Tools for testing a service behind the layer: a scripted verifier, a fake clock and, with `evm`, a local chain.

#[cfg(feature = "evm")]
pub mod contracts;
#[cfg(feature = "evm")]
mod devchain;

#[cfg(feature = "evm")]
pub use devchain::*;
