// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

import "./Erc20.sol";

/// Three payers, each of whom has approved this contract, in one transaction.
contract Batch {
    function collect(Erc20 token, address to, address[3] calldata payers, uint256[3] calldata values)
        external
    {
        for (uint256 i = 0; i < 3; i++) {
            require(token.transferFrom(payers[i], to, values[i]), "transfer refused");
        }
    }
}
