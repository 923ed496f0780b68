//! `Asset`: an ERC-20 token that is accepted as payment.

use std::borrow::Cow;

use super::{Address, Network};

/// An ERC-20 token on one chain.
///
/// ```
/// use tower_x402::protocol::{Asset, Network};
/// let usdc = Asset::usdc_of(Network::BASE).unwrap();
/// assert_eq!(usdc.contract().to_string(), "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913");
/// assert_eq!(usdc.decimals(), 6);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    network: Network,
    contract: Address,
    decimals: u8,
    symbol: Cow<'static, str>,
}

impl Asset {
    /// Native USDC on Base, [Circle's contract](https://developers.circle.com/stablecoins/usdc-contract-addresses).
    pub const USDC_BASE: Self = Self::usdc(
        Network::BASE,
        *b"\x83\x35\x89\xfc\xd6\xed\xb6\xe0\x8f\x4c\x7c\x32\xd4\xf7\x1b\x54\xbd\xa0\x29\x13",
        "USDC",
    );
    /// USDC bridged from Ethereum to Base.
    pub const USDBC_BASE: Self = Self::usdc(
        Network::BASE,
        *b"\xd9\xaa\xec\x86\xb6\x5d\x86\xf6\xa7\xb5\xb1\xb0\xc4\x2f\xfa\x53\x17\x10\xb6\xca",
        "USDbC",
    );
    /// USDC on Base Sepolia.
    pub const USDC_BASE_SEPOLIA: Self = Self::usdc(
        Network::BASE_SEPOLIA,
        *b"\x03\x6c\xbd\x53\x84\x2c\x54\x26\x63\x4e\x79\x29\x54\x1e\xc2\x31\x8f\x3d\xcf\x7e",
        "USDC",
    );

    const fn usdc(network: Network, contract: [u8; 20], symbol: &'static str) -> Self {
        Self { network, contract: Address::new(contract), decimals: 6, symbol: Cow::Borrowed(symbol) }
    }

    /// Creates another token. Its decimals are checked against the chain when the merchant is built.
    #[must_use]
    pub fn new(network: Network, contract: Address, decimals: u8, symbol: impl Into<Cow<'static, str>>) -> Self {
        Self { network, contract, decimals, symbol: symbol.into() }
    }

    /// Returns the native USDC of a chain, if this crate knows it.
    #[must_use]
    pub const fn usdc_of(network: Network) -> Option<Self> {
        match network {
            Network::BASE => Some(Self::USDC_BASE),
            Network::BASE_SEPOLIA => Some(Self::USDC_BASE_SEPOLIA),
            _ => None,
        }
    }

    /// Returns the chain.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.network
    }

    /// Returns the token contract.
    #[must_use]
    pub const fn contract(&self) -> Address {
        self.contract
    }

    /// Returns the number of decimals of one token: 6 for USDC.
    #[must_use]
    pub const fn decimals(&self) -> u8 {
        self.decimals
    }

    /// Returns the token's symbol.
    #[must_use]
    pub fn symbol(&self) -> &str {
        &self.symbol
    }
}
