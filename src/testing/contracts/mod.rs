//! Contracts for tests on a [`DevChain`](crate::testing::DevChain): tokens, unusual ways of paying, and fraud.
//!
//! The Solidity sources, the script that compiles them and its output are beside this file in the repository.
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

pub use calls::{
    Lie, Oddity, approve, balance_of, calldata, collect, forward, lie, mint, pay, transfer, transfer_from, wallet_pay,
};
pub use word::Word;

/// Compiled code, in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The creation code, for [`DevChain::deploy`](crate::testing::DevChain::deploy).
    pub creation: &'static str,
    /// The runtime code, for [`DevChain::set_code`](crate::testing::DevChain::set_code).
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

/// A 6-decimal token with EIP-3009; a `DevChain` has one at the address of USDC on Base.
pub const USDC: Contract = contract!("Usdc");

/// A token whose constructor takes its number of decimals. It has no initial supply: call [`mint`].
pub const COIN: Contract = contract!("Coin");

/// Pays from a payer's allowance: [`pay`] in one transfer, [`forward`] in two.
pub const RELAY: Contract = contract!("Relay");

/// Collects payments of three payers in one transaction: [`collect`].
pub const BATCH: Contract = contract!("Batch");

/// Emits events shaped like `Transfer` and transfers nothing: [`lie`].
pub const LIAR: Contract = contract!("Liar");

/// Pays, then reverts: [`pay`].
pub const REVERTER: Contract = contract!("Reverter");

/// Signed transfers with a witness and unordered nonces: the part of Permit2 that the standard's proxies call. A
/// chain [with Permit2](crate::testing::DevChainBuilder::with_permit2) has it at its official address.
pub const PERMIT2: Contract = contract!("Permit2");

/// The standard's proxy for the scheme `exact`, which a chain [with Permit2](crate::testing::DevChainBuilder::with_permit2) has at its
/// official address.
pub const EXACT_PROXY: Contract = contract!("ExactProxy");

/// The standard's proxy for the scheme `upto`, which a chain [with Permit2](crate::testing::DevChainBuilder::with_permit2) has at its
/// official address.
pub const UPTO_PROXY: Contract = contract!("UptoProxy");

/// The standard's contract of payment channels, which a chain [with channels](crate::testing::DevChainBuilder::with_channels) has at its
/// official address.
pub const BATCH_SETTLEMENT: Contract = contract!("BatchSettlement");

/// The standard's collector of deposits by EIP-3009, which a chain [with channels](crate::testing::DevChainBuilder::with_channels) has at
/// its official address.
pub const ERC3009_COLLECTOR: Contract = contract!("Erc3009Collector");

/// The standard's collector of deposits by Permit2, which a chain [with channels](crate::testing::DevChainBuilder::with_channels) has at
/// its official address.
pub const PERMIT2_COLLECTOR: Contract = contract!("Permit2Collector");

/// A 6-decimal token with EIP-2612 but without EIP-3009, with the name "Permit Coin" and the version "1". [`COIN`]
/// has neither.
pub const PERMIT_COIN: Contract = contract!("PermitCoin");

/// A contract account for the owner that its constructor gets, which validates its own signatures (EIP-1271). Anyone
/// may make it pay: [`wallet_pay`].
pub const WALLET: Contract = contract!("Wallet");

/// Contract accounts that answer incorrectly about signatures, each in the way that its constructor gets: an
/// [`Oddity`]. Anyone may make it pay: [`wallet_pay`].
pub const ODD_WALLET: Contract = contract!("OddWallet");
