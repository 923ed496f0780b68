//! Verification of ERC-20 transfers over Ethereum JSON-RPC, with one or several endpoints.

mod authorizations;
#[cfg(feature = "bench-internals")]
#[doc(hidden)]
pub mod bench;
mod builder;
mod chain;
mod decode;
mod endpoint;
mod endpoint_check;
mod endpoint_pool;
mod finality;
mod gate;
mod head;
mod head_state;
mod history;
mod inquiries;
mod judge;
mod nonce_inquiries;
mod permits;
mod pool_answer;
mod receipts;
mod reorg_monitor;
mod signatures;
mod single_flight;
mod tx_record;
mod verifier;
mod view;

pub use builder::EvmVerifierBuilder;
pub use finality::Finality;
pub use verifier::EvmVerifier;
