//! Tools for tests of services behind the layer: a scripted verifier, a fake clock and, with `devchain`, a local chain.

mod clock;
#[cfg(feature = "devchain")]
pub mod contracts;
#[cfg(feature = "devchain")]
mod devchain;
#[cfg(feature = "client")]
mod payer;
mod settler;
mod verifier;

pub use clock::FakeClock;
#[cfg(feature = "client")]
pub use payer::{ScriptedPayer, Sending};
pub use settler::{ScriptedSettler, Settling};
pub use verifier::{ScriptedVerifier, scripted_signature};

#[cfg(feature = "devchain")]
pub use devchain::{DevAccount, DevChain, DevChainBuilder, DevChainError};
