// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Erc20.sol";

/// Pays with somebody else's money, so the sender of the transaction is not the payer.
contract Relay {
    /// `payer` has approved this contract. One transfer: payer to recipient.
    function pay(Erc20 token, address payer, address to, uint256 value) external {
        require(token.transferFrom(payer, to, value), "transfer refused");
    }

    /// The same in two transfers: payer to this contract, this contract to recipient.
    function forward(Erc20 token, address payer, address to, uint256 value) external {
        require(token.transferFrom(payer, address(this), value), "transfer refused");
        require(token.transfer(to, value), "transfer refused");
    }
}
