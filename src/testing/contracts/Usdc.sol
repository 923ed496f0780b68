// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Erc3009.sol";

/// Stands at the address of the real USDC. No constructor and no immutables, so that
/// the runtime code alone is the whole contract.
contract Usdc is Erc3009 {
    /// Circle's contract on Base Sepolia has another name than that on Base.
    function name() public view override returns (string memory) {
        return block.chainid == 84532 ? "USDC" : "USD Coin";
    }

    function symbol() external pure override returns (string memory) {
        return "USDC";
    }

    function decimals() external pure override returns (uint8) {
        return 6;
    }
}
