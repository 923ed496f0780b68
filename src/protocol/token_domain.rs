//! `TokenDomain`: the EIP-712 domain under which a token's authorizations are signed.

use super::Address;

/// The EIP-712 domain of a token with EIP-3009, without the chain. The token's authorizations are signed under it.
///
/// ```
/// use tower_x402::protocol::{Asset, Network, TokenDomain};
/// let domain = TokenDomain::usdc_of(Network::BASE).unwrap();
/// assert_eq!((domain.token, &*domain.name, &*domain.version), (Asset::USDC_BASE.contract(), "USD Coin", "2"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TokenDomain {
    /// The token contract.
    pub token: Address,
    /// The token's name in its domain.
    pub name: String,
    /// The domain's version.
    pub version: String,
}

impl TokenDomain {
    /// Returns the domain of this token.
    #[must_use]
    pub fn new(token: Address, name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { token, name: name.into(), version: version.into() }
    }

    /// Returns the domain of the network's USDC, if this crate knows it: on Base and Base Sepolia.
    #[must_use]
    pub fn usdc_of(network: super::Network) -> Option<Self> {
        // As in the contracts: the two names differ.
        let name = match network {
            super::Network::BASE => "USD Coin",
            super::Network::BASE_SEPOLIA => "USDC",
            _ => return None,
        };
        Some(Self::new(super::Asset::usdc_of(network)?.contract(), name, "2"))
    }
}
