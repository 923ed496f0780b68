//! `TokenDomain`: under which name a token's authorizations are signed.

use super::Address;

/// The EIP-712 domain of a token with EIP-3009, but for the chain: what an authorization of the token is signed under.
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
    /// The token's name, as its domain has it.
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

    /// Returns the domain of the network's USDC, where it is known here: on Base and Base Sepolia.
    #[must_use]
    pub fn usdc_of(network: super::Network) -> Option<Self> {
        // As the contracts state it: the two names differ.
        let name = match network {
            super::Network::BASE => "USD Coin",
            super::Network::BASE_SEPOLIA => "USDC",
            _ => return None,
        };
        Some(Self::new(super::Asset::usdc_of(network)?.contract(), name, "2"))
    }
}
