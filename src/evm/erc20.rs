//! The ABI of an ERC-20 token, as plain values: no alloy type leaves this file.

use alloy::sol_types::SolCall as _;
#[cfg(feature = "evm")]
use alloy::sol_types::SolEvent as _;

#[cfg(feature = "wallet")]
use crate::protocol::{Address, Amount};

#[allow(missing_docs, reason = "generated from Solidity")]
mod abi {
    alloy::sol! {
        function decimals() external view returns (uint8);
        function symbol() external view returns (string);
        function balanceOf(address owner) external view returns (uint256);
        function transfer(address to, uint256 amount) external returns (bool);
        function approve(address spender, uint256 amount) external returns (bool);
        event Transfer(address indexed from, address indexed to, uint256 value);
    }
}

/// The first topic of every `Transfer` event: `keccak256("Transfer(address,address,uint256)")`.
#[cfg(feature = "evm")]
pub(crate) const TRANSFER_TOPIC: [u8; 32] = abi::Transfer::SIGNATURE_HASH.0;

/// The length of the call data of [`transfer`].
#[cfg(feature = "wallet")]
pub(crate) const TRANSFER_LEN: usize = 4 + 2 * 32;

/// Returns the call data of `transfer(to, amount)`.
#[cfg(feature = "wallet")]
pub(crate) fn transfer(to: Address, amount: Amount) -> Vec<u8> {
    let amount = alloy::primitives::U256::from_be_bytes(amount.to_be_bytes());
    abi::transferCall { to: to.as_bytes().into(), amount }.abi_encode()
}

/// Returns the call data of `approve(spender, amount)`.
#[cfg(all(feature = "wallet", feature = "client"))]
pub(crate) fn approve(spender: Address, amount: Amount) -> Vec<u8> {
    let amount = alloy::primitives::U256::from_be_bytes(amount.to_be_bytes());
    abi::approveCall { spender: spender.as_bytes().into(), amount }.abi_encode()
}

/// Returns the call data of `balanceOf(owner)`.
#[cfg(feature = "wallet")]
pub(crate) fn balance_of(owner: Address) -> Vec<u8> {
    abi::balanceOfCall { owner: owner.as_bytes().into() }.abi_encode()
}

/// Returns the call data of `decimals()`.
pub(crate) fn decimals() -> Vec<u8> {
    abi::decimalsCall {}.abi_encode()
}

/// Parses the result of `decimals()`; `None` if the contract has no such function.
pub(crate) fn read_decimals(returned: &[u8]) -> Option<u8> {
    abi::decimalsCall::abi_decode_returns_validate(returned).ok()
}

/// Returns the call data of `symbol()`.
#[cfg(feature = "evm")]
pub(crate) fn symbol() -> Vec<u8> {
    abi::symbolCall {}.abi_encode()
}

/// Parses the result of `symbol()`, if it is 1 to 32 graphic ASCII characters.
#[cfg(feature = "evm")]
pub(crate) fn read_symbol(returned: &[u8]) -> Option<String> {
    let text = abi::symbolCall::abi_decode_returns_validate(returned).ok();
    // Tokens older than ERC-20's final text return `bytes32`.
    let short = || (returned.len() == 32).then(|| returned.split(|byte| *byte == 0).next().unwrap_or_default());
    let text = text.or_else(|| String::from_utf8(short()?.to_vec()).ok());
    let shown = |text: &String| (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    text.filter(shown)
}

#[cfg(all(test, feature = "wallet"))]
mod tests {
    use alloy::primitives::keccak256;

    use super::*;

    const TO: Address = Address::new([7; 20]);

    #[test]
    fn calls_are_those_of_erc_20() {
        for (signature, call) in [
            ("transfer(address,uint256)", transfer(TO, Amount::MAX)),
            ("balanceOf(address)", balance_of(TO)),
            ("decimals()", decimals()),
        ] {
            assert_eq!(call[..4], keccak256(signature)[..4], "{signature}");
        }
        let call = transfer(TO, Amount::from_base_units(490_000));
        assert_eq!((call.len(), &call[4..16], &call[16..36]), (TRANSFER_LEN, &[0; 12][..], &[7; 20][..]));
        assert_eq!(call[65..], [0x07, 0x7a, 0x10]);
    }

    #[test]
    fn decimals_are_one_byte_in_a_clean_word() {
        let mut word = [0; 32];
        word[31] = 6;
        assert_eq!(read_decimals(&word), Some(6));
        for dirty in [0, 30] {
            let mut word = word;
            word[dirty] = 1;
            assert_eq!(read_decimals(&word), None);
        }
        assert_eq!(read_decimals(&[]), None);
    }
}
