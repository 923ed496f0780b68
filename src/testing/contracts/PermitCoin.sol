// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Erc2612.sol";

/// A 6-decimal token with EIP-2612 and without EIP-3009: it is paid by Permit2.
contract PermitCoin is Erc2612 {
    function name() public pure override returns (string memory) {
        return "Permit Coin";
    }

    function symbol() external pure override returns (string memory) {
        return "PCOIN";
    }

    function decimals() external pure override returns (uint8) {
        return 6;
    }
}
