//! Tools for tests of services behind the layer: a scripted verifier, a fake clock and, with `devchain`, a local chain.

mod channels;
mod clock;
pub mod conformance;
/// The contracts of the development chain, for this crate's own tests. Not part of the API.
#[cfg(feature = "devchain")]
#[doc(hidden)]
pub mod contracts;
#[cfg(feature = "devchain")]
mod devchain;
#[cfg(feature = "client")]
mod payer;
mod settler;
mod verifier;

pub use channels::{ChannelStep, ScriptedChannels};
pub use clock::FakeClock;
#[cfg(feature = "client")]
pub use payer::{ScriptedPayer, Sending};
pub use settler::{ScriptedSettler, Settling};
pub use verifier::ScriptedVerifier;
#[doc(hidden)]
pub use verifier::scripted_signature;

#[cfg(feature = "devchain")]
pub use devchain::{DevAccount, DevChain, DevChainBuilder, DevChainError};
