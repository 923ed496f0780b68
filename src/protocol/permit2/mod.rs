//! Permit2 in the x402 standard: signed transfers of tokens without EIP-3009, and of amounts that are known only at
//! the end.
//!
//! [Permit2](https://github.com/Uniswap/permit2) is a contract with one address on every chain. A token's holder once
//! allows it to move the token, and from then on signs each transfer: who may send it (`spender`), the maximum, and
//! the deadline. The standard's two *proxies* are such spenders. They pay only the recipient that the payer signed in
//! the *witness*.
//!
//! | Scheme | Spender | Amount |
//! |---|---|---|
//! | [`exact`](PermitScheme::Exact) | [`EXACT_PROXY`]; anyone may send it | exactly the signed one |
//! | [`upto`](PermitScheme::UpTo) | [`UPTO_PROXY`]; only the facilitator in the witness may send it | at most the signed one |
//!
//! These are values: nothing here verifies a signature or reads a chain.
//!
//! ```
//! use tower_x402::protocol::{Address, Amount, Asset, ChainTime, Network, permit2::{Permit, PermitScheme}};
//! let permit = Permit::new(PermitScheme::UpTo, "0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?, [0x42; 32])
//!     .paying("0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse()?, Asset::USDC_BASE.contract(), Amount::from_base_units(10_000))
//!     .by_facilitator("0x90F79bf6EB2c4f870365E785982E1f101E93b906".parse()?)
//!     .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(1_893_456_000));
//! assert_eq!(permit.spender, PermitScheme::UpTo.proxy());
//! // What its payer signs, on this chain.
//! assert_ne!(permit.digest(Network::BASE), permit.digest(Network::BASE_SEPOLIA));
//! # Ok::<(), tower_x402::protocol::ParseError>(())
//! ```

mod eip712;
mod permit;
mod scheme;
#[cfg(test)]
mod tests;

pub use permit::{Permit, SignedPermit};
pub use scheme::PermitScheme;

pub(in crate::protocol) use eip712::{PERMITTED_TYPE, domain_separator};

use super::Address;

/// The Permit2 contract, at the same address on every chain.
pub const PERMIT2: Address =
    Address::new(*b"\x00\x00\x00\x00\x00\x22\xd4\x73\x03\x0f\x11\x6d\xde\xe9\xf6\xb4\x3a\xc7\x8b\xa3");

/// The standard's proxy for the scheme `exact`, the spender of its permits.
pub const EXACT_PROXY: Address =
    Address::new(*b"\x40\x20\x85\xc2\x48\xee\xa2\x7d\x92\xe8\xb3\x0b\x2c\x58\xed\x07\xf9\xe2\x00\x01");

/// The standard's proxy for the scheme `upto`, the spender of its permits.
pub const UPTO_PROXY: Address =
    Address::new(*b"\x40\x20\xa4\xf3\xb7\xb9\x0c\xca\x42\x3b\x9f\xab\xcc\x0c\xe5\x7c\x6c\x24\x00\x02");
