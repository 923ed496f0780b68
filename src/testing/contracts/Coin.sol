// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Erc20.sol";

/// A token with as many decimals as its deployer says.
contract Coin is Erc20 {
    uint8 private places;

    constructor(uint8 decimals_) {
        places = decimals_;
    }

    function name() public pure override returns (string memory) {
        return "Coin";
    }

    function symbol() external pure override returns (string memory) {
        return "COIN";
    }

    function decimals() external view override returns (uint8) {
        return places;
    }
}
