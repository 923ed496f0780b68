//! Verification of ERC-20 transfers over Ethereum JSON-RPC, with one or several endpoints.
//!
//! An [`EvmVerifier`] has no background task and needs no shutdown: it calls its endpoints only while payments are redeemed. A
//! redemption costs one round trip, `eth_getTransactionReceipt` and `eth_getTransactionByHash` at once. The chain's head is shared by
//! all redemptions and refreshed when it is older than one block time; while payments wait to be mined, up to four times a second.
//!
//! Answers are checked as far as they can be:
//!
//! - An endpoint's chain id is checked before its first answer counts, every minute, and after every failure.
//! - A receipt must be of the transaction in question and of the sealed block at its height, with its logs in order.
//! - Sender and call data of a transaction must match its hash and its signature. Transaction types that only their chain knows, such
//!   as deposits, are taken as the endpoint tells them.
//! - A transaction is absent only if every endpoint that is up says so; so is the use of an authorization's nonce.
//!
//! No error, log line or `Debug` output contains a URL (they hold keys) or text of a node.
//!
//! ```no_run
//! # async fn example() -> Result<(), tower_x402::verify::VerifyError> {
//! use tower_x402::{protocol::Network, verify::evm::EvmVerifier};
//! let verifier = EvmVerifier::connect(["https://mainnet.base.org"]).await?;
//! assert_eq!(verifier.network(), Network::BASE);
//! # Ok(()) }
//! ```

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
