//! Contracts to pay with, to pay oddly with and to cheat with, for [`DevChain`](super::DevChain).
//!
//! The Solidity sources, the recipe that compiles them and its output stand beside this file in the repository.
//!
//! ```
//! use tower_x402::testing::contracts::{self, Word};
//!
//! let call = contracts::calldata("decimals()", &[]);
//! assert_eq!(call, [0x31, 0x3c, 0xe5, 0x67]);
//! assert_eq!(Word::from(18u128).as_bytes()[31], 18);
//! ```

mod calls;
mod word;

pub use calls::{Lie, approve, balance_of, calldata, collect, forward, lie, mint, pay, transfer, transfer_from};
pub use word::Word;

/// Compiled code, in hex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// What [`DevChain::deploy`](super::DevChain::deploy) takes.
    pub creation: &'static str,
    /// What [`DevChain::set_code`](super::DevChain::set_code) takes.
    pub runtime: &'static str,
}

macro_rules! contract {
    ($name:literal) => {
        Contract {
            creation: include_str!(concat!("artifacts/", $name, ".bin")),
            runtime: include_str!(concat!("artifacts/", $name, ".bin-runtime")),
        }
    };
}

/// A 6-decimal token; a `DevChain` has one at the address of USDC on Base.
pub const USDC: Contract = contract!("Usdc");

/// A token with as many decimals as its one constructor argument says. It starts without a supply: [`mint`].
pub const COIN: Contract = contract!("Coin");

/// Pays with the allowance of a payer: [`pay`] in one transfer, [`forward`] in two.
pub const RELAY: Contract = contract!("Relay");

/// Lets three payers pay in one transaction: [`collect`].
pub const BATCH: Contract = contract!("Batch");

/// Writes `Transfer`-shaped events and moves nothing: [`lie`].
pub const LIAR: Contract = contract!("Liar");

/// Pays, then reverts: [`pay`].
pub const REVERTER: Contract = contract!("Reverter");
