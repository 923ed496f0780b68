//! Is it paid? ERC-20 transfers, read over JSON-RPC from one or several nodes.
//!
//! An [`EvmVerifier`] needs no task and no shutdown: while nobody redeems, it asks nobody anything. A redemption costs one
//! `eth_getTransactionReceipt`, and whoever finds the chain's head older than one block time has it refreshed, once for all.
//! While a payment is waited for, each time somebody asks, the head is looked at up to four times a second, so that a payment
//! counts when its block is there.
//!
//! What a node says is not taken on trust: its chain id is proved before it is believed and again whenever it failed, its
//! receipts must be of the transaction that was asked about and of the sealed block at their height, and that there is
//! no such transaction counts only when every node that is up says so. Nothing that a node said, and no URL (they hold keys),
//! ever appears in an error, a log or `Debug` output.
//!
//! ```no_run
//! # async fn example() -> Result<(), tower_x402::verify::VerifyError> {
//! use tower_x402::{protocol::Network, verify::evm::EvmVerifier};
//! let verifier = EvmVerifier::connect(["https://mainnet.base.org"]).await?;
//! assert_eq!(verifier.network(), Network::BASE);
//! # Ok(()) }
//! ```

#[cfg(feature = "test-util")]
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
mod judge;
mod pool_answer;
mod receipts;
mod reorg_monitor;
mod single_flight;
mod verifier;
mod view;

pub use builder::EvmVerifierBuilder;
pub use finality::Finality;
pub use verifier::EvmVerifier;
