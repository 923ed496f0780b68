// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Erc20.sol";

/// Pays, then takes it back: the transaction is mined with status 0 and without logs.
contract Reverter {
    function pay(Erc20 token, address payer, address to, uint256 value) external {
        require(token.transferFrom(payer, to, value), "transfer refused");
        revert("changed my mind");
    }
}
